/*
 * A job that does nothing lets its processors rest: threads look after their lanes from time to
 * time, both ends of a lane are asked whether they live, and nothing else wakes anybody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/fixture.h"

enum {
	RANKS = 3,
	SERVERS = 2,
	THREADS = 2,  /* of a server: a shard, and the one that accepts */
	BEFORE_S = 3, /* what has been granted is given back a second or two after the last
			 operation */
	REST_S = 3,
	SERVER_LOOKS = SERVERS * THREADS * (REST_S + 1),
	RANK_LIMIT_S = 5, /* of silence; a server's is longer */
	RANK_LOOKS = RANKS * (REST_S * SMD_HEARTBEAT_POLLS / RANK_LIMIT_S + 1),
	ASKED = 2, /* in that time at most: a third of the limit apart */
	HEARTBEATS = SERVERS * RANKS * ASKED * 2, /* PING wakes the one end and PONG the other */
	MOST = SERVER_LOOKS + RANK_LOOKS + HEARTBEATS + 1,
	TIMES = 3, /* on a busy host the job may not rest yet at first */
};

static pthread_barrier_t rested;

/* Each time that a thread of this process goes to sleep it has been awake. */
static long wake_ups(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

static void work_and_rest(struct pool_rank *rank)
{
	float values[20000] = {1};

	CHECK(smd_allreduce(rank->comm, values, values, 20000, SMD_FLOAT32, SMD_SUM) == 0);
	if (rank->rank == 0) {
		long *woken = rank->argument;

		sleep(BEFORE_S);
		*woken = MOST + 1;
		for (unsigned i = 0; i < TIMES && *woken > MOST; i++) {
			long before = wake_ups();

			sleep(REST_S);
			*woken = wake_ups() - before;
		}
	}
	pthread_barrier_wait(&rested);
}

static void nothing_but_heartbeats_wakes_an_idle_job(void **state)
{
	const struct smd_server_config configs[SERVERS] = {{.shards = 1}, {.shards = 1}};
	struct pool pool;
	long woken = 0;

	(void)state;
	pthread_barrier_init(&rested, NULL, RANKS);
	pool_start(&pool, "tcp", SERVERS, configs);
	pool_run(&pool, RANKS, "rest", work_and_rest, &woken);
	pool_stop(&pool);
	pthread_barrier_destroy(&rested);
	print_message("%ld times in %d s; looks: %d, heartbeats: %d at most\n", woken, REST_S,
		SERVER_LOOKS + RANK_LOOKS, HEARTBEATS);
	assert_in_range(woken, 1, MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_but_heartbeats_wakes_an_idle_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
