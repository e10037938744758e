/*
 * Closing a lane: what was sent before leaves if the other end takes it, every send is given back
 * once, and what belongs to other lanes stays theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

#define LARGE 5000u

static void queue_frames(struct peer *peer, struct parcel *parcels, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		parcel_send(&parcels[i], &peer->end, i, 100, NULL);
	}
	peer_poll(peer);
}

/* All of them, the first `left` because they left, the others because they were given back. */
static void assert_done(const struct parcel *parcels, unsigned n, unsigned left)
{
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(parcels[i].done, 1);
		assert_int_equal(parcels[i].err, i < left ? 0 : -ECANCELED);
		assert_true(i == 0 || parcels[i].place > parcels[i - 1].place);
	}
}

/* That frame was the last that came into its receive buffer. */
static void assert_arrived(const struct peer *peer, unsigned ordinal)
{
	struct smd_frame frame;
	const uint8_t *at;

	peer_read(peer, ordinal, &at);
	assert_int_equal(smd_frame_decode(at, &frame, NULL), 0);
	assert_int_equal(frame.ordinal, ordinal);
}

/* ---- what was sent before ---- */

static void what_had_to_wait_leaves_when_there_is_room(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct peer peer;

	peer_open(&peer, link);
	queue_frames(&peer, parcels, FRAMES);
	assert_int_equal(peer_messages(&peer), RDMA_BUFFERS);
	peer_tell_taken(&peer, RDMA_BUFFERS);
	end_close(&peer.end);
	assert_arrived(&peer, FRAMES - 1);
	assert_done(parcels, FRAMES, FRAMES);
	peer_close(&peer, link);
	parcels_free(parcels, FRAMES);
}

/* The other end takes as it goes. */
static void take_all(struct rdma_cm_id *id, void *owner)
{
	struct peer *peer = owner;

	(void)id;
	peer_tell_taken(peer, peer->taken + peer_messages(peer));
}

static void any_number_leaves_while_the_other_end_takes(void **state)
{
	enum { FRAMES = 600 };
	static struct parcel parcels[FRAMES];
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct peer peer;

	peer_open(&peer, link);
	script.carries = false;
	script.unwatched = true; /* so that each large frame has a registration of its own */
	for (unsigned i = 0; i < FRAMES; i++) {
		if (i % 2) {
			parcel_send_to(&parcels[i], &peer.end, i, LARGE, remote_buffer);
		} else {
			parcel_send(&parcels[i], &peer.end, i, 100, NULL);
		}
	}
	script.carries = true;
	script.then = take_all;
	script.owner = &peer;
	script_carry(peer.id, FRAMES);
	peer_tell_taken(&peer, peer_messages(&peer));
	end_close(&peer.end);
	assert_arrived(&peer, FRAMES - 1);
	assert_done(parcels, FRAMES, FRAMES);
	script.then = NULL;
	peer_close(&peer, link);
	parcels_free(parcels, FRAMES);
	free(memory);
}

/* Who takes nothing is not waited for without an end. */
static void what_nobody_takes_is_given_back(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;

	for (int acknowledged = 0; acknowledged < 2; acknowledged++) {
		struct parcel parcels[FRAMES];
		struct peer peer;

		peer_open(&peer, link);
		script.acknowledges = acknowledged;
		queue_frames(&peer, parcels, FRAMES);
		end_close(&peer.end);
		assert_done(parcels, FRAMES, RDMA_BUFFERS);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

static void frames_and_then_the_end_come_to_the_other_end(void **state)
{
	enum { FRAMES = 100 };
	static const uint32_t lengths[] = {0, 1, 4096, 5000, 100000};
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open(link);
	for (unsigned i = 0; i < 10; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i % 5] % 20000, NULL);
	}
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frames, 10);
	end_assert_payload(&link->far);
	assert_done(parcels, 10, 10);
	parcels_free(parcels, 10);
}

/* ---- others' completions ---- */

/* What another closing lane found in the queue belongs to this one still, when it is closed next.
 */
static void lanes_may_be_closed_one_after_the_other(void **state)
{
	enum { LANES = 4, FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[LANES][FRAMES];
	struct peer peers[LANES];

	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
		queue_frames(&peers[i], parcels[i], FRAMES);
	}
	for (int i = 0; i < LANES; i++) {
		peer_tell_taken(&peers[i], RDMA_BUFFERS);
	}
	for (int i = 0; i < LANES; i++) {
		end_close(&peers[i].end);
		assert_arrived(&peers[i], FRAMES - 1);
		assert_done(parcels[i], FRAMES, FRAMES);
	}
	for (int i = 0; i < LANES; i++) {
		peer_close(&peers[i], link);
		parcels_free(parcels[i], FRAMES);
	}
}

static struct peer *next;

static void close_both(struct end *end)
{
	end_close(end);
	end_close(&next->end);
}

