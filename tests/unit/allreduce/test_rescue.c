/*
 * The last server of a table is lost while others are there that it has not taken in yet: ranks go
 * on with one of them, and every result is what it would have been (specs/design/epochs.md).
 *
 *   test_rescue [--card]
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
#include "worker/libsummand/epoch_rescue.h"

enum { RANKS = 3, COMMS_MAX = 70, LARGE = 60000, PATIENCE_S = 60, IN_VAIN_US = 1000000 };
enum { STAYS, BACK }; /* the last server of the table, and the one that is there again */

static bool over_card;

static const struct smd_server_config enough = {
	.memory_bytes = 256u << 20, .chunk_bytes = 64 << 10, .shards = 2};

/* What happens to STAYS, while BACK is there and in no table. */
enum fate { ENDS, IS_LOST_BY_ONE, IS_LOST_BY_ALL, BOTH_END, SERVES };

struct story {
	struct pool *pool;
	enum fate fate;
	int ncomms;
	pthread_barrier_t ready; /* all ranks reach BACK */
	atomic_bool over;
};

/* ---- on the owner of a rank's progress ---- */

struct task {
	struct smd_task task;
	struct smd_comm *comm;
	uint64_t loses; /* these servers, as when its lanes end */
	enum {
		LEAVES_IT,
		HOLDS,
		RELEASES
	} taking_in;      /* rank 0's, of servers that are there again */
	bool is_told;     /* that another rank waits at BACK, and has lost STAYS */
	uint64_t reach;   /* what it reaches, */
	uint64_t without; /* and what the table is without */
	bool done;
};

/* LOST, as group_rescue.h has it. */
static void tell(struct smd_comm *comm)
{
	const struct smd_frame frame = {
		.kind = SMD_FRAME_LOST,
		.chunk = smd_rescue_id(comm, BACK),
		.operation = 1u << STAYS,
		.ordinal = comm->now->index,
	};

	comm->rescue_from_told(comm, BACK, &frame);
}

static void task_run(struct smd_task *posted)
{
	struct task *task = (struct task *)posted;
	struct smd_context *context = task->comm->context;

	if (task->taking_in != LEAVES_IT) {
		task->comm->agreement.reach.refusals.next_ns =
			task->taking_in == HOLDS ? UINT64_MAX : 0;
	}
	if (task->loses) {
		smd_context_lose(context, task->loses, "the test has it so");
	}
	if (task->is_told) {
		tell(task->comm);
	}
	task->reach = smd_context_reach(context);
	task->without = task->comm->now->dead & smd_context_first(context->ntargets);
	smd_progress_lock(&context->progress);
	task->done = true;
	smd_progress_publish(&context->progress);
}

static bool task_done(const void *arg)
{
	return ((const struct task *)arg)->done;
}

static void do_task(struct task *task)
{
	static const struct smd_goal goal = {.done = task_done};

	task->task.run = task_run;
	smd_progress_await(&task->comm->context->progress, &task->task, &goal, task, 0);
}

static struct task do_on_owner(struct smd_comm *comm, uint64_t loses, int taking_in)
{
	struct task task = {.comm = comm, .loses = loses, .taking_in = taking_in};

	do_task(&task);
	return task;
}

/* ---- operations ---- */

static size_t size_of(int operation)
{
	static const size_t sizes[] = {1, 1000, LARGE, 0, 20000};

	return sizes[operation % 5];
}

/* `buffer` is twice as large as the largest operation. */
static int reduce_and_check(struct smd_comm *comm, int rank, int operation, float *buffer)
{
	float *recv = over_card ? buffer + LARGE : buffer;
	int ret;

	pool_fill(buffer, rank, operation, size_of(operation));
	ret = smd_allreduce(comm, buffer, recv, size_of(operation), SMD_FLOAT32, SMD_SUM);
	if (ret == 0) {
		pool_check_sum(recv, RANKS, operation, size_of(operation));
	}
	return ret;
}

