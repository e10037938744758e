/*
 * What goes wrong among ranks that do small all-reduces themselves (specs/design/exchange.md): they
 * disagree, leave, end or die, and all hear who and why; or lose a connection, and go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/kernels/kernels.h"
#include "tests/unit/allreduce/fixture.h"

enum { RANKS = 3 };

static void check_says(const char *text)
{
	if (!strstr(smd_error_message(), text)) {
		fprintf(stderr, "expected \"%s\" in \"%s\"\n", text, smd_error_message());
		abort();
	}
}

static void check_names(int rank)
{
	char text[32];

	snprintf(text, sizeof(text), "rank %d (rank-%d)", rank, rank);
	check_says(text);
}

/* ---- ranks that disagree ---- */

struct asked_for {
	size_t count;
	enum smd_dtype dtype;
	enum smd_op op;
	bool reduce; /* to rank 0 */
	const char *text;
};

struct disagreement {
	struct asked_for others;
	struct asked_for odd;
	int rank; /* the odd one */
};

static int ask_for(smd_comm *comm, const struct asked_for *request)
{
	void *buffer = calloc(request->count, smd_dtype_size(request->dtype));
	int ret = request->reduce ? smd_reduce(comm, buffer, buffer, request->count, request->dtype,
					    request->op, 0)
				  : smd_allreduce(comm, buffer, buffer, request->count,
					    request->dtype, request->op);

	free(buffer);
	return ret;
}

static void disagree(struct pool_rank *rank)
{
	const struct disagreement *all = rank->argument;
	const struct asked_for *own = rank->rank == all->rank ? &all->odd : &all->others;

	pool_await_exchanges(rank);
	CHECK(ask_for(rank->comm, own) == -EINVAL);
	check_says(": all ranks must ask for the same, but rank ");
	check_names(all->rank);
	check_says(all->odd.text);
	check_says(all->others.text);
	CHECK(ask_for(rank->comm, own) == -EINVAL); /* and so for ever */
	check_names(all->rank);
}

/* Each is the hub once, and is not twice. */
static void ranks_that_disagree_are_named(void **state)
{
	static const struct asked_for usual = {
		100, SMD_FLOAT32, SMD_SUM, false, "all-reduce, float32 sum of 100 "};
	static const struct asked_for large = {
		200000, SMD_FLOAT32, SMD_SUM, false, "all-reduce, float32 sum of 200000 "};
	static const struct disagreement cases[] = {
		{usual, {200, SMD_FLOAT32, SMD_SUM, false, "float32 sum of 200 "}, 0},
		{usual, {100, SMD_INT32, SMD_SUM, false, "int32 sum of 100 "}, 0},
		{usual, {100, SMD_FLOAT32, SMD_MAX, false, "float32 max of 100 "}, 0},
		{usual, {2 << 20, SMD_FLOAT32, SMD_SUM, false, "float32 sum of 2097152 "}, 0},
		{usual, {100, SMD_FLOAT32, SMD_SUM, true, "reduce to rank 0, float32 sum"}, 0},
		{large, {100, SMD_FLOAT32, SMD_SUM, false, "float32 sum of 100 "}, 0},
		{large, {200000, SMD_FLOAT64, SMD_SUM, false, "float64 sum of 200000 "}, 0},
	};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct disagreement one = cases[i];

		for (one.rank = 0; one.rank < RANKS; one.rank++) {
			pool_run(&pool, RANKS, "disagree", disagree, &one);
		}
	}
	pool_stop(&pool);
}

/* ---- a rank that leaves ---- */

enum { LARGE = 900001 };

/* Others take their time to look at the results of the last operation. */
static void leave(struct pool_rank *rank)
{
	const int *leaver = rank->argument;
	float *buffer = malloc(LARGE * sizeof(*buffer));
	char text[32];
	smd_request *request;

	pool_await_exchanges(rank);
	pool_fill(buffer, rank->rank, 1, LARGE);
	CHECK(smd_allreduce_start(
		      rank->comm, buffer, buffer, LARGE, SMD_FLOAT32, SMD_SUM, &request) == 0);
	if (rank->rank != *leaver) {
		usleep(300000);
	}
	CHECK(smd_request_wait(request) == 0);
	pool_check_sum(buffer, RANKS, 1, LARGE);
	if (rank->rank == *leaver) {
		free(buffer);
		return;
	}
	CHECK(smd_allreduce(rank->comm, buffer, buffer, 10, SMD_FLOAT32, SMD_SUM) == -ECONNRESET);
	snprintf(text, sizeof(text), "rank %d ", *leaver);
	check_says(text);
	free(buffer);
}

