/*
 * A rank begins when a server that it was told of is lost already: it begins without it where other
 * ranks wait, and takes it in when it is there; or with another that was started in its place. And
 * servers are lost while ranks connect (specs/design/epochs.md).
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
#include "worker/libsummand/comm.h"

enum { RANKS = 3, SERVERS = 3, LOST = 1, ELEMENTS = 50000, PATIENCE_S = 60 };

struct late {
	struct pool *pool;
	uint64_t without;             /* servers that the first table is without, until `joined` */
	unsigned rest_us;             /* in the middle of the work */
	smd_context *contexts[RANKS]; /* of ranks that have reached all servers, */
	atomic_uint connected;        /* and how many have */
	atomic_bool joined;
};

struct late_rank {
	struct late *late;
	int rank;
	pthread_t thread;
};

static void reduce_and_check(struct smd_comm *comm, int rank, float *buffer)
{
	for (int i = 0; i < ELEMENTS; i++) {
		buffer[i] = (float)(rank + 1) * 0.1f + (float)i * 0.01f;
	}
	CHECK(smd_allreduce(comm, buffer, buffer, ELEMENTS, SMD_FLOAT32, SMD_SUM) == 0);
	for (int i = 0; i < ELEMENTS; i++) {
		float sum = 1 * 0.1f + (float)i * 0.01f;

		for (int r = 1; r < RANKS; r++) {
			sum += (float)(r + 1) * 0.1f + (float)i * 0.01f;
		}
		CHECK(memcmp(&buffer[i], &sum, sizeof(sum)) == 0);
	}
}

struct look {
	struct smd_task task;
	struct smd_comm *comm;
	uint64_t without;
	bool done;
};

static void look_now(struct smd_task *task)
{
	struct look *look = (struct look *)task;
	struct smd_progress *progress = &look->comm->context->progress;

	look->without = look->comm->now->dead & ((1u << SERVERS) - 1);
	smd_progress_lock(progress);
	look->done = true;
	smd_progress_publish(progress);
}

static bool look_done(const void *arg)
{
	return ((const struct look *)arg)->done;
}

/* The servers that the communicator's table is without. */
static uint64_t look_at(struct smd_comm *comm)
{
	static const struct smd_goal goal = {.done = look_done};
	struct look look = {.task = {.run = look_now}, .comm = comm};

	smd_progress_await(&comm->context->progress, &look.task, &goal, &look, 0);
	return look.without;
}

/* Until the table has all servers, on rank 0, which the others follow. */
static void reduce_until_all_serve(struct smd_comm *comm, int rank, float *buffer)
{
	uint64_t end_ns = smd_clock_ns() + PATIENCE_S * SMD_SECOND_NS;
	int32_t more;

	do {
		reduce_and_check(comm, rank, buffer);
		usleep(1000);
		CHECK(smd_clock_ns() < end_ns);
		more = rank == 0 && look_at(comm) != 0;
		CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	} while (more);
	reduce_and_check(comm, rank, buffer);
}

static void *run_rank(void *arg)
{
	const struct late_rank *self = arg;
	struct late *late = self->late;
	float *buffer = malloc(ELEMENTS * sizeof(*buffer));
	smd_context *context = pool_context(late->pool, self->rank);
	smd_comm *comm;
	smd_comm *second;

	late->contexts[self->rank] = context;
	atomic_fetch_add(&late->connected, 1);
	CHECK(smd_comm_create(context, "late", RANKS, self->rank, &comm) == 0);
	reduce_and_check(comm, self->rank, buffer);
	CHECK(look_at(comm) == late->without || !late->without);
	reduce_and_check(comm, self->rank, buffer);
	atomic_store(&late->joined, true);
	reduce_until_all_serve(comm, self->rank, buffer);
	usleep(late->rest_us);
	/* Others begin one with it; the late rank's first table never has it. */
	CHECK(smd_comm_create(context, "second", RANKS, self->rank, &second) == 0);
	reduce_until_all_serve(second, self->rank, buffer);
	smd_comm_destroy(second);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	free(buffer);
	return NULL;
}

static void start(struct late_rank *rank)
{
	CHECK(pthread_create(&rank->thread, NULL, run_rank, rank) == 0);
}

static const struct smd_server_config enough = {.memory_bytes = 512u << 20, .heartbeat_ms = 2000};

/* All ranks but that one. */
static void start_others(struct late *late, struct late_rank *ranks, int late_rank)
{
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct late_rank){.late = late, .rank = r};
		if (r != late_rank) {
			start(&ranks[r]);
		}
	}
}

/* They wait for the one that is late. */
static void await_others(struct late *late)
{
	while (atomic_load(&late->connected) < RANKS - 1) {
		usleep(1000);
	}
	usleep(500000); /* they have said JOIN */
}

static void await_joined(struct late *late)
{
	while (!atomic_load(&late->joined)) {
		usleep(1000);
	}
}

