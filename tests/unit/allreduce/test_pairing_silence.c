/*
 * Lanes that are made over others on a fabric over which nothing comes: what one lane has found out
 * the others are spared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/pairing.h"

enum { ALL = 1000 };

/* A fabric may drop all that crosses, and a server may have many lanes: what the first has found
 * out the others need not. */
static void where_nothing_comes_the_others_are_spared(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", SMD_SHARDS_MAX, true, NULL);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	assert_true(capture_has("go over tcp: both ends have what carried needs, and nothing comes "
				"over it: it is to time out",
		"warn"));
	/* One card of the server's may be cut off, whose lanes come later. */
	smd_carried_trials.open = 1;
	smd_carried_trials.time_out = ALL;
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 8 * 2, 8 * 2 + 8);
	capture_end();
	pool_stop(&pool);
}

/* That the path is not there the card may say itself, as where nobody answers for the other end's
 * address on Ethernet: each lane would wait for that as well. */
static void where_there_is_no_path_the_others_are_spared(void **state)
{
	struct pool pool;

	(void)state;
	pairing_start(&pool, "tcp", SMD_SHARDS_MAX, true, NULL);
	smd_carried_trials.no_path = ALL;
	capture_begin();
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_int_equal(ALL - smd_carried_trials.no_path, 2);
	assert_true(capture_has("go over tcp: both ends have what carried needs, and nothing comes "
				"over it: there is to be no path",
		"warn"));
	capture_end();
	pool_stop(&pool);
}

static void where_nothing_comes_from_two_servers_the_others_are_spared(void **state)
{
	enum { SERVERS = 8, SHARDS = 8 };
	struct smd_server_config configs[SERVERS];
	struct pool pool;

	(void)state;
	for (int i = 0; i < SERVERS; i++) {
		configs[i] = pairing_configure(SHARDS, true, NULL);
	}
	pool_start(&pool, "tcp", SERVERS, configs);
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(pairing_work(&pool, "either", 60), 0);
	assert_in_range(ALL - smd_carried_trials.time_out, 4, SERVERS * 2);
	assert_true(capture_has(
		"nothing comes over carried from 2 servers: lanes to all servers go over tcp",
		"warn"));
	capture_end();
	pool_stop(&pool);
}

/* What was found out holds for a server that returns, which has little time, and counts once. */
static void what_was_in_vain_is_not_tried_when_a_server_returns(void **state)
{
	enum { SHARDS = 2, TIMES = 3 };
	const struct smd_server_config config = pairing_configure(SHARDS, true, NULL);
	const struct smd_server_config both[] = {config, pairing_configure(1, false, NULL)};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = "either", .connect_timeout_s = 60};
	smd_context *context;
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, both);
	options.servers = pool.list;
	smd_carried_trials.time_out = ALL;
	capture_begin();
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	for (unsigned i = 0; i < TIMES; i++) {
		pairing_return_server(&pool, &config, 1 + i);
	}
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	assert_int_equal(capture_count("nothing comes over it"), 1);
	assert_false(capture_has("lanes to all servers go over tcp", NULL));
	smd_context_destroy(context);
	capture_end();
	pool_stop(&pool);
}

/* One rank, with two servers. */
struct alone {
	struct pool pool;
	smd_context *context;
	smd_comm *comm;
};

static void alone_sums(const struct alone *alone)
{
	int32_t value = 7;

	assert_int_equal(smd_allreduce(alone->comm, &value, &value, 1, SMD_INT32, SMD_SUM), 0);
	assert_int_equal(value, 7);
}

static void alone_begin(struct alone *alone, const char *transport)
{
	const struct smd_server_config config = pairing_configure(1, true, NULL);
	const struct smd_server_config both[] = {config, config};
	struct smd_context_options options = {
		.replica = "worker", .job = "job", .transport = transport, .connect_timeout_s = 60};

	pool_start(&alone->pool, "tcp", 2, both);
	options.servers = alone->pool.list;
	assert_int_equal(smd_context_create(&options, &alone->context), 0);
	assert_int_equal(smd_comm_create(alone->context, "group", 1, 0, &alone->comm), 0);
	alone_sums(alone);
}

static void alone_end(struct alone *alone)
{
	smd_comm_destroy(alone->comm);
	smd_context_destroy(alone->context);
	pool_stop(&alone->pool);
}

/* Where no other server is left, one that answers has the time that its lane takes, as another
 * device that has to be opened first. */
static void the_last_server_that_answers_has_its_time(void **state)
{
	struct alone alone;

	(void)state;
	alone_begin(&alone, "either");
	smd_carried_trials.time_out = ALL; /* so lanes go over TCP, after that: */
	smd_carried_trials.time_out_ms = 1500;
	pool_lose_first(alone.context, 2);
	alone_sums(&alone);
	assert_in_range(ALL - smd_carried_trials.time_out, 1, 4);
	alone_end(&alone);
}

static void stand_still(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	usleep(1500000);
}

/* Its host has taken the connection, as of a process that has much to do. */
static void the_last_server_that_stands_still_is_waited_for(void **state)
{
	const struct timeval now = {0, 0};
	struct alone alone;

	(void)state;
	alone_begin(&alone, "tcp");
	for (int i = 0; i < 2; i++) {
		event_base_once(
			alone.pool.servers[i].base, -1, EV_TIMEOUT, stand_still, NULL, &now);
	}
	pool_lose_first(alone.context, 2);
	alone_sums(&alone);
	alone_end(&alone);
}

#define TEST(test) cmocka_unit_test_setup(test, pairing_set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(where_nothing_comes_the_others_are_spared),
		TEST(where_there_is_no_path_the_others_are_spared),
		TEST(where_nothing_comes_from_two_servers_the_others_are_spared),
		TEST(what_was_in_vain_is_not_tried_when_a_server_returns),
		TEST(the_last_server_that_answers_has_its_time),
		TEST(the_last_server_that_stands_still_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
