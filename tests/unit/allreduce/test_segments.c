/*
 * Large operations are done in segments: results are what they would be, operations keep their
 * order, and a table begins while one is under way. Segments are small here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/tuning.h"

enum { RANKS = 3, COUNT = 100000, SEGMENT = 4096, OPERATIONS = 24 };

static atomic_bool wants_table;

/* Once, of all weights as they are, when a test says so. */
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	(void)now_ns;
	if (!atomic_exchange(&wants_table, false)) {
		return false;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	tuning->scale = 1;
	tuning->search.wanted = 1;
	for (unsigned s = 0; s < tuning->nshards; s++) {
		tuning->weights[s] = 1 + s;
	}
	return true;
}

static float *make(int rank, int operation)
{
	float *buffer = malloc(COUNT * sizeof(*buffer));

	pool_fill(buffer, rank, operation, COUNT);
	return buffer;
}

static void check(const float *buffer, int operation, size_t count)
{
	pool_check_sum(buffer, RANKS, operation, count);
}

static float largest(int operation, size_t i)
{
	float most = pool_element(0, operation, i);

	for (int r = 1; r < RANKS; r++) {
		most = fmaxf(most, pool_element(r, operation, i));
	}
	return most;
}

static void cut_small(struct pool_rank *rank)
{
	rank->context->segment_bytes = SEGMENT;
}

static void run_collectives(struct pool_rank *rank)
{
	static const size_t counts[] = {
		COUNT, SEGMENT / 2 + 1, SEGMENT / 2, SEGMENT / 4 + 1, SEGMENT / 4, 5, 0};

	cut_small(rank);
	for (int k = 0; k < 7; k++) {
		size_t count = counts[k];
		float *send = make(rank->rank, k);
		float *recv = make(rank->rank, k + 7);
		int root = k % RANKS;

		CHECK(smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM) == 0);
		check(recv, k, count);
		CHECK(count == COUNT || recv[count] == pool_element(rank->rank, k + 7, count));
		CHECK(smd_reduce(rank->comm, send, rank->rank == root ? recv : NULL, count,
			      SMD_FLOAT32, SMD_MAX, root) == 0);
		for (size_t i = 0; rank->rank == root && i < count; i++) {
			CHECK(recv[i] == largest(k, i));
		}
		CHECK(smd_allreduce(rank->comm, send, send, count, SMD_FLOAT32, SMD_SUM) == 0);
		check(send, k, count);
		pool_fill(send, rank->rank, k, count);
		CHECK(smd_broadcast(rank->comm, send, count, SMD_FLOAT32, root) == 0);
		for (size_t i = 0; i < count; i++) {
			CHECK(send[i] == pool_element(root, k, i));
		}
		free(send);
		free(recv);
	}
}

static void all_collectives_have_their_results(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, RANKS, "segments", run_collectives, NULL);
	pool_stop(&pool);
}

/* Small ones that were begun after large ones do not overtake them on one rank and not on another.
 */
static void run_many(struct pool_rank *rank)
{
	float *buffers[OPERATIONS];
	smd_request *requests[OPERATIONS];

	cut_small(rank);
	for (int k = 0; k < OPERATIONS; k++) {
		buffers[k] = make(rank->rank, k);
		CHECK(smd_allreduce_start(rank->comm, buffers[k], buffers[k],
			      k % 3 ? (size_t)k * 10 : COUNT, SMD_FLOAT32, SMD_SUM,
			      &requests[k]) == 0);
	}
	for (int k = OPERATIONS - 1; k >= 0; k--) {
		CHECK(smd_request_wait(requests[k]) == 0);
		check(buffers[k], k, k % 3 ? (size_t)k * 10 : COUNT);
		free(buffers[k]);
	}
}

static void operations_keep_their_order(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, RANKS, "segments", run_many, NULL);
	pool_stop(&pool);
	pool_start(&pool, "loopback", 1, NULL);
	pool_run(&pool, RANKS, "segments", run_many, NULL);
	pool_stop(&pool);
}

