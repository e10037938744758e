/*
 * What shards say of ranks whose lanes to them have ended (GONE). Such a rank may have died, or
 * have lost that server alone. Where all shards that are left have lost it, it is the rank that is
 * lost. One that has joined another shard lives, and says which server it has lost when the group
 * has formed. One that others still wait for may be late to them: for as long as
 * smd_context_patience_ns(), then it is taken for dead. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_GROUP_GONE_H
#define SMD_LIBSUMMAND_GROUP_GONE_H

#include "worker/libsummand/flow.h"

/* That rank's lane to the shard has ended. */
void smd_group_gone(struct smd_flow *flow, unsigned rank, const char *text);

/* A shard has said GONE: what is said if no whole one is left. */
void smd_group_note_gone(struct smd_comm *comm, const char *text);

/* Servers are lost, `last` just now: maybe what is left has lost a rank. */
void smd_group_check_gone(struct smd_comm *comm, uint64_t last);

/* All ranks have joined the streams of the last epoch since: they are there. */
void smd_group_forget_gone(struct smd_comm *comm);

/* The group forms, and the shard has said who has joined. */
void smd_group_note_there(struct smd_flow *flow, const struct smd_rank_set *there);

/* While the group forms: whether those ranks may live (smd_comm's `gone_may_live`), when a shard
 * has said JOINED or is lost. */
void smd_group_weigh_gone(struct smd_comm *comm);

#endif
