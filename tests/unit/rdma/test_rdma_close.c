/*
 * Closing a lane: it waits for nothing and leaves the owner's memory alone, what was sent before
 * leaves if the other end takes it, and every send is given back once. How it goes on meanwhile is in
 * test_rdma_drain.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

#define LARGE 5000u

/* ---- what was sent before ---- */

static void what_had_to_wait_leaves_when_there_is_room(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct peer peer;

	peer_open(&peer, link);
	peer_queue(&peer, parcels, FRAMES);
	assert_int_equal(peer_messages(&peer), RDMA_BUFFERS);
	peer_tell_taken(&peer, RDMA_BUFFERS);
	end_close(&peer.end);
	peer_assert_arrived(&peer, FRAMES - 1);
	parcels_assert_done(parcels, FRAMES, FRAMES);
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

static void any_number_of_control_frames_leaves_while_the_other_end_takes(void **state)
{
	enum { FRAMES = 200 };
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.then = take_all;
	script.owner = &peer;
	peer_send_controls(&peer, 0, FRAMES);
	rest = peer_close_and_poison(&peer);
	assert_true(peer_messages(&peer) < FRAMES);
	RUN_UNTIL(link, script.live == idle);
	script.then = NULL;
	peer_assert_arrived(&peer, FRAMES - 1);
	peer_is_over(&peer, link, rest, idle);
}

/* Who takes nothing, or acknowledges nothing, is not waited for. */
static void what_nobody_takes_is_given_back_at_once(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	unsigned idle = stage_idle(link);

	for (int acknowledged = 0; acknowledged < 2; acknowledged++) {
		struct parcel parcels[FRAMES];
		struct peer peer;
		struct end rest;

		peer_open(&peer, link);
		script.acknowledges = acknowledged;
		peer_queue(&peer, parcels, FRAMES);
		rest = peer_close_and_poison(&peer);
		parcels_assert_done(parcels, FRAMES, RDMA_BUFFERS);
		parcels_free(parcels, FRAMES);
		RUN_UNTIL(link, script.live == idle);
		peer_is_over(&peer, link, rest, idle);
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
	parcels_assert_done(parcels, 10, 10);
	parcels_free(parcels, 10);
}

/* ---- the owner's memory ---- */

/* A payload that the device may still read ends the lane at once, and is never read again. */
static void a_payload_on_its_way_ends_it_at_once(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcel;
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.carries = false;
	parcel_send_to(&parcel, &peer.end, 1, LARGE, remote_buffer);
	peer_send_controls(&peer, 1, 1);
	peer_poll(&peer);
	rest = peer_close_and_poison(&peer);
	parcels_assert_done(&parcel, 1, 0);
	parcels_free(&parcel, 1);
	stage_turn(link);
	peer_is_over(&peer, link, rest, idle);
	free(memory);
}

/* One that the other end has taken does not. */
static void a_payload_that_was_taken_does_not(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcel;
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.acknowledges = false;
	parcel_send_to(&parcel, &peer.end, 0, LARGE, remote_buffer);
	peer_send_controls(&peer, 1, 1);
	stage_turn(link);
	peer_tell_taken(&peer, 1);
	rest = peer_close_and_poison(&peer);
	parcels_assert_done(&parcel, 1, 1);
	parcels_free(&parcel, 1);
	stage_assert_drains(link, idle);
	peer_assert_arrived(&peer, 1);
	script_acknowledge(peer.id, 3);
	stage_turn(link);
	peer_is_over(&peer, link, rest, idle);
	free(memory);
}

/* What the other end may write to cannot be had back otherwise. */
static void an_advertised_buffer_ends_it_at_once(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);

	for (int revoked = 0; revoked < 2; revoked++) {
		uint8_t *memory = malloc(LARGE);
		struct smd_advertisement *advertisement;
		struct peer peer;
		struct end rest;

		peer_open(&peer, link);
		script.acknowledges = false;
		advertisement = smd_lane_advertise(
			peer.end.lane, memory, LARGE, (struct smd_extent){memory, LARGE});
		assert_non_null(advertisement);
		peer_send_controls(&peer, 0, 1);
		if (revoked) {
			smd_lane_revoke(peer.end.lane, advertisement);
		}
		rest = peer_close_and_poison(&peer);
		stage_turn(link);
		assert_int_equal(script.live > idle, revoked);
		free(memory);
		if (revoked) {
			script_acknowledge(peer.id, 1);
			stage_turn(link);
		}
		peer_is_over(&peer, link, rest, idle);
	}
}

/* A queued payload is given back with all that is behind it; what is before it still leaves. */
static void control_frames_before_a_queued_payload_leave(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	struct parcel parcel;
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.acknowledges = false;
	peer_send_controls(&peer, 0, RDMA_BUFFERS + 1);
	parcel_send(&parcel, &peer.end, RDMA_BUFFERS + 1, 100, NULL);
	peer_send_controls(&peer, RDMA_BUFFERS + 2, 1);
	rest = peer_close_and_poison(&peer);
	parcels_assert_done(&parcel, 1, 0);
	parcels_free(&parcel, 1);
	peer_tell_taken(&peer, RDMA_BUFFERS);
	stage_assert_drains(link, idle);
	assert_int_equal(peer_messages(&peer), RDMA_BUFFERS + 1);
	peer_assert_arrived(&peer, RDMA_BUFFERS);
	script_acknowledge(peer.id, RDMA_BUFFERS + 1);
	stage_turn(link);
	peer_is_over(&peer, link, rest, idle);
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
		peer_queue(&peer, parcels, FRAMES);
		script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
		if (told) {
			peer_poll(&peer);
			assert_int_equal(peer.end.closed, 1);
			assert_int_equal(peer.end.err, -ETIMEDOUT);
		}
		end_close(&peer.end);
		parcels_assert_done(parcels, FRAMES, RDMA_BUFFERS);
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
	peer_queue(&peer, parcels, FRAMES);
	completion.wr_id = script_receive_id(peer.id);
	script_complete(peer.id, &completion);
	end_close(&peer.end);
	parcels_assert_done(parcels, FRAMES, RDMA_BUFFERS);
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
		peer_queue(&peer, parcels, FRAMES);
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
		STAGE(any_number_of_control_frames_leaves_while_the_other_end_takes),
		STAGE(what_nobody_takes_is_given_back_at_once),
		STAGE(frames_and_then_the_end_come_to_the_other_end),
		STAGE(a_payload_on_its_way_ends_it_at_once),
		STAGE(a_payload_that_was_taken_does_not),
		STAGE(an_advertised_buffer_ends_it_at_once),
		STAGE(control_frames_before_a_queued_payload_leave),
		STAGE(a_lane_may_be_closed_when_a_send_is_done),
		STAGE(a_broken_pair_is_closed),
		STAGE(who_is_no_lane_is_not_waited_for),
		STAGE(posts_that_fail_while_closing_are_given_up),
	};

	return cmocka_run_group_tests_name("rdma close", tests, NULL, NULL);
}
