/*
 * A lane's turns of its loop.
 *
 * A lane is *armed*: it sleeps, has said so, and the other end wakes it. Or it is looked at in the
 * loop's next turn. Who polls it while something comes keeps it from sleeping, which would cost the
 * other end a system call for each frame.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/shm/shm.h"

#define BUSY_NS 100000u /* as long as who polls expects the next frame */

/* One look at both rings. Whether the lane is still there. */
static bool look(struct shm_lane *lane)
{
	uint32_t received = lane->rx.at;
	uint32_t sent = lane->tx.at;

	smd_shm_flush(lane);
	if (lane->err) {
		smd_shm_ended(
			lane, lane->err, "the other end's index of shared memory makes no sense");
	}
	if (!lane->closed && !lane->ended) {
		smd_shm_receive(lane, SMD_SHM_TURN_BYTES);
	}
	if (lane->closed || lane->ended) {
		return false;
	}
	if (lane->rx.at != received || lane->tx.at != sent) {
		lane->busy_ns = smd_clock_ns();
	}
	return true;
}

static void turn_open(struct shm_lane *lane)
{
	smd_shm_awake(lane);
	if (look(lane) && !smd_shm_sleep(lane)) {
		smd_shm_turn_soon(lane);
	}
}

/* From the loop, and whatever it was waiting for. */
static void open_lane(struct shm_lane *lane)
{
	lane->state = SHM_OPEN;
	lane->callbacks->on_open(lane->owner);
}

void smd_shm_on_turn(int fd, short what, void *arg)
{
	struct shm_lane *lane = arg;

	(void)fd;
	(void)what;
	if (lane->state == SHM_OFFERS) {
		lane->state = SHM_OFFERED;
		lane->callbacks->on_offered(lane->owner, &lane->offer);
		return;
	}
	if (lane->state == SHM_OPENS) {
		open_lane(lane);
	}
	if (lane->state == SHM_OPEN && !lane->closed && !lane->ended) {
		turn_open(lane);
	}
}

void smd_shm_on_woken(int fd, short what, void *arg)
{
	struct shm_lane *lane = arg;

	(void)fd;
	(void)what;
	smd_shm_woken(lane);
	if (lane->state == SHM_OPEN) {
		turn_open(lane);
	}
}

void smd_shm_on_patience(int fd, short what, void *arg)
{
	char text[64];

	(void)fd;
	(void)what;
	snprintf(text, sizeof(text), "no answer about shared memory within %d s",
		SMD_SHM_PATIENCE_S);
	smd_shm_ended(arg, -ETIMEDOUT, text);
}

void smd_shm_poll(struct smd_lane *outer)
{
	struct shm_lane *lane = shm_lane_of(outer);

	if (lane->state != SHM_OPEN || lane->ended || lane->closed) {
		return;
	}
	if (lane->armed && smd_clock_ns() - lane->busy_ns < BUSY_NS) {
		smd_shm_awake(lane);
		smd_shm_turn_soon(lane); /* before the loop sleeps */
	}
	(void)look(lane);
}

/* ---- the carrier, which has nothing more to say ---- */

static int carrier_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	(void)owner;
	(void)payload;
	return smd_error_set(error, EPROTO,
		"%s: must come through shared memory, and came beside it",
		smd_frame_kind_name(frame->kind));
}

static int carrier_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	return carrier_on_header(owner, frame, &payload, error);
}

/* The other end has gone, or its process. What it has said before is still there. */
static void carrier_on_closed(void *owner, int err, const char *reason)
{
	struct shm_lane *lane = owner;

	if (lane->state == SHM_OPENS) {
		open_lane(lane);
	}
	if (lane->state == SHM_OPEN && !lane->closed && !lane->ended) {
		smd_shm_receive(lane, lane->rx.size);
	}
	smd_shm_ended(lane, err, reason);
}

const struct smd_lane_callbacks smd_shm_carrier_callbacks = {
	.on_header = carrier_on_header,
	.on_frame = carrier_on_frame,
	.on_closed = carrier_on_closed,
};
