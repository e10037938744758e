/*
 * A job that does nothing lets its processors rest: threads look after their lanes from time to
 * time, both ends of a lane are asked whether they live, and nothing else wakes anybody. Lanes from
 * rank to rank wake nobody at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/fixture.h"

enum {
	RANKS = 3,
	SERVERS = 2,
	SHARDS = 3,   /* of both */
	BEFORE_S = 3, /* what has been granted is given back a second or two after the last
			 operation */
	/* Less than two looks of a server, and than from one question of a rank to its next: no
	 * thread's figure depends on when it begins by more than one look. */
	REST_MS = 1990,
	LOOKS = REST_MS / 1000 + 1, /* where the limit of silence is long, a second apart */
	RANK_PERIOD_MS = SMD_HEARTBEAT_SERVER_DEFAULT_MS / SMD_HEARTBEAT_POLLS,
	RANK_LOOKS = REST_MS / RANK_PERIOD_MS + 1,
	/* A rank asks at the first look when a third of the limit is over, before a shard would. */
	QUESTION_MS = (SMD_HEARTBEAT_POLLS / 3 + 1) * RANK_PERIOD_MS,
	QUESTIONS = REST_MS / QUESTION_MS + 1,
	OF_A_RANK = RANK_LOOKS + SHARDS * QUESTIONS, /* a PONG wakes it, or two at once, */
	OF_A_SHARD = LOOKS + RANKS * QUESTIONS,      /* and so does a PING */
	OF_ACCEPTING = LOOKS,                        /* of the thread of a server that does it */
	THE_COUNTING = 1,                            /* that thread sleeps, too */
	LONG_S = 60, /* a limit of silence of which a third is longer than all of it here */
	TIMES = 6,   /* on a busy host the job may not rest yet at first */
};

static pthread_barrier_t rested;

/* Each time that a thread of this process goes to sleep it has been awake. */
static long wake_ups(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

struct pause {
	long most;  /* wake-ups that there may be, */
	long woken; /* and that there were */
};

static void work_and_rest(struct pool_rank *rank)
{
	float values[20000] = {1};

	CHECK(smd_allreduce(rank->comm, values, values, 20000, SMD_FLOAT32, SMD_SUM) == 0);
	if (rank->rank == 0) {
		struct pause *pause = rank->argument;

		sleep(BEFORE_S);
		pause->woken = pause->most + 1;
		for (unsigned i = 0; i < TIMES && pause->woken > pause->most; i++) {
			long before = wake_ups();

			usleep(REST_MS * 1000);
			pause->woken = wake_ups() - before;
		}
	}
	pthread_barrier_wait(&rested);
}

static void run(struct pause *pause, unsigned server_limit_ms)
{
	const struct smd_server_config configs[SERVERS] = {
		{.shards = SHARDS - 1, .heartbeat_ms = server_limit_ms},
		{.shards = 1, .heartbeat_ms = server_limit_ms},
	};
	struct pool pool;

	pthread_barrier_init(&rested, NULL, RANKS);
	pool_start(&pool, "tcp", SERVERS, configs);
	pool_run(&pool, RANKS, "rest", work_and_rest, pause);
	pool_stop(&pool);
	pthread_barrier_destroy(&rested);
	print_message("%ld times in %d ms, %ld at most\n", pause->woken, REST_MS, pause->most);
	assert_in_range(pause->woken, 1, pause->most);
}

/* Nobody asks whether the other lives. */
static void nothing_but_looks_wakes_an_idle_job(void **state)
{
	struct pause pause = {
		.most = (RANKS + SHARDS + SERVERS) * LOOKS + THE_COUNTING,
	};
	char limit[16];

	(void)state;
	snprintf(limit, sizeof(limit), "%d", LONG_S);
	setenv("SUMMAND_HEARTBEAT_LIMIT", limit, 1);
	run(&pause, LONG_S * 1000);
}

static void heartbeats_do_as_often_as_they_must(void **state)
{
	struct pause pause = {
		.most = RANKS * OF_A_RANK + SHARDS * OF_A_SHARD + SERVERS * OF_ACCEPTING +
			THE_COUNTING,
	};

	(void)state;
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
	run(&pause, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_but_looks_wakes_an_idle_job),
		cmocka_unit_test(heartbeats_do_as_often_as_they_must),
	};

	/* libevent's usual clock is up to a tick of the kernel behind the one that ends its sleep:
	 * on a busy host it then sleeps again, a millisecond at a time, four times for one look. */
	setenv("EVENT_PRECISE_TIMER", "1", 1);
	return cmocka_run_group_tests(tests, NULL, pool_check_exchanged);
}