/* All ranks do the same: rank 0 says whether it goes on. */
static bool goes_on(struct smd_comm *comm, int rank, bool mine)
{
	int32_t more = rank == 0 && mine;

	CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

/* BACK is lost, and there again, and no table takes it in. */
static void prepare(struct pool_rank *rank, smd_comm *comms[COMMS_MAX], float *buffer)
{
	const struct story *story = rank->argument;
	uint64_t end_ns = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	int32_t all;

	comms[0] = rank->comm;
	for (int c = 1; c < story->ncomms; c++) {
		char name[16];

		snprintf(name, sizeof(name), "other-%d", c);
		CHECK(smd_comm_create(rank->context, name, RANKS, rank->rank, &comms[c]) == 0);
	}
	for (int c = 0; c < story->ncomms; c++) {
		CHECK(reduce_and_check(comms[c], rank->rank, c, buffer) == 0);
		(void)do_on_owner(comms[c], 0, rank->rank == 0 ? HOLDS : LEAVES_IT);
	}
	(void)do_on_owner(rank->comm, 1u << BACK, LEAVES_IT);
	for (int c = 0; c < story->ncomms; c++) {
		do { /* all see it at the same operation */
			all = do_on_owner(comms[c], 0, LEAVES_IT).without >> BACK & 1;
			CHECK(smd_allreduce(comms[c], &all, &all, 1, SMD_INT32, SMD_MIN) == 0);
			CHECK(smd_clock_ns() < end_ns);
		} while (!all);
	}
	while (!(do_on_owner(rank->comm, 0, LEAVES_IT).reach >> BACK & 1)) {
		usleep(50000); /* the progress is its own meanwhile */
		CHECK(smd_clock_ns() < end_ns);
	}
}

/* Many communicators lack the memory for that. */
static bool some_lack(smd_comm *comms[COMMS_MAX])
{
	return do_on_owner(comms[0], 0, LEAVES_IT).without ||
	       do_on_owner(comms[1], 0, LEAVES_IT).without;
}

static void go_on(struct pool_rank *rank, smd_comm *comms[COMMS_MAX], float *buffer)
{
	const struct story *story = rank->argument;
	uint64_t end_ns = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	bool more = true;

	for (int k = 0; more; k++) {
		for (int c = 0; c < story->ncomms; c++) {
			CHECK(reduce_and_check(comms[c], rank->rank, k, buffer) == 0);
			if (atomic_load(&story->over)) {
				(void)do_on_owner(comms[c], 0, RELEASES);
			}
		}
		CHECK(smd_clock_ns() < end_ns);
		more = goes_on(rank->comm, rank->rank,
			!atomic_load(&story->over) || (story->ncomms == 2 && some_lack(comms)));
	}
}

static void run_operations(struct pool_rank *rank)
{
	struct story *story = rank->argument;
	bool loses =
		story->fate == IS_LOST_BY_ALL || (story->fate == IS_LOST_BY_ONE && rank->rank == 1);
	float *buffer = malloc((size_t)2 * LARGE * sizeof(*buffer));
	smd_comm *comms[COMMS_MAX];

	prepare(rank, comms, buffer);
	pthread_barrier_wait(&story->ready);
	if (loses) {
		(void)do_on_owner(rank->comm, 1u << STAYS, LEAVES_IT);
	}
	if (story->fate == SERVES && rank->rank == 1) {
		struct task told = {.comm = rank->comm, .is_told = true};

		do_task(&told);
	}
	if (story->fate == BOTH_END) {
		while (reduce_and_check(rank->comm, rank->rank, 0, buffer) == 0) {
		}
		CHECK(strstr(smd_error_message(), story->pool->servers[STAYS].address));
		CHECK(strstr(smd_error_message(), story->pool->servers[BACK].address));
	} else {
		go_on(rank, comms, buffer);
	}
	for (int c = 1; c < story->ncomms; c++) {
		smd_comm_destroy(comms[c]);
	}
	free(buffer);
}

/* ---- what happens ---- */

static void *have_it_so(void *arg)
{
	struct story *story = arg;

	pthread_barrier_wait(&story->ready);
	usleep(5000); /* into operations */
	if (story->fate == ENDS || story->fate == BOTH_END) {
		pool_end_server(story->pool, STAYS, 1);
	}
	if (story->fate == BOTH_END) {
		pool_end_server(story->pool, BACK, 1);
	}
	if (story->fate == ENDS) {
		capture_await("is there and serves again", story->pool->servers[BACK].address);
		pool_restart_server(story->pool, STAYS, &enough);
	}
	if (story->fate == SERVES) {
		usleep(IN_VAIN_US);
	}
	atomic_store(&story->over, true);
	return NULL;
}

static void run(const char *transport, enum fate fate, int ncomms)
{
	const struct smd_server_config configs[] = {enough, enough};
	struct story story = {.fate = fate, .ncomms = ncomms};
	struct pool pool;
	const char *says =
		fate == SERVES ? "another rank waits at " : "none is left of the reduction servers";
	unsigned before = capture_count(says);
	pthread_t thread;

	story.pool = &pool;
	card_reset((struct card_plan){0});
	pthread_barrier_init(&story.ready, NULL, RANKS + 1);
	pool_start(&pool, over_card ? "fault" : transport, 2, configs);
	CHECK(pthread_create(&thread, NULL, have_it_so, &story) == 0);
	pool_run(&pool, RANKS, "rescue", run_operations, &story);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	pthread_barrier_destroy(&story.ready);
	assert_true(capture_count(says) > before);
}

/* Each rank finds it out by itself, and both communicators go on; then it is taken in again. */
static void the_last_one_ends(void **state)
{
	(void)state;
	run("tcp", ENDS, 2);
	run("loopback", ENDS, 2);
}

/* The others hear GONE of it, and join it at the server that is there. */
static void one_rank_loses_the_last_one(void **state)
{
	(void)state;
	run("tcp", IS_LOST_BY_ONE, 2);
}

static void all_ranks_lose_the_last_one(void **state)
{
	(void)state;
	run("tcp", IS_LOST_BY_ALL, 2);
}

/* More than groups may form at once on a lane (join.h). */
static void many_communicators_lose_the_last_one(void **state)
{
	(void)state;
	run("tcp", IS_LOST_BY_ALL, COMMS_MAX);
}

/* Then there is none, and what ends the communicators names both. */
static void the_one_that_is_there_ends_too(void **state)
{
	(void)state;
	run("tcp", BOTH_END, 2);
}

/* The others do not come, and its table serves: nothing has happened. */
static void a_rank_is_told_in_vain(void **state)
{
	unsigned before = capture_count("it has lost a rank that lives");

	(void)state;
	run("tcp", SERVES, 2);
	assert_int_equal(capture_count("it has lost a rank that lives"), before);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_one_ends),
		cmocka_unit_test(one_rank_loses_the_last_one),
		cmocka_unit_test(all_ranks_lose_the_last_one),
		cmocka_unit_test(many_communicators_lose_the_last_one),
		cmocka_unit_test(the_one_that_is_there_ends_too),
		cmocka_unit_test(a_rank_is_told_in_vain),
	};
	int ret;

	over_card = argc > 1 && strcmp(argv[1], "--card") == 0;
	capture_begin();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	capture_end();
	return ret;
}
