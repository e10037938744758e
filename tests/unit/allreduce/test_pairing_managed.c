/*
 * What holds for lanes that take as much to make as those that are made over others
 * (test_pairing.c), and connect by themselves, as by RDMA's connection manager: how many are made
 * at once, what is tried again, and when the next transport comes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/pairing.h"

static int itself_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	int ret;

	if (atomic_load(&pairing_moods.workers)) {
		atomic_fetch_sub(&pairing_moods.workers, 1);
		return smd_error_set(error, -pairing_moods.err, "it is in no mood");
	}
	ret = smd_transport_find("carried")->connect(
		base, address, origin, shard, callbacks, owner, out, error);
	if (ret == 0) {
		(*out)->ops = &pairing_moody;
	}
	return ret;
}

static int set_up_itself(void **state)
{
	pairing_set_up(state);
	pairing_moody.connect = itself_connect;
	smd_carried_trials.itself = true;
	return 0;
}

static int tear_down_itself(void **state)
{
	(void)state;
	smd_carried_trials.itself = false;
	return 0;
}

static void few_connect_at_once(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", SMD_SHARDS_MAX, false, NULL);
	assert_int_equal(pairing_work(&pool, "carried", 60), 0);
	assert_in_range(smd_carried_trials.most, 2, 8);
	assert_int_equal(smd_carried_trials.answering, 0);
	pool_stop(&pool);
}

static void what_passes_is_tried_once_more(void **state)
{
	static const int passes[] = {-EAGAIN, -EBUSY, -EIO};
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 1, false, NULL);
	for (size_t i = 0; i < 1 + sizeof(passes) / sizeof(passes[0]); i++) {
		pairing_moods.err = i ? passes[i - 1] : 0;
		pairing_moods.workers = i > 0;
		smd_carried_trials.time_out = i == 0;
		capture_begin();
		assert_int_equal(pairing_work(&pool, "either", 60), 0);
		assert_true(capture_has("tries carried again: it is", NULL));
		assert_true(capture_has("shard 0: goes over carried", NULL));
		capture_end();
	}
	pool_stop(&pool);
}

/* A fabric that drops all, or a server without a device: one lane of each server finds it out. */
static void who_does_not_answer_is_asked_by_one_lane(void **state)
{
	enum { ALL = 1000, SERVERS = 8, SHARDS = 8 };
	struct smd_server_config configs[SERVERS];
	struct pool pool;

	(void)state;
	for (int i = 0; i < SERVERS; i++) {
		configs[i] = pairing_configure(SHARDS, false, NULL);
	}
	pool_start(&pool, "tcp", SERVERS, configs);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 4, SERVERS * 2);
	assert_true(capture_has(
		"go over tcp: it does not answer over carried: it is to time out", "warn"));
	assert_true(capture_has(
		"nothing comes over carried from 2 servers: lanes to all servers go over tcp",
		"warn"));
	capture_end();
	pool_stop(&pool);
}

static void what_has_worked_is_tried_when_a_server_returns(void **state)
{
	(void)state;
	pairing_return_twice(&smd_carried_trials.time_out);
}

static void a_device_that_is_away_for_a_moment_is_tried_again(void **state)
{
	(void)state;
	pairing_moods.err = -ENODEV;
	pairing_return_twice(&pairing_moods.workers);
}

/* One rank of two servers whose lanes have rested, and wake. */
struct woken {
	struct smd_server_config configs[2];
	struct pool pool;
	smd_context *context;
	smd_comm *comm;
};

static void woken_begin(struct woken *woken)
{
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};

	for (int i = 0; i < 2; i++) {
		woken->configs[i] = pairing_configure(1, false, NULL);
		woken->configs[i].idle_s = 1;
	}
	setenv("SUMMAND_HEARTBEAT_LIMIT", "3", 1);
	pool_start(&woken->pool, "tcp", 2, woken->configs);
	options.servers = woken->pool.list;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &woken->context), 0);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
	while (capture_count("is made again for the next group") < 2) {
		usleep(10000);
	}
}

static void woken_wake(struct woken *woken)
{
	assert_int_equal(smd_comm_create(woken->context, "group", 1, 0, &woken->comm), 0);
}

static void woken_end(struct woken *woken)
{
	smd_comm_destroy(woken->comm);
	smd_context_destroy(woken->context);
	capture_end();
	pool_stop(&woken->pool);
}

/* Such lanes may be as long in coming as they were at first, and are tried twice. */
static void lanes_that_wake_have_their_time(void **state)
{
	struct woken woken;

	(void)state;
	woken_begin(&woken);
	assert_int_equal(capture_count("goes over carried"), 2);
	smd_carried_trials.time_out = 1;
	smd_carried_trials.time_out_ms = 2000;
	woken_wake(&woken);
	assert_true(capture_has("tries carried again: it is to time out", NULL));
	assert_int_equal(capture_count("goes over carried"), 4);
	woken_end(&woken);
}

/* They have no time for what is known to be silent: all of them would look again while a group
 * waits. */
static void lanes_that_wake_do_not_try_what_was_in_vain(void **state)
{
	enum { ALL = 1000 };
	struct woken woken;
	unsigned tries;

	(void)state;
	smd_carried_trials.time_out = ALL;
	woken_begin(&woken);
	assert_true(capture_has("lanes to all servers go over tcp", "warn"));
	assert_int_equal(capture_count("goes over tcp"), 2);
	tries = ALL - smd_carried_trials.time_out;
	woken_wake(&woken);
	assert_int_equal(capture_count("goes over tcp"), 4);
	assert_int_equal(ALL - smd_carried_trials.time_out, tries);
	woken_end(&woken);
}

/* That lanes of another transport woke in a short time is nothing to a server that returns. */
static void a_server_that_returns_after_a_wake_has_its_time(void **state)
{
	struct woken woken;

	(void)state;
	pairing_moods.err = -EHOSTUNREACH;
	pairing_moods.workers = 2;
	woken_begin(&woken);
	assert_int_equal(capture_count("goes over tcp"), 2);
	woken_wake(&woken);
	smd_carried_trials.time_out = 1;
	smd_carried_trials.time_out_ms = 2000;
	pairing_return_server(&woken.pool, &woken.configs[0], 1);
	assert_true(capture_has("tries tcp after carried: it is to time out", NULL));
	woken_end(&woken);
}

/* The next transport must have its time, whatever the first one's patience is. */
static void half_of_the_time_is_left_for_others(void **state)
{
	enum { ALL = 1000 };
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", 2, false, NULL);
	smd_carried_trials.silent = ALL;
	capture_begin();
	assert_int_equal(pairing_work(&pool, "either", 2), 0);
	assert_true(capture_has(
		"tries tcp after carried: no answer within half of the time to connect", NULL));
	assert_int_equal(capture_count("goes over tcp"), 2);
	capture_end();
	smd_carried_trials.silent = 0;
	pool_stop(&pool);
}

#define ITSELF(test) cmocka_unit_test_setup_teardown(test, set_up_itself, tear_down_itself)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ITSELF(few_connect_at_once),
		ITSELF(what_passes_is_tried_once_more),
		ITSELF(who_does_not_answer_is_asked_by_one_lane),
		ITSELF(what_has_worked_is_tried_when_a_server_returns),
		ITSELF(a_device_that_is_away_for_a_moment_is_tried_again),
		ITSELF(lanes_that_wake_have_their_time),
		ITSELF(lanes_that_wake_do_not_try_what_was_in_vain),
		ITSELF(a_server_that_returns_after_a_wake_has_its_time),
		ITSELF(half_of_the_time_is_left_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
