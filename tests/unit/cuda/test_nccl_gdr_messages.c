/* Messages from and to memory of GPUs in the NCCL plugin: nothing but network cards touches it. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/cuda/gdr_machine.h"
#include "tests/unit/cuda/gdr_memory.h"
#include "worker/libsummand/device.h"

#ifdef __SANITIZE_THREAD__
enum { LARGE = 1 << 20 }; /* threads see no difference */
#else
enum { LARGE = 9 << 20 };
#endif

struct pair {
	void *listening;
	void *sender;
	void *receiver;
};

static void pair_create(struct pair *pair)
{
	uint8_t handle[NCCL_HANDLE_BYTES];

	*pair = (struct pair){NULL, NULL, NULL};
	assert_int_equal(NET.listen(NULL, 0, handle, &pair->listening), NCCL_SUCCESS);
	while (!pair->sender || !pair->receiver) {
		if (!pair->sender) {
			assert_int_equal(
				NET.connect(NULL, 0, handle, &pair->sender, NULL), NCCL_SUCCESS);
		}
		if (!pair->receiver) {
			assert_int_equal(
				NET.accept(pair->listening, &pair->receiver, NULL), NCCL_SUCCESS);
		}
	}
}

static void pair_free(struct pair *pair)
{
	NET.closeSend(pair->sender);
	NET.closeRecv(pair->receiver);
	NET.closeListen(pair->listening);
}

/* Both are done, or one has failed: its result. */
static int pair_finish(void *send, void *receive, int *size)
{
	int sent = 0;
	int received = 0;

	while (!sent || !received) {
		int result = sent ? NCCL_SUCCESS : NET.test(send, &sent, NULL);

		if (result == NCCL_SUCCESS && !received) {
			result = NET.test(receive, &received, size);
		}
		if (result) {
			return result;
		}
	}
	return NCCL_SUCCESS;
}

/* A message into a receive that has room for more; the rest of the receive stays as it was. */
static void exchange(struct pair *pair, struct memory *from, struct memory *to, size_t bytes)
{
	size_t room = bytes + 100;
	uint8_t *seen = malloc(room);
	void *data = to->data + 3;
	int tag = 5;
	int flush_size = (int)bytes;
	int size = -1;
	void *receive;
	void *send;
	void *flush;

	memory_fill(from, 1);
	memory_fill(to, 99);
	assert_int_equal(
		NET.irecv(pair->receiver, 1, &data, &room, &tag, &to->mhandle, NULL, &receive),
		NCCL_SUCCESS);
	assert_int_equal(
		NET.isend(pair->sender, from->data + 7, bytes, tag, from->mhandle, NULL, &send),
		NCCL_SUCCESS);
	assert_non_null(receive);
	assert_non_null(send);
	assert_int_equal(pair_finish(send, receive, &size), NCCL_SUCCESS);
	assert_int_equal(size, bytes);
	assert_int_equal(NET.iflush(pair->receiver, 1, &data, &flush_size, &to->mhandle, &flush),
		NCCL_SUCCESS);
	assert_null(flush);
	memory_get(to, 3, seen, room);
	for (size_t i = 0; i < room; i++) {
		uint8_t must = i < bytes ? memory_pattern(i + 7, 1) : memory_pattern(i + 3, 99);

		if (seen[i] != must) { /* a call for each byte would take longer than all else */
			fail_msg("byte %zu of %zu: must be %u, got %u", i, bytes, must, seen[i]);
		}
	}
	free(seen);
}

static void messages_of_every_size(bool from_device, bool to_device)
{
	static const size_t sizes[] = {0, 1, 5, 1023, 4096, 4097, 70001, LARGE / 2, LARGE + 5};
	struct memory from;
	struct memory to;
	struct pair pair;

	memory_create(&from, from_device, LARGE + 200);
	memory_create(&to, to_device, LARGE + 200);
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.sender, &from), NCCL_SUCCESS);
	assert_int_equal(REGISTER(NET, pair.receiver, &to), NCCL_SUCCESS);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		exchange(&pair, &from, &to, sizes[i]);
	}
	NET.deregMr(pair.sender, from.mhandle);
	NET.deregMr(pair.receiver, to.mhandle);
	pair_free(&pair);
	memory_free(&from);
	memory_free(&to);
}

static void messages_go_from_gpu_to_gpu(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	messages_of_every_size(true, true);
	assert_int_equal(gpu_flushes(), before + 9);
	assert_int_equal(card_counts().from_host, 0);
}

static void messages_go_from_gpu_to_host(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	messages_of_every_size(true, false);
	assert_int_equal(gpu_flushes(), before);
	assert_int_equal(card_counts().from_host, 0);
}

static void messages_go_from_host_to_gpu(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	messages_of_every_size(false, true);
	assert_int_equal(gpu_flushes(), before + 9);
}

static void messages_go_from_host_to_host(void **state)
{
	(void)state;
	messages_of_every_size(false, false);
	assert_int_equal(card_counts().from_device, 0);
}

