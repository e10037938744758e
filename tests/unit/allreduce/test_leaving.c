/* Leaving: numbers, memory and connections are there again when their users have gone, and who
 * stays is not harmed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "worker/libsummand/context.h"

/* For each communicator's history the address sanitizer writes half a megabyte of its own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { AGAIN = 500 }; /* the other tree sees that numbers come to their end */
#else
enum { AGAIN = 5000 };
#endif

static smd_context *context_over_tcp(const struct pool *pool)
{
	const struct smd_context_options options = {.servers = pool->list,
		.replica = "one",
		.job = "test",
		.transport = "tcp",
		.connect_timeout_s = 10};
	smd_context *context;

	CHECK(smd_context_create(&options, &context) == 0);
	return context;
}

/* Memory for one communicator of one rank, so a second one is refused until the first has left. */
static void a_slot_is_there_again_when_a_communicator_has_left(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = 64 << 10,
		.memory_bytes = 3 * SMD_BUFFER_POOL_STRIDE(64 << 10)};
	struct pool pool;
	smd_context *context;
	smd_comm *first;
	smd_comm *second;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	context = context_over_tcp(&pool);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(smd_comm_create(context, "first", 1, 0, &first), 0);
		assert_int_equal(smd_comm_create(context, "second", 1, 0, &second), -ENOSPC);
		assert_string_equal(smd_error_message(),
			"group test/second: the reduction server's memory has no slot left for 1 "
			"ranks (2 of 3 buffers of 65536 bytes are promised); give it a larger "
			"--memory-limit");
		assert_int_equal(smd_barrier(first), 0);
		smd_comm_destroy(first);
	}
	smd_context_destroy(context);
	pool_stop(&pool);
}

static void numbers_are_used_again(void **state)
{
	struct pool pool;
	smd_context *context;
	smd_comm *comm;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	context = context_over_tcp(&pool);
	for (int i = 0; i < AGAIN; i++) {
		assert_int_equal(smd_comm_create(context, "again", 1, 0, &comm), 0);
		if (i % 100 == 0) {
			assert_int_equal(smd_barrier(comm), 0);
		}
		smd_comm_destroy(comm);
	}
	smd_context_destroy(context);
	pool_stop(&pool);
}

static void a_context_has_4096_communicators_at_most(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = 64,
		.window = 1,
		.memory_bytes = 65536 * SMD_BUFFER_POOL_STRIDE(64)};
	static smd_comm *comms[SMD_COMMS_MAX];
	smd_comm *more;
	struct pool pool;
	smd_context *context;
	char name[32];

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it is on one thread */
#endif
	pool_start(&pool, "tcp", 1, &config);
	context = context_over_tcp(&pool);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		snprintf(name, sizeof(name), "group-%u", i);
		assert_int_equal(smd_comm_create(context, name, 1, 0, &comms[i]), 0);
	}
	assert_int_equal(smd_comm_create(context, "more", 1, 0, &more), -EMFILE);
	assert_string_equal(smd_error_message(),
		"group more: a context must have at most 4096 communicators at once");
	smd_comm_destroy(comms[1234]);
	assert_int_equal(smd_comm_create(context, "more", 1, 0, &comms[1234]), 0);
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		smd_comm_destroy(comms[i]);
	}
	smd_context_destroy(context);
	pool_stop(&pool);
}

/* Programs open many communicators, and most are idle. */
static void use_many(struct pool_rank *rank)
{
	enum { MANY = 64, COUNT = 20000 };
	smd_comm *comms[MANY];
	smd_request *requests[MANY];
	int32_t *values = malloc(MANY * COUNT * sizeof(*values));
	char name[32];

	for (int c = 0; c < MANY; c++) {
		snprintf(name, sizeof(name), "many-%d", c);
		CHECK(smd_comm_create(rank->context, name, rank->nranks, rank->rank, &comms[c]) ==
			0);
	}
	for (int i = 0; i < MANY * COUNT; i++) {
		values[i] = i + rank->rank;
	}
	for (int c = 0; c < MANY; c++) {
		CHECK(smd_allreduce_start(comms[c], values + c * COUNT, values + c * COUNT, COUNT,
			      SMD_INT32, SMD_SUM, &requests[c]) == 0);
	}
	for (int c = 0; c < MANY; c++) {
		CHECK(smd_request_wait(requests[c]) == 0);
		smd_comm_destroy(comms[c]);
	}
	for (int i = 0; i < MANY * COUNT; i++) {
		CHECK(values[i] == 3 * i + 3);
	}
	free(values);
}

static void many_communicators_share_little_memory(void **state)
{
	/* 66 sure slots of 3 ranks, and hardly more than the eighth that is for other jobs */
	const struct smd_server_config config = {.shards = 2,
		.chunk_bytes = 16 << 10,
		.memory_bytes = 2 * 304 * SMD_BUFFER_POOL_STRIDE(16 << 10)};
	const struct smd_server_config configs[2] = {config, config};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, configs);
	pool_run(&pool, 3, "many", use_many, NULL);
	pool_stop(&pool);
}

static void come_and_go(struct pool_rank *rank)
{
	for (int i = 0; i < 25; i++) {
		smd_context *context = pool_context(rank->pool, 100 + rank->rank);
		struct raw raw;

		smd_context_destroy(context);
		raw_open(&raw, rank->pool, 0);
		if (i % 2) {
			raw_say_hello(&raw, "hasty", 0, "");
		}
		raw_close(&raw);
		CHECK(smd_barrier(rank->comm) == 0);
	}
}

static void connections_come_and_go_beside_operations(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, 4, "stay", come_and_go, NULL);
	pool_stop(&pool);
}

/* Who has all results leaves, while the others may still be receiving theirs. */
static void leave_at_once(struct pool_rank *rank)
{
	for (int i = 0; i < pool_rounds(100); i++) {
		int32_t values[1000] = {i};
		smd_comm *comm;

		CHECK(smd_comm_create(rank->context, "short", rank->nranks, rank->rank, &comm) ==
			0);
		CHECK(smd_allreduce(comm, values, values, 1000, SMD_INT32, SMD_SUM) == 0);
		CHECK(values[0] == i * rank->nranks);
		smd_comm_destroy(comm);
	}
}

static void leaving_after_the_last_operation_harms_nobody(void **state)
{
	static const char *const transports[] = {"tcp", "loopback"};

	(void)state;
	for (int t = 0; t < (pool_is_rdma() ? 1 : 2); t++) { /* both would go over RDMA */
		struct pool pool;

		pool_start(&pool, transports[t], 2, NULL);
		pool_run(&pool, 4, "long", leave_at_once, NULL);
		pool_stop(&pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_is_there_again_when_a_communicator_has_left),
		cmocka_unit_test(numbers_are_used_again),
		cmocka_unit_test(a_context_has_4096_communicators_at_most),
		cmocka_unit_test(many_communicators_share_little_memory),
		cmocka_unit_test(connections_come_and_go_beside_operations),
		cmocka_unit_test(leaving_after_the_last_operation_harms_nobody),
	};
	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(leaving_after_the_last_operation_harms_nobody),
	};

	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}

	return cmocka_run_group_tests(tests, NULL, NULL);
}
