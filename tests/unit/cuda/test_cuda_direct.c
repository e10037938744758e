/*
 * Chunks that network cards read from device memory and write to it: which ones, what is registered
 * for them and deregistered, and what happens where it cannot be.
 *
 *   test_cuda_direct [--old]
 *
 * The card is the one of card.h; with --old the fake driver is one that knows of no dma-bufs. That
 * results are right with such a card is also what `test_cuda --card` tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"
#include "worker/libsummand/allocation_cache.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/registration.h"

enum { LARGE = 300000, SMALL = 200, LANES = 4 }; /* of a rank */

static pthread_barrier_t all_ready;

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir)) {
		n++;
	}
	closedir(dir);
	return n;
}

static unsigned open_before;

static int begin(void **state)
{
	int ret = device_begin(state);

	card_reset((struct card_plan){.refuse = 0});
	gpu_set(SMD_FAKE_DMA_BUF, 1);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	gpu_set(SMD_FAKE_FLUSH, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	gpu_set(SMD_FAKE_WHOLE, 1);
	pthread_barrier_init(&all_ready, NULL, NRANKS);
	open_before = open_files();
	return ret;
}

static int end(void **state)
{
	pthread_barrier_destroy(&all_ready);
	gpu_mend();
	return card_counts().registered == 0 && open_files() == open_before ? device_end(state)
									    : -1;
}

static void allreduce(struct pool_rank *rank, struct buffer *send, struct buffer *recv)
{
	CHECK(smd_allreduce(rank->comm, send->data, recv->data, send->count, SMD_INT32, SMD_SUM) ==
		0);
}

static void allreduce_of(struct pool_rank *rank, size_t count)
{
	struct buffer send;
	struct buffer recv;

	buffer_create(&send, true, count, rank->rank + 1);
	buffer_create(&recv, true, count, -1);
	allreduce(rank, &send, &recv);
	buffer_end(&send, rank->rank + 1);
	buffer_end(&recv, SUM);
}

static void large(struct pool_rank *rank)
{
	allreduce_of(rank, LARGE);
}

static void nothing_went_directly(void)
{
	struct card_counts counts = card_counts();

	assert_int_equal(counts.from_device, 0);
	assert_int_equal(counts.to_device, 0);
	assert_true(counts.from_host > 0);
}

/* ---- which chunks ---- */

static void large_chunks_are_not_copied(void **state)
{
	struct card_counts counts;

	(void)state;
	device_run(large, NULL);
	counts = card_counts();
	assert_int_equal(counts.from_host, 0);
	assert_int_equal(counts.to_host, 0);
	assert_true(counts.from_device >= NRANKS * LARGE * 4 / 16384);
	assert_int_equal(counts.to_device, counts.from_device);
}

static void small(struct pool_rank *rank)
{
	for (int i = 0; i < 3; i++) {
		allreduce_of(rank, SMALL);
	}
}

static void small_chunks_are_not_copied_either(void **state)
{
	struct card_counts counts;

	(void)state;
	device_run(small, NULL);
	counts = card_counts();
	assert_int_equal(counts.from_host + counts.to_host, 0);
	assert_true(counts.from_device >= 3 * NRANKS);
	assert_int_equal(counts.to_device, counts.from_device);
}

/* In one operation: those without a place, and results that are not written to theirs, among
 * others. */
static void mixed(struct pool_rank *rank)
{
	struct buffer buffer;

	allreduce_of(rank, LARGE);
	buffer_create(&buffer, true, LARGE, rank->rank + 1);
	allreduce(rank, &buffer, &buffer);
	buffer_end(&buffer, SUM);
	for (int root = 0; root < NRANKS; root++) {
		buffer_create(&buffer, true, LARGE, rank->rank + 1);
		CHECK(smd_broadcast(rank->comm, buffer.data, LARGE, SMD_INT32, root) == 0);
		buffer_end(&buffer, root + 1);
		buffer_create(&buffer, true, LARGE, rank->rank + 1);
		CHECK(smd_reduce(rank->comm, buffer.data, buffer.data, LARGE, SMD_INT32, SMD_SUM,
			      root) == 0);
		buffer_end(&buffer, root == rank->rank ? SUM : rank->rank + 1);
	}
}

static void every_mixture_is_shown(void)
{
	struct card_counts counts = card_counts();

	assert_true(counts.from_device > 0 && counts.to_device > 0);
	assert_true(counts.from_host > 0 && counts.to_host > 0);
}

static void chunks_without_places_go_between_others(void **state)
{
	(void)state;
	card_reset((struct card_plan){.no_place_every = 3, .no_write_every = 4});
	device_run(mixed, NULL);
	every_mixture_is_shown();
}

static void two_stages_are_enough_for_what_is_copied(void **state)
{
	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "1", 1);
	card_reset((struct card_plan){.no_place_every = 2, .no_write_every = 2});
	device_run(mixed, NULL);
	every_mixture_is_shown();
}

