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
#include <errno.h>
#include <string.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/cuda/direct.h"
#include "worker/libsummand/allocation_cache.h"

/* ---- which chunks ---- */

static void large_chunks_are_not_copied(void **state)
{
	struct card_counts counts;

	(void)state;
	device_run(direct_large, NULL);
	counts = card_counts();
	assert_int_equal(counts.from_host, 0);
	assert_int_equal(counts.to_host, 0);
	assert_true(counts.from_device >= NRANKS * DIRECT_LARGE * 4 / 16384);
	assert_int_equal(counts.to_device, counts.from_device);
}

static void small(struct pool_rank *rank)
{
	for (int i = 0; i < 3; i++) {
		direct_allreduce_of(rank, DIRECT_SMALL);
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

/* Cards that do not reach the device's memory write results to stages; all lanes have these. */
static void results_are_written_to_stages(void **state)
{
	struct card_counts counts;

	(void)state;
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = -1});
	device_run(direct_large, NULL);
	counts = card_counts();
	assert_int_equal(counts.from_device + counts.to_device, 0);
	assert_true(counts.from_host >= NRANKS * DIRECT_LARGE * 4 / 16384);
	assert_true(counts.to_host_by_card > 0);
	assert_true(counts.host_registrations >= NRANKS * DIRECT_LANES);
}

static void mixed(struct pool_rank *rank);

/* Of two stages none is a place: one is for what is sent, the other for what comes in messages. */
static void one_stage_is_never_a_place(void **state)
{
	struct card_counts counts;

	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "1", 1);
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = -1});
	device_run(mixed, NULL);
	counts = card_counts();
	assert_int_equal(counts.to_host_by_card, 0);
	assert_true(counts.to_host > 0);
}

/* In one operation: those without a place, and results that are not written to theirs, among
 * others. */
static void mixed(struct pool_rank *rank)
{
	struct buffer buffer;

	direct_allreduce_of(rank, DIRECT_LARGE);
	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	direct_allreduce(rank, &buffer, &buffer);
	buffer_end(&buffer, SUM);
	for (int root = 0; root < NRANKS; root++) {
		buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
		CHECK(smd_broadcast(rank->comm, buffer.data, DIRECT_LARGE, SMD_INT32, root) == 0);
		buffer_end(&buffer, root + 1);
		buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
		CHECK(smd_reduce(rank->comm, buffer.data, buffer.data, DIRECT_LARGE, SMD_INT32, SMD_SUM,
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
				buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + i);
				CHECK(!before || buffer.data == before);
			}
			pthread_barrier_wait(&direct_ready);
		}
		before = buffer.data;
		direct_allreduce(rank, &buffer, &buffer);
		for (int turn = 0; turn < NRANKS; turn++) {
			if (turn == NRANKS - 1 - rank->rank) {
				buffer_end(&buffer, 3 * i + 3);
			}
			pthread_barrier_wait(&direct_ready);
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
		direct_allreduce_of(rank, DIRECT_LARGE + 10000 * (size_t)i);
	}
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	CHECK(card_counts().registered <= NRANKS * DIRECT_LANES * 2);
}

static void freed_memory_is_deregistered_when_other_is_registered(void **state)
{
	(void)state;
	device_run(free_some, NULL);
	assert_int_equal(card_counts().registered_most, 2);
}

/* One after the other; the first is no longer registered when it is used again. */
static void many(struct pool_rank *rank)
{
	enum { N = SMD_ALLOCATIONS_MAX + 6, COUNT = 5000 };
	struct buffer buffers[N];

	for (int i = 0; i < N; i++) {
		buffer_create(&buffers[i], true, COUNT, rank->rank + 1);
		direct_allreduce(rank, &buffers[i], &buffers[i]);
	}
	direct_allreduce(rank, &buffers[0], &buffers[0]);
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
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
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
	device_run(direct_large, NULL);
	direct_nothing_went();
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

	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	if (rank->rank == 0) {
		gpu_fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED);
	}
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	for (int i = 0; i < 3; i++) {
		CHECK(smd_broadcast(rank->comm, buffer.data, DIRECT_LARGE, SMD_INT32, 0) == 0);
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
	device_run(direct_large, NULL);
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

	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	if (rank->rank == 0) {
		gpu_fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_LAUNCH_FAILED);
	}
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	ret = smd_reduce(rank->comm, buffer.data, buffer.data, DIRECT_LARGE, SMD_INT32, SMD_SUM, 0);
	CHECK(ret == -EIO || (ret == 0 && rank->rank));
	ret = ret ? ret : smd_barrier(rank->comm); /* the others hear of it here at the latest */
	CHECK(ret == -EIO);
	CHECK(strstr(smd_error_message(), "cannot use its device memory: "
					  "cuFlushGPUDirectRDMAWrites: CUDA_ERROR_LAUNCH_FAILED"));
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	gpu_free(buffer.whole);
}

static void a_flush_that_fails_is_named_on_every_rank(void **state)
{
	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	device_run(fail_to_flush, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, direct_begin, direct_end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(large_chunks_are_not_copied),
		TEST(small_chunks_are_not_copied_either),
		TEST(results_are_written_to_stages),
		TEST(one_stage_is_never_a_place),
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