/* Where the driver says that everything is seen at once, it is not asked. */
static void nothing_is_flushed_that_need_not_be(void **state)
{
	unsigned before = gpu_flushes();
	struct smd_error error = {""};
	bool flushes;

	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	messages_of_every_size(true, true);
	assert_int_equal(gpu_flushes(), before + 9); /* it was asked before the first message */
	assert_int_equal(smd_device_ops()->check_cards(&flushes, &error), 0);
	assert_false(flushes);
	messages_of_every_size(true, true);
	assert_int_equal(gpu_flushes(), before + 9);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	assert_int_equal(smd_device_ops()->check_cards(&flushes, &error), 0);
	assert_true(flushes);
}

/* Another thread of the program may capture one meanwhile, by the strictest rules. */
static void a_flush_spoils_no_graph(void **state)
{
	CUstream captured = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	struct memory to;
	struct pair pair;
	void *data;
	void *flush;
	int size = 10;

	(void)state;
	memory_create(&to, true, 1000);
	data = to.data;
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.receiver, &to), NCCL_SUCCESS);
	gpu_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(
		NET.iflush(pair.receiver, 1, &data, &size, &to.mhandle, &flush), NCCL_SUCCESS);
	assert_int_equal(gpu_end_capture(captured), 0);
	NET.deregMr(pair.receiver, to.mhandle);
	pair_free(&pair);
	memory_free(&to);
	gpu_stream_destroy(captured);
}

static void a_flush_that_fails_is_an_error(void **state)
{
	struct memory to;
	struct pair pair;
	void *data;
	void *flush;
	int size = 10;

	(void)state;
	memory_create(&to, true, 1000);
	data = to.data;
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.receiver, &to), NCCL_SUCCESS);
	gpu_fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(
		NET.iflush(pair.receiver, 1, &data, &size, &to.mhandle, &flush), NCCL_SYSTEM_ERROR);
	machine_assert_said(
		"GPU memory: what has come cannot be made seen: cuFlushGPUDirectRDMAWrites: "
		"CUDA_ERROR_LAUNCH_FAILED");
	NET.deregMr(pair.receiver, to.mhandle);
	pair_free(&pair);
	memory_free(&to);
}

/* The receiver's card has no place for it; nobody reads the memory then. */
static void without_a_place_a_connection_ends(bool to_device)
{
	struct memory from;
	struct memory to;
	struct pair pair;
	size_t room = 5000;
	void *data;
	int tag = 1;
	void *receive;
	void *send = NULL;

	card_reset((struct card_plan){.no_place_every = 1});
	memory_create(&from, true, room);
	memory_create(&to, to_device, room);
	data = to.data;
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.sender, &from), NCCL_SUCCESS);
	assert_int_equal(REGISTER(NET, pair.receiver, &to), NCCL_SUCCESS);
	if (to_device) {
		assert_int_equal(NET.irecv(pair.receiver, 1, &data, &room, &tag, &to.mhandle, NULL,
					 &receive),
			NCCL_SYSTEM_ERROR);
	} else {
		assert_int_equal(NET.irecv(pair.receiver, 1, &data, &room, &tag, &to.mhandle, NULL,
					 &receive),
			NCCL_SUCCESS);
		assert_int_equal(
			NET.isend(pair.sender, from.data, room, tag, from.mhandle, NULL, &send),
			NCCL_SUCCESS);
		assert_int_not_equal(pair_finish(send, receive, NULL), NCCL_SUCCESS);
		machine_assert_said("memory of a GPU must be sent to a buffer, and there is none");
	}
	NET.deregMr(pair.sender, from.mhandle);
	NET.deregMr(pair.receiver, to.mhandle);
	pair_free(&pair);
	memory_free(&from);
	memory_free(&to);
}

static void without_a_place_nothing_is_sent(void **state)
{
	(void)state;
	without_a_place_a_connection_ends(false);
	without_a_place_a_connection_ends(true);
}

static void what_a_card_does_not_take_is_not_registered(void **state)
{
	struct memory memory;
	struct pair pair;
	unsigned warnings;

	(void)state;
	card_reset((struct card_plan){.refuse = -ENOMEM, .refuse_shard = -1});
	memory_create(&memory, true, 1000);
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.sender, &memory), NCCL_SYSTEM_ERROR);
	machine_assert_said("cannot be registered: Cannot allocate memory");
	/* NCCL's second try is no news to warn of. */
	warnings = machine_warnings();
	assert_int_equal(NET.regMr(pair.sender, memory.data, 1000, NCCL_PTR_CUDA, &memory.mhandle),
		NCCL_INVALID_USAGE);
	assert_int_equal(machine_warnings(), warnings);
	pair_free(&pair);
	memory_free(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(messages_go_from_gpu_to_gpu),
		MACHINE_TEST(messages_go_from_gpu_to_host),
		MACHINE_TEST(messages_go_from_host_to_gpu),
		MACHINE_TEST(messages_go_from_host_to_host),
		MACHINE_TEST(nothing_is_flushed_that_need_not_be),
		MACHINE_TEST(a_flush_spoils_no_graph),
		MACHINE_TEST(a_flush_that_fails_is_an_error),
		MACHINE_TEST(without_a_place_nothing_is_sent),
		MACHINE_TEST(what_a_card_does_not_take_is_not_registered),
	};
	int ret;

	machine_start(FAKE_DRIVER);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	machine_stop();
	return ret;
}