static void one_lane_may_have_no_such_card(void **state)
{
	(void)state;
	capture_begin();
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = 1});
	device_run(mixed, NULL);
	every_mixture_is_shown();
	assert_true(capture_has("libsummand: device memory goes through pinned memory of the host: "
				"the network card of the lane to ",
		": Operation not supported"));
	capture_end();
}

/* ---- what is registered ---- */

/* The address is the same, the memory is not. */
static void renew(struct pool_rank *rank)
{
	const void *before = NULL;

	for (int i = 0; i < 6; i++) {
		struct buffer buffer;

		for (int turn = 0; turn < NRANKS; turn++) {
			if (turn == rank->rank) {
				buffer_create(&buffer, true, LARGE, rank->rank + i);
				CHECK(!before || buffer.data == before);
			}
			pthread_barrier_wait(&all_ready);
		}
		before = buffer.data;
		allreduce(rank, &buffer, &buffer);
		for (int turn = 0; turn < NRANKS; turn++) {
			if (turn == NRANKS - 1 - rank->rank) {
				buffer_end(&buffer, 3 * i + 3);
			}
			pthread_barrier_wait(&all_ready);
		}
	}
}

static void memory_that_was_freed_and_made_anew_is_declared_anew(void **state)
{
	(void)state;
	device_run(renew, NULL);
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().registered_most, 1);
}

/* What has been freed is not kept from the device for longer than until the next is new. */
static void free_some(struct pool_rank *rank)
{
	for (int i = 0; i < 5; i++) {
		allreduce_of(rank, LARGE + 10000 * (size_t)i);
	}
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	CHECK(card_counts().registered <= NRANKS * LANES * 2);
}

static void freed_memory_is_deregistered_when_other_is_registered(void **state)
{
	(void)state;
	device_run(free_some, NULL);
	assert_int_equal(card_counts().registered_most, 2);
}

/* Each lane registers it once, however often a rank does, and deregisters it once at the end. */
static void register_some(struct pool_rank *rank)
{
	char memory[2][1000];

	for (int i = 0; i < 3; i++) {
		CHECK(smd_context_register(
			      rank->context, rank, memory[0], sizeof(memory[0]), NULL) == 0);
	}
	CHECK(smd_context_register(rank->context, rank, memory[1], sizeof(memory[1]), NULL) == 0);
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	CHECK(card_counts().host_registered == NRANKS * LANES * 2);
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	for (int i = 0; i < 3; i++) {
		smd_context_deregister(rank->context, rank, memory[0], sizeof(memory[0]));
		CHECK(pthread_barrier_wait(&all_ready) <= 0);
		CHECK(card_counts().host_registered == NRANKS * LANES * (i == 2 ? 1 : 2));
		CHECK(pthread_barrier_wait(&all_ready) <= 0);
	}
	smd_context_deregister(rank->context, rank, memory[1], sizeof(memory[1]));
	smd_context_deregister(rank->context, rank, memory[1], sizeof(memory[1])); /* never kept */
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	CHECK(card_counts().host_registered == 0);
}

