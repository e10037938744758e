/* All-reduces of device memory that goes directly, and the driver and card that they need. */
#include "tests/unit/cuda/direct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>

pthread_barrier_t direct_ready;

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

int direct_begin(void **state)
{
	int ret = device_begin(state);

	card_reset((struct card_plan){.refuse = 0});
	gpu_set(SMD_FAKE_DMA_BUF, 1);
	gpu_set(SMD_FAKE_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	gpu_set(SMD_FAKE_FLUSH, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	gpu_set(SMD_FAKE_WHOLE, 1);
	pthread_barrier_init(&direct_ready, NULL, NRANKS);
	open_before = open_files();
	return ret;
}

int direct_end(void **state)
{
	pthread_barrier_destroy(&direct_ready);
	gpu_mend();
	return card_counts().registered == 0 && open_files() == open_before ? device_end(state)
									    : -1;
}

void direct_allreduce(struct pool_rank *rank, struct buffer *send, struct buffer *recv)
{
	CHECK(smd_allreduce(rank->comm, send->data, recv->data, send->count, SMD_INT32, SMD_SUM) ==
		0);
}

void direct_allreduce_of(struct pool_rank *rank, size_t count)
{
	struct buffer send;
	struct buffer recv;

	buffer_create(&send, true, count, rank->rank + 1);
	buffer_create(&recv, true, count, -1);
	direct_allreduce(rank, &send, &recv);
	buffer_end(&send, rank->rank + 1);
	buffer_end(&recv, SUM);
}

void direct_large(struct pool_rank *rank)
{
	direct_allreduce_of(rank, DIRECT_LARGE);
}

void direct_nothing_went(void)
{
	struct card_counts counts = card_counts();

	assert_int_equal(counts.from_device, 0);
	assert_int_equal(counts.to_device, 0);
	assert_true(counts.from_host > 0);
}
