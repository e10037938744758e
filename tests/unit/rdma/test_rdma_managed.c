/*
 * Lanes that the connection manager connects are on the loop's own card, as those over a carrier
 * are: a shard's are made beside its others, what they share is there before, and what the card
 * tells reaches them.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/asked.h"

/* ---- making ---- */

static void no_call_delays_another_lane(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_region_create, SCRIPT_pair_create,
		SCRIPT_pair_init, SCRIPT_pair_join, SCRIPT_accept};
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	struct link *link = *state;
	const unsigned idle = script.live;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const unsigned before = accept->count;

		slow_begin(names[i]);
		ask(link);
		chunks_cross(link, names[i]);
		assert_int_equal(accept->count, before + (names[i] == SCRIPT_accept));
		slow_end(names[i]);
		RUN_UNTIL(link, accept->count == before + 1);
		close_asked(link);
		assert_int_equal(script.live, idle);
	}
}

/* Nor does what ends one. */
static void no_end_delays_another_lane(void **state)
{
	static const enum script_call_name names[] = {
		SCRIPT_id_destroy, SCRIPT_pair_destroy, SCRIPT_region_destroy};
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	struct link *link = *state;
	const unsigned idle = script.live;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const unsigned before = accept->count;

		ask(link);
		RUN_UNTIL(link, accept->count == before + 1);
		slow_begin(names[i]);
		asked.end.closed = 0;
		end_close(&asked.end);
		chunks_cross(link, names[i]);
		slow_end(names[i]);
		RUN_UNTIL(link, script.live == idle);
	}
}

/* One that could not be made has an id of the connection manager all the same. */
static void the_end_of_what_was_not_made_delays_no_other_lane(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_region_create];
	struct link *link = *state;
	const unsigned idle = script.live;

	create->fail_at = create->count + 1;
	create->err = -EDQUOT;
	ask(link);
	RUN_UNTIL(link, asked.end.closed);
	create->fail_at = 0;
	slow_begin(SCRIPT_id_destroy);
	asked.end.closed = 0;
	end_close(&asked.end);
	chunks_cross(link, SCRIPT_id_destroy);
	slow_end(SCRIPT_id_destroy);
	RUN_UNTIL(link, script.live == idle);
}

/* The other end may know of it before the call has returned, and sends its trial, and HELLO; or the
 * call has returned before. */
static void who_is_being_accepted_is_heard(void **state)
{
	const unsigned idle = script.live;
	struct link *link = *state;

	for (int returned = 0; returned < 2; returned++) {
		struct rdma_lane *lane;
		struct peer peer;

		slow_begin(SCRIPT_accept);
		ask(link);
		lane = rdma_lane_of(asked.end.lane);
		RUN_UNTIL(link, is_held(SCRIPT_accept));
		if (returned) {
			slow_end(SCRIPT_accept);
			RUN_UNTIL(link, lane->lane.made);
			assert_true(lane->lane.opening);
		}
		peer = who_asked();
		asked.end.frames = 0;
		try_asked(&peer, link);
		peer_frame(&peer, 1, 10);
		RUN_UNTIL(link, asked.end.frames == 1);
		assert_int_equal(is_held(SCRIPT_accept), !returned);
		assert_false(evtimer_pending(lane->patience, NULL));
		slow_end(SCRIPT_accept);
		RUN_UNTIL(link, !lane->accepting.under_way);
		peer_frame(&peer, 2, 10);
		RUN_UNTIL(link, asked.end.frames == 2);
		close_asked(link);
		assert_int_equal(script.live, idle);
	}
}

/* As who knows of no trial says HELLO. */
static void who_has_asked_and_sends_no_trial_is_left(void **state)
{
	const unsigned idle = script.live;
	struct link *link = *state;
	struct peer peer;

	ask(link);
	RUN_UNTIL(link, rdma_lane_of(asked.end.lane)->lane.made);
	peer = who_asked();
	peer_frame(&peer, 1, 10);
	RUN_UNTIL(link, asked.end.closed);
	assert_int_equal(asked.end.headers, 0);
	end_assert_closed(&asked.end, -EPROTO, "message: a trial must come first");
	close_asked(link);
	assert_int_equal(script.live, idle);
}

/* What is sent waits for the trial; it goes back when the lane is closed before, at any time. */
static void what_is_sent_waits_for_the_trial(void **state)
{
	const struct smd_frame refuse = {.kind = SMD_FRAME_REFUSE};
	const unsigned idle = script.live;
	struct link *link = *state;

	for (int tried = 0; tried < 2; tried++) {
		struct smd_frame frame = refuse;
		struct parcel parcel;
		struct peer peer;

		ask(link);
		RUN_UNTIL(link, rdma_lane_of(asked.end.lane)->lane.made);
		peer = who_asked();
		assert_int_equal(smd_lane_send_control(asked.end.lane, &frame, "why", 3), 0);
		parcel_send(&parcel, &asked.end, 1, 10, NULL);
		stage_turn(link);
		assert_int_equal(peer_messages(&peer), 0);
		if (tried) {
			peer_write_trial(&peer);
			RUN_UNTIL(link, peer_messages(&peer) == 3);
		}
		close_asked(link);
		assert_int_equal(parcel.done, 1);
		assert_int_equal(parcel.err, tried ? 0 : -ECANCELED);
		parcels_free(&parcel, 1);
		assert_int_equal(script.live, idle);
	}
}