static void registered_memory_reaches_the_lanes_once(void **state)
{
	(void)state;
	device_run(register_some, NULL);
}

/* What one communicator has not given back yet may be other memory by now when another one brings
 * it: the cards take it anew, and have it until both have given it back. */
static void register_for_two(struct pool_rank *rank)
{
	static const char others[2];
	char memory[1000];

	for (int i = 0; i < 2; i++) {
		CHECK(smd_context_register(
			      rank->context, &others[i], memory, sizeof(memory), NULL) == 0);
		CHECK(smd_context_register(
			      rank->context, &others[i], memory, sizeof(memory), NULL) == 0);
	}
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	CHECK(card_counts().host_registrations == NRANKS * LANES * 2);
	CHECK(card_counts().host_registered == NRANKS * LANES);
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	for (int i = 0; i < 4; i++) {
		smd_context_deregister(rank->context, &others[i / 2], memory, sizeof(memory));
		CHECK(pthread_barrier_wait(&all_ready) <= 0);
		CHECK(card_counts().host_registered == (i == 3 ? 0 : NRANKS * LANES));
		CHECK(pthread_barrier_wait(&all_ready) <= 0);
	}
}

static void what_another_brings_is_registered_anew(void **state)
{
	(void)state;
	device_run(register_for_two, NULL);
}

/* At the address of the one what the other has. */
static int register_as(
	struct pool_rank *rank, const struct buffer *address, const struct buffer *content)
{
	struct smd_dmabuf dmabuf;
	size_t bytes = address->count * sizeof(int32_t);
	int ret;

	dmabuf.fd = gpu_export(content->data, bytes, &dmabuf.offset);
	ret = smd_context_register(rank->context, rank, address->data, bytes, &dmabuf);
	close(dmabuf.fd);
	return ret;
}

static int register_buffer(struct pool_rank *rank, const struct buffer *buffer)
{
	return register_as(rank, buffer, buffer);
}

static void deregister(struct pool_rank *rank, const struct buffer *buffer)
{
	smd_context_deregister(rank->context, rank, buffer->data, buffer->count * sizeof(int32_t));
}

/* In device memory that is kept, from the offset on. */
static void allreduce_registered(struct pool_rank *rank, size_t count, size_t before, size_t after)
{
	struct buffer buffer;
	int32_t *data;

	buffer_create(&buffer, true, before + count + after, rank->rank + 1);
	CHECK(register_buffer(rank, &buffer) == 0);
	CHECK(register_buffer(rank, &buffer) == 0);
	deregister(rank, &buffer);
	data = buffer.data;
	for (size_t at = 0; at < buffer.count; at += count) {
		size_t n = at + count < buffer.count ? count : buffer.count - at;

		CHECK(smd_allreduce(rank->comm, data + at, data + at, n, SMD_INT32, SMD_SUM) == 0);
	}
	deregister(rank, &buffer);
	buffer_end(&buffer, SUM);
}

/* Freed and allocated anew by somebody, before the first owner has said so. */
static void register_anew(struct pool_rank *rank)
{
	struct buffer before;
	struct buffer now;

	buffer_create(&before, true, LARGE, 100);
	buffer_create(&now, true, LARGE, rank->rank + 1);
	CHECK(register_buffer(rank, &before) == 0);
	CHECK(register_as(rank, &before, &now) == 0);
	deregister(rank, &before);
	allreduce(rank, &before, &before);
	deregister(rank, &before);
	buffer_end(&before, 100);
	buffer_end(&now, SUM);
}

static void an_address_registered_anew_is_the_new_memory(void **state)
{
	(void)state;
	device_run(register_anew, NULL);
}

