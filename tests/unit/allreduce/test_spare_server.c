/*
 * Spare servers: nothing is dealt to them for as long as others serve and operations gain nothing by
 * them, and everything when no other is left (specs/design/epochs.md, hybrid.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/tuning.h"

enum { RANKS = 3, SERVERS = 3, COUNT = 30000, SOME = 12 };

/* The first serves, the others are spare. Nobody waits for an end that does not come, no machine is so
 * slow that somebody seems to be silent, and there is memory for the streams of other tables. */
#define PATIENT .shards = 2, .memory_bytes = 256u << 20, .drain_s = 3600, .heartbeat_ms = 600000
static const struct smd_server_config one_serves[SERVERS] = {
	{PATIENT}, {PATIENT, .spare = true}, {PATIENT, .spare = true}};
static const struct smd_server_config all_spare[SERVERS] = {
	{.spare = true}, {.spare = true}, {.spare = true}};

/* What rank 0 has measured, when a test says so: that all should have the same. */
static atomic_bool wants_all;
static atomic_uint given; /* how many shards have got something by that */

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	(void)now_ns;
	if (!atomic_exchange(&wants_all, false)) {
		return false;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	tuning->scale = 0;
	for (unsigned s = 0; s < tuning->nshards; s++) {
		atomic_fetch_add(&given, tuning->shards[s].weight == 0);
		CHECK((tuning->shards[s].weight == 0) == (tuning->shards[s].spare != 0));
		tuning->weights[s] = tuning->shards[s].weight ? tuning->shards[s].weight
							      : tuning->shards[s].spare;
	}
	return true;
}

struct history {
	struct pool *pool;
	void (*happens)(struct pool *pool); /* while ranks work; NULL: nothing */
	atomic_uint begun;
	atomic_bool over;
};

static bool goes_on(struct pool_rank *rank, bool mine)
{
	int32_t more = rank->rank == 0 && mine;

	CHECK(smd_broadcast(rank->comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

static void work(struct pool_rank *rank)
{
	struct history *history = rank->argument;
	float *buffer = malloc(COUNT * sizeof(*buffer));
	int k = 0;

	do {
		for (int some = 0; some < SOME; some++, k++) {
			pool_fill(buffer, rank->rank, k, COUNT);
			CHECK(smd_allreduce(rank->comm, buffer, buffer, COUNT, SMD_FLOAT32,
				      SMD_SUM) == 0);
			pool_check_sum(buffer, RANKS, k, COUNT);
		}
		atomic_fetch_add(&history->begun, k == SOME);
	} while (goes_on(rank, !atomic_load(&history->over)));
	free(buffer);
}

static void *watch(void *arg)
{
	struct history *history = arg;

	while (atomic_load(&history->begun) < RANKS) {
		usleep(1000);
	}
	if (history->happens) {
		history->happens(history->pool);
	}
	atomic_store(&history->over, true);
	return NULL;
}

static void run(struct pool *pool, const struct smd_server_config *configs,
	void (*happens)(struct pool *pool))
{
	struct history history = {.pool = pool, .happens = happens};
	pthread_t thread;

	pool_start(pool, "tcp", SERVERS, configs);
	CHECK(pthread_create(&thread, NULL, watch, &history) == 0);
	pool_run(pool, RANKS, "spare", work, &history);
	pthread_join(thread, NULL);
	pool_stop(pool);
}

static uint64_t chunks_of(const struct pool *pool, unsigned server)
{
	return pool->servers[server].stats.chunks;
}

static void nothing_is_dealt_to_them(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, one_serves, NULL);
	assert_true(chunks_of(&pool, 0) > 0);
	assert_int_equal(chunks_of(&pool, 1), 0);
	assert_int_equal(chunks_of(&pool, 2), 0);
}

static void give_all(struct pool *pool)
{
	(void)pool;
	atomic_store(&wants_all, true);
	capture_await("epoch 1", "with 6 shards");
}

static void they_get_what_they_declare_when_they_are_tried(void **state)
{
	struct pool pool;

	(void)state;
	atomic_store(&given, 0);
	run(&pool, one_serves, give_all);
	assert_int_equal(atomic_load(&given), 4);
	assert_true(chunks_of(&pool, 1) > 0);
	assert_true(chunks_of(&pool, 2) > 0);
}

static void lose_the_first(struct pool *pool)
{
	pool_end_server(pool, 0, 1);
	capture_await("with 4 shards", NULL);
}

static void they_serve_when_no_other_is_left(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, one_serves, lose_the_first);
	assert_true(chunks_of(&pool, 1) > 0);
	assert_true(chunks_of(&pool, 2) > 0);
}

static void drain_the_first(struct pool *pool)
{
	pool_end_server(pool, 0, 0);
}

static void so_they_do_when_the_others_are_drained(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, one_serves, drain_the_first);
	assert_true(chunks_of(&pool, 1) > 0);
	assert_true(chunks_of(&pool, 2) > 0);
}

