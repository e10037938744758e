/*
 * What operations on device memory do to streams: they take none of their own while they wait, put
 * no host functions into them where that can be avoided, and leave those alone that are being
 * captured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"

enum { WORDS = 30000, WAITING = 12 };

static int begin(void **state)
{
	device_begin(state);
	gpu_set(SMD_FAKE_MEMOPS, 1);
	return 0;
}

/* ---- fences ---- */

/* More operations wait for rank 0's stream than the device has queues; others go on meanwhile. */
static void wait_for_a_stream(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	CUstream idle = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data[WAITING];
	smd_request *requests[WAITING];
	struct buffer other;
	unsigned streams;
	smd_comm *comm;
	void *hold = NULL;

	CHECK(smd_comm_create(rank->context, "other", NRANKS, rank->rank, &comm) == 0);
	smd_comm_set_stream(comm, idle);
	smd_comm_set_stream(rank->comm, stream);
	for (int i = 0; i < WAITING; i++) {
		data[i] = gpu_alloc(WORDS * sizeof(*data[i]));
	}
	buffer_create(&other, true, WORDS, rank->rank + 1);
	CHECK(smd_allreduce(comm, other.data, other.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	streams = gpu_streams();
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		hold = gpu_hold(stream);
	}
	for (int i = 0; i < WAITING; i++) {
		gpu_fill(data[i], (uint32_t)(rank->rank + 1), WORDS, stream);
		CHECK(smd_allreduce_start(rank->comm, data[i], data[i], WORDS, SMD_INT32, SMD_SUM,
			      &requests[i]) == 0);
	}
	CHECK(smd_barrier(comm) == 0);
	CHECK(gpu_streams() == streams);
	CHECK(smd_barrier(comm) == 0);
	CHECK(smd_allreduce(comm, other.data, other.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	CHECK(smd_request_test(requests[0]) == 0);
	if (hold) {
		gpu_let_go(hold, stream);
	}
	for (int i = 0; i < WAITING; i++) {
		int32_t result[2];

		CHECK(smd_request_wait(requests[i]) == 0);
		gpu_download(result, data[i] + WORDS - 2, sizeof(result));
		CHECK(result[0] == SUM && result[1] == SUM);
		gpu_free(data[i]);
	}
	smd_comm_destroy(comm);
	buffer_end(&other, NRANKS * SUM);
	gpu_stream_destroy(idle);
	gpu_stream_destroy(stream);
}

static void operations_that_wait_take_no_stream_and_no_host_function(void **state)
{
	unsigned callbacks = gpu_callbacks();

	(void)state;
	device_run(wait_for_a_stream, NULL);
	assert_int_equal(gpu_callbacks(), callbacks);
}

static void a_device_whose_streams_cannot_write_has_host_functions(void **state)
{
	unsigned callbacks = gpu_callbacks();

	(void)state;
	if (!gpu_is_fake()) {
		skip(); /* of a real one they can */
	}
	gpu_set(SMD_FAKE_MEMOPS, 0);
	device_run(wait_for_a_stream, NULL);
	assert_true(gpu_callbacks() > callbacks + NRANKS * WAITING);
}

/* ---- captures ---- */

static void sum(struct pool_rank *rank, smd_comm *comm)
{
	struct buffer buffer;

	buffer_create(&buffer, true, WORDS, rank->rank + 1);
	CHECK(smd_allreduce(comm, buffer.data, buffer.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&buffer, SUM);
}

/* The operation is refused, the graph is none the worse, and the communicator can go on. */
static void in_a_stream_that_is_captured(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data = gpu_alloc(WORDS * sizeof(*data));
	smd_request *request;

	if (rank->argument) { /* its first operation meets no capture */
		sum(rank, rank->comm);
	}
	smd_comm_set_stream(rank->comm, stream);
	gpu_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	gpu_fill(data, 1, WORDS, stream);
	CHECK(smd_allreduce_start(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM, &request) ==
		-EINVAL);
	CHECK(strcmp(smd_error_message(),
		      "all-reduce in group cuda: operations cannot be captured into CUDA graphs, "
		      "and the stream is being captured") == 0);
	CHECK(smd_allreduce(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM) == -EINVAL);
	CHECK(gpu_end_capture(stream) == (gpu_is_fake() ? 1 : 0)); /* the fill */
	smd_comm_set_stream(rank->comm, NULL);
	sum(rank, rank->comm);
	gpu_free(data);
	gpu_stream_destroy(stream);
}

static void a_stream_that_is_captured_is_refused_and_left_alone(void **state)
{
	static const bool warm = true;

	(void)state;
	device_run(in_a_stream_that_is_captured, NULL);
	device_run(in_a_stream_that_is_captured, &warm);
}

/* The default stream would have to wait for one that is only being captured. */
static void in_the_default_stream(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_DEFAULT);
	int32_t *data = gpu_alloc(WORDS * sizeof(*data));

	sum(rank, rank->comm);
	if (rank->rank == 0) {
		gpu_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	CHECK(smd_allreduce(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM) == -EINVAL);
	CHECK(strstr(smd_error_message(), "the default stream cannot be followed"));
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		CHECK(gpu_end_capture(stream) == 0);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	sum(rank, rank->comm);
	gpu_free(data);
	gpu_stream_destroy(stream);
}

static void the_default_stream_is_refused_while_it_cannot_be_used(void **state)
{
	(void)state;
	device_run(in_the_default_stream, NULL);
}

/* A graph is captured while others' operations go on, for the first time, with all that they
 * allocate and ask for: by whoever captures with the strictest rules. */
static void while_another_is_captured(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	CUstream captured = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data = gpu_alloc(WORDS * sizeof(*data));
	int32_t result[2];

	gpu_upload(data + WORDS - 2, (int32_t[]){1, 1}, sizeof(result));
	smd_comm_set_stream(rank->comm, stream);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		gpu_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	CHECK(smd_allreduce(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM) == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		CHECK(gpu_end_capture(captured) == 0);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	gpu_download(result, data + WORDS - 2, sizeof(result));
	CHECK(result[0] == NRANKS && result[1] == NRANKS);
	gpu_free(data);
	gpu_stream_destroy(captured);
	gpu_stream_destroy(stream);
}

static void operations_do_not_spoil_the_graphs_of_others(void **state)
{
	(void)state;
	device_run(while_another_is_captured, NULL);
	setenv("SUMMAND_STAGING_BYTES", "1", 1); /* results are copied synchronously */
	device_run(while_another_is_captured, NULL);
}

static void with_memory_of_before(struct pool_rank *rank)
{
	int32_t *const *data = rank->argument;

	CHECK(smd_allreduce(rank->comm, data[rank->rank], data[rank->rank], WORDS, SMD_INT32,
		      SMD_SUM) == 0);
}

/* Whatever they ask the driver for when they begin and end. */
static void contexts_come_and_go_beside_a_capture(void **state)
{
	CUstream captured = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data[NRANKS];

	(void)state;
	for (int i = 0; i < NRANKS; i++) {
		data[i] = gpu_alloc(WORDS * sizeof(*data[i]));
	}
	gpu_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
	device_run(with_memory_of_before, data);
	assert_int_equal(gpu_end_capture(captured), 0);
	for (int i = 0; i < NRANKS; i++) {
		gpu_free(data[i]);
	}
	gpu_stream_destroy(captured);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, device_end)

static const struct CMUnitTest tests[] = {
	TEST(operations_that_wait_take_no_stream_and_no_host_function),
	TEST(a_device_whose_streams_cannot_write_has_host_functions),
	TEST(a_stream_that_is_captured_is_refused_and_left_alone),
	TEST(the_default_stream_is_refused_while_it_cannot_be_used),
	TEST(operations_do_not_spoil_the_graphs_of_others),
	TEST(contexts_come_and_go_beside_a_capture),
};

int main(int argc, char **argv)
{
	if (!gpu_open_by(argc, argv, FAKE_DRIVER)) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
