/*
 * RDMA lanes as their owners see them: queue pairs whose two ends write into each other's memory
 * (specs/design/rdma.md). connect.c, listen.c and offer.c make lanes, send.c and receive.c move
 * messages, end.c and close.c end them, device.c polls.
 */
#include "reduction_server/transport/rdma/rdma.h"
#include "reduction_server/transport/rdma/rate.h"
#include "reduction_server/wire/message.h"

#include <assert.h>
#include <errno.h>

/* ---- sending ---- */

static void rdma_send(struct smd_lane *outer, struct smd_send *send)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	assert(!lane->closed);
	send->first_advertised = lane->remotes_sent;
	send->nadvertised = lane->remotes_end - lane->remotes_sent;
	if (send->nadvertised > SMD_REMOTE_BUFFERS_MAX) {
		send->nadvertised = SMD_REMOTE_BUFFERS_MAX;
	}
	lane->remotes_sent += send->nadvertised;
	TAILQ_INSERT_TAIL(&lane->tx, send, link);
	lane->tx_frames++;
	lane->tx_bytes += send->length;
	lane->tx_hurries |= send->header[SMD_FRAME_KIND_AT] == SMD_FRAME_PING ||
			    send->header[SMD_FRAME_KIND_AT] == SMD_FRAME_PONG;
	if (lane->state != RDMA_LANE_OPEN || lane->ended) {
		return;
	}
	if (lane->tx_frames >= RDMA_BATCH_FRAMES) {
		smd_rdma_post(lane);
	} else {
		smd_rdma_device_wake(
			lane->device, &lane->pair); /* the end of the turn is soon enough */
	}
}

static void rdma_cancel(struct smd_lane *outer, const void *owner)
{
	struct rdma_lane *lane = rdma_lane_of(outer);
	struct smd_send *send = TAILQ_FIRST(&lane->tx);

	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (send->owner == owner && send->sent == 0) {
			smd_rdma_leave_queue(lane, send);
			send->done(send, -ECANCELED);
		}
		send = next;
	}
}

/* ---- memory ---- */

static void rdma_register_memory(
	struct smd_lane *outer, struct smd_extent memory, size_t largest, bool now)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	/* Without it the memory is treated as callers' is, and that is all. */
	if (lane->device &&
		smd_rdma_memory_register(lane->device->memory, memory.base, memory.length,
			SMD_RDMA_MEMORY_PIECE, largest) == 0 &&
		now && !lane->loop->preparation) {
		(void)smd_rdma_memory_prepare(lane->device->memory, memory.base, memory.length);
	}
}

static int rdma_register_device(
	struct smd_lane *outer, struct smd_extent memory, int fd, uint64_t offset)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	return lane->device ? smd_rdma_memory_register_device(
				      lane->device->memory, memory.base, memory.length, fd, offset)
			    : -ENOTCONN;
}

static void rdma_deregister(struct smd_lane *outer, struct smd_extent memory)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	if (lane->device) {
		smd_rdma_memory_deregister(lane->device->memory, memory.base, memory.length);
	}
}

static bool rdma_can_dma(const struct smd_lane *outer, const void *memory, uint32_t length)
{
	const struct rdma_lane *lane = (const struct rdma_lane *)outer;

	return lane->device && length && length <= lane->device->limits.message_bytes &&
	       smd_rdma_memory_has_device(lane->device->memory, memory, length);
}

static void rdma_invalidate(struct smd_lane *outer, uint64_t generation)
{
	struct rdma_device *device = rdma_lane_of(outer)->device;

	if (device && device->generation != generation) {
		device->generation = generation;
		smd_rdma_memory_invalidate(device->memory);
	}
}

/* ---- receiving ---- */

static void rdma_poll(struct smd_lane *outer)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	if (lane->device && !lane->closed) {
		smd_rdma_device_poll(lane->device);
	}
}

static void rdma_redirect(struct smd_lane *outer, void *payload)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	if (lane->rx_payload) {
		lane->rx_payload = payload;
	}
}

static void rdma_detach(struct smd_lane *outer)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	assert(TAILQ_EMPTY(&lane->tx));
	lane->callbacks = NULL;
	lane->owner = NULL;
}

static const char *rdma_peer_name(const struct smd_lane *outer)
{
	return ((const struct rdma_lane *)outer)->peer;
}

const struct smd_transport_ops smd_transport_rdma = {
	.room = 2u << 20, /* it has left when the other end has it: more is then on its way */
	.name = "rdma",
	.preference = 2,
	.device = "RDMA",
	.times_out = true,
	.port_slot = 1,
	.hello_flag = SMD_HELLO_PAIR,
	.kinds = smd_rdma_kinds,
	.listen = smd_rdma_listen,
	.listener_close = smd_rdma_listener_close,
	.connect = smd_rdma_connect,
	.carrier = smd_rdma_carrier,
	.making_s = smd_rdma_making_s,
	.check = smd_rdma_check,
	.rate = smd_rdma_rate,
	.node = smd_rdma_node,
	.prepare = smd_rdma_prepare,
	.offer = smd_rdma_offer,
	.join = smd_rdma_join,
	.attach = smd_rdma_attach,
	.detach = rdma_detach,
	.send = rdma_send,
	.cancel = rdma_cancel,
	.poll = rdma_poll,
	.advertise = smd_rdma_advertise,
	.revoke = smd_rdma_revoke,
	.withdraw = smd_rdma_withdraw,
	.claim = smd_rdma_claim,
	.register_memory = rdma_register_memory,
	.register_device = rdma_register_device,
	.deregister = rdma_deregister,
	.can_dma = rdma_can_dma,
	.invalidate = rdma_invalidate,
	.redirect = rdma_redirect,
	.close = smd_rdma_close,
	.close_later = smd_rdma_close_later,
	.loop_end = smd_rdma_loop_end,
	.peer_name = rdma_peer_name,
};