static void who_leaves_takes_nothing_with_it(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int leaver = 0; leaver < RANKS; leaver++) {
		pool_run(&pool, RANKS, "leaving", leave, &leaver);
	}
	pool_stop(&pool);
}

/* ---- processes that end ---- */

static void begin_as_program(struct pool_rank *rank, char **argv)
{
	const struct smd_context_options options = {
		.servers = argv[1], .replica = argv[4], .job = "test", .transport = "tcp"};

	*rank = (struct pool_rank){.nranks = RANKS, .rank = atoi(argv[3])};
	CHECK(smd_context_create(&options, &rank->context) == 0);
	CHECK(smd_comm_create(rank->context, argv[2], RANKS, rank->rank, &rank->comm) == 0);
	pool_await_exchanges(rank);
}

static pid_t start_program(const struct pool *pool, const char *group, int rank, const char *name,
	const char *does, int out)
{
	char number[12];
	char *argv[] = {(char *)"rank", (char *)pool->list, (char *)group, number, (char *)name,
		(char *)does, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	snprintf(number, sizeof(number), "%d", rank);
	posix_spawn_file_actions_init(&actions);
	if (out >= 0) {
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	}
	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* This program as a rank, SERVERS GROUP RANK NAME ends: after its last operation, without leaving.
 */
static int run_to_its_end(char **argv)
{
	float *buffer = malloc(LARGE * sizeof(*buffer));
	struct pool_rank rank;

	begin_as_program(&rank, argv);
	for (int i = 0; i < 3; i++) {
		pool_fill(buffer, rank.rank, i, LARGE);
		CHECK(smd_allreduce(rank.comm, buffer, buffer, LARGE, SMD_FLOAT32, SMD_SUM) == 0);
		pool_check_sum(buffer, RANKS, i, LARGE);
	}
	exit(EXIT_SUCCESS);
}

static void nobody_loses_what_all_have_contributed_to(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int round = 0; round < 12; round++) {
		pid_t pids[RANKS];
		char group[32];
		int failed = 0;

		snprintf(group, sizeof(group), "ends %d", round);
		for (int r = 0; r < RANKS; r++) {
			pids[r] = start_program(&pool, group, r, "program", "ends", -1);
		}
		for (int r = 0; r < RANKS; r++) {
			int status;

			assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
			failed += status != 0;
		}
		assert_int_equal(failed, 0);
	}
	pool_stop(&pool);
}

/* SERVERS GROUP RANK NAME works: until it is killed. It says so when it is in the middle. */
static int run_until_killed(char **argv)
{
	static float buffer[300000];
	struct pool_rank rank;

	begin_as_program(&rank, argv);
	if (write(STDOUT_FILENO, "!", 1) != 1) {
		return EXIT_FAILURE;
	}
	for (;;) {
		CHECK(smd_allreduce(rank.comm, buffer, buffer, 300000, SMD_FLOAT32, SMD_SUM) == 0);
	}
}

struct death {
	pid_t victim;
	int rank;
	int middle; /* the victim writes a byte here */
	pthread_t killer;
};

static void *kill_victim(void *arg)
{
	struct death *death = arg;
	char byte;

	CHECK(read(death->middle, &byte, 1) == 1);
	usleep(20000);
	kill(death->victim, SIGKILL);
	waitpid(death->victim, NULL, 0);
	return NULL;
}

struct survivor {
	struct pool_rank rank;
	pthread_t thread;
};

static void *work_until_lost(void *arg)
{
	struct pool_rank *rank = &((struct survivor *)arg)->rank;
	const struct death *death = rank->argument;
	float *buffer = calloc(300000, sizeof(*buffer));
	char text[48];
	int ret = 0;

	rank->context = pool_context(rank->pool, rank->rank);
	CHECK(smd_comm_create(rank->context, rank->group, RANKS, rank->rank, &rank->comm) == 0);
	pool_await_exchanges(rank);
	while (ret == 0) {
		ret = smd_allreduce(rank->comm, buffer, buffer, 300000, SMD_FLOAT32, SMD_SUM);
	}
	CHECK(ret == -ECONNRESET);
	snprintf(text, sizeof(text), "rank %d (victim) was lost: ", death->rank);
	check_says(text);
	smd_comm_destroy(rank->comm);
	smd_context_destroy(rank->context);
	free(buffer);
	return NULL;
}

static void kill_one(const struct pool *pool, int rank)
{
	struct death death = {.rank = rank};
	struct survivor survivors[RANKS];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	death.victim = start_program(pool, "deadly", rank, "victim", "works", ends[1]);
	death.middle = ends[0];
	close(ends[1]);
	assert_int_equal(pthread_create(&death.killer, NULL, kill_victim, &death), 0);
	for (int r = 0; r < RANKS; r++) {
		survivors[r].rank = (struct pool_rank){.pool = pool,
			.rank = r,
			.nranks = RANKS,
			.group = "deadly",
			.argument = &death};
		if (r != rank) {
			assert_int_equal(pthread_create(&survivors[r].thread, NULL, work_until_lost,
						 &survivors[r]),
				0);
		}
	}
	for (int r = 0; r < RANKS; r++) {
		if (r != rank) {
			pthread_join(survivors[r].thread, NULL);
		}
	}
	pthread_join(death.killer, NULL);
	close(ends[0]);
}

static void a_killed_rank_is_named_to_all_others(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int rank = 0; rank < RANKS; rank++) {
		kill_one(&pool, rank);
	}
	pool_stop(&pool);
}

