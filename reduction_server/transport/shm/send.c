/*
 * What a lane sends: copies headers and payloads into the ring, as far as there is room.
 *
 * Small frames become the reader's one by one, long ones by steps, so that both ends copy at the
 * same time. To wake a reader costs as much as to copy a step: it is woken for a whole frame, or
 * for a quarter of the ring.
 */
#include <errno.h>

#include "reduction_server/transport/shm/shm.h"

#define STEP (64u << 10)

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static bool is_whole(const struct smd_send *send)
{
	return send->sent == SMD_FRAME_SIZE + send->length;
}

/* Up to `room` bytes of the frame, and at most a step. */
static void write_some(struct shm_lane *lane, struct smd_send *send, uint32_t room)
{
	uint32_t sent = send->sent;

	if (sent < SMD_FRAME_SIZE) {
		uint32_t n = least(room, SMD_FRAME_SIZE - sent);

		smd_shm_ring_write(&lane->tx, send->header + sent, n);
		sent += n;
		room -= n;
	}
	if (sent >= SMD_FRAME_SIZE && room && sent < SMD_FRAME_SIZE + send->length) {
		uint32_t at = sent - SMD_FRAME_SIZE;
		uint32_t n = least(least(room, STEP), send->length - at);

		smd_shm_ring_write(&lane->tx, (const uint8_t *)send->payload + at, n);
		sent += n;
	}
	lane->lane.counts.bytes_sent += sent - send->sent;
	send->sent = sent;
	smd_shm_ring_publish(&lane->tx);
	if (is_whole(send) || smd_shm_ring_unread(&lane->tx) >= lane->tx.size / 4) {
		smd_shm_tell_bytes(lane);
	}
}

/* Room for what is left of the frame, or some of it; 0: none, and the lane is woken when there is
 * again, or looks again by itself. */
static uint32_t find_room(struct shm_lane *lane, const struct smd_send *send)
{
	uint32_t left = SMD_FRAME_SIZE + send->length - send->sent;
	uint32_t room;

	if (smd_shm_ring_room(&lane->tx, left, &room)) {
		lane->err = -EPROTO; /* ends come from the loop */
		smd_shm_turn_soon(lane);
		return 0;
	}
	if (room == 0 && lane->armed && !smd_shm_sleep(lane)) {
		smd_shm_turn_soon(lane);
	}
	return room;
}

void smd_shm_flush(struct shm_lane *lane)
{
	if (lane->settling) {
		return; /* who is at it goes on */
	}
	while (!lane->closed && !lane->err && !TAILQ_EMPTY(&lane->queue)) {
		struct smd_send *send = TAILQ_FIRST(&lane->queue);
		uint32_t room = find_room(lane, send);

		if (room == 0) {
			return;
		}
		write_some(lane, send, room);
		if (is_whole(send)) {
			TAILQ_REMOVE(&lane->queue, send, link);
			lane->settling = true;
			send->done(send, 0);
			lane->settling = false;
		}
	}
}