/* Its owner may let go of it at once, with memory that the card might use. */
static void who_is_closed_while_accepted_is_taken_back_afterwards(void **state)
{
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	const struct smd_extent none = {NULL, 0};
	const unsigned idle = script.live - script.regions; /* what was advertised stays one */
	struct link *link = *state;

	for (int advertises = 0; advertises < 2; advertises++) {
		const unsigned before = accept->count;
		struct rdma_loop *loop;

		slow_begin(SCRIPT_accept);
		ask(link);
		RUN_UNTIL(link, is_held(SCRIPT_accept));
		loop = rdma_lane_of(asked.end.lane)->loop;
		if (advertises) {
			assert_non_null(
				smd_lane_advertise(asked.end.lane, asked.end.room, 100000, none));
		}
		asked.end.closed = 0;
		end_close(&asked.end);
		chunks_cross(link, SCRIPT_accept);
		slow_end(SCRIPT_accept);
		RUN_UNTIL(link, LIST_EMPTY(&loop->drains));
		assert_int_equal(accept->count, before + 1);
		assert_int_equal(script.live - script.regions, idle);
	}
}

static void who_is_closed_meanwhile_is_not_accepted(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_pair_create, SCRIPT_pair_join};
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	const unsigned accepted = accept->count;
	const unsigned idle = script.live;
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct rdma_cm_id *id;

		slow_begin(names[i]);
		id = ask(link);
		RUN_UNTIL(link, is_held(names[i]));
		script_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		stage_turn(link);
		end_assert_closed(&asked.end, -ECONNRESET, "the other end closed the connection");
		close_asked_before(link, names[i]);
		assert_int_equal(accept->count, accepted);
		assert_int_equal(script.live, idle);
	}
}

/* Who has asked need not find out by silence. */
static void who_is_closed_before_it_is_accepted_is_refused(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_pair_create, SCRIPT_pair_join};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		slow_begin(names[i]);
		ask(link);
		RUN_UNTIL(link, is_held(names[i]));
		close_asked_before(link, names[i]);
		assert_int_equal(script.rejections, i + 1);
		assert_string_equal(script.last_rejection, "it was closed before it was made");
		assert_true(script_says_again());
	}
}

/* Here and to who has asked, who may ask again where that may pass. */
static void what_cannot_be_made_is_told_later(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_region_create, SCRIPT_pair_create,
		SCRIPT_pair_init, SCRIPT_pair_join, SCRIPT_accept};
	static const int errs[] = {-EDQUOT, -EBUSY};
	const unsigned idle = script.live;
	struct link *link = *state;

	for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i / 2]];

		call->fail_at = call->count + 1;
		call->err = errs[i % 2];
		call->always = true;
		capture_begin();
		ask(link);
		RUN_UNTIL(link, asked.end.closed);
		assert_int_equal(asked.end.err, errs[i % 2]);
		assert_true(capture_has(asked.end.reason, "warn"));
		capture_end();
		call->fail_at = 0;
		call->always = false;
		close_asked(link);
		assert_int_equal(script.rejections, i + 1);
		assert_string_equal(script.last_rejection, asked.end.reason);
		assert_int_equal(script_says_again(), errs[i % 2] == -EBUSY);
		assert_int_equal(script.live, idle);
	}
}

/* It has drained, and its id is being destroyed, when the connection manager tells something. */
static void hear_while_taken_back(struct link *link, enum rdma_cm_event_type type)
{
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	const unsigned before = accept->count;
	const unsigned idle = script.live;
	struct rdma_cm_id *id = ask(link);
	struct peer peer;

	RUN_UNTIL(link, accept->count == before + 1);
	stage_turn(link);
	peer = who_asked();
	try_asked(&peer, link);
	script.acknowledges = false;
	script.carries = false;
	assert_int_equal(
		smd_lane_send_control(asked.end.lane,
			&(struct smd_frame){.kind = SMD_FRAME_LEAVE, .ordinal = 1}, "why", 3),
		0);
	slow_begin(SCRIPT_id_destroy);
	end_close(&asked.end);
	stage_turn(link);
	assert_false(is_held(SCRIPT_id_destroy));
	script_break(id, IBV_WC_RETRY_EXC_ERR);
	RUN_UNTIL(link, is_held(SCRIPT_id_destroy));
	script_tell(id, type, 0, NULL, 0);
	stage_turn(link);
	slow_end(SCRIPT_id_destroy);
	RUN_UNTIL(link, script.live == idle);
	script.acknowledges = true;
	script.carries = true;
}

