/*
 * How ranks come into communicators.
 */
#ifndef SMD_ENGINE_JOIN_H
#define SMD_ENGINE_JOIN_H

#include "reduction_server/engine/comm.h"

#define SMD_FORMING_LANE_MAX  64   /* communicators that form at once on a lane */
#define SMD_FORMING_SHARD_MAX 4096 /* and on a shard, */
#define SMD_FORMING_JOB_MAX   SMD_JOB_MOST(SMD_FORMING_SHARD_MAX) /* so many of them of one job */

/*
 * Lets the member join. Returns 0, also when the communicator was told ABORT because of what the
 * member said; -errno with a text when this member alone cannot be let in.
 */
int smd_server_comm_join(struct smd_comms *comms, struct smd_member *member, const char *job,
	const struct smd_join *join, struct smd_error *error);

/* Ends it, if its ranks have other processes for servers, and none has said in all that time since it
 * works that it has lost one: then their lists differ. On the shard that ranks agree through. */
void smd_server_comm_check_servers(
	struct smd_server_comm *comm, uint64_t now_ns, uint64_t patience_ns);

/* Whether a rank of that job that has reached all of its servers is in a communicator here: then
 * who comes late may begin without one of them. */
bool smd_comms_reach_all(const struct smd_comms *comms, const char *job);

#endif
