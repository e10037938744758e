/*
 * How servers that are being drained leave a communicator's table without being lost
 * (specs/design/epochs.md): first nothing more is dealt to them, then, when all ranks have what
 * was, all leave their streams. Rank 0 asks for both.
 */
#ifndef SMD_LIBSUMMAND_EPOCH_DRAIN_H
#define SMD_LIBSUMMAND_EPOCH_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct smd_comm;

/* Rank 0: asks for the table that is due, where a server is being drained, if it can have it now.
 */
void smd_drain_consider(struct smd_comm *comm);

/* Rank 0: such a table was refused, so it is not asked for again at once. */
void smd_drain_wait(struct smd_comm *comm);

/* Whether this rank still has to send something to these, or to hear of something. */
bool smd_drain_needs(const struct smd_comm *comm, uint64_t targets);

#endif
