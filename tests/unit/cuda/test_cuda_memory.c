/*
 * Whose memory a pointer is, whatever context the calling thread has, and memory that comes from
 * pools and mappings; how much memory is pinned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"

enum { WORDS = 30000 };

static int begin(void **state)
{
	device_begin(state);
	gpu_set(SMD_FAKE_BLIND, 0);
	return 0;
}

/* ---- threads without a context, which every rank here is ---- */

static void sums_of_a_few_and_of_many(struct pool_rank *rank)
{
	static const size_t counts[] = {10, WORDS};

	for (int i = 0; i < 4; i++) {
		struct buffer buffer;

		buffer_create(&buffer, i < 2, counts[i % 2], rank->rank + 1);
		CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, counts[i % 2], SMD_INT32,
			      SMD_SUM) == 0);
		buffer_end(&buffer, SUM);
	}
}

static void a_thread_without_a_context_may_use_device_memory(void **state)
{
	(void)state;
	for (int blind = 0; blind <= 2; blind++) {
		gpu_set(SMD_FAKE_BLIND, blind);
		device_run(sums_of_a_few_and_of_many, NULL);
	}
}

/* No primary context is in use that could be asked: of some other nothing can be known. */
static void memory_of_nobody_knows_what(struct pool_rank *rank)
{
	struct buffer buffer;
	int32_t *unknown = gpu_alloc(WORDS * sizeof(*unknown));

	buffer_create(&buffer, false, WORDS, rank->rank + 1);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		gpu_set(SMD_FAKE_NO_PRIMARY, 1);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	for (size_t count = 10; count <= WORDS; count += WORDS - 10) {
		CHECK(smd_allreduce(rank->comm, unknown, unknown, count, SMD_INT32, SMD_SUM) ==
			-EINVAL);
		CHECK(strstr(smd_error_message(), "all-reduce in group cuda: 0x"));
		CHECK(strstr(smd_error_message(), "the calling thread has no CUDA context"));
	}
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		gpu_set(SMD_FAKE_NO_PRIMARY, 0);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	buffer_end(&buffer, SUM);
	gpu_free(unknown);
}

static void memory_that_cannot_be_known_is_refused(void **state)
{
	(void)state;
	if (!gpu_is_fake()) {
		skip(); /* a real driver knows its memory */
	}
	for (int blind = 1; blind <= 2; blind++) {
		gpu_set(SMD_FAKE_BLIND, blind);
		device_run(memory_of_nobody_knows_what, NULL);
	}
}

/* ---- memory of pools and mappings ---- */

/* It is there some time after the call that allocates it, and its operation has begun by then. */
static void memory_of_a_pool(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *result = malloc(WORDS * sizeof(*result));
	smd_request *request;
	int32_t *data;
	void *hold = NULL;

	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		hold = gpu_hold(stream);
	}
	data = gpu_alloc_in(stream, WORDS * sizeof(*data));
	gpu_fill(data, (uint32_t)rank->rank + 1, WORDS, stream);
	smd_comm_set_stream(rank->comm, stream);
	CHECK(smd_allreduce_start(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM, &request) ==
		0);
	if (hold) {
		gpu_let_go(hold, stream);
	}
	CHECK(smd_request_wait(request) == 0);
	gpu_download(result, data, WORDS * sizeof(*data));
	for (int i = 0; i < WORDS; i++) {
		CHECK(result[i] == SUM);
	}
	CHECK(smd_barrier(rank->comm) == 0); /* frees may wait for the device */
	gpu_free(data);
	free(result);
	gpu_stream_destroy(stream);
}

static void memory_of_a_pool_is_the_devices(void **state)
{
	(void)state;
	device_run(memory_of_a_pool, NULL);
}

