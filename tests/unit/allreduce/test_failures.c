/*
 * What goes wrong in the middle: ranks that disagree, die, leave or are late, and servers that end.
 * Every other rank gets an error that names who and why, within seconds, and nothing else suffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"

static void check_says(const char *text)
{
	if (!strstr(smd_error_message(), text)) {
		fprintf(stderr, "expected \"%s\" in \"%s\"\n", text, smd_error_message());
		abort();
	}
}

static int sum(smd_comm *comm, size_t count, enum smd_dtype dtype)
{
	void *buffer = calloc(count + 1, smd_dtype_size(dtype));
	int ret = smd_allreduce(comm, buffer, buffer, count, dtype, SMD_SUM);

	free(buffer);
	return ret;
}

static void check_sums_are_right(smd_comm *comm)
{
	int32_t values[1000];

	for (int i = 0; i < 1000; i++) {
		values[i] = i + smd_comm_rank(comm);
	}
	CHECK(smd_allreduce(comm, values, values, 1000, SMD_INT32, SMD_SUM) == 0);
	for (int i = 0; i < 1000; i++) {
		int n = smd_comm_size(comm);

		CHECK(values[i] == n * i + n * (n - 1) / 2);
	}
}

/* A second communicator of the same contexts is not touched by what happens to the first. */
static void check_another_goes_on(struct pool_rank *rank)
{
	smd_comm *another;

	CHECK(smd_comm_create(rank->context, "another", rank->nranks, rank->rank, &another) == 0);
	check_sums_are_right(another);
	smd_comm_destroy(another);
}

/* ---- ranks that disagree, after all have joined and done something together ---- */

static void wait_for_all(struct pool_rank *rank)
{
	pthread_barrier_wait(rank->argument);
}

static void disagree_on_count(struct pool_rank *rank)
{
	check_sums_are_right(rank->comm);
	wait_for_all(rank);
	CHECK(sum(rank->comm, rank->rank == 1 ? 200 : 100, SMD_FLOAT32) == -EINVAL);
	check_says("group test/count: all ranks must ask for the same, but rank ");
	check_says("rank 1 (rank-1) ");
	check_says("float32 sum of 100 ");
	check_says("float32 sum of 200 ");
	check_says("in operation 1");
	CHECK(sum(rank->comm, 100, SMD_FLOAT32) == -EINVAL); /* and so for ever */
	check_says("rank 1 (rank-1) ");
	check_another_goes_on(rank);
}

/* Both fill a chunk of as many bytes, and many more chunks are on their way. */
static void disagree_on_type(struct pool_rank *rank)
{
	const size_t count = pool_count(3 << 20);
	char text[64];

	check_sums_are_right(rank->comm);
	wait_for_all(rank);
	CHECK(sum(rank->comm, count, rank->rank == 2 ? SMD_INT32 : SMD_FLOAT32) == -EINVAL);
	check_says("rank 2 (rank-2) ");
	snprintf(text, sizeof(text), "int32 sum of %zu ", count);
	check_says(text);
	snprintf(text, sizeof(text), "float32 sum of %zu ", count);
	check_says(text);
	check_another_goes_on(rank);
}

static void disagree_on_order(struct pool_rank *rank)
{
	smd_request *requests[2];
	float small[10] = {0};
	float large[20] = {0};
	int first = rank->rank == 0;

	check_sums_are_right(rank->comm);
	wait_for_all(rank);
	CHECK(smd_allreduce_start(rank->comm, first ? small : large, first ? small : large,
		      first ? 10 : 20, SMD_FLOAT32, SMD_SUM, &requests[0]) == 0);
	CHECK(smd_allreduce_start(rank->comm, first ? large : small, first ? large : small,
		      first ? 20 : 10, SMD_FLOAT32, SMD_SUM, &requests[1]) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(smd_request_wait(requests[i]) == -EINVAL);
		check_says("rank 0 (rank-0) ");
		check_says("sum of 10 ");
		check_says("sum of 20 ");
	}
}

