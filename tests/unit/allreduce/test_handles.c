/*
 * Contexts, communicators and requests that are none, are none any more, or are used twice: every
 * call says so, and whoever is beside them goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/object.h"

enum { COUNT = 1000, MANY = 5000 };

static struct pool pool;

static int set_up(void **state)
{
	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

static smd_comm *alone(smd_context *context, const char *group)
{
	smd_comm *comm;

	assert_int_equal(smd_comm_create(context, group, 1, 0, &comm), 0);
	return comm;
}

static void assert_says(const char *text)
{
	if (!strstr(smd_error_message(), text)) {
		fail_msg("\"%s\" must be in \"%s\"", text, smd_error_message());
	}
}

static smd_request *start(smd_comm *comm, float *values)
{
	smd_request *request;

	CHECK(smd_allreduce_start(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, &request) ==
		0);
	return request;
}

/* Every call that takes a communicator. */
static void assert_no_comm(smd_comm *comm, const char *text)
{
	float values[COUNT] = {0};
	smd_request *request = NULL;

	assert_int_equal(smd_comm_rank(comm), -EINVAL);
	assert_says(text);
	assert_int_equal(smd_comm_size(comm), -EINVAL);
	assert_int_equal(smd_allreduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM), -EINVAL);
	assert_says(text);
	assert_int_equal(smd_reduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, 0), -EINVAL);
	assert_int_equal(smd_broadcast(comm, values, COUNT, SMD_FLOAT32, 0), -EINVAL);
	assert_int_equal(smd_barrier(comm), -EINVAL);
	assert_int_equal(
		smd_allreduce_start(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, &request),
		-EINVAL);
	assert_says(text);
	assert_int_equal(
		smd_reduce_start(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, 0, &request),
		-EINVAL);
	assert_int_equal(
		smd_broadcast_start(comm, values, COUNT, SMD_FLOAT32, 0, &request), -EINVAL);
	assert_null(request);
	smd_comm_set_stream(comm, NULL);
	assert_says(text);
	smd_comm_destroy(comm);
}

static void assert_no_context(smd_context *context, const char *text)
{
	struct smd_stats stats;
	smd_comm *comm = NULL;

	assert_int_equal(smd_comm_create(context, "none", 1, 0, &comm), -EINVAL);
	assert_null(comm);
	assert_says(text);
	memset(&stats, 1, sizeof(stats));
	smd_context_stats(context, &stats);
	assert_int_equal(stats.operations, 0);
	assert_says(text);
	smd_context_destroy(context);
}

static void assert_no_request(smd_request *request)
{
	static const char text[] = "request: must have been started and not yet been waited for";

	assert_int_equal(smd_request_test(request), -EINVAL);
	assert_says(text);
	assert_int_equal(smd_request_wait(request), -EINVAL);
	assert_says(text);
}

static void nothing(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "nothing");
	float values[COUNT] = {0};

	(void)state;
	assert_no_context(
		NULL, "context: must be one that smd_context_create() has made, got NULL");
	assert_no_comm(NULL, "communicator: must be one that smd_comm_create() has made, got NULL");
	assert_no_request(NULL);
	assert_int_equal(smd_context_create(NULL, NULL), -EINVAL);
	assert_says("out: must not be NULL");
	assert_int_equal(smd_comm_create(context, "nothing", 1, 0, NULL), -EINVAL);
	assert_says("out: must not be NULL");
	assert_int_equal(
		smd_allreduce_start(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM, NULL),
		-EINVAL);
	assert_says("out: must not be NULL");
	smd_context_stats(context, NULL);
	assert_int_equal(smd_barrier(comm), 0);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

/* One for the other; numbers that are no address. */
static void something_else(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "else");

	(void)state;
	assert_no_context((smd_context *)(void *)comm, "got something else");
	assert_no_comm((smd_comm *)(void *)context, "got something else");
	assert_no_context((smd_context *)(uintptr_t)7, "got something else");
	assert_no_request((smd_request *)(uintptr_t)1);
	assert_no_request((smd_request *)UINTPTR_MAX);
	assert_no_request((smd_request *)(void *)comm);
	assert_int_equal(smd_barrier(comm), 0);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

static void after_the_end(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "end");

	(void)state;
	smd_comm_destroy(comm);
	assert_no_comm(
		comm, "communicator: must be one that smd_comm_create() has made, got one that");
	smd_context_destroy(context);
	assert_no_context(
		context, "context: must be one that smd_context_create() has made, got one that");
	assert_no_comm(comm, "got one that was destroyed");
}

/* What comes after it is not taken for it. */
static void after_others_have_come(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_context *contexts[SMD_CONTEXTS_KEPT / 4];
	smd_comm *stale = alone(context, "stale");
	smd_comm *next;

	(void)state;
	smd_comm_destroy(stale);
	for (int i = 0; i < SMD_COMMS_KEPT / 4; i++) {
		next = alone(context, "next");
		assert_ptr_not_equal(next, stale);
		assert_no_comm(stale, "got one that was destroyed");
		smd_comm_destroy(next);
	}
	smd_context_destroy(context);
	for (int i = 0; i < SMD_CONTEXTS_KEPT / 4; i++) {
		contexts[i] = pool_context(&pool, 0);
		assert_no_context(context, "got one that was destroyed");
	}
	for (int i = 0; i < SMD_CONTEXTS_KEPT / 4; i++) {
		smd_context_destroy(contexts[i]);
	}
}

