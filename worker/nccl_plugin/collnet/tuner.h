/*
 * Which all-reduces of a communicator go through the reduction servers: those that they make
 * faster, by the costs that NCCL shows (specs/guide/nccl.md), or, where SUMMAND_NCCL_MIN_BYTES is
 * set, those of so many bytes and more. The others do not, nor do other collectives, some of which
 * NCCL would send there by itself. All else is left to NCCL.
 *
 * All ranks decide alike, without a word between them: NCCL's costs, the numbers of nodes and
 * servers and the variables are the same on all. (The nodes compare these: connect.c.) So nothing
 * that a rank learns while it runs may count: it calls for each operation when it begins it, and
 * no two ranks have begun as many when they hear of a server that was lost. What servers say that
 * they carry nodes agree on before the first operation (capacity.h); but where a node has several
 * GPUs, not every rank is a node that hears it, so there a variable must say it.
 *
 * A tuner is one communicator's. NULL is a tuner too, one that leaves every choice to NCCL: the
 * plugin is off, there is only one node, or no memory. Nothing here fails, because NCCL would end
 * the communicator for it.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_TUNER_H
#define SMD_NCCL_PLUGIN_COLLNET_TUNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/parse.h"
#include "worker/libsummand/config.h"

struct smd_tuner;

#define SMD_TUNER_MIN_BYTES "SUMMAND_NCCL_MIN_BYTES"

/*
 * "400/100": what the servers' links carry together, and what a node's does, both in any unit.
 * Without it servers say what they carry, where all ranks hear that, or a server is taken to carry
 * what a node does; but where nodes have several GPUs, no all-reduce goes through servers.
 */
#define SMD_TUNER_LINKS "SUMMAND_NCCL_SERVER_LINKS"

/* Of these variables those that are set and can be read. */
struct smd_tuner_settings {
	bool sized;
	uint64_t min_bytes;
	bool linked;
	struct smd_share links; /* in its least terms: 400/100 is 4/1 */
};

void smd_tuner_read(struct smd_tuner_settings *settings);

/* The reduction servers of a job; none: the plugin takes no part. */
struct smd_tuner_servers {
	unsigned count;
	unsigned networks; /* that this node has cards on, however many addresses servers have */
	uint64_t list;     /* which they are (capacity.h) */
};

struct smd_tuner_servers smd_tuner_find_servers(const struct smd_config *config, int ndevices);

/*
 * costs: NCCL shows
 * them, as all do but 2.21. Says what it does, unless another one that is there has said the same,
 * or spoke last.
 */
struct smd_tuner *smd_tuner_open(
	size_t nranks, size_t nnodes, const struct smd_tuner_servers *servers, bool costs);
void smd_tuner_close(struct smd_tuner *tuner);

/*
 * For an all-reduce that servers make faster: gives one way through CollNet the least of the
 * costs[nalgorithms][nprotocols]. For all else: takes all of these ways out, if anything else is
 * left. NCCL takes the least. All ranks of a communicator ask in the same order.
 */
void smd_tuner_weigh(struct smd_tuner *tuner, int function, size_t bytes, float *costs,
	int nalgorithms, int nprotocols);

/*
 * The same for NCCL 2.21, which shows no costs, where it has CollNet: names what it is to use.
 * Where each node has one GPU that is a tree or a ring for what does not go through servers; where
 * nodes have several, NCCL chooses, and may choose CollNet.
 */
void smd_tuner_name(
	const struct smd_tuner *tuner, int function, size_t bytes, int *algorithm, int *protocol);

#endif
