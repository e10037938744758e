/*
 * Memory that a communicator registers with network cards, the host's and the device's: it reaches every
 * lane once, goes directly or not at all, and is the one that was registered last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cuda/direct.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/registration.h"

/* Each lane registers it once, however often a rank does, and deregisters it once at the end. */
static void register_some(struct pool_rank *rank)
{
	char memory[2][1000];

	for (int i = 0; i < 3; i++) {
		CHECK(smd_context_register(
			      rank->context, rank, memory[0], sizeof(memory[0]), NULL) == 0);
	}
	CHECK(smd_context_register(rank->context, rank, memory[1], sizeof(memory[1]), NULL) == 0);
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	CHECK(card_counts().host_registered == NRANKS * DIRECT_LANES * 2);
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	for (int i = 0; i < 3; i++) {
		smd_context_deregister(rank->context, rank, memory[0], sizeof(memory[0]));
		CHECK(pthread_barrier_wait(&direct_ready) <= 0);
		CHECK(card_counts().host_registered == NRANKS * DIRECT_LANES * (i == 2 ? 1 : 2));
		CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	}
	smd_context_deregister(rank->context, rank, memory[1], sizeof(memory[1]));
	smd_context_deregister(rank->context, rank, memory[1], sizeof(memory[1])); /* never kept */
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
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
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	CHECK(card_counts().host_registrations == NRANKS * DIRECT_LANES * 2);
	CHECK(card_counts().host_registered == NRANKS * DIRECT_LANES);
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	for (int i = 0; i < 4; i++) {
		smd_context_deregister(rank->context, &others[i / 2], memory, sizeof(memory));
		CHECK(pthread_barrier_wait(&direct_ready) <= 0);
		CHECK(card_counts().host_registered == (i == 3 ? 0 : NRANKS * DIRECT_LANES));
		CHECK(pthread_barrier_wait(&direct_ready) <= 0);
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
	return buffer_register(rank, rank, address, content);
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

	buffer_create(&before, true, DIRECT_LARGE, 100);
	buffer_create(&now, true, DIRECT_LARGE, rank->rank + 1);
	CHECK(register_buffer(rank, &before) == 0);
	CHECK(register_as(rank, &before, &now) == 0);
	deregister(rank, &before);
	direct_allreduce(rank, &before, &before);
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
	direct_allreduce(rank, &send, &recv);
	deregister(rank, sends ? &send : &recv);
	buffer_end(&send, rank->rank + 1);
	buffer_end(&recv, SUM);
}

static void use_registered(struct pool_rank *rank)
{
	allreduce_registered(rank, 1, 3, 0);
	allreduce_registered(rank, DIRECT_SMALL, DIRECT_SMALL, 5);
	allreduce_registered(rank, DIRECT_LARGE / 3, 7, DIRECT_LARGE);
	allreduce_half_registered(rank, DIRECT_LARGE, true);
	allreduce_half_registered(rank, DIRECT_LARGE, false);
	allreduce_half_registered(rank, DIRECT_SMALL, true);
	allreduce_half_registered(rank, DIRECT_SMALL, false);
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

	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	data = buffer.data;
	CHECK(register_buffer(rank, &buffer) == 0);
	ret = smd_allreduce(rank->comm, data, data, DIRECT_LARGE, SMD_INT32, SMD_SUM);
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

	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	CHECK(register_buffer(rank, &buffer) == register_result);
	CHECK(!smd_context_is_device_registered(rank->context, buffer.data, 1));
	direct_allreduce(rank, &buffer, &buffer); /* as if nothing had been said */
	buffer_end(&buffer, SUM);
}

static void what_one_card_does_not_take_is_not_registered(void **state)
{
	(void)state;
	register_result = -EOPNOTSUPP;
	card_reset((struct card_plan){.refuse = -EOPNOTSUPP, .refuse_shard = 1});
	device_run(register_refused, NULL);
}

/* Whoever has registered it before: what the cards had of it may be other memory by now. So it is
 * staged until they take it again, and is still given back as often as it was taken. */
static void renew_in_vain(struct pool_rank *rank, const void *again)
{
	const size_t bytes = DIRECT_LARGE * sizeof(int32_t);
	struct buffer buffer;

	buffer_create(&buffer, true, DIRECT_LARGE, rank->rank + 1);
	card_refuse(0);
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	CHECK(register_buffer(rank, &buffer) == 0);
	CHECK(smd_context_is_device_registered(rank->context, buffer.data, bytes));
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	card_refuse(-ENOMEM);
	CHECK(buffer_register(rank, again, &buffer, &buffer) == -ENOMEM);
	CHECK(!smd_context_is_device_registered(rank->context, buffer.data, bytes));
	direct_allreduce(rank, &buffer, &buffer);
	CHECK(pthread_barrier_wait(&direct_ready) <= 0);
	card_refuse(0);
	CHECK(buffer_register(rank, again, &buffer, &buffer) == 0);
	CHECK(smd_context_is_device_registered(rank->context, buffer.data, bytes));
	smd_context_deregister(rank->context, again, buffer.data, bytes);
	CHECK(smd_context_is_device_registered(rank->context, buffer.data, bytes));
	deregister(rank, &buffer);
	CHECK(!smd_context_is_device_registered(rank->context, buffer.data, bytes));
	buffer_end(&buffer, SUM);
}

static void renew_own_and_anothers_in_vain(struct pool_rank *rank)
{
	renew_in_vain(rank, rank);
	renew_in_vain(rank, rank->context);
}

static void what_cards_do_not_take_anew_is_not_registered(void **state)
{
	(void)state;
	card_reset((struct card_plan){.refuse_shard = 1});
	device_run(renew_own_and_anothers_in_vain, NULL);
}

static void without_cards_no_device_memory_is_registered(void **state)
{
	(void)state;
	register_result = -ENOTSUP;
	device_transport = "tcp";
	device_run(register_refused, NULL);
	device_transport = "fault";
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, direct_begin, direct_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(registered_memory_reaches_the_lanes_once),
		TEST(what_another_brings_is_registered_anew),
		TEST(an_address_registered_anew_is_the_new_memory),
		TEST(registered_device_memory_goes_directly_or_not_at_all),
		TEST(without_places_registered_device_memory_fails),
		TEST(results_that_come_otherwise_fail),
		TEST(what_one_card_does_not_take_is_not_registered),
		TEST(what_cards_do_not_take_anew_is_not_registered),
		TEST(without_cards_no_device_memory_is_registered),
	};

	device_transport = "fault";
	gpu_open(FAKE_DRIVER);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
