/*
 * How the streams end that a communicator has joined at servers outside its table (group_rescue.h).
 * They stand until their server is in a table: a rank that has not heard the last record waits
 * there still, and those who had left and joined them again would not meet it. On the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_RESCUE_STREAMS_H
#define SMD_LIBSUMMAND_GROUP_RESCUE_STREAMS_H

#include "worker/libsummand/flow.h"

/* Whether it may go on without any server of its table: there are others that it knows of. */
bool smd_group_may_rescue(const struct smd_comm *comm);

/* What is said where it cannot go on: a server has said so. */
void smd_group_rescue_note(struct smd_comm *comm, int err, const char *text);

/* A shard can do no more in such streams, and why. */
void smd_group_rescue_ended(struct smd_flow *flow, int err, const char *text);

/* Leaves those at these servers. */
void smd_group_rescue_leave(struct smd_comm *comm, uint64_t targets);

/* Nothing is waited for any longer. */
void smd_group_rescue_stop(struct smd_comm *comm);

/* A record has come that has some server that lives: nothing is waited for, and those stand that
 * are at others. */
void smd_group_rescue_rests(struct smd_comm *comm, uint64_t serving);

/* Servers are being drained, which nothing may keep. */
void smd_group_rescue_drains(struct smd_comm *comm);

/* The communicator ends: leaves all. */
void smd_group_rescue_end(struct smd_comm *comm);

/* LOST, in a rescue's stream that has been asked for, where this rank has lost all of its table, or
 * all of it has lost some rank: so that others come there. */
void smd_group_rescue_say_lost(const struct smd_flow *flow);

#endif
