/*
 * How a communicator begins, with the servers that are left: JOIN to every shard, until each has
 * said JOINED or is lost. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_JOINING_H
#define SMD_LIBSUMMAND_GROUP_JOINING_H

#include "worker/libsummand/flow.h"

/* Of smd_comm's `join`. */
void smd_group_join(struct smd_task *task);

/* Says JOIN, of the flow's epoch. */
void smd_group_ask(struct smd_flow *flow);

/* JOINED has come. -EPROTO with a text. */
int smd_group_joined(struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error);
/* A shard that is lost, or has lost a rank, need not say it. */
void smd_group_check_joined(struct smd_comm *comm);
/* LATE has come. */
void smd_group_late(struct smd_flow *flow, const struct smd_late *late);

/* Servers are lost, and others are left: `targets` by number. */
void smd_group_lose(struct smd_comm *comm, uint64_t targets);

/* The same of one that has not begun, in which other ranks are without them; their lanes stay. */
void smd_group_exclude(struct smd_comm *comm, uint64_t targets);

/* Whether a shard may have ended the lane, because no group uses it; it is there again. */
bool smd_group_may_rest(struct smd_flow *flow);
void smd_group_lane_back(struct smd_flow *flow);

#endif