/* ---- a connection between two ranks ---- */

/* Ranks do with servers what they cannot do among themselves. */
enum { OPERATIONS = 20, CUT_AT = 7, DEPTH_MOST = 6, RANKS_MOST = 5 };

struct lost_lane {
	int nranks;
	int one;  /* loses its lane */
	int peer; /* to that */
	size_t count;
	bool in_place;
	int depth; /* operations in flight; 1: it is lost between two */
	enum smd_dtype wire; /* that its elements cross as */
};

struct in_flight {
	float *send;
	float *recv;
	smd_request *request;
};

static void begin(
	struct pool_rank *rank, const struct lost_lane *lost, struct in_flight *one, int i)
{
	pool_fill(one->send, rank->rank, i, lost->count);
	CHECK(smd_allreduce_start(rank->comm, one->send, lost->in_place ? one->send : one->recv,
		      lost->count, SMD_FLOAT32, SMD_SUM, &one->request) == 0);
}

static void check_sum(const float *result, int nranks, int operation, const struct lost_lane *lost)
{
	size_t count = lost->count;
	float *wide = malloc(count * sizeof(*wide));
	uint16_t *narrow[RANKS_MOST];
	const void *inputs[RANKS_MOST];

	if (lost->wire == SMD_FLOAT32) {
		pool_check_sum(result, nranks, operation, count);
		free(wide);
		return;
	}
	for (int r = 0; r < nranks; r++) {
		narrow[r] = malloc(count * sizeof(*narrow[r]));
		pool_fill(wide, r, operation, count);
		smd_narrow_find(lost->wire)(narrow[r], wide, count);
		inputs[r] = narrow[r];
	}
	smd_kernel_find(lost->wire, SMD_SUM)(narrow[0], inputs, (unsigned)nranks, count);
	smd_widen_find(lost->wire)(wide, narrow[0], count);
	CHECK(memcmp(result, wide, count * sizeof(*wide)) == 0);
	for (int r = 0; r < nranks; r++) {
		free(narrow[r]);
	}
	free(wide);
}

/* What has returned is overwritten at once. */
static void end(struct pool_rank *rank, const struct lost_lane *lost, struct in_flight *one, int i)
{
	float *result = lost->in_place ? one->send : one->recv;

	CHECK(smd_request_wait(one->request) == 0);
	check_sum(result, rank->nranks, i, lost);
	memset(one->send, 0x55, lost->count * sizeof(float));
	memset(one->recv, 0x55, lost->count * sizeof(float));
}

/* All ranks: until none has exchanges any more. Where the last operations have not needed the lane
 * they may be over before that. */
