/*
 * Lanes that the connection manager connects are on the loop's own card, as those over a carrier
 * are: a shard's are made beside its others, what they share is there before, and what the card
 * tells reaches them.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/engine/greeting.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/later.h"

static struct smd_extent pool; /* which nobody touches */

/* ---- a lane that somebody asks for, beside those of the link ---- */

static struct asked {
	struct end end;
	struct smd_listener *listener;
	uint8_t *receive_buffers; /* of who asks */
} asked;

static void asked_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	(void)owner;
	(void)shard;
	asked.end.lane = lane;
	assert_int_equal(smd_lane_attach(lane, asked.end.base, &link_callbacks, &asked.end), 0);
}

static int managed_set_up(void **state)
{
	struct smd_error error = {""};
	char bound[128];
	struct link *link;

	stage_set_up(state);
	link = *state;
	pool = (struct smd_extent){malloc(SMD_RDMA_MEMORY_PIECE), SMD_RDMA_MEMORY_PIECE};
	asked = (struct asked){.end = {.base = link->base, .room = malloc(ROOM)},
		.receive_buffers = calloc(RDMA_BUFFERS, SMD_RDMA_BUFFER_SIZE)};
	smd_transport_rdma.prepare(link->base, "10.0.0.1:7", 5, pool, 1 << 16);
	link_open(link);
	assert_int_equal(smd_transport_rdma.listen(link->base, "10.0.0.1:8", asked_on_accept, NULL,
				 &asked.listener, bound, &error),
		0);
	return 0;
}

static int managed_tear_down(void **state)
{
	int ret;

	if (asked.listener) {
		smd_listener_close(asked.listener);
	}
	ret = stage_tear_down(state);
	free(asked.end.room);
	free(asked.receive_buffers);
	free(pool.base);
	return ret;
}

/* The new id; it is up to the maker what becomes of it. */
static struct rdma_cm_id *ask(struct link *link)
{
	const struct smd_rdma_greeting greeting = {.receive_buffers = RDMA_BUFFERS,
		.address = (uintptr_t)asked.receive_buffers,
		.key = script_expose(
			asked.receive_buffers, (size_t)RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE)};
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct rdma_cm_id *id;

	smd_rdma_greeting_encode(&greeting, bytes);
	id = script_request(bytes, sizeof(bytes));
	stage_turn(link);
	assert_non_null(asked.end.lane);
	return id;
}

/* Who has asked, when the lane has a queue pair. */
static struct peer who_asked(void)
{
	const struct rdma_lane *lane = rdma_lane_of(asked.end.lane);

	return (struct peer){.id = script_id_of_pair(lane->pair.qp),
		.theirs = smd_rdma_lane_greeting(lane),
		.own = {.receive_buffers = RDMA_BUFFERS},
		.receive_buffers = asked.receive_buffers};
}

/* Its trial comes, and is answered. */
static void try_asked(struct peer *peer, struct link *link)
{
	const struct rdma_lane *lane = rdma_lane_of(asked.end.lane);
	const uint8_t *at;

	assert_int_equal(lane->state, RDMA_LANE_TRYING);
	assert_int_equal(peer_messages(peer), 0); /* it may not be joined before it has asked */
	peer_write_trial(peer);
	RUN_UNTIL(link, lane->state == RDMA_LANE_OPEN);
	assert_int_equal(peer_messages(peer), 1);
	assert_true(peer_read(peer, 0, &at).trial);
	assert_false(lane->lane.opening);
	assert_int_equal(asked.end.opened, 0); /* who was asked awaits nothing */
	peer->taken = 1;
}

static void close_asked(struct link *link)
{
	struct rdma_loop *loop = rdma_lane_of(asked.end.lane)->loop;

	asked.end.closed = 0;
	end_close(&asked.end);
	RUN_UNTIL(link, LIST_EMPTY(&loop->drains));
	stage_turn(link);
}

/* The same while that call is under way. */
static void close_asked_before(struct link *link, enum script_call_name name)
{
	struct rdma_loop *loop = rdma_lane_of(asked.end.lane)->loop;

	asked.end.closed = 0;
	end_close(&asked.end);
	slow_end(name);
	RUN_UNTIL(link, LIST_EMPTY(&loop->drains));
	stage_turn(link);
}

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

