/*
 * Servers are lost and others are started in their place while operations run, or are added: they
 * are taken in, and every result is what it would have been (specs/design/epochs.md).
 *
 *   test_returned_server [--card]
 *
 * With --card network cards write results into workers' memory (tests/unit/cuda/card.h), as over
 * rdma; what was written over its input cannot be done again then, so operations are not in place.
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

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"
#include "worker/libsummand/comm.h"

enum { RANKS = 3, SERVERS = 3, LARGE = 60000, PATIENCE_S = 60 };

static bool over_card;

/* What need not be may be refused where memory is short. */
static const struct smd_server_config enough = {.memory_bytes = 512u << 20};

struct history {
	struct pool *pool;
	const struct smd_server_config *another; /* is started in the place of one */
	unsigned nlosses;                        /* of the servers in order, again and again */
	unsigned gap_us;                         /* between an end and a start */
	bool waits;                              /* for each to be taken in before the next */
	bool begins;                             /* a communicator at every moment */
	const char *added;                       /* what the file of servers says in the end */
	atomic_bool begun;
	atomic_uint returned;
	atomic_bool over;
};

/* ---- what a communicator's table is, asked of the owner ---- */

struct look {
	struct smd_task task;
	struct smd_comm *comm;
	uint64_t without;
	unsigned index;
	bool done;
};

static void look_now(struct smd_task *task)
{
	struct look *look = (struct look *)task;
	struct smd_progress *progress = &look->comm->context->progress;

	look->without = look->comm->now->dead & ((1u << SERVERS) - 1);
	look->index = look->comm->now->index;
	smd_progress_lock(progress);
	look->done = true;
	smd_progress_publish(progress);
}

static bool look_done(const void *arg)
{
	return ((const struct look *)arg)->done;
}

static struct look look_at(struct smd_comm *comm)
{
	static const struct smd_goal goal = {.done = look_done};
	struct look look = {.task = {.run = look_now}, .comm = comm};

	smd_progress_await(&comm->context->progress, &look.task, &goal, &look, 0);
	return look;
}

/* ---- operations ---- */

static size_t size_of(int operation)
{
	static const size_t sizes[] = {1, 1000, LARGE, 0, 20000};

	return sizes[operation % 5];
}

/* `buffer` is twice as large as the largest operation. */
static void reduce_and_check(struct smd_comm *comm, int rank, int operation, float *buffer)
{
	float *recv = over_card ? buffer + LARGE : buffer;

	pool_fill(buffer, rank, operation, size_of(operation));
	CHECK(smd_allreduce(comm, buffer, recv, size_of(operation), SMD_FLOAT32, SMD_SUM) == 0);
	pool_check_sum(recv, RANKS, operation, size_of(operation));
}