static void ranks_that_disagree_are_both_named(void **state)
{
	static const char *const transports[] = {"tcp", "loopback"};

	(void)state;
	for (int t = 0; t < (pool_is_rdma() ? 1 : 2); t++) { /* both would go over RDMA */
		pthread_barrier_t together;
		struct pool pool;

		pthread_barrier_init(&together, NULL, 3);
		pool_start(&pool, transports[t], 2, NULL);
		pool_run(&pool, 3, "count", disagree_on_count, &together);
		pool_run(&pool, 3, "type", disagree_on_type, &together);
		pool_run(&pool, 3, "sequence", disagree_on_order, &together);
		pool_stop(&pool);
		pthread_barrier_destroy(&together);
	}
}

/* ---- a rank that dies ---- */

/* This program as one rank: SERVERS GROUP NRANKS RANK; it works until it is killed, or, with a
 * fifth argument, ends without leaving. It says so when it is in the middle. */
static int run_victim(char **argv, bool ends)
{
	const struct smd_context_options options = {
		.servers = argv[1], .replica = "workerpool1-2", .job = "test"};
	smd_context *context;
	smd_comm *comm;

	CHECK(smd_context_create(&options, &context) == 0);
	CHECK(smd_comm_create(context, argv[2], atoi(argv[3]), atoi(argv[4]), &comm) == 0);
	for (int i = 0;; i++) {
		CHECK(sum(comm, pool_count(300000), SMD_FLOAT32) == 0);
		if (i == 5 && write(STDOUT_FILENO, "!", 1) != 1) {
			return EXIT_FAILURE;
		}
		if (i == 10 && ends) {
			_exit(EXIT_SUCCESS);
		}
	}
}

struct death {
	pid_t victim;
	bool ends;
	pthread_t killer;
	int middle;          /* the victim writes a byte here */
	_Atomic bool killed; /* or about to end by itself */
};