/* ---- how long that may take ---- */

/* What waits for others is not late; but nobody waits for ever. */
static void who_is_not_made_in_time_is_told(void **state)
{
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	const unsigned accepted = accept->count;
	const unsigned idle = script.live;
	struct link *link = *state;
	struct rdma_lane *lane;

	slow_begin(SCRIPT_pair_create);
	ask(link);
	lane = rdma_lane_of(asked.end.lane);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	event_active(lane->patience, EV_TIMEOUT, 1);
	stage_turn(link);
	assert_int_equal(asked.end.closed, 0);
	assert_true(evtimer_pending(lane->patience, NULL));
	capture_begin();
	lane->loop->settings.connect_s = 0;
	event_active(lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, asked.end.closed);
	end_assert_closed(&asked.end, -ETIMEDOUT, "the device has made no queue pair within 0 s");
	assert_true(capture_has("the device has made no queue pair within 0 s", "warn"));
	capture_end();
	slow_end(SCRIPT_pair_create);
	close_asked(link);
	assert_int_equal(accept->count, accepted);
	assert_int_equal(script.live, idle);
}

/* Who has been heard knows of it, whatever the call still does. */
static void who_is_not_accepted_in_time_is_told(void **state)
{
	struct link *link = *state;
	struct rdma_lane *lane;
	struct peer early;

	for (int heard = 0; heard < 2; heard++) {
		slow_begin(SCRIPT_accept);
		ask(link);
		lane = rdma_lane_of(asked.end.lane);
		RUN_UNTIL(link, is_held(SCRIPT_accept));
		early = who_asked();
		assert_true(evtimer_pending(lane->patience, NULL));
		assert_true(lane->lane.opening);
		if (heard) {
			try_asked(&early, link);
			assert_false(evtimer_pending(lane->patience, NULL));
		} else {
			capture_begin();
			lane->loop->settings.connect_s = 0;
			event_active(lane->patience, EV_TIMEOUT, 1);
			stage_turn(link);
			end_assert_closed(&asked.end, -ETIMEDOUT,
				"the device has not connected the queue pair within 0 s");
			capture_end();
			lane->loop->settings.connect_s = 8;
		}
		slow_end(SCRIPT_accept);
		close_asked(link);
	}
}

/* Who has asked gives up before, and knows why. */
static void who_has_asked_owes_its_trial_in_time(void **state)
{
	const unsigned idle = script.live;
	struct link *link = *state;
	struct rdma_lane *lane;
	struct timeval until;
	struct timeval now;
	struct timeval left;
	unsigned own_s; /* of who asks */

	script.limits.mtu = IBV_MTU_2048;
	ask(link);
	lane = rdma_lane_of(asked.end.lane);
	own_s = lane->loop->settings.connect_s;
	RUN_UNTIL(link, lane->lane.made);
	assert_true(event_pending(lane->patience, EV_TIMEOUT, &until));
	evutil_gettimeofday(&now, NULL);
	evutil_timersub(&until, &now, &left);
	assert_in_range(left.tv_sec, own_s + 1, own_s + 2);
	capture_begin();
	event_active(lane->patience, EV_TIMEOUT, 1);
	stage_turn(link);
	end_assert_closed(&asked.end, -ETIMEDOUT,
		"no message of 4688 bytes has come over RDMA within 7 s: the path must pass "
		"packets of an MTU of 2048");
	assert_true(capture_has(asked.end.reason, "warn"));
	capture_end();
	close_asked(link);
	assert_int_equal(script.live, idle);
}

static struct smd_greeter greeter;

static void greeter_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	(void)owner;
	(void)shard;
	asked.end.lane = lane;
	smd_greeter_take(&greeter, lane);
}

static void listen_with_greeter(struct link *link)
{
	struct smd_error error = {""};
	char bound[128];

	smd_listener_close(asked.listener);
	assert_int_equal(smd_transport_rdma.listen(link->base, "10.0.0.1:8", greeter_on_accept,
				 NULL, &asked.listener, bound, &error),
		0);
}

/* The other end can say HELLO when its lane is accepted and tried, and not before: the maker has to
 * accept it, too. */
