/*
 * Processes that fork, as data loaders do: a child keeps none of its parent's connections, is told
 * so by every call, and harms nobody, whether it lives, calls or ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/pressure.h"

enum { COUNT = 1000, NAMED_WITHIN_S = 1, NAMED_BUSY_S = 5 };

static int sum(smd_comm *comm)
{
	float values[COUNT] = {0};

	return smd_allreduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM);
}

/* ---- what a child is told ---- */

static void check_refused(int ret, pid_t parent)
{
	char text[200];

	snprintf(text, sizeof(text),
		"libsummand: this process was forked from the one that made the context: make a "
		"context of its own, got pid %d, made by %d",
		(int)getpid(), (int)parent);
	CHECK(ret == -EPERM);
	CHECK(strcmp(smd_error_message(), text) == 0);
}

static void call_everything(smd_context *context, smd_comm *comm, smd_request *request)
{
	float values[COUNT] = {0};
	pid_t parent = getppid();
	struct smd_stats stats;
	smd_request *another = NULL;
	smd_comm *beside = NULL;

	check_refused(sum(comm), parent);
	check_refused(smd_barrier(comm), parent);
	check_refused(smd_reduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, 0), parent);
	check_refused(smd_broadcast(comm, values, COUNT, SMD_FLOAT32, 0), parent);
	check_refused(
		smd_allreduce_start(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, &another),
		parent);
	check_refused(smd_request_test(request), parent);
	check_refused(smd_request_wait(request), parent);
	check_refused(smd_comm_create(context, "beside", 1, 0, &beside), parent);
	smd_context_stats(context, &stats);
	CHECK(stats.operations == 0);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

static void check_child_ends_well(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
}

static void fork_in_the_middle(struct pool_rank *rank)
{
	float values[COUNT] = {0};
	smd_request *request;
	pid_t child;

	CHECK(smd_allreduce_start(
		      rank->comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, &request) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(20); /* a call that hangs ends the child */
		call_everything(rank->context, rank->comm, request);
		_exit(EXIT_SUCCESS);
	}
	check_child_ends_well(child);
	CHECK(smd_request_wait(request) == 0);
	CHECK(sum(rank->comm) == 0);
}

static void with_progress(const char *progress, void (*body)(struct pool_rank *rank))
{
	struct pool pool;

	assert_int_equal(setenv("SUMMAND_PROGRESS", progress, 1), 0);
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, 2, "forks", body, NULL);
	pool_stop(&pool);
	unsetenv("SUMMAND_PROGRESS");
}

static void a_child_is_told_whose_context_it_is(void **state)
{
	with_progress(*state, fork_in_the_middle);
}

/* ---- a context of its own ---- */

static void make_its_own(struct pool_rank *rank)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		char group[32];
		smd_comm *comm;
		smd_context *context;

		alarm(20);
		snprintf(group, sizeof(group), "own %d", rank->rank);
		context = pool_context(rank->pool, 0);
		CHECK(smd_comm_create(context, group, 1, 0, &comm) == 0);
		CHECK(sum(comm) == 0);
		smd_comm_destroy(comm);
		smd_context_destroy(context);
		_exit(EXIT_SUCCESS);
	}
	check_child_ends_well(child);
	CHECK(sum(rank->comm) == 0);
}

static void a_child_may_make_a_context_of_its_own(void **state)
{
	with_progress(*state, make_its_own);
}

/* ---- a parent that dies while its child lives ---- */

/* This program as rank 1 of 2: SERVERS. Forks a child that lives, says its number, and is killed.
 */
static int run_parent(const char *servers)
{
	struct pool_rank rank = {.nranks = 2, .rank = 1};
	const struct smd_context_options options = {
		.servers = servers, .replica = "parent", .job = "forks"};
	pid_t child;

	CHECK(smd_context_create(&options, &rank.context) == 0);
	CHECK(smd_comm_create(rank.context, "orphan", 2, 1, &rank.comm) == 0);
	pool_meet(&rank);
	CHECK(sum(rank.comm) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(60);
		pause();
		_exit(EXIT_SUCCESS);
	}
	CHECK(write(STDOUT_FILENO, &child, sizeof(child)) == sizeof(child));
	pause();
	return EXIT_FAILURE;
}

static pid_t spawn_parent(const struct pool *pool, int *says)
{
	char *argv[] = {(char *)"parent", (char *)pool->list, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2];
	pid_t parent;

	assert_int_equal(pipe(ends), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	assert_int_equal(posix_spawn(&parent, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*says = ends[0];
	return parent;
}

/* A second, where processors were not waited for during a quarter of that time or more. */
static void assert_soon(uint64_t began_ns, uint64_t waited_ns)
{
	uint64_t took_ns = smd_clock_ns() - began_ns;
	bool busy = waited_ns == 0 || 4 * (smd_pressure_waited_ns() - waited_ns) >= took_ns;

	assert_true(took_ns < (busy ? NAMED_BUSY_S : NAMED_WITHIN_S) * SMD_SECOND_NS);
}

static void a_parent_s_death_is_named_while_its_child_lives(void **state)
{
	struct smd_context_options options = {.replica = "survivor", .job = "forks"};
	struct pool pool;
	struct pool_rank rank = {.nranks = 2};
	uint64_t waited_ns;
	uint64_t killed_ns;
	pid_t parent;
	pid_t child;
	int says;

	assert_int_equal(setenv("SUMMAND_PROGRESS", *state, 1), 0);
	pool_start(&pool, "tcp", 1, NULL);
	parent = spawn_parent(&pool, &says);
	options.servers = pool.list;
	assert_int_equal(smd_context_create(&options, &rank.context), 0);
	assert_int_equal(smd_comm_create(rank.context, "orphan", 2, 0, &rank.comm), 0);
	pool_meet(&rank);
	assert_int_equal(sum(rank.comm), 0);
	assert_int_equal(read(says, &child, sizeof(child)), sizeof(child));
	waited_ns = smd_pressure_waited_ns();
	killed_ns = smd_clock_ns();
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_int_equal(sum(rank.comm), -ECONNRESET);
	assert_soon(killed_ns, waited_ns);
	assert_non_null(strstr(smd_error_message(), "rank 1 (parent) was lost: "));
	assert_null(strstr(smd_error_message(), "silent"));
	kill(child, SIGKILL);
	close(says);
	smd_comm_destroy(rank.comm);
	smd_context_destroy(rank.context);
	pool_stop(&pool);
	unsetenv("SUMMAND_PROGRESS");
}

int main(int argc, char **argv)
{
	static char *const modes[] = {(char *)"thread", (char *)"poll"};
	struct CMUnitTest tests[6];

	if (argc == 2) {
		return run_parent(argv[1]);
	}
	for (int i = 0; i < 2; i++) {
		tests[3 * i] = (struct CMUnitTest)cmocka_unit_test_prestate(
			a_child_is_told_whose_context_it_is, modes[i]);
		tests[3 * i + 1] = (struct CMUnitTest)cmocka_unit_test_prestate(
			a_child_may_make_a_context_of_its_own, modes[i]);
		tests[3 * i + 2] = (struct CMUnitTest)cmocka_unit_test_prestate(
			a_parent_s_death_is_named_while_its_child_lives, modes[i]);
	}
	return cmocka_run_group_tests(tests, NULL, pool_check_exchanged);
}
