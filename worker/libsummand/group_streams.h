/*
 * Leaves streams that no rank needs any more while the communicator goes on: those of an epoch that
 * is over, and those of servers that are being drained. On the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_STREAMS_H
#define SMD_LIBSUMMAND_GROUP_STREAMS_H

#include <stdint.h>

struct smd_comm;
struct smd_epoch;

/*
 * Leaves the streams of all epochs before this one but the first, which no rank needs any more.
 * They stay in the communicator's list until a record has all ranks forget them: ranks count the
 * streams of a lost server, and must come to the same number whether or not they have heard CANCEL.
 */
void smd_group_leave_before(struct smd_comm *comm, uint32_t index);

/* Nothing of the epoch that has not begun to leave leaves any more, on that lane. */
void smd_group_stop_flow(struct smd_epoch *epoch, unsigned i);

/* And frees it: no rank has anything left to do there. It is not in the communicator's list. */
void smd_group_leave_epoch(struct smd_epoch *epoch);

/* All ranks have all that was dealt to these servers, or have not begun: leaves all streams to
 * them, whose lanes stay. */
void smd_group_leave_servers(struct smd_comm *comm, uint64_t targets);

#endif
