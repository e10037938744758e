/*
 * Failures of the CUDA driver: every rank hears which call failed, nothing waits for ever, and
 * nothing of the device is left behind. The fake driver fails where it is told to.
 *
 *   test_cuda_failures [--card]
 *
 * With --card a network card reads and writes device memory (card.h), for half of the chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"

enum { WORDS = 30000 };

struct failure {
	const char *name;
	const char *call;
	unsigned n;
	CUresult result;
	int err;
	const char *said;
	bool harmless; /* where it only asks whether a network card can have the memory */
};

static const struct failure failures[] = {
	{"a_copy_from_the_device_fails", "cuMemcpyDtoHAsync", 30, CUDA_ERROR_ILLEGAL_ADDRESS, -EIO,
		"cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS", false},
	{"a_copy_to_the_device_fails", "cuMemcpyHtoDAsync", 30, CUDA_ERROR_INVALID_HANDLE, -EIO,
		"cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_HANDLE", false},
	{"the_end_of_a_copy_cannot_be_heard_of", "cuStreamWriteValue32", 40,
		CUDA_ERROR_INVALID_HANDLE, -EIO, "cuStreamWriteValue32: CUDA_ERROR_INVALID_HANDLE",
		false},
	{"a_stream_cannot_be_marked", "cuStreamIsCapturing", 4, CUDA_ERROR_INVALID_HANDLE, -EIO,
		"cuStreamIsCapturing: CUDA_ERROR_INVALID_HANDLE", false},
	{"memory_cannot_be_pinned", "cuMemHostAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM,
		"cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY", false},
	{"a_pointer_cannot_be_asked_about", "cuPointerGetAttributes", 5, CUDA_ERROR_LAUNCH_FAILED,
		-EIO, "cuPointerGetAttributes: CUDA_ERROR_LAUNCH_FAILED", true},
	{"a_thread_cannot_take_the_context", "cuCtxPushCurrent", 60, CUDA_ERROR_INVALID_CONTEXT,
		-EIO, "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT", true},
	{"the_context_breaks_in_the_middle", "copying", 50, CUDA_ERROR_ILLEGAL_ADDRESS, -EIO,
		"CUDA_ERROR_ILLEGAL_ADDRESS", false},
};
#define NFAILURES (sizeof(failures) / sizeof(failures[0]))

static pthread_barrier_t all_ready;

static void works(struct pool_rank *rank)
{
	struct buffer buffer;

	buffer_create(&buffer, true, WORDS, rank->rank + 1);
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&buffer, SUM);
}

/* Several operations, of which some rank's fail; then every rank hears of it, and what failed is
 * said. A communicator that is made afterwards works if the context does. */
static void fail_in_the_middle(struct pool_rank *rank)
{
	enum { N = 6, COUNT = 70000 };
	const struct failure *failure = rank->argument;
	int32_t *buffers[N];
	smd_request *requests[N];
	int started = 0;
	int ret = 0;

	for (int i = 0; i < N; i++) {
		buffers[i] = gpu_alloc(COUNT * sizeof(int32_t));
		if (failure->harmless) { /* from then on that is known */
			CHECK(smd_broadcast(rank->comm, buffers[i], COUNT, SMD_INT32, 0) == 0);
		}
	}
	if (pthread_barrier_wait(&all_ready) == PTHREAD_BARRIER_SERIAL_THREAD) {
		gpu_fail(failure->call, failure->n, failure->result);
	}
	pthread_barrier_wait(&all_ready);
	while (ret == 0 && started < N) {
		int32_t *data = buffers[started];

		ret = smd_allreduce_start(
			rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM, &requests[started]);
		started += ret == 0;
	}
	for (int i = 0; i < started; i++) {
		int ended = smd_request_wait(requests[i]);

		ret = ended ? ended : ret;
	}
	CHECK(ret == failure->err);
	CHECK(strstr(smd_error_message(), failure->said));
	pthread_barrier_wait(&all_ready); /* nobody has left, and all have heard */
	smd_comm_destroy(rank->comm);
	pthread_barrier_wait(&all_ready);
	if (rank->rank == 0) {
		gpu_mend();
	}
	pthread_barrier_wait(&all_ready);
	for (int i = 0; i < N; i++) {
		gpu_free(buffers[i]);
	}
	CHECK(smd_comm_create(rank->context, "afterwards", NRANKS, rank->rank, &rank->comm) == 0);
	works(rank);
}

static void a_failure_is_named_on_every_rank(void **state)
{
	pthread_barrier_init(&all_ready, NULL, NRANKS);
	device_run(fail_in_the_middle, *state);
	pthread_barrier_destroy(&all_ready);
}

/* Some of rank 0's chunks cannot be fetched. When it hears of that, results of others are there:
 * they must not have it send what it has not. Its lanes would end by that. */
