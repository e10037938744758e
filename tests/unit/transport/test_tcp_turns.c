/*
 * Whose turn it is: lanes with any amount of data do not keep a loop from a lane with little.
 * Counted in turns of the loop and bytes, not in time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/transports.h"

enum {
	GREEDY = 64,
	FRAMES = 64,        /* of each greedy lane */
	LENGTH = 256 << 10, /* of each frame's payload: more than sockets hold of all */
	BUDGET = 1 << 20, /* that a lane may take in a turn, and then the frame that is coming in */
	TURNS = 8 /* the kernel tells of few lanes at first, and of twice as many each time */
};

struct far_end {
	struct smd_lane *lane;
	uint8_t *room;
	unsigned frames;
};

struct near_end {
	struct smd_lane *lane;
	struct smd_send sends[FRAMES];
	bool open;
};

static struct far_end far_ends[GREEDY + 1];
static struct near_end near_ends[GREEDY + 1];
static struct event_base *far_base;
static unsigned naccepted;

static int on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	(void)frame;
	(void)error;
	*payload = ((struct far_end *)owner)->room;
	return 0;
}

static int on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	(void)frame;
	(void)payload;
	(void)error;
	((struct far_end *)owner)->frames++;
	return 0;
}

static void on_closed(void *owner, int err, const char *reason)
{
	(void)owner;
	(void)err;
	fail_msg("%s", reason);
}

static void on_open(void *owner)
{
	((struct near_end *)owner)->open = true;
}

static const struct smd_lane_callbacks callbacks = {
	.on_open = on_open, .on_header = on_header, .on_frame = on_frame, .on_closed = on_closed};

/* In the order in which they have connected, so the last one is the one with little. */
static void on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct far_end *end = &far_ends[naccepted++];

	(void)owner;
	(void)shard;
	end->lane = lane;
	end->room = malloc(LENGTH);
	assert_non_null(end->room);
	assert_int_equal(smd_lane_attach(lane, far_base, &callbacks, end), 0);
}

static void on_sent(struct smd_send *send, int err)
{
	(void)send;
	(void)err;
}

static void send_frames(struct near_end *end, unsigned frames, const void *payload, uint32_t length)
{
	for (unsigned i = 0; i < frames; i++) {
		struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = i};

		end->sends[i] = (struct smd_send){
			.payload = payload, .length = length, .done = on_sent, .owner = end};
		smd_lane_send(end->lane, &frame, &end->sends[i]);
	}
}

static void open_lane(
	struct event_base *near_base, struct event_base *accepting, unsigned i, const char *address)
{
	struct smd_error error = {""};

	assert_int_equal(smd_transport_tcp.connect(near_base, address, NULL, 0, &callbacks,
				 &near_ends[i], &near_ends[i].lane, &error),
		0);
	while (naccepted <= i || !near_ends[i].open) {
		event_base_loop(near_base, EVLOOP_NONBLOCK);
		event_base_loop(accepting, EVLOOP_NONBLOCK);
	}
}

/* All lanes have something to read before the loop turns. */
static void a_lane_with_little_has_its_turn(void **state)
{
	struct event_base *near_base = smd_loop_create();
	struct event_base *accepting = smd_loop_create();
	struct smd_listener *listener;
	struct smd_error error = {""};
	uint8_t *payload = calloc(1, LENGTH);
	char address[128];
	unsigned turns = 0;

	(void)state;
	far_base = smd_loop_create();
	assert_true(near_base && accepting && far_base && payload);
	assert_int_equal(smd_transport_tcp.listen(accepting, "127.0.0.1:0", on_accept, NULL,
				 &listener, address, &error),
		0);
	for (unsigned i = 0; i <= GREEDY; i++) {
		open_lane(near_base, accepting, i, address);
	}
	for (unsigned i = 0; i < GREEDY; i++) {
		send_frames(&near_ends[i], FRAMES, payload, LENGTH);
	}
	send_frames(&near_ends[GREEDY], 1, payload, 16);
	while (far_ends[GREEDY].frames == 0) {
		uint64_t before[GREEDY];

		for (unsigned i = 0; i < GREEDY; i++) {
			before[i] = far_ends[i].lane->counts.bytes_received;
		}
		assert_true(turns++ < TURNS);
		event_base_loop(far_base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		for (unsigned i = 0; i < GREEDY; i++) {
			uint64_t took = far_ends[i].lane->counts.bytes_received - before[i];

			assert_true(took <= BUDGET + LENGTH + 2 * SMD_FRAME_SIZE);
		}
		event_base_loop(near_base, EVLOOP_NONBLOCK); /* the greedy go on */
	}
	smd_listener_close(listener);
	for (unsigned i = 0; i <= GREEDY; i++) {
		smd_lane_close(near_ends[i].lane);
		smd_lane_close(far_ends[i].lane);
	}
	event_base_loop(near_base, EVLOOP_NONBLOCK);
	event_base_loop(far_base, EVLOOP_NONBLOCK);
	for (unsigned i = 0; i <= GREEDY; i++) {
		free(far_ends[i].room);
	}
	smd_loop_free(near_base);
	smd_loop_free(far_base);
	smd_loop_free(accepting);
	free(payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_lane_with_little_has_its_turn)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
