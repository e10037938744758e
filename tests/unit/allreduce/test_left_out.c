/*
 * A table may deal nothing to a server that stays (worker/libsummand/server_choice.h). Then the
 * others leave, or are lost: it serves again, and every result is what it would have been.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/tuning.h"

enum { RANKS = 2, SERVERS = 2, LARGE = 30000, STAYS = 0, LEFT_OUT = 1 };

/* Who waits for a server's end waits for longer than the test may take, and nobody seems silent. */
static const struct smd_server_config patient = {
	.memory_bytes = 256u << 20, .drain_s = 3600, .heartbeat_ms = 600000};

static atomic_bool leaves_out; /* the next table does */
static atomic_ullong may_leave;

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

/* Instead of what rank 0 has measured. */
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	(void)now_ns;
	atomic_store(&may_leave, tuning->servers.may_leave);
	if (!atomic_exchange(&leaves_out, false)) {
		return false;
	}
	tuning->cause = SMD_TUNING_SERVERS;
	tuning->scale = 0;
	tuning->servers.wanted = 1 << LEFT_OUT;
	for (unsigned s = 0; s < tuning->nshards; s++) {
		tuning->weights[s] = tuning->shards[s].server == STAYS ? 10000 : 0;
	}
	return true;
}

struct history {
	struct pool *pool;
	bool drains; /* or is lost */
	bool comes;  /* it had been lost itself, and came back */
	bool rests;  /* no operation begins meanwhile */
	atomic_uint ready;
	atomic_bool over;
};

static void reduce_and_check(struct smd_comm *comm, int rank, int operation)
{
	static _Thread_local float buffer[LARGE];

	pool_fill(buffer, rank, operation, LARGE);
	CHECK(smd_allreduce(comm, buffer, buffer, LARGE, SMD_FLOAT32, SMD_SUM) == 0);
	pool_check_sum(buffer, RANKS, operation, LARGE);
}

/* All ranks do the same: rank 0 says whether it goes on. */
static bool goes_on(struct smd_comm *comm, int rank, bool mine)
{
	int32_t more = rank == 0 && mine;

	CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

static bool has_another_table(struct smd_context *context)
{
	struct smd_stats stats;

	smd_context_stats(context, &stats);
	return stats.epochs > 0;
}

static void run_operations(struct pool_rank *rank)
{
	struct history *history = rank->argument;
	int k = 0;

	do {
		reduce_and_check(rank->comm, rank->rank, k++);
	} while (goes_on(rank->comm, rank->rank,
		!history->comes && !has_another_table(rank->context)));
	atomic_fetch_add(&history->ready, 1);
	while (history->rests && !atomic_load(&history->over)) {
		usleep(1000);
	}
	do {
		reduce_and_check(rank->comm, rank->rank, k++);
	} while (goes_on(rank->comm, rank->rank, !atomic_load(&history->over)));
	for (int more = 0; more < 6; more++) {
		reduce_and_check(rank->comm, rank->rank, k++);
	}
}

static void *end_server(void *arg)
{
	struct history *history = arg;

	while (atomic_load(&history->ready) < RANKS) {
		usleep(1000);
	}
	if (history->comes) {
		pool_end_server(history->pool, LEFT_OUT, 1);
		pool_restart_server(history->pool, LEFT_OUT, &patient);
		capture_await("is there and serves again", NULL);
	} else { /* returns when it has ended */
		pool_end_server(history->pool, STAYS, !history->drains);
	}
	atomic_store(&history->over, true);
	return NULL;
}

static void run(struct history *history)
{
	const struct smd_server_config configs[SERVERS] = {patient, patient};
	struct pool pool;
	pthread_t thread;

	history->pool = &pool;
	atomic_store(&leaves_out, !history->comes);
	pool_start(&pool, "tcp", SERVERS, configs);
	CHECK(pthread_create(&thread, NULL, end_server, history) == 0);
	pool_run(&pool, RANKS, "left", run_operations, history);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	assert_true(!history->drains || !capture_has("warn libsummand", NULL));
	assert_false(capture_has("error libsummand", NULL));
	assert_false(capture_has("a shard has 1 Mbit/s", NULL)); /* as if it were worth nothing */
}

static void it_serves_where_the_others_are_drained(void **state)
{
	struct history works = {.drains = true};
	struct history rests = {.drains = true, .rests = true};

	(void)state;
	run(&works);
	run(&rests);
}

static void it_serves_where_the_others_are_lost(void **state)
{
	struct history works = {.drains = false};
	struct history rests = {.rests = true};

	(void)state;
	run(&works);
	run(&rests);
}

/* Ranks agree through streams of the first table, which one that came back has not: it could not be
 * told that it serves again. */
static void one_that_came_back_is_not_left_out(void **state)
{
	struct history history = {.comes = true};

	(void)state;
	run(&history);
	assert_int_equal(atomic_load(&may_leave), 1 << STAYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_serves_where_the_others_are_drained), /* without a warning */
		cmocka_unit_test(it_serves_where_the_others_are_lost),
		cmocka_unit_test(one_that_came_back_is_not_left_out),
	};
	int ret;

	setenv("SUMMAND_HEARTBEAT_LIMIT", "600s", 1);
	capture_begin();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	capture_end();
	return ret;
}