static void break_while_results_come(struct pool_rank *rank)
{
	enum { COUNT = 70000 };
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data = gpu_alloc_on(rank->rank == 0, COUNT * sizeof(*data));
	void *hold = rank->rank == 0 ? NULL : gpu_hold(stream);
	smd_request *request;

	/* From then on shards allow more than one chunk at a time. */
	CHECK(smd_allreduce(rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM) == 0);
	pthread_barrier_wait(&all_ready);
	if (hold) {
		smd_comm_set_stream(rank->comm, stream);
	} else {
		gpu_hold_broken(true);
		gpu_fail("copying", 5, CUDA_ERROR_ILLEGAL_ADDRESS);
	}
	CHECK(smd_allreduce_start(rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM, &request) ==
		0);
	while (hold && gpu_held() == 0) {
		usleep(1000);
	}
	if (hold) {
		gpu_open_hold(hold);
		usleep(100000); /* so long results may take; less, and the test finds less */
		gpu_hold_broken(false);
	}
	CHECK(smd_request_wait(request) == -EIO);
	CHECK(strstr(smd_error_message(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
	smd_comm_destroy(rank->comm);
	pthread_barrier_wait(&all_ready);
	gpu_mend();
	pthread_barrier_wait(&all_ready);
	gpu_free(data);
	gpu_stream_destroy(stream);
	CHECK(smd_comm_create(rank->context, "afterwards", NRANKS, rank->rank, &rank->comm) == 0);
	works(rank);
}

static void what_has_not_been_fetched_is_not_sent(void **state)
{
	(void)state;
	if (strcmp(device_transport, "tcp") != 0) {
		skip(); /* cards read chunks that need not be fetched */
	}
	pthread_barrier_init(&all_ready, NULL, NRANKS);
	device_run(break_while_results_come, NULL);
	pthread_barrier_destroy(&all_ready);
}

/* The work of rank 0's stream fails before an operation that follows it. */
static void follow_what_fails(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data = gpu_alloc(WORDS * sizeof(*data));
	void *hold = NULL;
	smd_request *request;

	if (rank->rank == 0) {
		hold = gpu_hold(stream);
		gpu_fill(data, 1, WORDS, stream);
		gpu_fail("filling", 1, CUDA_ERROR_LAUNCH_FAILED);
	}
	smd_comm_set_stream(rank->comm, stream);
	CHECK(smd_allreduce_start(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM, &request) ==
		0);
	pthread_barrier_wait(&all_ready);
	if (hold) {
		gpu_open_hold(hold);
	}
	CHECK(smd_request_wait(request) == -EIO);
	CHECK(strstr(smd_error_message(), "CUDA_ERROR_LAUNCH_FAILED"));
	pthread_barrier_wait(&all_ready);
	gpu_mend();
	pthread_barrier_wait(&all_ready);
	gpu_free(data);
	gpu_stream_destroy(stream);
}

static void work_that_fails_before_an_operation_ends_it(void **state)
{
	(void)state;
	pthread_barrier_init(&all_ready, NULL, NRANKS);
	device_run(follow_what_fails, NULL);
	pthread_barrier_destroy(&all_ready);
}

static void use_two_devices(struct pool_rank *rank)
{
	int32_t *here = gpu_alloc_on(0, WORDS * sizeof(*here));
	int32_t *there = gpu_alloc_on(1, WORDS * sizeof(*there));

	CHECK(smd_allreduce(rank->comm, here, there, WORDS, SMD_INT32, SMD_SUM) == -EINVAL);
	CHECK(strcmp(smd_error_message(), "all-reduce in group cuda: send and recv must be on the "
					  "same device, got 0 and 1") == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	CHECK(smd_allreduce(rank->comm, there, there, WORDS, SMD_INT32, SMD_SUM) == 0);
	CHECK(smd_allreduce(rank->comm, here, here, WORDS, SMD_INT32, SMD_SUM) == 0);
	gpu_free(here);
	gpu_free(there);
}

static void a_device_is_for_both_buffers_of_an_operation(void **state)
{
	(void)state;
	device_run(use_two_devices, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, device_begin, device_end)

static const struct CMUnitTest others[] = {
	TEST(a_device_is_for_both_buffers_of_an_operation),
	TEST(work_that_fails_before_an_operation_ends_it),
	TEST(what_has_not_been_fetched_is_not_sent),
};
enum { NOTHERS = sizeof(others) / sizeof(others[0]) };

int main(int argc, char **argv)
{
	struct CMUnitTest tests[NOTHERS + NFAILURES];

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < NFAILURES; i++) {
		tests[NOTHERS + i] =
			(struct CMUnitTest){failures[i].name, a_failure_is_named_on_every_rank,
				device_begin, device_end, (void *)&failures[i]};
	}
	if (argc > 1 && strcmp(argv[1], "--card") == 0) {
		device_transport = "fault";
		card_reset((struct card_plan){.no_place_every = 2, .no_write_every = 2});
	}
	gpu_open(FAKE_DRIVER);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
