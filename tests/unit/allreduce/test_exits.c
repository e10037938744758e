/*
 * Ranks that end as programs do: exit() after the last operation, without leaving their groups.
 * What every rank has contributed to is delivered to every rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"

enum { NRANKS = 4, OPERATIONS = 3, COUNT = 1 << 20 };

/* This program as one rank: SERVERS GROUP RANK LAST. */
static int run_rank(char **argv)
{
	const struct smd_context_options options = {.servers = argv[1], .job = "exits"};
	int rank = atoi(argv[3]);
	float *values = calloc(COUNT, sizeof(*values));
	smd_context *context;
	smd_comm *comm;

	CHECK(smd_context_create(&options, &context) == 0);
	CHECK(smd_comm_create(context, argv[2], NRANKS, rank, &comm) == 0);
	for (int i = 0; i < OPERATIONS; i++) {
		CHECK(smd_allreduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	}
	if (strcmp(argv[4], "barrier") == 0) {
		CHECK(smd_barrier(comm) == 0);
	} else if (strcmp(argv[4], "reduce") == 0) {
		CHECK(smd_reduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, 1) == 0);
	} else if (strcmp(argv[4], "broadcast") == 0) {
		CHECK(smd_broadcast(comm, values, COUNT, SMD_FLOAT32, 2) == 0);
	}
	free(values);
	exit(EXIT_SUCCESS);
}

static void run_round(const struct pool *pool, int round, const char *last)
{
	pid_t ranks[NRANKS];
	char group[32];
	int failed = 0;

	snprintf(group, sizeof(group), "%s %d", last, round);
	for (int r = 0; r < NRANKS; r++) {
		char rank[12];
		char *argv[] = {
			(char *)"rank", (char *)pool->list, group, rank, (char *)last, NULL};

		snprintf(rank, sizeof(rank), "%d", r);
		assert_int_equal(
			posix_spawn(&ranks[r], "/proc/self/exe", NULL, NULL, argv, environ), 0);
	}
	for (int r = 0; r < NRANKS; r++) {
		int status;

		assert_int_equal(waitpid(ranks[r], &status, 0), ranks[r]);
		failed += status != 0;
	}
	if (failed) {
		fail_msg("%d of %d ranks failed in round %d", failed, NRANKS, round);
	}
}

struct last {
	const char *what;
	int rounds;
};

static void nobody_loses_what_all_have_contributed_to(void **state)
{
	const struct last *last = *state;
	struct pool pool;

	pool_start(&pool, "tcp", 2, NULL);
	for (int i = 0; i < last->rounds; i++) {
		run_round(&pool, i, last->what);
	}
	pool_stop(&pool);
}

int main(int argc, char **argv)
{
	static struct last lasts[] = {
		{"allreduce", 40}, {"barrier", 20}, {"reduce", 10}, {"broadcast", 10}};
	struct CMUnitTest tests[sizeof(lasts) / sizeof(lasts[0])];

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i] = (struct CMUnitTest){lasts[i].what,
			nobody_loses_what_all_have_contributed_to, NULL, NULL, &lasts[i]};
	}
	if (argc == 5) {
		return run_rank(argv);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
