/*
 * How a communicator's caller leaves: not before all ranks have what this one has contributed to,
 * because it would be asked for that if a server were lost (specs/design/epochs.md).
 *
 * So long it works as before; what all have seldom takes more than a round trip to hear. A rank
 * that does not say so, or a failure, ends the wait. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_LEAVING_H
#define SMD_LIBSUMMAND_GROUP_LEAVING_H

#include "worker/libsummand/comm.h"

/* Of smd_comm's `leave` and `drained`. */
void smd_group_leave(struct smd_task *task);
void smd_group_drained(struct smd_comm *comm);

#endif
