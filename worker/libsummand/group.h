/*
 * A communicator's life: it joins its group at every shard, feeds its operations to the flows,
 * fails as a whole, and leaves.
 *
 * JOINING until every shard has said JOINED or is lost, then ACTIVE; FAILED when a rank or the last
 * server is lost, or when a shard has said ABORT and no operation in flight can be done without it.
 * (ABORT comes behind the shard's own results, but another shard's may still be on their way: those
 * are not lost.)
 *
 * A failed communicator cancels what has not begun to leave, sends what has, and only then gives
 * the callers' buffers back, because a lane that is cut in the middle of a frame would be lost for
 * all. All shards are told LEAVE. Where they may write results without a further word (open flows),
 * the buffers are held until they have said LEFT.
 *
 * group_joining.h, group_gone.h, group_failure.h, group_epoch.h and group_receiver.h are its parts.
 */
#ifndef SMD_LIBSUMMAND_GROUP_H
#define SMD_LIBSUMMAND_GROUP_H

#include "worker/libsummand/comm.h"

/*
 * smd_comm_create() with a time-out of its own. One that is to spare is refused where less than a
 * third of the job's memory would be left to others (engine.md, "Credits"); all ranks must say so
 * alike.
 */
int smd_comm_create_within(struct smd_context *context, unsigned timeout_s, bool spare,
	const char *group, int nranks, int rank, struct smd_comm **out);

/* On the owner: an operation begins, its chunks get their numbers, and those that may go now go. */
void smd_group_start(struct smd_request *request);

/* On the owner: takes what has come from shards that owe it results; false when the loop must be
 * asked. */
bool smd_group_poll(struct smd_comm *comm);

#endif
