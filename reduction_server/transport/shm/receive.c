/*
 * What a lane receives: copies headers out of the ring, and payloads right to where they belong.
 *
 * The other end may change what is in the ring at any time. So each byte is read once, and only the
 * copy is looked at.
 */
#include <errno.h>

#include "reduction_server/transport/shm/shm.h"

#define STEP (64u << 10)

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Whether the lane goes on. */
static bool check(struct shm_lane *lane, int ret, const struct smd_error *error)
{
	if (lane->closed) {
		return false;
	}
	if (ret) {
		smd_shm_ended(lane, ret, error->text);
	}
	return ret == 0;
}

static bool take_frame(struct shm_lane *lane)
{
	struct smd_error error = {""};
	void *payload = lane->rx_payload;

	lane->rx_payload = NULL;
	lane->rx_header_got = 0;
	return check(lane, lane->callbacks->on_frame(lane->owner, &lane->rx_frame, payload, &error),
		&error);
}

static bool take_header(struct shm_lane *lane)
{
	struct smd_error error = {""};
	void *payload = lane->rx_header; /* any address will do for an empty payload */
	int ret = smd_frame_decode(lane->rx_header, &lane->rx_frame, &error);

	if (ret == 0) {
		ret = lane->callbacks->on_header(lane->owner, &lane->rx_frame, &payload, &error);
	}
	if (!check(lane, ret, &error)) {
		return false;
	}
	lane->rx_payload = payload;
	lane->rx_payload_got = 0;
	return lane->rx_frame.length > 0 || take_frame(lane);
}

/* Some of so many bytes that there are: how many. */
static uint32_t take_some(struct shm_lane *lane, uint32_t held)
{
	uint32_t n;

	if (!lane->rx_payload) {
		n = least(held, SMD_FRAME_SIZE - lane->rx_header_got);
		smd_shm_ring_read(&lane->rx, lane->rx_header + lane->rx_header_got, n);
		lane->rx_header_got += n;
	} else {
		n = least(least(held, STEP), lane->rx_frame.length - lane->rx_payload_got);
		smd_shm_ring_read(&lane->rx, lane->rx_payload + lane->rx_payload_got, n);
		lane->rx_payload_got += n;
	}
	smd_lane_received(&lane->lane, n);
	return n;
}

/* What has been taken may have completed something. Whether the lane goes on. Of parts of a payload
 * nobody is told: both ends copy as fast, and a message for each part would cost more than it. */
static bool took(struct shm_lane *lane)
{
	if (!lane->rx_payload) {
		return lane->rx_header_got < SMD_FRAME_SIZE || take_header(lane);
	}
	if (lane->rx_payload_got == lane->rx_frame.length) {
		return take_frame(lane);
	}
	return true;
}

/* The writer has half of the ring again, and does not know it. */
static void give_room(struct shm_lane *lane, uint32_t held)
{
	smd_shm_ring_release(&lane->rx);
	if (held <= lane->rx.size / 2) {
		smd_shm_tell_room(lane);
	}
}

void smd_shm_receive(struct shm_lane *lane, uint32_t most)
{
	uint32_t unreleased = 0;
	uint32_t total = 0;
	uint32_t held = 0;

	while (total < most) {
		uint32_t n;

		if (held == 0 && smd_shm_ring_held(&lane->rx, &held)) {
			smd_shm_ended(lane, -EPROTO,
				"the other end's index of shared memory makes no sense");
			return;
		}
		if (held == 0) {
			break;
		}
		n = take_some(lane, held);
		held -= n;
		total += n;
		unreleased += n;
		if (unreleased >= STEP) {
			give_room(lane, held);
			unreleased = 0;
		}
		if (!took(lane)) {
			return;
		}
	}
	if (unreleased) {
		give_room(lane, held);
	}
}