static void start_victim(struct death *death, const struct pool *pool, const char *group)
{
	char *argv[] = {(char *)"victim", (char *)pool->list, (char *)group, (char *)"3",
		(char *)"2", death->ends ? (char *)"ends" : NULL, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	assert_int_equal(
		posix_spawn(&death->victim, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	death->middle = ends[0];
}

static void *kill_victim(void *arg)
{
	struct death *death = arg;
	char byte;

	CHECK(read(death->middle, &byte, 1) == 1);
	usleep(death->ends ? 0 : 20000);
	atomic_store(&death->killed, true);
	if (!death->ends) {
		kill(death->victim, SIGKILL);
	}
	waitpid(death->victim, NULL, 0);
	return NULL;
}

static void work_until_lost(struct pool_rank *rank)
{
	const struct death *death = rank->argument;
	smd_comm *beside;
	bool killed;
	int ret = 0;

	CHECK(smd_comm_create(rank->context, "beside", 2, rank->rank, &beside) == 0);
	while (ret == 0) {
		ret = sum(rank->comm, pool_count(300000), SMD_FLOAT32);
	}
	killed = atomic_load(&death->killed);
	CHECK(ret == -ECONNRESET);
	CHECK(death->ends || killed);
	check_says("rank 2 (workerpool1-2) was lost: ");
	CHECK(!strstr(smd_error_message(), "silent")); /* at once, and not by the heartbeat */
	CHECK(sum(rank->comm, 10, SMD_FLOAT32) == -ECONNRESET);
	check_sums_are_right(beside);
	smd_comm_destroy(beside);
}

/* Ranks 0 and 1 of three, in this process; the third is the victim. */
struct rank_of_three {
	struct pool_rank rank;
	pthread_t thread;
};

static void *run_rank_of_three(void *arg)
{
	struct pool_rank *rank = arg;

	rank->context = pool_context(rank->pool, rank->rank);
	CHECK(smd_comm_create(rank->context, rank->group, 3, rank->rank, &rank->comm) == 0);
	work_until_lost(rank);
	smd_comm_destroy(rank->comm);
	smd_context_destroy(rank->context);
	return NULL;
}

static void check_death(bool ends)
{
	struct death death = {.ends = ends};
	struct rank_of_three ranks[2];
	struct pool pool;

	pool_start(&pool, "tcp", 2, NULL);
	start_victim(&death, &pool, "deadly");
	assert_int_equal(pthread_create(&death.killer, NULL, kill_victim, &death), 0);
	for (int r = 0; r < 2; r++) {
		ranks[r].rank = (struct pool_rank){.pool = &pool,
			.rank = r,
			.nranks = 3,
			.group = "deadly",
			.argument = &death};
		assert_int_equal(
			pthread_create(&ranks[r].thread, NULL, run_rank_of_three, &ranks[r].rank),
			0);
	}
	for (int r = 0; r < 2; r++) {
		pthread_join(ranks[r].thread, NULL);
	}
	pthread_join(death.killer, NULL);
	close(death.middle);
	pool_stop(&pool);
}

static void a_killed_rank_is_named_to_all_others(void **state)
{
	(void)state;
	check_death(false);
}

static void a_rank_that_exits_without_leaving_is_named_too(void **state)
{
	(void)state;
	check_death(true);
}

/* ---- a rank that leaves early ---- */

static void leave_early(struct pool_rank *rank)
{
	smd_comm *three;
	smd_comm *two = NULL;

	CHECK(smd_comm_create(rank->context, "three", 3, rank->rank, &three) == 0);
	if (rank->rank < 2) {
		CHECK(smd_comm_create(rank->context, "two", 2, rank->rank, &two) == 0);
	}
	check_sums_are_right(three);
	if (rank->rank == 2) {
		smd_comm_destroy(three);
		return;
	}
	CHECK(sum(three, 10, SMD_FLOAT32) == -ECONNRESET);
	/* Its LEAVE came before our part, or after it. */
	check_says(
		strstr(smd_error_message(), "has left")
			? "group test/three: rank 2 has left, so operation 1 of rank "
			: "group test/three: rank 2 (rank-2) left in the middle of an operation");
	check_sums_are_right(two);
	smd_comm_destroy(three);
	smd_comm_destroy(two);
}

static void a_rank_that_leaves_early_ends_that_group_only(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, 3, "all", leave_early, NULL);
	pool_stop(&pool);
}

/* ---- servers ---- */

struct server_end {
	char address[128];
	atomic_uint begun;
};

static void work_until_the_server_ends(struct pool_rank *rank)
{
	struct server_end *end = rank->argument;
	int ret = 0;

	for (int i = 0; ret == 0; i++) {
		ret = sum(rank->comm, pool_count(300000), SMD_FLOAT32);
		if (i == 3) {
			atomic_fetch_add(&end->begun, 1);
		}
	}
	CHECK(ret == -ECONNRESET);
	check_says("reduction server ");
	check_says(end->address);
	/* "was stopped" or "is being drained"; who hears of the first from another rank has the last one's words only. */
	check_says(": group test/ending: the reduction server ");
	CHECK(smd_barrier(rank->comm) == -ECONNRESET);
	/* The context is of no further use, and says why. */
	CHECK(smd_comm_create(rank->context, "afterwards", rank->nranks, rank->rank, &rank->comm) ==
		-ECONNRESET);
	check_says(" was lost: ");
}

struct server_ranks {
	struct pool_rank rank;
	pthread_t thread;
};

static void *run_rank_of_ending_server(void *arg)
{
	struct pool_rank *rank = arg;
	smd_comm *comm;

	rank->context = pool_context(rank->pool, rank->rank);
	CHECK(smd_comm_create(rank->context, "ending", rank->nranks, rank->rank, &comm) == 0);
	rank->comm = comm;
	work_until_the_server_ends(rank);
	smd_comm_destroy(comm);
	smd_context_destroy(rank->context);
	return NULL;
}

static void servers_that_end_are_named_by_their_addresses(void **state)
{
	struct server_ranks ranks[3];
	struct pool pool;
	struct server_end end = {.address = ""};

	(void)state;
	capture_begin();
	pool_start(&pool, "tcp", 2, NULL);
	snprintf(end.address, sizeof(end.address), "%s", pool.servers[1].address);
	for (int r = 0; r < 3; r++) {
		ranks[r].rank =
			(struct pool_rank){.pool = &pool, .rank = r, .nranks = 3, .argument = &end};
		assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank_of_ending_server,
					 &ranks[r].rank),
			0);
	}
	while (atomic_load(&end.begun) < 3) {
		usleep(1000);
	}
	pool_end_server(&pool, 1, 1);
	pool_end_server(&pool, 0, 1); /* the last one */
	for (int r = 0; r < 3; r++) {
		pthread_join(ranks[r].thread, NULL);
	}
	pool_stop(&pool);
	assert_false(capture_has("shard 0: lane of rank-", "must")); /* nobody broke a rule */
	capture_end();
}

