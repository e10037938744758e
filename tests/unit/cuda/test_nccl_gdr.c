/*
 * Memory of GPUs in the NCCL plugin: when it is offered, and that nothing but network cards then
 * touches it, in messages and in operations of every size.
 *
 *   test_nccl_gdr [--no-driver | --old]
 *
 * The card is the one of card.h, in the place of rdma; the memory is the fake driver's, which has
 * no access rights: whoever touches it ends the program. Without a driver, or with one that knows
 * of no dma-bufs, nothing is offered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/transport/verbs_check.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"
#include "worker/nccl_plugin/gdr.h"
#include "worker/nccl_plugin/nccl_abi.h"

enum { NODES = 2, TYPE_INT32 = 2, SUM_OP = 0 };

extern const struct nccl_net_v6 ncclNetPlugin_v6;
extern const struct nccl_net_v8 ncclNetPlugin_v8;
extern const struct nccl_net_v9 ncclNetPlugin_v9;
extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_net_v11 ncclNetPlugin_v11;
extern const struct nccl_net_v12 ncclNetPlugin_v12;
extern const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v9;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v10;
extern const struct nccl_collnet_v11 ncclCollNetPlugin_v11;
extern const struct nccl_collnet_v12 ncclCollNetPlugin_v12;

#define NET  ncclNetPlugin_v12
#define COLL ncclCollNetPlugin_v12

/* What ibv_reg_dmabuf_mr() would say. */
static int card_answer;

int smd_verbs_check_dmabuf(const char *device)
{
	CHECK(strcmp(device, "card0") == 0);
	return card_answer;
}

/* ---- the log ---- */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[65536];

static void listen_to(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	size_t used;
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	pthread_mutex_lock(&said_lock);
	used = strlen(said);
	va_start(args, format);
	vsnprintf(said + used, sizeof(said) - used, format, args);
	va_end(args);
	pthread_mutex_unlock(&said_lock);
}

static void assert_said(const char *text)
{
	if (!strstr(said, text)) {
		fprintf(stderr, "\"%s\" is not in:\n%s\n", text, said);
		fail();
	}
}

/* ---- a machine with a card ---- */

static char sysfs[64];