/* One of them is the host's, which may be copied. */
static void allreduce_half_registered(struct pool_rank *rank, size_t count, bool sends)
{
	struct buffer send;
	struct buffer recv;

	buffer_create(&send, sends, count, rank->rank + 1);
	buffer_create(&recv, !sends, count, -1);
	CHECK(register_buffer(rank, sends ? &send : &recv) == 0);
	allreduce(rank, &send, &recv);
	deregister(rank, sends ? &send : &recv);
	buffer_end(&send, rank->rank + 1);
	buffer_end(&recv, SUM);
}

static void use_registered(struct pool_rank *rank)
{
	allreduce_registered(rank, 1, 3, 0);
	allreduce_registered(rank, SMALL, SMALL, 5);
	allreduce_registered(rank, LARGE / 3, 7, LARGE);
	allreduce_half_registered(rank, LARGE, true);
	allreduce_half_registered(rank, LARGE, false);
	allreduce_half_registered(rank, SMALL, true);
	allreduce_half_registered(rank, SMALL, false);
	CHECK(!rank->context->staging.pinned);
	CHECK(SLIST_EMPTY(&rank->context->staging.devices));
}

static void registered_device_memory_goes_directly_or_not_at_all(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	device_run(use_registered, NULL);
	assert_true(card_counts().from_device > 0 && card_counts().to_device > 0);
	assert_int_equal(gpu_flushes(), before); /* that is the caller's */
}

static const char *why_not;

/* A rank whose own results all come rightly may be done before it hears of another's. */
static void fail_registered(struct pool_rank *rank)
{
	const bool *one_may_succeed = rank->argument;
	struct buffer buffer;
	int32_t *data;
	int ret;

	buffer_create(&buffer, true, LARGE, rank->rank + 1);
	data = buffer.data;
	CHECK(register_buffer(rank, &buffer) == 0);
	ret = smd_allreduce(rank->comm, data, data, LARGE, SMD_INT32, SMD_SUM);
	if (ret == 0 && *one_may_succeed) {
		ret = smd_barrier(rank->comm);
	}
	CHECK(ret == -ENOTSUP);
	CHECK(strstr(smd_error_message(), why_not));
	deregister(rank, &buffer);
	gpu_free(buffer.whole);
}

static void without_places_registered_device_memory_fails(void **state)
{
	const bool one_may_succeed = false; /* nothing is summed without everyone's chunk */

	(void)state;
	why_not = "cannot use its device memory: the reduction server has no buffer for a chunk";
	card_reset((struct card_plan){.no_place_every = 3});
	device_run(fail_registered, &one_may_succeed);
}

static void results_that_come_otherwise_fail(void **state)
{
	const bool one_may_succeed = true;

	(void)state;
	why_not = "cannot use its device memory: a result came otherwise than into its buffer";
	card_reset((struct card_plan){.no_write_every = 3});
	device_run(fail_registered, &one_may_succeed);
}

static int register_result;

static void register_refused(struct pool_rank *rank)
{
	struct buffer buffer;

	buffer_create(&buffer, true, LARGE, rank->rank + 1);
	CHECK(register_buffer(rank, &buffer) == register_result);
	CHECK(!smd_context_is_device_registered(rank->context, buffer.data, 1));
	allreduce(rank, &buffer, &buffer); /* as if nothing had been said */
	buffer_end(&buffer, SUM);
}

static void what_one_card_does_not_take_is_not_registered(void **state)
{
	(void)state;
	register_result = -EOPNOTSUPP;
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = 1});
	device_run(register_refused, NULL);
}

static void without_cards_no_device_memory_is_registered(void **state)
{
	(void)state;
	register_result = -ENOTSUP;
	device_transport = "tcp";
	device_run(register_refused, NULL);
	device_transport = "fault";
}