/* A port that nobody listens at any longer. */
static void find_dead_address(char address[64])
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
	snprintf(address, 64, "127.0.0.1:%u", ntohs(name.sin_port));
	close(fd);
}

static void a_dead_address_is_named_within_the_timeout(void **state)
{
	char dead[64];
	char text[256];
	const struct smd_context_options options = {.servers = dead, .connect_timeout_s = 1};
	smd_context *context;

	(void)state;
	find_dead_address(dead);
	assert_int_equal(smd_context_create(&options, &context), -ECONNREFUSED);
	snprintf(text, sizeof(text),
		"reduction server %s could not be reached within 1 s: Connection refused", dead);
	assert_string_equal(smd_error_message(), text);
}

/* Each asks the shards by a signal to their wakeups; the second may come when they have ended. What
 * is left behind then, the address sanitizer finds. */
static void a_server_is_asked_twice_to_end(void **state)
{
	(void)state;
	for (int i = 0; i < 30; i++) {
		struct pool pool;
		smd_context *context;
		smd_comm *comm;

		pool_start(&pool, "tcp", 1, NULL);
		context = pool_context(&pool, 0);
		assert_int_equal(smd_comm_create(context, "twice", 1, 0, &comm), 0);
		pool_end_server(&pool, 0, 2);
		smd_comm_destroy(comm);
		smd_context_destroy(context);
		pool_stop(&pool);
	}
}

static void a_server_that_is_named_twice_is_refused(void **state)
{
	struct pool pool;
	char list[2100];
	char text[2100];
	const struct smd_context_options options = {.servers = list, .connect_timeout_s = 5};
	smd_context *context;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	snprintf(list, sizeof(list), "%s,%s", pool.list, pool.list);
	assert_int_equal(smd_context_create(&options, &context), -EINVAL);
	snprintf(text, sizeof(text), "each must be named once, but %s and", pool.list);
	assert_non_null(strstr(smd_error_message(), text));
	pool_stop(&pool);
}

static void a_host_that_is_none_is_named(void **state)
{
	const struct smd_context_options options = {
		.servers = "no-such-host.invalid:2222", .connect_timeout_s = 1};
	smd_context *context;

	(void)state;
	assert_int_equal(smd_context_create(&options, &context), -ETIMEDOUT);
	assert_non_null(strstr(smd_error_message(),
		"reduction server no-such-host.invalid:2222 could not be reached within 1 s: "));
	assert_non_null(strstr(smd_error_message(), "cannot resolve the host: "));
}

/* Something listens there, but it is no reduction server: it takes connections and is silent. */
static void a_server_that_does_not_answer_is_named(void **state)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);
	char address[64];
	const struct smd_context_options options = {.servers = address, .connect_timeout_s = 1};
	smd_context *context;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(fd, 10), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(name.sin_port));
	assert_int_equal(smd_context_create(&options, &context), -ETIMEDOUT);
	assert_non_null(strstr(smd_error_message(), address));
	assert_non_null(strstr(smd_error_message(), "could not be reached within 1 s: "));
	close(fd);
}

/* ---- late, not dead ---- */

/* Who waits can ask, for as long as it waits. */
static void ask_who_is_late(smd_comm *comm, smd_request *request)
{
	char text[SMD_LATE_TEXT_MAX], cut[8];
	int known;

	while ((known = smd_comm_late(comm, text, sizeof(text))) == 0 &&
		smd_request_test(request) == 0) {
		assert_string_equal(text, "");
		usleep(10000);
	}
	assert_int_equal(known, 1);
	assert_memory_equal(text, "rank 1 (rank-1) is ", 19);
	assert_non_null(strstr(text, " s late for operation 0 of group test/late"));
	assert_int_equal(smd_comm_late(comm, cut, sizeof(cut)), 1);
	assert_string_equal(cut, "rank 1 ");
	assert_int_equal(smd_comm_late(comm, NULL, sizeof(text)), -EINVAL);
	assert_int_equal(smd_comm_late(comm, text, 0), -EINVAL);
	assert_int_equal(smd_comm_late(NULL, text, sizeof(text)), -EINVAL);
}