/* All ranks do the same: rank 0 says whether it goes on. */
static bool goes_on(struct smd_comm *comm, int rank, bool mine)
{
	int32_t more = rank == 0 && mine;

	CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

static void run_another(struct pool_rank *rank, int operation, float *buffer)
{
	char group[32];
	smd_comm *comm;

	snprintf(group, sizeof(group), "another-%d", operation);
	CHECK(smd_comm_create(rank->context, group, RANKS, rank->rank, &comm) == 0);
	reduce_and_check(comm, rank->rank, operation, buffer);
	reduce_and_check(comm, rank->rank, operation + 1, buffer);
	smd_comm_destroy(comm);
}

/* Until the servers have had all of their fates, and the table has all of them. */
static void run_operations(struct pool_rank *rank)
{
	struct history *history = rank->argument;
	float *buffer = malloc((size_t)2 * LARGE * sizeof(*buffer));
	uint64_t end_ns = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	struct look look;
	bool lacked = false;
	int k = 0;

	do {
		reduce_and_check(rank->comm, rank->rank, k++, buffer);
		if (history->begins && k % 50 == 0) {
			run_another(rank, k, buffer);
		}
		CHECK(smd_clock_ns() < end_ns);
		look = look_at(rank->comm);
		if (rank->rank == 0 && lacked && look.without == 0) {
			atomic_fetch_add(&history->returned, 1);
		}
		lacked = look.without != 0;
		atomic_store(&history->begun, true);
	} while (goes_on(rank->comm, rank->rank,
		!atomic_load(&history->over) || (look.without && !history->another)));
	for (int more = 0; more < 60; more++) { /* whatever weights were found on a busy host */
		reduce_and_check(rank->comm, rank->rank, k++, buffer);
	}
	CHECK(look_at(rank->comm).index >= (history->another || history->added ? 1 : 2));
	free(buffer);
}

static void wait_for_returns(struct history *history, unsigned n)
{
	while (!atomic_load(&history->begun) ||
		(history->waits && atomic_load(&history->returned) < n)) {
		usleep(1000);
	}
}

static void *end_and_start_servers(void *arg)
{
	struct history *history = arg;

	for (unsigned i = 0; i < history->nlosses; i++) {
		unsigned server = i % SERVERS;

		wait_for_returns(history, i);
		usleep(20000);
		pool_end_server(history->pool, server, 1);
		usleep(history->gap_us);
		pool_restart_server(
			history->pool, server, history->another ? history->another : &enough);
	}
	wait_for_returns(history, history->nlosses); /* who has not seen the last loss would end */
	if (history->another) {
		capture_await("is there again, and cannot be used", NULL);
	}
	atomic_store(&history->over, true);
	return NULL;
}

static void run(const char *transport, struct history *history)
{
	const struct smd_server_config configs[SERVERS] = {enough, enough, enough};
	struct pool pool;
	pthread_t thread;

	history->pool = &pool;
	card_reset((struct card_plan){0});
	pool_start(&pool, over_card ? "fault" : transport, SERVERS, configs);
	CHECK(pthread_create(&thread, NULL, end_and_start_servers, history) == 0);
	pool_run(&pool, RANKS, "returned", run_operations, history);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	assert_true(!over_card || card_counts().to_host > 0);
	for (unsigned i = 0; i < history->nlosses && !history->another; i++) {
		assert_true(pool.servers[i % SERVERS].stats.chunks > 0);
	}
}

static void one_comes_back(void **state)
{
	struct history tcp = {.nlosses = 1, .gap_us = 100000};
	struct history loopback = {.nlosses = 1, .gap_us = 400000};

	(void)state;
	run("tcp", &tcp);
	run("loopback", &loopback);
}

/* None of those that the communicator began with is left in the end. */
static void all_come_back_one_after_the_other(void **state)
{
	struct history history = {.nlosses = SERVERS + 1, .waits = true, .begins = true};

	(void)state;
	run("tcp", &history);
}

/* Faster than they are taken in. */
static void two_flicker(void **state)
{
	struct history history = {.nlosses = 2, .gap_us = 50000};

	(void)state;
	run("tcp", &history);
}

static void one_of_other_shards_is_not_used(void **state)
{
	const struct smd_server_config other = {.shards = 1};
	struct history history = {.nlosses = 1, .another = &other};

	(void)state;
	run("tcp", &history);
}

/* ---- servers that are added ---- */

static char file[] = "servers-XXXXXX";

static void write_file(const char *text)
{
	char beside[sizeof(file) + 4];
	FILE *stream;

	snprintf(beside, sizeof(beside), "%s.new", file);
	stream = fopen(beside, "w");
	CHECK(stream && fprintf(stream, "%s\n", text) > 0 && fclose(stream) == 0);
	CHECK(rename(beside, file) == 0);
}

/* It is then a server like the others, which may be lost and come back. */
static void *add_and_end_servers(void *arg)
{
	struct history *history = arg;

	while (!atomic_load(&history->begun)) {
		usleep(1000);
	}
	write_file(history->added);
	capture_await("was added and serves; 3 of 4", NULL);
	for (unsigned i = 0; i < SERVERS; i += 2) {
		pool_end_server(history->pool, i, 1);
		pool_restart_server(history->pool, i, &enough);
		usleep(700000);
	}
	atomic_store(&history->over, true);
	return NULL;
}

/* Ranks are told of two; the file goes on with the third, and with one that nobody listens at. */
static void one_is_added(void **state)
{
	struct history history = {.begins = true};
	const struct smd_server_config configs[SERVERS] = {enough, enough, enough};
	char all[sizeof(((struct pool *)NULL)->list) + 64];
	struct pool pool;
	pthread_t thread;
	int made = mkstemp(file);

	(void)state;
	CHECK(made >= 0 && close(made) == 0);
	setenv("SUMMAND_SERVERS_FILE", file, 1);
	history.pool = &pool;
	card_reset((struct card_plan){0});
	pool_start(&pool, over_card ? "fault over tcp" : "tcp", SERVERS, configs);
	snprintf(all, sizeof(all), "%s\n%s,127.0.0.1:1", pool.servers[0].address, pool.list);
	history.added = all;
	*strrchr(pool.list, ',') = '\0';
	write_file(pool.list);
	CHECK(pthread_create(&thread, NULL, add_and_end_servers, &history) == 0);
	pool_run(&pool, RANKS, "added", run_operations, &history);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	unsetenv("SUMMAND_SERVERS_FILE");
	unlink(file);
	memcpy(file, "servers-XXXXXX", sizeof(file));
	for (unsigned i = 0; i < SERVERS; i++) {
		assert_true(pool.servers[i].stats.chunks > 0);
	}
}

static void a_file_that_changes_its_mind_is_not_used(void **state)
{
	struct pool pool;
	smd_context *context;

	(void)state;
	CHECK(close(mkstemp(file)) == 0);
	setenv("SUMMAND_SERVERS_FILE", file, 1);
	write_file("127.0.0.1:1,127.0.0.1:2");
	pool_start(&pool, "tcp", 1, NULL);
	context = pool_context(&pool, 0);
	capture_await("must go on to name the servers that it has named", "127.0.0.1:1");
	smd_context_destroy(context);
	pool_stop(&pool);
	unsetenv("SUMMAND_SERVERS_FILE");
	unlink(file);
	memcpy(file, "servers-XXXXXX", sizeof(file));
}

/* ---- a server that is lost between SEALED and its record ---- */

enum { FIRST = 1, SECOND = 2 }; /* servers that rank 1 loses, one after the other */

struct between {
	pthread_barrier_t barrier; /* of two ranks, which do nothing while they wait at it */
};

struct closing {
	struct smd_task task;
	struct smd_context *context;
	uint64_t targets;
};

static void lose_now(struct smd_task *task)
{
	const struct closing *closing = (struct closing *)task;

	smd_context_lose(closing->context, closing->targets, "the test has it so");
}

/* Of all communicators of the process, as when its lanes end. */
static void lose(struct smd_comm *comm, unsigned server)
{
	struct closing closing = {
		.task = {.run = lose_now}, .context = comm->context, .targets = 1u << server};

	smd_progress_post(&comm->context->progress, &closing.task);
}

static bool is_in_next_epoch(const void *arg)
{
	return ((const struct smd_comm *)arg)->now->index > 0;
}

static void lose_one_and_another(struct pool_rank *rank)
{
	static const struct smd_goal next_epoch = {.done = is_in_next_epoch};
	struct between *between = rank->argument;
	uint64_t limit = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	int32_t one = 1;
	bool more = true;

	CHECK(smd_allreduce(rank->comm, &one, &one, 1, SMD_INT32, SMD_SUM) == 0);
	if (rank->rank == 1) {
		lose(rank->comm, FIRST);
		pthread_barrier_wait(&between->barrier);
		pthread_barrier_wait(&between->barrier);
		lose(rank->comm, SECOND);
	} else {
		pthread_barrier_wait(&between->barrier);
		CHECK(smd_progress_await(
			      &rank->context->progress, NULL, &next_epoch, rank->comm, limit) == 0);
		pthread_barrier_wait(&between->barrier);
	}
	while (more) {
		usleep(1000);
		more = goes_on(rank->comm, rank->rank, look_at(rank->comm).without != 0);
		CHECK(smd_clock_ns() < limit);
	}
}

/* The record leaves it in a table that is older than its loss: nothing is said in such streams
 * when it is there again, or it would not be for long. */
static void one_lost_before_the_record_of_another_comes_back(void **state)
{
	struct between between;
	struct pool pool;

	(void)state;
	setenv("SUMMAND_PROGRESS", "poll", 1);
	pthread_barrier_init(&between.barrier, NULL, 2);
	pool_start(&pool, "loopback", SERVERS, NULL);
	pool_run(&pool, 2, "between", lose_one_and_another, &between);
	pool_stop(&pool);
	assert_false(capture_has("communicator must have been joined", NULL));
	pthread_barrier_destroy(&between.barrier);
	unsetenv("SUMMAND_PROGRESS");
}

/* ---- and then all are lost ---- */

static void end_all_when_one_was_back(struct pool_rank *rank)
{
	struct pool *pool = rank->argument;
	uint64_t limit = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	int32_t one = 1;

	lose(rank->comm, FIRST);
	do {
		CHECK(smd_allreduce(rank->comm, &one, &one, 1, SMD_INT32, SMD_SUM) == 0);
		CHECK(smd_clock_ns() < limit);
	} while (look_at(rank->comm).index < 2 || look_at(rank->comm).without);
	for (unsigned server = 0; server < SERVERS; server++) {
		pool_end_server(pool, server, 1);
	}
	while (smd_allreduce(rank->comm, &one, &one, 1, SMD_INT32, SMD_SUM) == 0) {
		CHECK(smd_clock_ns() < limit);
	}
	for (unsigned server = 0; server < SERVERS; server++) {
		const char *named = strstr(smd_error_message(), rank->pool->servers[server].address);

		CHECK(named && !strstr(named + 1, rank->pool->servers[server].address));
	}
}

/* What ends a communicator names each server that is lost, and not what one was lost for before. */
static void each_that_is_lost_is_named_once(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "loopback", SERVERS, NULL);
	pool_run(&pool, 1, "named", end_all_when_one_was_back, &pool);
	pool_stop(&pool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_comes_back),
		cmocka_unit_test(all_come_back_one_after_the_other),
		cmocka_unit_test(two_flicker),
		cmocka_unit_test(one_lost_before_the_record_of_another_comes_back),
		cmocka_unit_test(each_that_is_lost_is_named_once),
		cmocka_unit_test(one_of_other_shards_is_not_used),
		cmocka_unit_test(one_is_added),
		cmocka_unit_test(a_file_that_changes_its_mind_is_not_used),
	};
	int ret;

	over_card = argc > 1 && strcmp(argv[1], "--card") == 0;
	capture_begin();
	ret = cmocka_run_group_tests(tests, NULL, pool_check_exchanged);
	capture_end();
	return ret;
}