static void make_file(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/class/infiniband/card0/%s", sysfs, path);
	file = fopen(whole, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void make_folders(void)
{
	static const char *const folders[] = {"class", "class/infiniband", "class/infiniband/card0",
		"class/infiniband/card0/ports", "class/infiniband/card0/ports/1",
		"class/infiniband/card0/ports/1/gid_attrs",
		"class/infiniband/card0/ports/1/gid_attrs/ndevs"};

	snprintf(sysfs, sizeof(sysfs), "/tmp/test_nccl_gdr.XXXXXX");
	CHECK(mkdtemp(sysfs));
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s", sysfs, folders[i]);
		CHECK(mkdir(path, 0700) == 0);
	}
	make_file("ports/1/gid_attrs/ndevs/0", "lo\n");
	make_file("node_guid", "0000:0000:0000:0007\n");
}

static void remove_folders(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", sysfs);
	CHECK(system(command) == 0);
}

static struct pool pool;

static void set_environment(void)
{
	setenv("SUMMAND_SYSFS", sysfs, 1);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_NCCL_GDR", "1", 1);
	setenv("SUMMAND_TRANSPORT", "rdma", 1);
	setenv("SUMMAND_CONNECT_TIMEOUT", "20", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", pool.list, 1);
}

static int begin(void **state)
{
	(void)state;
	card_reset((struct card_plan){.refuse = 0});
	gpu_set(SMD_FAKE_DMA_BUF, 1);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	gpu_set(SMD_FAKE_FLUSH, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	card_answer = 0;
	set_environment();
	gpu_enter(0);
	return 0;
}

static unsigned live;

static int end(void **state)
{
	(void)state;
	gpu_leave();
	gpu_mend();
	return card_counts().declared == 0 && gpu_live() == live ? 0 : -1;
}

/* ---- when it is offered ---- */

static const struct smd_nccl_device card = {.name = "lo", .rdma_name = "card0"};

static void assert_refused(const struct smd_nccl_device *device, const char *text)
{
	struct smd_error error = {""};

	assert_true(smd_gdr_check(device, 1, &error) < 0);
	assert_string_equal(error.text, text);
	gpu_leave();
	begin(NULL);
	assert_int_equal(smd_gdr_check(&card, 1, &error), 0);
}

static void every_condition_must_hold(void **state)
{
	const struct smd_nccl_device plain = {.name = "eth0"};

	(void)state;
	unsetenv("SUMMAND_NCCL_GDR");
	assert_refused(&card, "SUMMAND_NCCL_GDR is not 1");
	setenv("SUMMAND_NCCL_GDR", "0", 1);
	assert_refused(&card, "SUMMAND_NCCL_GDR is not 1");
	unsetenv("SUMMAND_TRANSPORT");
	assert_refused(&card, "SUMMAND_TRANSPORT is not rdma");
	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	assert_refused(&card, "SUMMAND_TRANSPORT is not rdma");
	assert_refused(&plain, "eth0 has no RDMA device");
	card_answer = -EOPNOTSUPP;
	assert_refused(&card, "card0 takes no dma-bufs: Operation not supported");
	gpu_set(SMD_FAKE_DMA_BUF, 0);
	assert_refused(&card, "the CUDA device or its kernel module has no dma-buf");
	gpu_set(SMD_FAKE_FLUSH, 0);
	assert_refused(&card, "the CUDA device does not say when it sees what cards write");
}

/* One card that cannot is enough. */
static void all_devices_must_have_such_a_card(void **state)
{
	const struct smd_nccl_device devices[] = {card, {.name = "eth1"}};
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(devices, 2, &error), -ENODEV);
	assert_string_equal(error.text, "eth1 has no RDMA device");
}

static void without_a_driver_it_is_refused(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(&card, 1, &error), -ENODEV);
	assert_string_equal(
		error.text, "there is no CUDA driver, or it was built without CUDA's headers");
}

static void with_an_old_driver_it_is_refused(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_gdr_check(&card, 1, &error), -ENOTSUP);
	assert_string_equal(error.text, "the CUDA driver is older than 11.7");
}

static int offered; /* NCCL_PTR_... */

