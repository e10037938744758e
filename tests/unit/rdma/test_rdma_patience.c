/*
 * How long a lane that the connection manager connects may take: until its maker has made it, until
 * it is accepted, until its trial has come, and HELLO; and which goes when there are too many.
 */
#include <errno.h>
#include <event2/event.h>
#include <unistd.h>

#include "reduction_server/engine/greeting.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/asked.h"

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
	lane->loop->settings.connect_s = 8; /* or the maker would be given up at once */
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

#define STAGE(test) cmocka_unit_test_setup_teardown(test, managed_set_up, managed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(who_is_not_made_in_time_is_told),
		STAGE(who_is_not_accepted_in_time_is_told),
		STAGE(who_has_asked_owes_its_trial_in_time),
		STAGE(who_is_still_being_made_owes_no_hello),
		STAGE(the_newest_of_too_many_that_are_being_made_goes),
	};

	return cmocka_run_group_tests_name("rdma patience", tests, NULL, NULL);
}
