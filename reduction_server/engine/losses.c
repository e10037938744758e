/* Tells workers what servers another rank of their job has lost. */
#include "reduction_server/engine/losses.h"

#include <string.h>

#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/shard.h"

#define CONTROLS_MOST (SMD_LANE_CONTROLS_MAX / 4) /* the others are for what must be said */

static void peer_tell(struct smd_peer *peer, const struct smd_server_comm *comm)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_LOST,
		.chunk = comm->id,
		.operation = comm->lost,
		.ordinal = comm->lost_epoch,
	};

	if (peer->lane->controls < CONTROLS_MOST && strcmp(comm->job->name, peer->hello.job) == 0) {
		(void)smd_lane_send_control(peer->lane, &frame, NULL, 0);
	}
}

/* Of an epoch all say the same. */
static bool comm_note_lost(struct smd_server_comm *comm, const struct smd_join *join)
{
	bool later = join->epoch > comm->lost_epoch;

	if (!join->lost || (!later && (join->epoch < comm->lost_epoch || comm->lost))) {
		return false;
	}
	comm->lost = join->lost;
	comm->lost_epoch = join->epoch;
	return true;
}

/* Who has come already knows what to make of it. */
void smd_losses_tell(struct smd_member *member, const struct smd_join *join)
{
	struct smd_server_comm *comm = member->comm;
	struct smd_peer *peer;

	if (!comm || !comm_note_lost(comm, join) || comm->state != SMD_SERVER_COMM_FORMING) {
		return;
	}
	TAILQ_FOREACH (peer, &member->peer->shard->peers, link) {
		if (peer != member->peer) {
			peer_tell(peer, comm);
		}
	}
}

void smd_losses_tell_new(struct smd_peer *peer)
{
	const struct smd_server_comm *comm;

	TAILQ_FOREACH (comm, &peer->shard->comms.list, link) {
		if (comm->lost && comm->state == SMD_SERVER_COMM_FORMING) {
			peer_tell(peer, comm);
		}
	}
}