#define ASSERT_OFFERED(version, since)                                                             \
	do {                                                                                       \
		struct nccl_props_v##since net = {.ptr_support = 0};                               \
		struct nccl_props_v##since coll = {.ptr_support = 0};                              \
                                                                                                   \
		assert_int_equal(ncclNetPlugin_v##version.getProperties(0, &net), NCCL_SUCCESS);   \
		assert_int_equal(                                                                  \
			ncclCollNetPlugin_v##version.getProperties(0, &coll), NCCL_SUCCESS);       \
		assert_int_equal(net.ptr_support, offered);                                        \
		assert_int_equal(coll.ptr_support, offered);                                       \
	} while (0)

static void every_version_shows_it_alike(void **state)
{
	void *ctx;

	(void)state;
	assert_int_equal(NET.init(&ctx, 0, NULL, listen_to, NULL), NCCL_SUCCESS);
	assert_int_equal(COLL.init(&ctx, 0, listen_to), NCCL_SUCCESS);
	ASSERT_OFFERED(6, 6);
	ASSERT_OFFERED(8, 8);
	ASSERT_OFFERED(9, 9);
	ASSERT_OFFERED(10, 9);
	ASSERT_OFFERED(11, 11);
	ASSERT_OFFERED(12, 12);
	assert_said(offered & NCCL_PTR_DMABUF ? "GPU memory: network cards read and write it"
					      : "GPU memory: goes through the host's: ");
}

static void versions_share_one_registration(void **state)
{
	(void)state;
	assert_ptr_equal(ncclNetPlugin_v6.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v8.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v9.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v10.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclNetPlugin_v11.regMrDmaBuf, NET.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v6.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v8.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v9.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v10.regMrDmaBuf, COLL.regMrDmaBuf);
	assert_ptr_equal(ncclCollNetPlugin_v11.regMrDmaBuf, COLL.regMrDmaBuf);
}

/* ---- memory ---- */

struct memory {
	bool device;
	size_t bytes;
	uint8_t *data;
	void *mhandle;
};

static uint8_t pattern(size_t i, unsigned seed)
{
	return (uint8_t)(i * 7 + i / 251 + seed);
}

static void memory_create(struct memory *memory, bool device, size_t bytes)
{
	*memory = (struct memory){.device = device, .bytes = bytes};
	memory->data = device ? gpu_alloc(bytes) : malloc(bytes);
}

static void memory_free(struct memory *memory)
{
	if (memory->device) {
		gpu_free(memory->data);
	} else {
		free(memory->data);
	}
}

static void memory_put(struct memory *memory, size_t at, const void *from, size_t bytes)
{
	if (memory->device && bytes) {
		gpu_upload(memory->data + at, from, bytes);
	} else if (bytes) {
		memcpy(memory->data + at, from, bytes);
	}
}

static void memory_get(const struct memory *memory, size_t at, void *to, size_t bytes)
{
	if (memory->device && bytes) {
		gpu_download(to, memory->data + at, bytes);
	} else if (bytes) {
		memcpy(to, memory->data + at, bytes);
	}
}

static void memory_fill(struct memory *memory, unsigned seed)
{
	uint8_t *bytes = malloc(memory->bytes);

	for (size_t i = 0; i < memory->bytes; i++) {
		bytes[i] = pattern(i, seed);
	}
	memory_put(memory, 0, bytes, memory->bytes);
	free(bytes);
}

/* As NCCL does it: the descriptor is closed as soon as this has returned. */
#define REGISTER(table, comm, memory) memory_register(table.regMr, table.regMrDmaBuf, comm, memory)

static int memory_register(int (*reg)(void *, void *, size_t, int, void **),
	int (*reg_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **), void *comm,
	struct memory *memory)
{
	uint64_t offset;
	int result;
	int fd;

	if (!memory->device) {
		return reg(comm, memory->data, memory->bytes, NCCL_PTR_HOST, &memory->mhandle);
	}
	fd = gpu_export(memory->data, memory->bytes, &offset);
	result = reg_dmabuf(
		comm, memory->data, memory->bytes, NCCL_PTR_CUDA, offset, fd, &memory->mhandle);
	close(fd);
	return result;
}

/* ---- messages ---- */

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
		assert_int_equal(seen[i], i < bytes ? pattern(i + 7, 1) : pattern(i + 3, 99));
	}
	free(seen);
}

