/*
 * How a communicator ends: for a reason of its own, for one that a shard has said, because a rank
 * or the last server is lost, or because its caller leaves.
 *
 * Failing is one state machine, over several shards at once: the order of its steps is what keeps a
 * buffer from being given back while a card may still write to it. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_FAILURE_H
#define SMD_LIBSUMMAND_GROUP_FAILURE_H

#include "worker/libsummand/flow.h"

/* It is over, and its shards hear why; the first reason is the cause. */
void smd_group_fail(struct smd_comm *comm, int err, const char *text);

/* It cannot go on without the servers that are lost, and the others must hear it. */
void smd_group_fail_lost(struct smd_comm *comm, int err, const char *why);
/* ... because there is no other. */
void smd_group_fail_alone(struct smd_comm *comm);

/*
 * The shard has said ABORT, behind all results that it had: operations that need no more of it may
 * still be done by the others, as they will be on the other ranks, and no new one begins. What
 * waits for another table will not have it.
 */
void smd_group_end_by(struct smd_flow *by, int err, const char *text);

/* Fails one that ends and whose newest streams still form: a rank that has left the others will not
 * join those, and it may have left before this rank knew of them. */
void smd_group_end_forming(struct smd_comm *comm);

/* No operation that needs more of that shard can be done. */
void smd_group_end_flow(struct smd_flow *flow, int err, const char *text);

/* The shard writes no more results of the communicator: it has said so, or its lane is closed. */
void smd_group_flow_closed(struct smd_comm *comm, struct smd_flow *flow);

/* What is lost together has been told. */
void smd_group_settled(struct smd_comm *comm);

/* LEAVE to all shards, with the reason why it has failed, if it has. */
void smd_group_say_leave(struct smd_comm *comm);

/* Of smd_comm's `fault`. */
void smd_group_on_fault(struct smd_task *task);

#endif
