/*
 * Lanes in memory that two processes of a host share (specs/design/shm.md), as their owners see
 * them. offer.c makes them, send.c and receive.c move frames, turn.c says when, close.c ends them.
 */
#include "reduction_server/transport/shm/shm.h"

#include <assert.h>
#include <errno.h>

static int shm_attach(struct smd_lane *outer, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct shm_lane *lane = shm_lane_of(outer);

	lane->callbacks = callbacks;
	lane->owner = owner;
	return lane->base == base ? 0 : -EINVAL;
}

static void shm_send(struct smd_lane *outer, struct smd_send *send)
{
	struct shm_lane *lane = shm_lane_of(outer);

	assert(!lane->closed);
	TAILQ_INSERT_TAIL(&lane->queue, send, link);
	if (lane->state == SHM_OPEN && !lane->ended) {
		smd_shm_flush(lane);
	}
}

static void shm_cancel(struct smd_lane *outer, const void *owner)
{
	struct shm_lane *lane = shm_lane_of(outer);
	struct smd_send *send = TAILQ_FIRST(&lane->queue);

	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (send->owner == owner && send->sent == 0) {
			TAILQ_REMOVE(&lane->queue, send, link);
			send->done(send, -ECANCELED);
		}
		send = next;
	}
}

static void shm_redirect(struct smd_lane *outer, void *payload)
{
	struct shm_lane *lane = shm_lane_of(outer);

	if (lane->rx_payload) {
		lane->rx_payload = payload;
	}
}

static const char *shm_peer_name(const struct smd_lane *outer)
{
	return ((const struct shm_lane *)outer)->peer;
}

const struct smd_transport_ops smd_transport_shm = {
	.name = "shm",
	.preference = 3,
	.is_stream = true,
	.within_host = true,
	.room = 64u << 10, /* as over TCP: small frames find each other, large ones come in time */
	.port_slot = 2,
	.hello_flag = SMD_HELLO_MEMORY,
	.listen = smd_carried_listen,
	.connect = smd_carried_connect,
	.carrier = smd_shm_carrier,
	.check = smd_shm_check,
	.offer = smd_shm_offer,
	.join = smd_shm_join,
	.attach = shm_attach,
	.send = shm_send,
	.cancel = shm_cancel,
	.poll = smd_shm_poll,
	.redirect = shm_redirect,
	.close = smd_shm_close,
	.peer_name = shm_peer_name,
};
