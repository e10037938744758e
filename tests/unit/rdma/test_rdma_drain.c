/* A closed lane that drains: it goes on without its owner, holds up nobody, and has an end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

static void the_last_acknowledgement_ends_it(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.acknowledges = false;
	peer_send_controls(&peer, 0, RDMA_BUFFERS + 1);
	rest = peer_close_and_poison(&peer);
	peer_assert_arrived(&peer, RDMA_BUFFERS - 1);
	stage_assert_drains(link, idle);
	script_acknowledge(peer.id, RDMA_BUFFERS);
	stage_assert_drains(link, idle); /* the last one waits for room */
	peer_tell_taken(&peer, RDMA_BUFFERS);
	stage_assert_drains(link, idle);
	peer_assert_arrived(&peer, RDMA_BUFFERS);
	script_acknowledge(peer.id, 1);
	stage_turn(link);
	peer_is_over(&peer, link, rest, idle);
}

/* It is taken and thrown away, so that the other end gets on. */
static void what_comes_meanwhile_is_for_nobody(void **state)
{
	enum { FRAMES = 3 * RDMA_BUFFERS };
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.acknowledges = false;
	peer_send_controls(&peer, 0, 1);
	rest = peer_close_and_poison(&peer);
	for (unsigned i = 0; i < FRAMES; i++) {
		peer_frame(&peer, i, 10);
		if (i % 8 == 7) {
			stage_assert_drains(link, idle);
		}
	}
	assert_int_equal(script_receives(peer.id), RDMA_RECEIVES);
	assert_int_equal(script_acknowledge(peer.id, FRAMES), 1 + FRAMES / (RDMA_BUFFERS / 2));
	stage_turn(link);
	peer_is_over(&peer, link, rest, idle);
}

/* The message that the lane is closed in is not counted twice, nor forgotten. */
static void it_may_be_closed_in_a_header(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	struct peer peer;

	peer_open(&peer, link);
	peer_send_controls(&peer, 0, RDMA_BUFFERS + 1);
	stage_turn(link);
	peer.end.close_at = ON_HEADER;
	peer_frame(&peer, 1, 10);
	stage_turn(link);
	assert_null(peer.end.lane);
	peer.taken = RDMA_BUFFERS;
	peer_frame(&peer, 2, 10);
	stage_turn(link);
	peer_assert_arrived(&peer, RDMA_BUFFERS);
	assert_int_equal(script.live, idle);
	peer_close(&peer, link);
}

static void the_deadline_ends_it(void **state)
{
	struct link *link = *state;
	unsigned idle = stage_idle(link);
	uint64_t since = smd_clock_ns();
	struct peer peer;
	struct end rest;

	peer_open(&peer, link);
	script.acknowledges = false;
	peer_send_controls(&peer, 0, RDMA_BUFFERS + 1);
	rest = peer_close_and_poison(&peer);
	RUN_UNTIL(link, script.live == idle);
	assert_true(smd_clock_ns() - since >= 1900000000ull); /* the loop's clock is coarse */
	peer_is_over(&peer, link, rest, idle);
}

/* Whose other lanes are many, and have other ends that take nothing more, is at work at once. */
static void stopped_ends_hold_up_no_other_lane(void **state)
{
	enum { PEERS = 64 };
	struct link *link = *state;
	struct peer peers[PEERS];
	struct end rests[PEERS];
	struct peer other;
	unsigned idle;

	peer_open(&other, link);
	idle = script.live;
	script.acknowledges = false;
	for (int i = 0; i < PEERS; i++) {
		peer_open(&peers[i], link);
		peer_send_controls(&peers[i], 0, RDMA_BUFFERS + 1);
	}
	for (int i = 0; i < PEERS; i++) {
		rests[i] = peer_close_and_poison(&peers[i]);
	}
	peer_frame(&other, 1, 10);
	peer_poll(&other);
	assert_int_equal(other.end.frames, 1);
	assert_true(script.live > idle); /* they drain beside it */
	script.acknowledges = true;
	peer_close(&other, link);
	smd_transport_end_loop(link->base);
	for (int i = 0; i < PEERS; i++) {
		peers[i].end = rests[i];
		peer_close(&peers[i], link);
	}
}

/* Without another turn; and without an end, if nobody acknowledges anything. */
static void the_end_of_the_loop_ends_it(void **state)
{
	enum { PEERS = 3 };
	struct link *link = *state;
	unsigned idle = stage_idle(link);

	for (int acknowledged = 0; acknowledged < 2; acknowledged++) {
		struct peer peers[PEERS];
		struct end rests[PEERS];

		for (int i = 0; i < PEERS; i++) {
			peer_open(&peers[i], link);
			script.acknowledges = false;
			peer_send_controls(&peers[i], 0, 1);
			rests[i] = peer_close_and_poison(&peers[i]);
			if (acknowledged) {
				script_acknowledge(peers[i].id, 1);
			}
		}
		smd_transport_end_loop(link->base);
		for (int i = 0; i < PEERS; i++) {
			peer_is_over(&peers[i], link, rests[i], idle);
		}
	}
}

static void so_do_failures(void **state)
{
	static const struct {
		enum rdma_cm_event_type event;
		bool ends;
	} cases[] = {
		{RDMA_CM_EVENT_ESTABLISHED, false},
		{RDMA_CM_EVENT_TIMEWAIT_EXIT, false},
		{RDMA_CM_EVENT_DISCONNECTED, true},
		{RDMA_CM_EVENT_ADDR_CHANGE, true},
		{RDMA_CM_EVENT_DEVICE_REMOVAL, true},
	};
	struct link *link = *state;
	unsigned idle = stage_idle(link);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peer peer;
		struct end rest;

		peer_open(&peer, link);
		script.acknowledges = false;
		peer_send_controls(&peer, 0, 1);
		rest = peer_close_and_poison(&peer);
		script_tell(peer.id, cases[i].event, 0, NULL, 0);
		stage_turn(link);
		assert_int_equal(script.live > idle, !cases[i].ends);
		if (!cases[i].ends) {
			script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
			stage_turn(link);
		}
		peer_is_over(&peer, link, rest, idle);
	}
}

static void so_do_posts_that_fail_later(void **state)
{
	static const enum script_call_name names[] = {
		SCRIPT_post_send, SCRIPT_post_receive, SCRIPT_queue_poll};
	struct link *link = *state;
	unsigned idle = stage_idle(link);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i]];
		struct peer peer;
		struct end rest;

		peer_open(&peer, link);
		peer_send_controls(&peer, 0, RDMA_BUFFERS + 1);
		rest = peer_close_and_poison(&peer);
		peer_tell_taken(&peer, RDMA_BUFFERS);
		call->fail_at = call->count + 1;
		call->err = -EIO;
		call->always = true;
		stage_turn(link);
		call->fail_at = 0;
		peer_is_over(&peer, link, rest, idle);
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(the_last_acknowledgement_ends_it),
		STAGE(what_comes_meanwhile_is_for_nobody),
		STAGE(it_may_be_closed_in_a_header),
		STAGE(the_deadline_ends_it),
		STAGE(stopped_ends_hold_up_no_other_lane),
		STAGE(the_end_of_the_loop_ends_it),
		STAGE(so_do_failures),
		STAGE(so_do_posts_that_fail_later),
	};

	return cmocka_run_group_tests_name("rdma drain", tests, NULL, NULL);
}
