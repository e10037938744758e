/*
 * Which all-reduces of a communicator go through the reduction servers: those of
 * SUMMAND_NCCL_MIN_BYTES and more, where NCCL says that it can. All else is left to NCCL.
 *
 * A tuner is one communicator's. NULL is a tuner too, one that leaves every choice to NCCL: the
 * plugin is off, there is only one node, or no memory. Nothing here fails, because NCCL would end
 * the communicator for it.
 */
#ifndef SMD_NCCL_TUNER_H
#define SMD_NCCL_TUNER_H

#include <stdbool.h>

#include "worker/nccl_plugin/nccl_abi.h"

struct smd_tuner;

/* Says what it does, once, and again when that has changed. */
struct smd_tuner *smd_tuner_open(size_t nnodes, nccl_logger *log);
void smd_tuner_close(struct smd_tuner *tuner);

/*
 * Gives one way through CollNet the least of the costs[nalgorithms][nprotocols], if there is a way
 * at all. NCCL takes the least.
 */
void smd_tuner_weigh(const struct smd_tuner *tuner, int function, size_t bytes, float *costs,
	int nalgorithms, int nprotocols);

/* Whether NCCL 2.21, which shows no costs, is to be told to use a chain. */
bool smd_tuner_wants_chain(const struct smd_tuner *tuner, int function, size_t bytes);

#endif
