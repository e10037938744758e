/*
 * Operations on device memory while a server is lost and another is started in its place: it is
 * taken in, and every result is right (specs/design/epochs.md).
 *
 *   test_cuda_returned [--card]
 *
 * With --card network cards read and write device memory (card.h), of the server that is taken in,
 * too. What they were at when a server is lost cannot be had again then, so nothing is in flight at
 * that moment.
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
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"
#include "worker/libsummand/comm.h"

enum { PATIENCE_S = 120, COUNT = 270001, MORE = 10 };

struct history {
	struct pool pool;
	bool quiet;       /* nothing is in flight when the server ends */
	atomic_bool over; /* one has taken its place */
	atomic_uint waiting;
};

static bool over_card;

/* ---- what the table of a communicator lacks, asked of the owner ---- */

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

	look->without = look->comm->now->dead & smd_context_first(look->comm->context->ntargets);
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

static void reduce_and_check(struct pool_rank *rank)
{
	struct buffer send;
	struct buffer recv;

	buffer_create(&send, true, COUNT, rank->rank + 1);
	buffer_create(&recv, true, COUNT, -1);
	CHECK(smd_allreduce(rank->comm, send.data, recv.data, COUNT, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&send, rank->rank + 1);
	buffer_end(&recv, SUM);
}

/* All ranks do the same: rank 0 says whether they go on. */
static bool goes_on(struct pool_rank *rank, bool mine)
{
	int32_t more = rank->rank == 0 && mine;

	CHECK(smd_broadcast(rank->comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

/* Until this rank goes on by a table without it. */
static void wait_for_end(struct pool_rank *rank)
{
	struct history *history = rank->argument;

	atomic_fetch_add(&history->waiting, 1);
	while (history->quiet && look_at(rank->comm).index == 0) {
		usleep(100000);
	}
}

/* An address that two have registered, of which the memory of the second is there: freed and
 * allocated anew, before the first has said so. Lanes of a server that comes back know that too. */
struct reused {
	struct buffer before;
	struct buffer now;
};

static void reused_begin(struct pool_rank *rank, struct reused *reused)
{
	buffer_create(&reused->before, true, COUNT, 100);
	buffer_create(&reused->now, true, COUNT, rank->rank + 1);
	CHECK(buffer_register(rank, reused, &reused->before, &reused->before) == 0);
	CHECK(buffer_register(rank, rank, &reused->before, &reused->now) == 0);
}

static void reused_end(struct pool_rank *rank, struct reused *reused)
{
	const size_t bytes = COUNT * sizeof(int32_t);
	int32_t *data = reused->before.data;

	CHECK(smd_allreduce(rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM) == 0);
	smd_context_deregister(rank->context, reused, data, bytes);
	smd_context_deregister(rank->context, rank, data, bytes);
	buffer_end(&reused->before, 100);
	buffer_end(&reused->now, SUM);
}

static void run_operations(struct pool_rank *rank)
{
	struct history *history = rank->argument;
	uint64_t end_ns = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	struct reused reused;
	struct look look;

	if (over_card) {
		reused_begin(rank, &reused);
	}
	reduce_and_check(rank);
	CHECK(smd_barrier(rank->comm) == 0);
	wait_for_end(rank);
	do {
		reduce_and_check(rank);
		CHECK(smd_clock_ns() < end_ns);
		look = look_at(rank->comm);
	} while (goes_on(rank, !atomic_load(&history->over) || look.without || look.index < 2));
	for (int k = 0; k < MORE; k++) {
		reduce_and_check(rank);
	}
	if (over_card) {
		reused_end(rank, &reused);
	}
	CHECK(look_at(rank->comm).without == 0);
}

static void *end_and_start(void *arg)
{
	/* What need not be may be refused where memory is short. */
	static const struct smd_server_config another = {
		.shards = 2, .chunk_bytes = 16384, .memory_bytes = 512u << 20};
	struct history *history = arg;

	while (atomic_load(&history->waiting) < NRANKS) {
		usleep(1000);
	}
	pool_end_server(&history->pool, 0, 1);
	usleep(100000);
	pool_restart_server(&history->pool, 0, &another);
	atomic_store(&history->over, true);
	return NULL;
}

static void one_comes_back(void **state)
{
	struct history history = {.quiet = over_card};
	pthread_t thread;
	unsigned by_card;

	(void)state;
	card_reset((struct card_plan){0});
	device_pool_start(&history.pool);
	CHECK(pthread_create(&thread, NULL, end_and_start, &history) == 0);
	pool_run(&history.pool, NRANKS, "returned", run_operations, &history);
	pthread_join(thread, NULL);
	by_card = card_counts().to_device;
	pool_stop(&history.pool);
	assert_true(history.pool.servers[0].stats.chunks > 0);
	assert_int_equal(by_card > 0, over_card);
	/* It was used as the other one is: no chunk went through the host. */
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().to_host, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_comes_back, device_begin, device_end),
	};

	over_card = argc > 1 && strcmp(argv[1], "--card") == 0;
	if (over_card) {
		device_transport = "fault";
	}
	gpu_open(FAKE_DRIVER);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