static void end(struct pool *pool, struct late_rank *ranks)
{
	for (int r = 0; r < RANKS; r++) {
		pthread_join(ranks[r].thread, NULL);
	}
	pool_stop(pool);
	assert_true(pool->servers[LOST].stats.chunks > 0);
}

static void start_pool(struct pool *pool, const char *transport)
{
	const struct smd_server_config configs[SERVERS] = {enough, enough, enough};

	pool_start(pool, transport, SERVERS, configs);
}

static void await_without(const struct pool *pool, unsigned server)
{
	char waits[128];

	snprintf(waits, sizeof(waits), "%s", pool->servers[server].address);
	capture_await("cannot be reached, and other processes of the job run", waits);
}

static void run(const char *transport, int late_rank)
{
	struct pool pool;
	struct late late = {.pool = &pool, .without = 1u << LOST};
	struct late_rank ranks[RANKS];

	start_pool(&pool, transport);
	start_others(&late, ranks, late_rank);
	await_others(&late);
	pool_end_server(&pool, LOST, 1);
	start(&ranks[late_rank]);
	await_without(&pool, LOST);
	await_joined(&late);
	pool_restart_server(&pool, LOST, &enough);
	end(&pool, ranks);
}

/* It was started again before the late rank came, at once or when the others have found that. */
static void run_restarted(const char *transport, int late_rank, bool found, unsigned rest_us)
{
	struct pool pool;
	struct late late = {.pool = &pool, .rest_us = rest_us};
	struct late_rank ranks[RANKS];

	start_pool(&pool, transport);
	start_others(&late, ranks, late_rank);
	await_others(&late);
	pool_end_server(&pool, LOST, 1);
	pool_restart_server(&pool, LOST, &enough);
	if (found) {
		usleep(1000000);
	}
	start(&ranks[late_rank]);
	end(&pool, ranks);
}

static void one_that_follows_begins_without_it(void **state)
{
	(void)state;
	run("tcp", 2);
	run("loopback", 1);
}

static void the_one_that_leads_begins_without_it(void **state)
{
	(void)state;
	run("tcp", 0);
}

static void one_that_follows_begins_with_another_in_its_place(void **state)
{
	(void)state;
	run_restarted("tcp", 2, false, 0);
	run_restarted("loopback", 1, true, 0);
	/* For longer than shards wait to hear that ranks have lost another process (join.h). */
	run_restarted("tcp", 2, true, 6000000);
}

static void the_one_that_leads_begins_with_another_in_its_place(void **state)
{
	(void)state;
	run_restarted("tcp", 0, false, 0);
	run_restarted("tcp", 0, true, 0);
}

/* One that waits loses a server that the others have, which say that it is gone. It lives, and can
 * say which server it is only when the last rank has joined: that may be later than one that had
 * died is waited for. */
static void run_cut(int loser, int late_rank)
{
	struct pool pool;
	struct late late = {.pool = &pool};
	struct late_rank ranks[RANKS];

	setenv("SUMMAND_HEARTBEAT_LIMIT", "500ms", 1);
	start_pool(&pool, "tcp");
	start_others(&late, ranks, late_rank);
	await_others(&late);
	pool_lose(late.contexts[loser], LOST);
	usleep(4000000); /* twice what is waited for one that has died */
	start(&ranks[late_rank]);
	end(&pool, ranks);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
}

static void one_that_has_lost_a_server_is_not_taken_for_dead(void **state)
{
	(void)state;
	run_cut(1, 2);
	run_cut(2, 0);
}

/* Of the servers that the group was to begin with none is left when the last rank comes: those who
 * wait have joined again, where the others are there, when the last of them went. */
static void run_replaced(int now)
{
	struct pool pool;
	struct late late = {.pool = &pool};
	struct late_rank ranks[RANKS];

	start_pool(&pool, "tcp");
	start_others(&late, ranks, 1);
	await_others(&late);
	for (unsigned server = 0; server < SERVERS; server++) {
		pool_end_server(&pool, server, now);
		pool_restart_server(&pool, server, &enough);
		usleep(700000); /* it is tried again after 0.25 s */
	}
	start(&ranks[1]);
	end(&pool, ranks);
}

static void all_are_replaced_one_after_the_other(void **state)
{
	(void)state;
	run_replaced(1);
	run_replaced(0);
}

/* A late rank waits for one that is lost, and another is lost meanwhile. */
static void one_begins_without_two(void **state)
{
	const unsigned second = LOST + 1;
	struct pool pool;
	struct late late = {.pool = &pool, .without = 1u << LOST | 1u << second};
	struct late_rank ranks[RANKS];

	(void)state;
	start_pool(&pool, "tcp");
	start_others(&late, ranks, 2);
	await_others(&late);
	pool_end_server(&pool, LOST, 1);
	start(&ranks[2]);
	usleep(1000000); /* it has reached the others */
	pool_end_server(&pool, second, 1);
	await_without(&pool, second);
	await_joined(&late);
	pool_restart_server(&pool, LOST, &enough);
	pool_restart_server(&pool, second, &enough);
	end(&pool, ranks);
}