static void mapped_memory(struct pool_rank *rank)
{
	size_t bytes = WORDS * sizeof(int32_t);
	int32_t *data = gpu_alloc_mapped(&bytes);
	size_t count = bytes / sizeof(*data);
	int32_t *host = malloc(bytes);

	for (size_t i = 0; i < count; i++) {
		host[i] = (int32_t)i * (rank->rank + 1);
	}
	gpu_upload(data, host, bytes);
	CHECK(smd_allreduce(rank->comm, data, data, count, SMD_INT32, SMD_SUM) == 0);
	gpu_download(host, data, bytes);
	for (size_t i = 0; i < count; i++) {
		CHECK(host[i] == (int32_t)i * SUM);
	}
	gpu_free_mapped(data, bytes);
	free(host);
}

static void memory_that_is_mapped_in_pieces_is_one_buffer(void **state)
{
	(void)state;
	device_run(mapped_memory, NULL);
}

/* ---- memory of the host beside it ---- */

/* A page in the middle of what is the host's cannot be used, and the other buffer is the device's:
 * nothing has been sent by then, and the communicator goes on. */
static void pass_a_hole_with_device_memory(struct pool_rank *rank)
{
	enum { PAGE = 4096, BYTES = 16 * PAGE, COUNT = BYTES / sizeof(int32_t) };
	int32_t *holed =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	struct buffer buffer;

	CHECK(holed != MAP_FAILED);
	CHECK(mprotect((char *)holed + 8 * PAGE, PAGE, PROT_NONE) == 0);
	buffer_create(&buffer, true, COUNT, rank->rank + 1);
	for (int i = 0; rank->rank == 0 && i < 2; i++) {
		smd_comm_set_stream(rank->comm, i == 0 ? SMD_STREAM_NONE : stream);
		CHECK(smd_allreduce(rank->comm, holed, buffer.data, COUNT, SMD_INT32, SMD_SUM) ==
			-EFAULT);
		CHECK(strstr(
			smd_error_message(), "send must be memory that this process can read"));
		CHECK(smd_allreduce(rank->comm, buffer.data, holed, COUNT, SMD_INT32, SMD_SUM) ==
			-EFAULT);
		CHECK(strstr(
			smd_error_message(), "recv must be memory that this process can write"));
	}
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, COUNT, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&buffer, SUM);
	gpu_stream_destroy(stream);
	munmap(holed, BYTES);
}

static void a_hole_in_the_hosts_memory_is_found(void **state)
{
	(void)state;
	device_run(pass_a_hole_with_device_memory, NULL);
	device_transport = "shm"; /* where a processor copies it */
	device_run(pass_a_hole_with_device_memory, NULL);
	device_transport = "tcp";
}

/* ---- what is pinned ---- */

enum { STAGE = 16384, MIB = 1 << 20 };

static void pin_little_then_more(struct pool_rank *rank)
{
	static const size_t counts[] = {10, MIB, MIB, 4 * MIB};
	unsigned long pinned[4];

	for (int i = 0; i < 4; i++) {
		struct buffer buffer;

		buffer_create(&buffer, true, counts[i], rank->rank + 1);
		CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, counts[i], SMD_INT32,
			      SMD_SUM) == 0);
		buffer_end(&buffer, SUM);
		CHECK(smd_barrier(rank->comm) == 0);
		pinned[i] = gpu_pinned();
		CHECK(smd_barrier(rank->comm) == 0);
	}
	CHECK(pinned[0] >= 2 * STAGE * NRANKS);
	CHECK(pinned[0] <= (4 * MIB + 4096) * NRANKS);  /* a little is enough at first */
	CHECK(pinned[1] > pinned[0]);                   /* for its results too */
	CHECK(pinned[2] >= pinned[1]);                  /* more only where there were too few */
	CHECK(pinned[3] > pinned[1]);                   /* of 16 MiB */
	CHECK(pinned[3] <= (20 * MIB + 4096) * NRANKS); /* and never more than it may */
}

static void the_pool_of_stages_grows_with_what_is_asked_of_it(void **state)
{
	(void)state;
	if (!gpu_is_fake()) {
		skip(); /* it counts what is pinned */
	}
	setenv("SUMMAND_STAGING_BYTES", "20M", 1);
	device_run(pin_little_then_more, NULL);
}

