/* Tells workers what servers another rank of their job has lost. */
#include "reduction_server/engine/losses.h"

#include <string.h>

#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/shard.h"

static bool comm_awaits(const struct smd_server_comm *comm, const struct smd_peer *peer)
{
	if (comm->state != SMD_SERVER_COMM_FORMING ||
		strcmp(comm->job->name, peer->hello.job) != 0) {
		return false;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r] && comm->members[r]->peer == peer) {
			return false;
		}
	}
	return true;
}

/* Who does not hear it finds out by itself, later. */
static void peer_tell(struct smd_peer *peer, const struct smd_server_comm *comm)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_LOST,
		.chunk = comm->id,
		.operation = comm->lost,
		.ordinal = comm->lost_epoch,
	};

	if (comm_awaits(comm, peer)) {
		(void)smd_lane_send_control(peer->lane, &frame, NULL, 0);
	}
}

void smd_losses_tell(struct smd_member *member, const struct smd_join *join)
{
	struct smd_server_comm *comm = member->comm;
	struct smd_peer *peer;

	if (!comm || (join->lost & ~comm->lost) == 0) {
		return;
	}
	comm->lost |= join->lost;
	comm->lost_epoch = join->epoch > comm->lost_epoch ? join->epoch : comm->lost_epoch;
	TAILQ_FOREACH (peer, &member->peer->shard->peers, link) {
		peer_tell(peer, comm);
	}
}

void smd_losses_tell_new(struct smd_peer *peer)
{
	const struct smd_server_comm *comm;

	TAILQ_FOREACH (comm, &peer->shard->comms.list, link) {
		if (comm->lost) {
			peer_tell(peer, comm);
		}
	}
}