/* All ranks have reached the others, and wait for that one. */
static void one_that_is_lost_while_ranks_connect_is_tried_again(void **state)
{
	const unsigned last = SERVERS - 1;
	struct pool pool;
	struct late late = {.pool = &pool};
	struct late_rank ranks[RANKS];

	(void)state;
	start_pool(&pool, "tcp");
	pool_end_server(&pool, last, 1);
	start_others(&late, ranks, RANKS);
	usleep(1000000);
	pool_end_server(&pool, LOST, 1);
	capture_await("it is tried again until the time to connect is over",
		pool.servers[LOST].address);
	pool_restart_server(&pool, LOST, &enough);
	pool_restart_server(&pool, last, &enough);
	end(&pool, ranks);
}

static void *join_and_reduce(void *arg)
{
	const struct late_rank *self = arg;
	struct late *late = self->late;
	float *buffer = malloc(ELEMENTS * sizeof(*buffer));
	smd_comm *comm;

	if (!late->contexts[self->rank]) {
		late->contexts[self->rank] = pool_context(late->pool, self->rank);
	}
	CHECK(smd_comm_create(late->contexts[self->rank], "together", RANKS, self->rank, &comm) ==
		0);
	reduce_and_check(comm, self->rank, buffer);
	smd_comm_destroy(comm);
	smd_context_destroy(late->contexts[self->rank]);
	free(buffer);
	return NULL;
}

/* All begin at once, and a server is lost that all but one have reached: when that one was welcomed
 * by the others, no rank was in a group yet. */
static void one_that_connects_hears_that_others_run(void **state)
{
	const int last = RANKS - 1;
	struct pool pool;
	struct late late = {.pool = &pool};
	struct late_rank ranks[RANKS];

	(void)state;
	start_pool(&pool, "tcp");
	for (int r = 0; r < last; r++) {
		late.contexts[r] = pool_context(&pool, r);
	}
	pool_end_server(&pool, LOST, 1);
	for (int r = last; r >= 0; r--) {
		ranks[r] = (struct late_rank){.late = &late, .rank = r};
		CHECK(pthread_create(&ranks[r].thread, NULL, join_and_reduce, &ranks[r]) == 0);
		usleep(500000); /* the last one has been welcomed elsewhere */
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(ranks[r].thread, NULL);
	}
	await_without(&pool, LOST); /* as others run, and not because its time is over */
	pool_stop(&pool);
}

/* Nobody has ever reached it, so there is no rank that knows how many shards it has; when it is
 * there it serves. */
static void *start_the_last(void *arg)
{
	struct pool *pool = arg;

	capture_await("the time to connect is over", pool->servers[1].address);
	capture_await("group without: epoch 1", NULL);
	pool_restart_server(pool, 1, &enough);
	return NULL;
}

static void *work_until_it_serves(void *arg)
{
	const struct late_rank *self = arg;
	const struct smd_context_options options = {.servers = self->late->pool->list,
		.replica = "worker",
		.job = "test",
		.transport = "tcp",
		.connect_timeout_s = 5};
	smd_context *context;
	smd_comm *comm;
	int32_t more = 1;

	CHECK(smd_context_create(&options, &context) == 0);
	CHECK(smd_comm_create(context, "without", RANKS, self->rank, &comm) == 0);
	for (int k = 0; more; k++) {
		float values[100];

		pool_fill(values, self->rank, k, 100);
		CHECK(smd_allreduce(comm, values, values, 100, SMD_FLOAT32, SMD_SUM) == 0);
		pool_check_sum(values, RANKS, k, 100);
		more = self->rank != 0 || !capture_has("is there and serves again", NULL);
		CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	}
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	return NULL;
}

static void all_begin_without_one_that_none_has_reached(void **state)
{
	struct pool pool;
	struct late late = {.pool = &pool};
	struct late_rank ranks[RANKS];
	pthread_t thread;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_end_server(&pool, 1, 1);
	CHECK(pthread_create(&thread, NULL, start_the_last, &pool) == 0);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct late_rank){.late = &late, .rank = r};
		CHECK(pthread_create(&ranks[r].thread, NULL, work_until_it_serves, &ranks[r]) == 0);
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(ranks[r].thread, NULL);
	}
	pthread_join(thread, NULL);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_follows_begins_without_it),
		cmocka_unit_test(the_one_that_leads_begins_without_it),
		cmocka_unit_test(one_that_follows_begins_with_another_in_its_place),
		cmocka_unit_test(the_one_that_leads_begins_with_another_in_its_place),
		cmocka_unit_test(one_that_has_lost_a_server_is_not_taken_for_dead),
		cmocka_unit_test(all_are_replaced_one_after_the_other),
		cmocka_unit_test(one_begins_without_two),
		cmocka_unit_test(one_that_connects_hears_that_others_run),
		cmocka_unit_test(one_that_is_lost_while_ranks_connect_is_tried_again),
		cmocka_unit_test(all_begin_without_one_that_none_has_reached),
	};
	int ret;

	capture_begin();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	capture_end();
	return ret;
}