/* Completions that were taken together with the one whose callback closes the lane. */
static void a_lane_may_be_closed_amid_its_completions(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[2][FRAMES];
	struct peer peers[2];

	for (int i = 0; i < 2; i++) {
		peer_open(&peers[i], link);
		queue_frames(&peers[i], parcels[i], FRAMES);
	}
	next = &peers[1];
	peers[0].end.then = close_both;
	peer_frame(&peers[0], 1, 10);
	peer_tell_taken(&peers[0], RDMA_BUFFERS);
	peer_tell_taken(&peers[1], RDMA_BUFFERS);
	peer_poll(&peers[0]);
	for (int i = 0; i < 2; i++) {
		assert_null(peers[i].end.lane);
		assert_arrived(&peers[i], FRAMES - 1);
		peer_close(&peers[i], link);
		for (unsigned k = 0; k < FRAMES; k++) {
			assert_int_equal(parcels[i][k].done, 1);
			assert_int_equal(parcels[i][k].err, 0);
		}
		parcels_free(parcels[i], FRAMES);
	}
}

/* Whether the device takes them out of the queue with the pair, or not. */
static void completions_that_come_too_late_are_nobodys(void **state)
{
	struct link *link = *state;

	for (int forgets = 0; forgets < 2; forgets++) {
		struct parcel parcel;
		struct peer other;
		struct peer peer;

		script.forgets = forgets;
		peer_open(&other, link);
		peer_open(&peer, link);
		peer_frame(&other, 1, 10);
		peer_frame(&peer, 1, 10);
		script.carries = false;
		parcel_send(&parcel, &peer.end, 1, 10, NULL);
		peer.end.close_at = ON_FRAME;
		peer_poll(&peer);
		script.carries = true;
		assert_null(peer.end.lane);
		assert_int_equal(parcel.done, 1);
		assert_int_equal(other.end.frames, 1);
		peer_frame(&other, 2, 10);
		peer_poll(&other);
		assert_int_equal(other.end.frames, 2);
		peer_close(&peer, link);
		peer_close(&other, link);
		parcels_free(&parcel, 1);
	}
}

/* ---- closing in callbacks, and what is broken ---- */

static void a_lane_may_be_closed_when_a_send_is_done(void **state)
{
	enum { FRAMES = 40 };
	struct link *link = *state;

	for (unsigned at = 0; at < 3; at++) {
		struct parcel parcels[FRAMES];
		struct peer peer;

		peer_open(&peer, link);
		peer.end.close_at = ON_DONE;
		script.acknowledges = at != 0;
		parcels_done = 0;
		for (unsigned i = 0; i < FRAMES; i++) {
			if (peer.end.lane) {
				parcel_send(&parcels[i], &peer.end, i, 100, NULL);
			} else {
				parcels[i] = (struct parcel){.done = 1};
			}
			if (at == 2 && peer.end.lane) {
				peer_poll(&peer);
			}
		}
		if (peer.end.lane) {
			peer_poll(&peer);
		}
		assert_null(peer.end.lane);
		for (unsigned i = 0; i < FRAMES; i++) {
			assert_int_equal(parcels[i].done, 1);
		}
		assert_int_equal(peer.end.closed, 0);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

/* What cannot arrive is not waited for; all of it is given back. */
static void a_broken_pair_is_closed(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;

	for (int told = 0; told < 2; told++) {
		struct parcel parcels[FRAMES];
		struct peer peer;

		peer_open(&peer, link);
		script.carries = false;
		queue_frames(&peer, parcels, FRAMES);
		script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
		if (told) {
			peer_poll(&peer);
			assert_int_equal(peer.end.closed, 1);
			assert_int_equal(peer.end.err, -ETIMEDOUT);
		}
		end_close(&peer.end);
		assert_done(parcels, FRAMES, RDMA_BUFFERS);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

/* Nor is one whose other end does what none of ours does. */
static void who_is_no_lane_is_not_waited_for(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct ibv_wc completion = {.opcode = IBV_WC_RECV};
	struct peer peer;

	peer_open(&peer, link);
	queue_frames(&peer, parcels, FRAMES);
	completion.wr_id = script_receive_id(peer.id);
	script_complete(peer.id, &completion);
	end_close(&peer.end);
	assert_done(parcels, FRAMES, RDMA_BUFFERS);
	peer_close(&peer, link);
	parcels_free(parcels, FRAMES);
}

static void posts_that_fail_while_closing_are_given_up(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_post_send, SCRIPT_post_receive};
	enum { FRAMES = 50 };
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i]];
		struct parcel parcels[FRAMES];
		struct peer peer;

		peer_open(&peer, link);
		queue_frames(&peer, parcels, FRAMES);
		peer_tell_taken(&peer, RDMA_BUFFERS);
		call->fail_at = call->count + 1;
		call->err = -ENOMEM;
		call->always = true;
		end_close(&peer.end);
		call->fail_at = 0;
		for (unsigned k = 0; k < FRAMES; k++) {
			assert_int_equal(parcels[k].done, 1);
		}
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(what_had_to_wait_leaves_when_there_is_room),
		STAGE(any_number_leaves_while_the_other_end_takes),
		STAGE(what_nobody_takes_is_given_back),
		STAGE(frames_and_then_the_end_come_to_the_other_end),
		STAGE(lanes_may_be_closed_one_after_the_other),
		STAGE(a_lane_may_be_closed_amid_its_completions),
		STAGE(completions_that_come_too_late_are_nobodys),
		STAGE(a_lane_may_be_closed_when_a_send_is_done),
		STAGE(a_broken_pair_is_closed),
		STAGE(who_is_no_lane_is_not_waited_for),
		STAGE(posts_that_fail_while_closing_are_given_up),
	};

	return cmocka_run_group_tests_name("rdma close", tests, NULL, NULL);
}