/* Of ranks that cannot have more each goes on with what it has. */
static void go_on_with_little(struct pool_rank *rank)
{
	struct buffer buffer;

	buffer_create(&buffer, true, 10, rank->rank + 1);
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, 10, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&buffer, SUM);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		gpu_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
	}
	CHECK(smd_barrier(rank->comm) == 0);
	buffer_create(&buffer, true, 4 * MIB, rank->rank + 1);
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, 4 * MIB, SMD_INT32, SMD_SUM) ==
		0);
	buffer_end(&buffer, SUM);
}

static void a_pool_that_cannot_grow_goes_on_as_it_is(void **state)
{
	(void)state;
	if (!gpu_is_fake()) {
		skip(); /* a real driver does not fail when it is told to */
	}
	setenv("SUMMAND_STAGING_BYTES", "20M", 1);
	device_run(go_on_with_little, NULL);
}

/* What a thread of rank 0 posts meanwhile. */
struct large {
	smd_comm *comm;
	struct buffer buffer;
	smd_request *request;
};

static void *post_large(void *arg)
{
	struct large *large = arg;

	CHECK(smd_allreduce_start(large->comm, large->buffer.data, large->buffer.data, 4 * MIB,
		      SMD_INT32, SMD_SUM, &large->request) == 0);
	return NULL;
}

/* An operation goes on, from its stream to its result, while the driver lets another one of the
 * context wait for pinned memory: what the driver waits for may wait for that operation. */
static void go_on_while_others_pin(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	struct large large = {.comm = NULL};
	struct buffer buffer;
	smd_request *request;
	void *hold = gpu_hold(stream);
	pthread_t thread;

	CHECK(smd_comm_create(rank->context, "large", NRANKS, rank->rank, &large.comm) == 0);
	buffer_create(&large.buffer, true, 4 * MIB, rank->rank + 1);
	buffer_create(&buffer, true, 10, rank->rank + 1);
	smd_comm_set_stream(rank->comm, stream);
	CHECK(smd_allreduce_start(
		      rank->comm, buffer.data, buffer.data, 10, SMD_INT32, SMD_SUM, &request) == 0);
	CHECK(smd_barrier(large.comm) == 0); /* all ranks have pinned their first */
	gpu_hold_pins(true);
	CHECK(pthread_create(&thread, NULL, post_large, &large) == 0);
	while (gpu_held() < NRANKS) {
		usleep(100);
	}
	gpu_let_go(hold, stream);
	CHECK(smd_request_wait(request) == 0);
	CHECK(smd_barrier(large.comm) == 0); /* so that none lets them pin before */
	gpu_hold_pins(false);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(smd_request_wait(large.request) == 0);
	smd_comm_destroy(large.comm);
	buffer_end(&large.buffer, SUM);
	buffer_end(&buffer, SUM);
	gpu_stream_destroy(stream);
}

static void an_operation_goes_on_while_another_one_pins(void **state)
{
	(void)state;
	if (!gpu_is_fake()) {
		skip(); /* a real driver does not wait when it is told to */
	}
	setenv("SUMMAND_STAGING_BYTES", "20M", 1);
	device_run(go_on_while_others_pin, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, device_end)

static const struct CMUnitTest tests[] = {
	TEST(a_thread_without_a_context_may_use_device_memory),
	TEST(memory_that_cannot_be_known_is_refused),
	TEST(memory_of_a_pool_is_the_devices),
	TEST(memory_that_is_mapped_in_pieces_is_one_buffer),
	TEST(a_hole_in_the_hosts_memory_is_found),
	TEST(the_pool_of_stages_grows_with_what_is_asked_of_it),
	TEST(a_pool_that_cannot_grow_goes_on_as_it_is),
	TEST(an_operation_goes_on_while_another_one_pins),
};

int main(int argc, char **argv)
{
	if (!gpu_open_by(argc, argv, FAKE_DRIVER)) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