/* It is in the table, with streams of the first epoch alone: these are left. */
static void drain_a_spare_one(struct pool *pool)
{
	pool_end_server(pool, 1, 0);
}

static void one_of_them_is_drained(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, one_serves, drain_a_spare_one);
	assert_int_equal(chunks_of(&pool, 1), 0);
	assert_int_equal(chunks_of(&pool, 2), 0);
}

static void lose_a_spare_one(struct pool *pool)
{
	char serves[160];

	pool_end_server(pool, 1, 1);
	capture_await("epoch 1", "with 2 shards");
	pool_restart_server(pool, 1, &one_serves[1]);
	snprintf(serves, sizeof(serves), "reduction server %s is there and serves again",
		pool->servers[1].address);
	capture_await(serves, NULL);
	pool_end_server(pool, 0, 1);
	capture_await("epoch 3", "with 2 shards"); /* so the other spare one has nothing to do yet */
}

/* What ranks agree on must cross it if no other is left. */
static void one_that_was_lost_serves_when_it_is_back(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, one_serves, lose_a_spare_one);
	assert_true(chunks_of(&pool, 1) > 0);
	assert_int_equal(chunks_of(&pool, 2), 0);
}

/* A mistake, which costs nothing. */
static void where_all_are_spare_all_serve(void **state)
{
	struct pool pool;

	(void)state;
	run(&pool, all_spare, NULL);
	for (unsigned i = 0; i < SERVERS; i++) {
		assert_true(chunks_of(&pool, i) > 0);
	}
}

#define WATCHED(test) cmocka_unit_test_setup_teardown(test, capture_set_up, capture_tear_down)

/* ---- what servers carry ---- */

static void what_they_carry_is_known_where_each_that_serves_knows_it(void **state)
{
	static const struct {
		struct smd_server_config first;
		struct smd_server_config second;
		uint32_t mbps;
	} cases[] = {
		{{.shards = 2, .bandwidth_mbps = 400}, {.bandwidth_mbps = 100}, 500},
		{{.shards = 1, .bandwidth_mbps = 400, .guessed = true}, {.bandwidth_mbps = 100}, 0},
		{{.shards = 1, .bandwidth_mbps = 400}, {.bandwidth_mbps = 0}, 0},
		{{.shards = 1, .bandwidth_mbps = 400}, {.guessed = true, .spare = true}, 400},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct smd_server_config configs[] = {cases[i].first, cases[i].second};
		struct pool pool;
		smd_context *context;

		pool_start(&pool, "tcp", 2, configs);
		context = pool_context(&pool, 0);
		assert_int_equal(smd_context_server_mbps(context), cases[i].mbps);
		smd_context_destroy(context);
		pool_stop(&pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCHED(nothing_is_dealt_to_them),
		WATCHED(they_get_what_they_declare_when_they_are_tried),
		WATCHED(they_serve_when_no_other_is_left),
		WATCHED(so_they_do_when_the_others_are_drained),
		WATCHED(one_of_them_is_drained),
		WATCHED(one_that_was_lost_serves_when_it_is_back),
		WATCHED(where_all_are_spare_all_serve),
		cmocka_unit_test(what_they_carry_is_known_where_each_that_serves_knows_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
