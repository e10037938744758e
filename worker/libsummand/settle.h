/*
 * When an operation returns: its buffers are the caller's then, so this rank must not be asked for
 * any of it that it has not copied (specs/design/epochs.md).
 */
#ifndef SMD_LIBSUMMAND_SETTLE_H
#define SMD_LIBSUMMAND_SETTLE_H

#include <stdbool.h>

struct smd_comm;
struct smd_request;

/*
 * Of an operation that has all of its results: true when it may return, because all ranks have
 * them, or what they may ask for has been copied. False: the shards have been asked, and the
 * operation is checked again when they answer.
 */
bool smd_settle(struct smd_request *operation);

/* Asks the shards whether all ranks have what is in the communicator's history. */
void smd_settle_history(struct smd_comm *comm);

/* The same of streams of former epochs: no later results tell what all ranks have there, and the
 * history would not get past it. */
void smd_settle_left(struct smd_comm *comm);

#endif
