/*
 * What the tables of servers take that a communicator has at once: streams with their windows, how
 * chunks are dealt, what is done again, what ranks have said of them, and the history's entries
 * (specs/design/epochs.md, "What a rank keeps").
 */
#ifndef SMD_LIBSUMMAND_EPOCH_MEMORY_H
#define SMD_LIBSUMMAND_EPOCH_MEMORY_H

struct smd_comm;

/* On the owner, when some were made or freed. */
void smd_epoch_memory_measure(struct smd_comm *comm);

/* The communicator ends. */
void smd_epoch_memory_forget(struct smd_comm *comm);

#endif
