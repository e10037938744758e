/*
 * What tests of device memory share: a pool whose chunks are small, and buffers here and there.
 */
#ifndef SMD_TESTS_DEVICE_POOL_H
#define SMD_TESTS_DEVICE_POOL_H

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/gpu.h"

#define NRANKS 3
#define SUM    (1 + 2 + 3) /* of buffers with the factors 1, 2 and 3 */

/* Of each test: few stages; and that nothing of the device is left behind, whatever happened. */
int device_begin(void **state);
int device_end(void **state);

/* Small chunks and four shards, so that stages are scarce and every size has its own cut. */
void device_pool_start(struct pool *pool);

/* What its lanes go over: "tcp" unless a test says something else. */
extern const char *device_transport;

/* Runs body() on every rank of such a pool, in a communicator of the group "cuda". */
void device_run(void (*body)(struct pool_rank *rank), const void *argument);

struct buffer {
	bool on_device;
	size_t count;
	int32_t *whole; /* with margins */
	int32_t *data;
};

/* Element i is (i + 1) * factor. */
void buffer_create(struct buffer *buffer, bool on_device, size_t count, int factor);
/* Registers with network cards, at the address of the one, what the other has. 0 or -errno. */
int buffer_register(struct pool_rank *rank, const void *user, const struct buffer *address,
	const struct buffer *content);
/* Checks that it is (i + 1) * factor and that nothing around was touched; frees the buffer. */
void buffer_end(struct buffer *buffer, int factor);

#endif