static void await_second_table(struct pool_rank *rank)
{
	uint64_t end_ns = smd_clock_ns() + 60 * SMD_SECOND_NS;
	struct smd_stats stats;
	int32_t all;

	do {
		CHECK(smd_clock_ns() < end_ns);
		usleep(1000);
		smd_context_stats(rank->context, &stats);
		all = stats.epochs >= 2;
		CHECK(smd_allreduce(rank->comm, &all, &all, 1, SMD_INT32, SMD_MIN) == 0);
	} while (!all);
}

static void work_on_when_cut(struct pool_rank *rank)
{
	const struct lost_lane *lost = rank->argument;
	struct in_flight all[DEPTH_MOST];
	struct smd_stats stats;
	uint64_t before;

	for (int i = 0; i < lost->depth; i++) {
		all[i].send = malloc(lost->count * sizeof(float));
		all[i].recv = malloc(lost->count * sizeof(float));
	}
	CHECK(smd_comm_set_wire(rank->comm, lost->wire) == 0);
	pool_await_exchanges(rank);
	before = pool_exchanges(rank->context);
	for (int i = 0; i < OPERATIONS + lost->depth; i++) {
		struct in_flight *one = &all[i % lost->depth];

		if (i >= lost->depth) {
			end(rank, lost, one, i - lost->depth);
		}
		if (i == CUT_AT && rank->rank == lost->one) {
			usleep((unsigned)lost->count % 7 * 100);
			pool_cut_ranks(rank->comm, (unsigned)lost->peer);
		}
		if (i < OPERATIONS) {
			begin(rank, lost, one, i);
		}
	}
	smd_context_stats(rank->context, &stats);
	CHECK(stats.exchanges > before);
	await_second_table(rank);
	for (int i = 0; i < lost->depth; i++) {
		free(all[i].send);
		free(all[i].recv);
	}
}

struct lost_lane_run {
	pthread_t thread;
	struct pool *pool;
	char group[16];
	struct lost_lane lost;
};

static void *run_lost_lane(void *arg)
{
	struct lost_lane_run *run = arg;

	pool_run(run->pool, run->lost.nranks, run->group, work_on_when_cut, &run->lost);
	return NULL;
}

static void servers_do_what_needs_a_lost_connection(void **state)
{
	static const struct lost_lane cases[] = {
		{3, 1, 0, 900001, true, 6, SMD_FLOAT32},
		{3, 1, 2, 900001, false, 4, SMD_FLOAT32},
		{2, 1, 0, 70000, true, 6, SMD_FLOAT32},
		{2, 0, 1, 10, true, 6, SMD_FLOAT32},
		{3, 2, 1, 33333, false, 1, SMD_FLOAT32},
		{4, 0, 3, 130001, true, 6, SMD_FLOAT32},
		{5, 4, 2, 1000003, true, 1, SMD_FLOAT32},
		{4, 3, 1, 17, false, 1, SMD_FLOAT32},
		{4, 1, 2, 4194304, true, 2, SMD_FLOAT32},
		{3, 0, 2, 4000001, false, 1, SMD_BFLOAT16},
		{3, 1, 0, 900001, true, 6, SMD_BFLOAT16},
		{3, 2, 1, 900001, false, 4, SMD_FLOAT16},
		{2, 0, 1, 4096, true, 6, SMD_BFLOAT16},
	};
	struct lost_lane_run runs[sizeof(cases) / sizeof(cases[0])];
	static const struct smd_server_config large[2] = {
		{.memory_bytes = 512u << 20}, {.memory_bytes = 512u << 20}};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, large);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		runs[i] = (struct lost_lane_run){.pool = &pool, .lost = cases[i]};
		snprintf(runs[i].group, sizeof(runs[i].group), "cut %zu", i);
		assert_int_equal(pthread_create(&runs[i].thread, NULL, run_lost_lane, &runs[i]), 0);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pthread_join(runs[i].thread, NULL);
	}
	pool_stop(&pool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_disagree_are_named),
		cmocka_unit_test(who_leaves_takes_nothing_with_it),
		cmocka_unit_test(nobody_loses_what_all_have_contributed_to),
		cmocka_unit_test(a_killed_rank_is_named_to_all_others),
		cmocka_unit_test(servers_do_what_needs_a_lost_connection),
	};

	setenv("SUMMAND_EXCHANGE", "on", 1);
	if (argc == 6) {
		return strcmp(argv[5], "ends") == 0 ? run_to_its_end(argv) : run_until_killed(argv);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