static void run_narrow(struct pool_rank *rank)
{
	float *send = make(rank->rank, 0);
	float *recv = make(rank->rank, 1);
	smd_request *request;

	cut_small(rank);
	CHECK(smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	for (size_t i = 0; i < COUNT; i++) {
		send[i] = (float)(i % 7 * (size_t)(rank->rank + 1)); /* which bfloat16 has */
	}
	CHECK(smd_allreduce(rank->comm, send, recv, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_allreduce_start(rank->comm, send, send, COUNT, SMD_FLOAT32, SMD_SUM, &request) ==
		0);
	while (smd_request_test(request) == 0) {
	}
	CHECK(smd_request_wait(request) == 0);
	for (size_t i = 0; i < COUNT; i++) {
		CHECK(recv[i] == (float)(i % 7 * 6) && send[i] == recv[i]);
	}
	free(send);
	free(recv);
}

static void what_is_sent_narrow_is_widened(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, RANKS, "segments", run_narrow, NULL);
	pool_stop(&pool);
}

/* Of about 98 segments. */
static void run_table(struct pool_rank *rank)
{
	float *buffer = make(rank->rank, 3);
	uint64_t *first = rank->argument;

	cut_small(rank);
	if (rank->rank == 0) {
		atomic_store(&wants_table, true);
	}
	CHECK(smd_allreduce(rank->comm, buffer, buffer, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	check(buffer, 3, COUNT);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		CHECK(rank->comm->now->index == 1);
		*first = rank->comm->now->first;
	}
	free(buffer);
}

static void a_table_begins_within_an_operation(void **state)
{
	struct pool pool;
	uint64_t first = 0;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, RANKS, "segments", run_table, &first);
	pool_stop(&pool);
	assert_in_range(first, 1, COUNT * sizeof(float) / SEGMENT);
}

/* And one is lost while they are under way, then the last one: all fail, begun or not. */
static void run_lost(struct pool_rank *rank)
{
	struct pool *pool = rank->argument;
	float *buffers[2];
	smd_request *requests[2];

	cut_small(rank);
	for (int k = 0; k < 2; k++) {
		buffers[k] = make(rank->rank, k);
		CHECK(smd_allreduce_start(rank->comm, buffers[k], buffers[k], COUNT, SMD_FLOAT32,
			      SMD_SUM, &requests[k]) == 0);
	}
	if (rank->rank == 0) {
		pool_end_server(pool, 1, 1);
	}
	for (int k = 0; k < 2; k++) {
		CHECK(smd_request_wait(requests[k]) == 0);
		check(buffers[k], k, COUNT);
		free(buffers[k]);
	}
}

static void a_lost_server_is_no_loss(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 3, NULL);
	pool_run(&pool, RANKS, "segments", run_lost, &pool);
	pool_stop(&pool);
}

static void run_until_the_last_is_lost(struct pool_rank *rank)
{
	struct pool *pool = rank->argument;
	float *buffers[3];
	smd_request *requests[3];

	cut_small(rank);
	for (int k = 0; k < 3; k++) { /* of the last rank the last one is missing */
		buffers[k] = make(rank->rank, k);
		CHECK(rank->rank == RANKS - 1 && k == 2
				? 1
				: smd_allreduce_start(rank->comm, buffers[k], buffers[k], COUNT,
					  SMD_FLOAT32, SMD_SUM, &requests[k]) == 0);
	}
	CHECK(smd_request_wait(requests[0]) == 0);
	CHECK(smd_request_wait(requests[1]) == 0);
	if (rank->rank == 0) {
		pool_end_server(pool, 0, 1);
	}
	CHECK(rank->rank == RANKS - 1 || smd_request_wait(requests[2]) < 0);
	for (int k = 0; k < 3; k++) {
		free(buffers[k]);
	}
}

static void without_servers_all_segments_fail(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "segments", run_until_the_last_is_lost, &pool);
	pool_stop(&pool);
}

/* What is not waited for when its communicator ends. */
static void run_and_leave(struct pool_rank *rank)
{
	static _Thread_local float buffer[COUNT];
	smd_request *request;
	smd_comm *comm;

	cut_small(rank);
	CHECK(smd_comm_create(rank->context, "left", RANKS, rank->rank, &comm) == 0);
	CHECK(smd_barrier(rank->comm) == 0); /* all have it */
	if (rank->rank) {
		CHECK(smd_allreduce_start(
			      comm, buffer, buffer, COUNT, SMD_FLOAT32, SMD_SUM, &request) == 0);
	}
	smd_comm_destroy(comm);
}

static void a_communicator_ends_before_them(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, RANKS, "segments", run_and_leave, NULL);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_collectives_have_their_results),
		cmocka_unit_test(operations_keep_their_order),
		cmocka_unit_test(what_is_sent_narrow_is_widened),
		cmocka_unit_test(a_table_begins_within_an_operation),
		cmocka_unit_test(a_lost_server_is_no_loss),
		cmocka_unit_test(without_servers_all_segments_fail),
		cmocka_unit_test(a_communicator_ends_before_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