static void a_second_wait(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "second");
	float values[2][COUNT] = {{0}};
	smd_request *first = start(comm, values[0]);
	smd_request *second;

	(void)state;
	assert_int_equal(smd_request_wait(first), 0);
	assert_no_request(first);
	/* In the same memory. */
	second = start(comm, values[1]);
	assert_no_request(first);
	assert_int_equal(smd_request_wait(second), 0);
	assert_no_request(second);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

static void many_at_once(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "many");
	smd_request **requests = calloc(MANY, sizeof(smd_request *));
	float values[COUNT] = {0};

	(void)state;
	for (int i = 0; i < MANY; i++) {
		requests[i] = start(comm, values);
	}
	for (int i = MANY - 1; i >= 0; i -= 2) {
		assert_int_equal(smd_request_wait(requests[i]), 0);
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(smd_request_wait(requests[i]), i % 2 ? -EINVAL : 0);
	}
	free(requests);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

static atomic_bool has_left;

/* The buffers are the caller's again, and the others hear of it. */
static void leave_in_flight(struct pool_rank *rank)
{
	float *values = calloc(COUNT, sizeof(*values));

	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		smd_request *open = start(rank->comm, values);

		smd_comm_destroy(rank->comm);
		atomic_store(&has_left, true);
		memset(values, 1, COUNT * sizeof(*values));
		free(values);
		CHECK(smd_request_test(open) == -EINVAL);
		CHECK(smd_request_wait(open) == -EINVAL);
		CHECK(strstr(smd_error_message(), "nor have been left by its communicator's end"));
		return;
	}
	while (!atomic_load(&has_left)) {
		usleep(1000);
	}
	CHECK(smd_barrier(rank->comm) < 0);
	CHECK(strstr(smd_error_message(),
		"rank 0 (rank-0) has destroyed its communicator with operations in flight"));
	free(values);
}

static void destroyed_in_flight(void **state)
{
	(void)state;
	pool_run(&pool, 2, "in flight", leave_in_flight, NULL);
}

/* What is done and was never waited for. */
static void destroyed_before_the_wait(void **state)
{
	smd_context *context = pool_context(&pool, 0);
	smd_comm *comm = alone(context, "never");
	float values[COUNT] = {0};
	smd_request *request = start(comm, values);

	(void)state;
	while (smd_request_test(request) == 0) {
	}
	smd_comm_destroy(comm);
	assert_no_request(request);
	smd_context_destroy(context);
	assert_no_request(request);
}

/* Its communicators end with it, so that others do not wait for them. */
static void end_the_context_first(struct pool_rank *rank)
{
	smd_context *context = pool_context(rank->pool, rank->rank);
	smd_comm *comms[2];
	float values[COUNT] = {0};
	smd_request *request;

	CHECK(smd_comm_create(context, "first", 2, rank->rank, &comms[0]) == 0);
	CHECK(smd_comm_create(context, "first too", 2, rank->rank, &comms[1]) == 0);
	CHECK(smd_barrier(comms[0]) == 0);
	if (rank->rank == 0) {
		request = start(comms[1], values);
		smd_context_destroy(context);
		for (int i = 0; i < 2; i++) {
			CHECK(smd_barrier(comms[i]) == -EINVAL);
			smd_comm_destroy(comms[i]);
		}
		CHECK(smd_request_wait(request) == -EINVAL);
		return;
	}
	CHECK(smd_barrier(comms[0]) < 0);
	CHECK(strstr(smd_error_message(), "rank 0"));
	CHECK(smd_barrier(comms[1]) < 0);
	smd_comm_destroy(comms[0]);
	smd_comm_destroy(comms[1]);
	smd_context_destroy(context);
}

static void the_context_first(void **state)
{
	(void)state;
	pool_run(&pool, 2, "outer", end_the_context_first, NULL);
	/* Nobody is left in them. */
	pool_run(&pool, 2, "outer", end_the_context_first, NULL);
}

/* What was ended is used again, by threads that make and end their own. */
static void *make_and_end(void *arg)
{
	int thread = (int)(intptr_t)arg;

	for (int i = 0; i < 20; i++) {
		smd_context *context = pool_context(&pool, thread);
		float values[COUNT] = {0};
		char group[32];
		smd_comm *comm;
		smd_request *request;

		snprintf(group, sizeof(group), "thread %d", thread);
		CHECK(smd_comm_create(context, group, 1, 0, &comm) == 0);
		request = start(comm, values);
		CHECK(smd_request_wait(request) == 0);
		CHECK(smd_request_wait(request) == -EINVAL);
		smd_comm_destroy(comm);
		smd_context_destroy(context);
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (intptr_t i = 0; i < 4; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, make_and_end, (void *)i), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(something_else),
		cmocka_unit_test(after_the_end),
		cmocka_unit_test(after_others_have_come),
		cmocka_unit_test(a_second_wait),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(destroyed_in_flight),
		cmocka_unit_test(destroyed_before_the_wait),
		cmocka_unit_test(the_context_first),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