static void messages_of_every_size(bool from_device, bool to_device)
{
	static const size_t sizes[] = {0, 1, 5, 1023, 4096, 4097, 70001, 4 << 20, (9 << 20) + 5};
	struct memory from;
	struct memory to;
	struct pair pair;

	memory_create(&from, from_device, (9 << 20) + 200);
	memory_create(&to, to_device, (9 << 20) + 200);
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

	(void)state;
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	messages_of_every_size(true, true);
	assert_int_equal(gpu_flushes(), before);
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
	assert_said("GPU memory: what has come cannot be made seen: cuFlushGPUDirectRDMAWrites: "
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
		assert_said("memory of a GPU must be sent to a place, and there is none");
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

	(void)state;
	card_reset((struct card_plan){.refuse = -ENOMEM, .refuse_shard = -1});
	memory_create(&memory, true, 1000);
	pair_create(&pair);
	assert_int_equal(REGISTER(NET, pair.sender, &memory), NCCL_SYSTEM_ERROR);
	assert_said("cannot be registered: Cannot allocate memory");
	assert_int_equal(NET.regMr(pair.sender, memory.data, 1000, NCCL_PTR_CUDA, &memory.mhandle),
		NCCL_INVALID_USAGE);
	pair_free(&pair);
	memory_free(&memory);
}

/* ---- operations ---- */

struct node {
	int rank;
	void *handles[NODES];
	void *listening;
	void *comm;
	bool device;
	pthread_t thread;
};

static void coll_finish(void *request)
{
	int done = 0;

	while (!done) {
		CHECK(COLL.test(request, &done, NULL) == NCCL_SUCCESS);
	}
}

static void coll_flush(struct node *node, struct memory *memory)
{
	void *request = NULL;

	CHECK(COLL.iflush(node->comm, memory->data, 1, memory->mhandle, &request) == NCCL_SUCCESS);
	coll_finish(request);
}

/* The first half to the second, and then the second in place. */
static void coll_allreduce(struct node *node, struct memory *memory, size_t count)
{
	size_t bytes = count * sizeof(int32_t);
	int32_t *values = malloc(bytes);
	void *request = NULL;

	for (size_t i = 0; i < count; i++) {
		values[i] = (int32_t)i * (node->rank + 1);
	}
	memory_put(memory, 4, values, bytes);
	CHECK(COLL.iallreduce(node->comm, memory->data + 4, memory->data + 4 + bytes, count,
		      TYPE_INT32, SUM_OP, memory->mhandle, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	CHECK(COLL.iallreduce(node->comm, memory->data + 4 + bytes, memory->data + 4 + bytes, count,
		      TYPE_INT32, SUM_OP, memory->mhandle, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, 4 + bytes, values, bytes);
	for (size_t i = 0; i < count; i++) {
		CHECK(values[i] == (int32_t)i * 3 * NODES);
	}
	free(values);
}

static void coll_allgather(struct node *node, struct memory *memory, size_t bytes)
{
	struct nccl_sge_v9 part = {memory->mhandle, memory->data + bytes, bytes * NODES};
	uint8_t *seen = malloc(bytes * NODES);
	void *request = NULL;

	memory_fill(memory, (unsigned)node->rank);
	CHECK(COLL.iallgather(node->comm, memory->data, 1, &part, bytes, 0, bytes * NODES,
		      memory->mhandle, &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, bytes, seen, bytes * NODES);
	for (size_t i = 0; i < bytes * NODES; i++) {
		CHECK(seen[i] == pattern(i % bytes, (unsigned)(i / bytes)));
	}
	free(seen);
}

static void coll_reducescatter(struct node *node, struct memory *memory, size_t count)
{
	size_t bytes = count * sizeof(int32_t);
	struct nccl_sge_v9 part = {memory->mhandle, memory->data, bytes * NODES};
	int32_t *values = malloc(bytes * NODES);
	void *request = NULL;

	for (size_t i = 0; i < count * NODES; i++) {
		values[i] = (int32_t)i * (node->rank + 1);
	}
	memory_put(memory, 0, values, bytes * NODES);
	CHECK(COLL.ireducescatter(node->comm, 1, &part, memory->data + bytes * NODES, bytes, 0,
		      bytes * NODES, TYPE_INT32, SUM_OP, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, bytes * NODES, values, bytes);
	for (size_t i = 0; i < count; i++) {
		CHECK(values[i] == (int32_t)(i + count * (size_t)node->rank) * 3);
	}
	free(values);
}

/* Several parts would have to be copied. */
static void coll_parts(struct node *node, struct memory *memory)
{
	struct nccl_sge_v9 parts[2] = {
		{memory->mhandle, memory->data, 10}, {memory->mhandle, memory->data + 20, 10}};
	void *request;

	CHECK(COLL.iallgather(node->comm, memory->data + 40, 2, parts, 10, 0, 20, memory->mhandle,
		      &request) == (node->device ? NCCL_INVALID_ARGUMENT : NCCL_SUCCESS));
	if (!node->device) {
		coll_finish(request);
	}
}

static void *node_run(void *arg)
{
	static const size_t counts[] = {1, 7, 1000, 5000, 200001};
	struct node *node = arg;
	struct memory memory;
	void *sends;

	gpu_enter(0); /* as NCCL's threads have it */
	CHECK(COLL.connect(node->handles, NODES, node->rank, node->listening, &node->comm) ==
		NCCL_SUCCESS);
	CHECK(COLL.closeListen(node->listening) == NCCL_SUCCESS);
	memory_create(&memory, node->device, 4 << 20);
	CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS);
	sends = memory.mhandle;
	CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS); /* for the other direction */
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		coll_allreduce(node, &memory, counts[i]);
		coll_allgather(node, &memory, counts[i] * 3);
		coll_reducescatter(node, &memory, counts[i]);
	}
	if (node->device) {
		coll_parts(node, &memory);
	}
	CHECK(COLL.deregMr(node->comm, sends) == NCCL_SUCCESS);
	CHECK(COLL.deregMr(node->comm, memory.mhandle) == NCCL_SUCCESS);
	CHECK(COLL.closeColl(node->comm) == NCCL_SUCCESS);
	gpu_leave();
	memory_free(&memory);
	return NULL;
}

static void nodes_run(bool first, bool second)
{
	static uint8_t handles[NODES][NCCL_HANDLE_BYTES];
	struct node nodes[NODES];

	for (int r = 0; r < NODES; r++) {
		nodes[r] = (struct node){.rank = r, .device = r ? second : first};
		assert_int_equal(
			COLL.listen(NULL, 0, handles[r], &nodes[r].listening), NCCL_SUCCESS);
	}
	for (int r = 0; r < NODES; r++) {
		for (int other = 0; other < NODES; other++) {
			nodes[r].handles[other] = handles[other];
		}
		CHECK(pthread_create(&nodes[r].thread, NULL, node_run, &nodes[r]) == 0);
	}
	for (int r = 0; r < NODES; r++) {
		pthread_join(nodes[r].thread, NULL);
	}
}

static void operations_of_every_size_on_gpus(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	nodes_run(true, true);
	assert_int_equal(gpu_flushes(), before + NODES * 5 * 3);
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().to_host, 0);
}

/* Where one node's GPU is too far from its card, NCCL gives memory of the host there. */
static void operations_on_one_gpu_and_one_host(void **state)
{
	(void)state;
	nodes_run(true, false);
	assert_true(card_counts().from_device > 0);
	assert_true(card_counts().from_host > 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(every_condition_must_hold),
		TEST(all_devices_must_have_such_a_card),
		TEST(every_version_shows_it_alike),
		TEST(versions_share_one_registration),
		TEST(messages_go_from_gpu_to_gpu),
		TEST(messages_go_from_gpu_to_host),
		TEST(messages_go_from_host_to_gpu),
		TEST(messages_go_from_host_to_host),
		TEST(nothing_is_flushed_that_need_not_be),
		TEST(a_flush_that_fails_is_an_error),
		TEST(without_a_place_nothing_is_sent),
		TEST(what_a_card_does_not_take_is_not_registered),
		TEST(operations_of_every_size_on_gpus),
		TEST(operations_on_one_gpu_and_one_host),
	};
	const struct CMUnitTest no_driver[] = {
		TEST(without_a_driver_it_is_refused),
		TEST(every_version_shows_it_alike),
	};
	const struct CMUnitTest old[] = {
		TEST(with_an_old_driver_it_is_refused),
		TEST(every_version_shows_it_alike),
	};
	const struct smd_server_config config = {
		.shards = 2, .chunk_bytes = 16384, .memory_bytes = 16 << 20};
	int ret;

	make_folders();
	gpu_open(argc > 1 && strcmp(argv[1], "--old") == 0 ? OLD_DRIVER : FAKE_DRIVER);
	live = gpu_live();
	offered = NCCL_PTR_HOST;
	pool_start(&pool, "rdma", 1, &config);
	if (argc > 1 && strcmp(argv[1], "--no-driver") == 0) {
		setenv("SUMMAND_CUDA_DRIVER", "/nonexistent", 1);
		ret = cmocka_run_group_tests(no_driver, NULL, NULL);
	} else if (argc > 1) {
		ret = cmocka_run_group_tests(old, NULL, NULL);
	} else {
		offered |= NCCL_PTR_DMABUF;
		ret = cmocka_run_group_tests(tests, NULL, NULL);
	}
	pool_stop(&pool);
	remove_folders();
	return ret;
}