static void owes_no_hello_before(struct link *link, enum script_call_name name)
{
	enum { PATIENCE_S = 1, LONGER_US = 1100000 };
	struct rdma_lane *lane;
	struct peer peer;

	greeter = (struct smd_greeter){
		.base = link->base, .name = "shard 0", .nshards = 1, .patience_s = PATIENCE_S};
	capture_begin();
	slow_begin(name);
	ask(link);
	lane = rdma_lane_of(asked.end.lane);
	RUN_UNTIL(link, is_held(name));
	usleep(LONGER_US);
	smd_greeter_check(&greeter);
	assert_false(LIST_EMPTY(&greeter.greetings));
	slow_end(name);
	RUN_UNTIL(link, lane->lane.made);
	usleep(LONGER_US);
	smd_greeter_check(&greeter);
	assert_false(LIST_EMPTY(&greeter.greetings)); /* nor before its trial, */
	peer = who_asked();
	try_asked(&peer, link);
	smd_greeter_check(&greeter);
	assert_false(LIST_EMPTY(&greeter.greetings)); /* it has time from now on, */
	usleep(LONGER_US);
	smd_greeter_check(&greeter);
	assert_true(LIST_EMPTY(&greeter.greetings)); /* and no more than others */
	assert_true(capture_has("it has not said HELLO for 1 s", "warn"));
	capture_end();
	RUN_UNTIL(link, LIST_EMPTY(&rdma_lane_of(link->far.lane)->loop->drains));
}

static void who_is_still_being_made_owes_no_hello(void **state)
{
	listen_with_greeter(*state);
	owes_no_hello_before(*state, SCRIPT_pair_create);
	owes_no_hello_before(*state, SCRIPT_accept);
}

/* Those before it would be the next that are made, and have waited. */
static void the_newest_of_too_many_that_are_being_made_goes(void **state)
{
	enum { MOST_OF_HOST = 2 };
	const struct script_call *accept = &script.calls[SCRIPT_accept];
	const unsigned accepted = accept->count;
	struct rdma_lane *lanes[MOST_OF_HOST + 1];
	struct link *link = *state;

	listen_with_greeter(link);
	greeter = (struct smd_greeter){.base = link->base,
		.name = "shard 0",
		.nshards = 1,
		.patience_s = 10,
		.most = 4 * MOST_OF_HOST};
	capture_begin();
	slow_begin(SCRIPT_pair_create);
	for (int i = 0; i <= MOST_OF_HOST; i++) {
		ask(link);
		lanes[i] = rdma_lane_of(asked.end.lane);
	}
	for (int i = 0; i <= MOST_OF_HOST; i++) {
		assert_int_equal(lanes[i]->closed, i == MOST_OF_HOST);
	}
	assert_true(capture_has("it is still being made, and 2 others of its address", "warn"));
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, lanes[0]->lane.made && lanes[1]->lane.made);
	assert_int_equal(accept->count, accepted + MOST_OF_HOST);
	slow_begin(SCRIPT_id_destroy); /* so that the lane is there to be looked at */
	ask(link);
	assert_true(lanes[0]->closed); /* who has been made goes before who comes */
	assert_false(lanes[1]->closed);
	slow_end(SCRIPT_id_destroy);
	smd_greeter_close(&greeter);
	capture_end();
	RUN_UNTIL(link, LIST_EMPTY(&rdma_lane_of(link->far.lane)->loop->drains));
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
		smd_transport_rdma.prepare(link->base, "10.0.0.2:7", shard, pool, 1 << 16);
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
		STAGE(who_is_not_made_in_time_is_told),
		STAGE(who_is_not_accepted_in_time_is_told),
		STAGE(who_has_asked_owes_its_trial_in_time),
		STAGE(who_is_still_being_made_owes_no_hello),
		STAGE(the_newest_of_too_many_that_are_being_made_goes),
		STAGE(what_is_prepared_is_on_the_card_of_the_address),
		STAGE(a_failed_pair_ends_its_own_lane),
		STAGE(a_failed_queue_ends_all),
		STAGE(a_failed_device_ends_all),
		STAGE(a_removal_that_a_lane_hears_is_the_cards),
	};

	return cmocka_run_group_tests_name("rdma managed", tests, NULL, NULL);
}