/* One after the other; the first is no longer registered when it is used again. */
static void many(struct pool_rank *rank)
{
	enum { N = SMD_ALLOCATIONS_MAX + 6, COUNT = 5000 };
	struct buffer buffers[N];

	for (int i = 0; i < N; i++) {
		buffer_create(&buffers[i], true, COUNT, rank->rank + 1);
		allreduce(rank, &buffers[i], &buffers[i]);
	}
	allreduce(rank, &buffers[0], &buffers[0]);
	buffer_end(&buffers[0], NRANKS * SUM);
	for (int i = 1; i < N; i++) {
		buffer_end(&buffers[i], SUM);
	}
}

static void as_many_are_declared_as_may_be(void **state)
{
	(void)state;
	device_run(many, NULL);
	assert_int_equal(card_counts().registered_most, SMD_ALLOCATIONS_MAX);
	assert_int_equal(card_counts().from_host, 0);
}

/* Begun while a fence is shut, so that all of them are in flight at once. */
static void hold_many(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	enum { N = SMD_ALLOCATIONS_MAX + 6, COUNT = 5000 };
	struct buffer buffers[N];
	smd_request *requests[N];
	void *hold;

	for (int i = 0; i < N; i++) {
		buffer_create(&buffers[i], true, COUNT, rank->rank + 1);
	}
	hold = gpu_hold(stream);
	smd_comm_set_stream(rank->comm, stream);
	for (int i = 0; i < N; i++) {
		int32_t *data = buffers[i].data;

		CHECK(smd_allreduce_start(rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM,
			      &requests[i]) == 0);
	}
	CHECK(smd_request_test(requests[0]) == 0);
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	gpu_let_go(hold, stream);
	for (int i = 0; i < N; i++) {
		CHECK(smd_request_wait(requests[i]) == 0);
		buffer_end(&buffers[i], SUM);
	}
	gpu_stream_destroy(stream);
}

static void what_is_in_use_stays_declared_and_the_rest_is_copied(void **state)
{
	(void)state;
	device_run(hold_many, NULL);
	assert_int_equal(card_counts().registered_most, SMD_ALLOCATIONS_MAX);
	every_mixture_is_shown();
}

/* ---- what cards cannot have ---- */

static void all_is_copied_for_the_reason(const char *reason)
{
	capture_begin();
	device_run(large, NULL);
	nothing_went_directly();
	assert_true(capture_has(
		"libsummand: device memory goes through pinned memory of the host: ", reason));
	capture_end();
}

static void without_dma_bufs_all_is_copied(void **state)
{
	(void)state;
	gpu_set(SMD_FAKE_DMA_BUF, 0);
	all_is_copied_for_the_reason("the CUDA device or its kernel module has no dma-buf");
}

static void what_is_mapped_piecewise_is_copied(void **state)
{
	(void)state;
	gpu_set(SMD_FAKE_WHOLE, 0);
	all_is_copied_for_the_reason("the memory is not of cuMemAlloc()");
}

static void what_a_card_does_not_take_is_copied(void **state)
{
	(void)state;
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = -1});
	all_is_copied_for_the_reason("Operation not supported");
}

static void with_an_old_driver_all_is_copied(void **state)
{
	(void)state;
	all_is_copied_for_the_reason("the CUDA driver is older than 11.7");
}

/* One allocation only: it is not asked for again. */
static void again_and_again(struct pool_rank *rank)
{
	struct buffer buffer;

	buffer_create(&buffer, true, LARGE, rank->rank + 1);
	if (rank->rank == 0) {
		gpu_fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED);
	}
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	for (int i = 0; i < 3; i++) {
		CHECK(smd_broadcast(rank->comm, buffer.data, LARGE, SMD_INT32, 0) == 0);
	}
	buffer_end(&buffer, 1);
}