/* As where a server ends a lane that rests, and the worker closes it too. */
static void what_is_told_of_a_lane_that_is_taken_back_harms_nobody(void **state)
{
	hear_while_taken_back(*state, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	hear_while_taken_back(*state, RDMA_CM_EVENT_DISCONNECTED);
}

/* ---- what is there before, and what the card tells ---- */

/* The connection manager goes by the address alone, and so does what is prepared for it. */
static void what_is_prepared_is_on_the_card_of_the_address(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct end *ends[] = {&link->near, &link->far};

	for (int i = 0; i < 2; i++) {
		end_close(ends[i]);
	}
	stage_turn(link);
	smd_listener_close(asked.listener);
	asked.listener = NULL;
	forget_loop(link);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	setenv("SUMMAND_RDMA_CONNECT", "cm", 1);
	setenv("SUMMAND_RDMA_DEVICE", "script0", 1);
	two_cards();
	for (unsigned shard = 0; shard < 2; shard++) {
		stage_prepare(link, "10.0.0.2:7", shard, asked.pool, 1 << 16);
		assert_int_equal(smd_rdma_loop_get(link->base, &loop, &error), 0);
		assert_string_equal(
			ibv_get_device_name(LIST_FIRST(&loop->devices)->context->device),
			"script1");
		assert_int_equal(script.regions, 1);
		smd_rdma_loop_put(loop);
		smd_transport_end_loop(link->base);
	}
	unsetenv("SUMMAND_RDMA_CONNECT");
	unsetenv("SUMMAND_RDMA_DEVICE");
}

static void a_failed_pair_ends_its_own_lane(void **state)
{
	struct link *link = *state;

	script_device_tell(IBV_EVENT_PORT_ERR, NULL);
	script_device_tell(IBV_EVENT_PORT_ACTIVE, NULL);
	stage_turn(link);
	assert_int_equal(link->near.closed + link->far.closed, 0);
	link->near.close_at = NEVER;
	script_device_tell(IBV_EVENT_QP_FATAL, rdma_lane_of(link->near.lane)->pair.qp);
	stage_turn(link);
	end_assert_closed(&link->near, -EIO, ibv_event_type_str(IBV_EVENT_QP_FATAL));
	assert_int_equal(link->far.closed, 0);
}

static void ends_all(struct link *link, enum ibv_event_type type, int err, const char *reason)
{
	struct end *ends[] = {&link->near, &link->far};

	for (int i = 0; i < 2; i++) {
		ends[i]->close_at = NEVER;
	}
	script_device_tell(type, NULL);
	stage_turn(link);
	for (int i = 0; i < 2; i++) {
		end_assert_closed(ends[i], err, reason);
	}
}

static void a_failed_queue_ends_all(void **state)
{
	ends_all(*state, IBV_EVENT_CQ_ERR, -EIO, "the device's completion queue has failed");
}

static void a_failed_device_ends_all(void **state)
{
	ends_all(*state, IBV_EVENT_DEVICE_FATAL, -ENODEV, "the RDMA device was removed");
}

/* One whose driver tells it to the connection manager alone, which no id of the card's own hears.
 */
static void a_removal_that_a_lane_hears_is_the_cards(void **state)
{
	const struct script_call *open = &script.calls[SCRIPT_device_open];
	struct link *link = *state;
	struct end *ends[] = {&link->near, &link->far};
	unsigned opened = open->count;

	link->near.close_at = NEVER;
	link->far.close_at = NEVER;
	script_tell(rdma_lane_of(link->far.lane)->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	stage_turn(link);
	for (int i = 0; i < 2; i++) {
		end_assert_closed(ends[i], -ENODEV, "the RDMA device was removed");
		end_close(ends[i]);
	}
	RUN_UNTIL(link, !script_bound()); /* it is closed, so that the removal can end */
	ask(link);
	assert_int_equal(open->count, opened + 1); /* it is there again */
	close_asked(link);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, managed_set_up, managed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_call_delays_another_lane),
		STAGE(no_end_delays_another_lane),
		STAGE(the_end_of_what_was_not_made_delays_no_other_lane),
		STAGE(who_is_being_accepted_is_heard),
		STAGE(who_has_asked_and_sends_no_trial_is_left),
		STAGE(what_is_sent_waits_for_the_trial),
		STAGE(who_is_closed_while_accepted_is_taken_back_afterwards),
		STAGE(who_is_closed_meanwhile_is_not_accepted),
		STAGE(who_is_closed_before_it_is_accepted_is_refused),
		STAGE(what_is_told_of_a_lane_that_is_taken_back_harms_nobody),
		STAGE(what_cannot_be_made_is_told_later),
		STAGE(what_is_prepared_is_on_the_card_of_the_address),
		STAGE(a_failed_pair_ends_its_own_lane),
		STAGE(a_failed_queue_ends_all),
		STAGE(a_failed_device_ends_all),
		STAGE(a_removal_that_a_lane_hears_is_the_cards),
	};

	return cmocka_run_group_tests_name("rdma managed", tests, NULL, NULL);
}
