/* Tells workers what servers another rank of their job has lost. */
#include "reduction_server/engine/losses.h"

#include <string.h>

#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/shard.h"

#define CONTROLS_MOST (SMD_LANE_CONTROLS_MAX / 4) /* the rest is for what must be said */

/* Who does not hear it finds out by silence. */
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
static bool comm_note_lost(struct smd_server_comm *comm, const struct smd_frame *frame)
{
	if (comm->lost && frame->ordinal <= comm->lost_epoch) {
		return false;
	}
	comm->lost = frame->operation;
	comm->lost_epoch = frame->ordinal;
	return true;
}

void smd_losses_tell(struct smd_member *member, const struct smd_frame *frame)
{
	struct smd_server_comm *comm = member->comm;
	struct smd_peer *peer;

	if (!comm || comm->state != SMD_SERVER_COMM_FORMING || !comm_note_lost(comm, frame)) {
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