static void what_the_driver_does_not_export_is_copied(void **state)
{
	struct card_counts counts;
	unsigned copied;

	(void)state;
	capture_begin();
	device_run(again_and_again, NULL);
	assert_true(capture_has("libsummand: device memory goes through pinned memory of the host: "
				"cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED",
		NULL));
	capture_end();
	counts = card_counts();
	copied = counts.from_host + counts.to_host;
	assert_int_equal(counts.registered_most, 1);
	assert_true(copied > 0); /* all of one rank, and no others */
	assert_int_equal(counts.from_device + counts.to_device, (NRANKS - 1) * copied);
}

/* ---- what cards have written is seen ---- */

static void writes_are_flushed_where_they_must_be(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	device_run(mixed, NULL);
	assert_int_equal(gpu_flushes(), before);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	device_run(large, NULL);
	assert_int_equal(gpu_flushes(), before + NRANKS);
}

static void what_cannot_be_flushed_is_copied(void **state)
{
	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	gpu_set(SMD_FAKE_FLUSH, 0);
	all_is_copied_for_the_reason("the CUDA device does not say when it sees what cards write");
}

/* Only the root's card writes. */
static void fail_to_flush(struct pool_rank *rank)
{
	struct buffer buffer;
	int ret;

	buffer_create(&buffer, true, LARGE, rank->rank + 1);
	if (rank->rank == 0) {
		gpu_fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_LAUNCH_FAILED);
	}
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	ret = smd_reduce(rank->comm, buffer.data, buffer.data, LARGE, SMD_INT32, SMD_SUM, 0);
	CHECK(ret == -EIO || (ret == 0 && rank->rank));
	ret = ret ? ret : smd_barrier(rank->comm); /* the others hear of it here at the latest */
	CHECK(ret == -EIO);
	CHECK(strstr(smd_error_message(), "cannot use its device memory: "
					  "cuFlushGPUDirectRDMAWrites: CUDA_ERROR_LAUNCH_FAILED"));
	CHECK(pthread_barrier_wait(&all_ready) <= 0);
	gpu_free(buffer.whole);
}

static void a_flush_that_fails_is_named_on_every_rank(void **state)
{
	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	device_run(fail_to_flush, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(large_chunks_are_not_copied),
		TEST(registered_memory_reaches_the_lanes_once),
		TEST(what_another_brings_is_registered_anew),
		TEST(registered_device_memory_goes_directly_or_not_at_all),
		TEST(without_places_registered_device_memory_fails),
		TEST(results_that_come_otherwise_fail),
		TEST(an_address_registered_anew_is_the_new_memory),
		TEST(what_one_card_does_not_take_is_not_registered),
		TEST(without_cards_no_device_memory_is_registered),
		TEST(small_chunks_are_not_copied_either),
		TEST(chunks_without_places_go_between_others),
		TEST(two_stages_are_enough_for_what_is_copied),
		TEST(one_lane_may_have_no_such_card),
		TEST(memory_that_was_freed_and_made_anew_is_declared_anew),
		TEST(freed_memory_is_deregistered_when_other_is_registered),
		TEST(as_many_are_declared_as_may_be),
		TEST(what_is_in_use_stays_declared_and_the_rest_is_copied),
		TEST(without_dma_bufs_all_is_copied),
		TEST(what_is_mapped_piecewise_is_copied),
		TEST(what_a_card_does_not_take_is_copied),
		TEST(what_the_driver_does_not_export_is_copied),
		TEST(writes_are_flushed_where_they_must_be),
		TEST(what_cannot_be_flushed_is_copied),
		TEST(a_flush_that_fails_is_named_on_every_rank),
	};
	const struct CMUnitTest old_tests[] = {TEST(with_an_old_driver_all_is_copied)};

	bool old = argc > 1 && strcmp(argv[1], "--old") == 0;
	device_transport = "fault";
	gpu_open(old ? OLD_DRIVER : FAKE_DRIVER);
	return old ? cmocka_run_group_tests(old_tests, NULL, NULL)
		   : cmocka_run_group_tests(tests, NULL, NULL);
}