static void be_late(struct pool_rank *rank)
{
	char text[SMD_LATE_TEXT_MAX];
	smd_request *request;
	float value = 1;

	if (rank->rank == 1) {
		capture_await("libsummand: rank 1 (rank-1) is ",
			" s late for operation 0 of group test/late");
		capture_await("shard 0: rank 1 (rank-1) is ",
			" s late for operation 0 of group test/late");
		pthread_barrier_wait(rank->argument);
	}
	assert_int_equal(
		smd_allreduce_start(rank->comm, &value, &value, 1, SMD_FLOAT32, SMD_SUM, &request),
		0);
	if (rank->rank != 1) {
		ask_who_is_late(rank->comm, request);
		pthread_barrier_wait(rank->argument);
	}
	assert_int_equal(smd_request_wait(request), 0);
	assert_int_equal(smd_comm_late(rank->comm, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	check_sums_are_right(rank->comm);
}

static void a_late_rank_is_named_to_those_who_wait(void **state)
{
	const struct smd_server_config config = {.shards = 1, .late_s = 1};
	pthread_barrier_t asked;
	struct pool pool;

	(void)state;
	assert_int_equal(pthread_barrier_init(&asked, NULL, 3), 0);
	capture_begin();
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, 3, "late", be_late, &asked);
	pool_stop(&pool);
	pthread_barrier_destroy(&asked);
	capture_end();
}

/* ---- a request that is not done yet ---- */

static void test_a_request(struct pool_rank *rank)
{
	pthread_barrier_t *together = rank->argument;
	float values[100] = {1};
	smd_request *request;

	if (rank->rank == 0) {
		CHECK(smd_allreduce_start(rank->comm, values, values, 100, SMD_FLOAT32, SMD_SUM,
			      &request) == 0);
		for (int i = 0; i < 20; i++) {
			CHECK(smd_request_test(request) == 0);
			usleep(1000);
		}
		pthread_barrier_wait(together);
		while (smd_request_test(request) == 0) {
			usleep(1000);
		}
		CHECK(smd_request_test(request) == 1);
		CHECK(smd_request_wait(request) == 0);
	} else {
		pthread_barrier_wait(together);
		CHECK(smd_allreduce(rank->comm, values, values, 100, SMD_FLOAT32, SMD_SUM) == 0);
	}
	CHECK(values[0] == 2);
}

static void a_request_is_done_when_every_rank_has_come(void **state)
{
	pthread_barrier_t together;
	struct pool pool;

	(void)state;
	pthread_barrier_init(&together, NULL, 2);
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, 2, "test", test_a_request, &together);
	pool_stop(&pool);
	pthread_barrier_destroy(&together);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_disagree_are_both_named),
		cmocka_unit_test(a_killed_rank_is_named_to_all_others),
		cmocka_unit_test(a_rank_that_exits_without_leaving_is_named_too),
		cmocka_unit_test(a_rank_that_leaves_early_ends_that_group_only),
		cmocka_unit_test(servers_that_end_are_named_by_their_addresses),
		cmocka_unit_test(a_dead_address_is_named_within_the_timeout),
		cmocka_unit_test(a_server_is_asked_twice_to_end),
		cmocka_unit_test(a_server_that_is_named_twice_is_refused),
		cmocka_unit_test(a_host_that_is_none_is_named),
		cmocka_unit_test(a_server_that_does_not_answer_is_named),
		cmocka_unit_test(a_late_rank_is_named_to_those_who_wait),
		cmocka_unit_test(a_request_is_done_when_every_rank_has_come),
	};

	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(ranks_that_disagree_are_both_named),
		cmocka_unit_test(a_rank_that_leaves_early_ends_that_group_only),
		cmocka_unit_test(servers_that_end_are_named_by_their_addresses),
	};

	if (argc >= 5) {
		return run_victim(argv, argc > 5);
	}
	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
