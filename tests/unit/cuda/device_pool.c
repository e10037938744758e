/* Starts pools for tests of device memory, fills buffers and checks them. */
#include "tests/unit/cuda/device_pool.h"

#include <unistd.h>

#include "worker/libsummand/context.h"
#include "worker/libsummand/registration.h"

#define MARGIN  3 /* elements around a buffer that must stay as they are; and it is odd */
#define OUTSIDE 0x0badcafe
#define CHUNK   16384

const char *device_transport = "tcp";
static unsigned live_before;

int device_begin(void **state)
{
	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "160K", 1); /* ten stages */
	live_before = gpu_live();
	return 0;
}

int device_end(void **state)
{
	(void)state;
	return gpu_live() == live_before ? 0 : -1;
}

void device_pool_start(struct pool *pool)
{
	const struct smd_server_config config = {
		.shards = 2, .chunk_bytes = CHUNK, .memory_bytes = 16 << 20};
	const struct smd_server_config configs[2] = {config, config};

	pool_start(pool, device_transport, 2, configs);
}

void device_run(void (*body)(struct pool_rank *rank), const void *argument)
{
	struct pool pool;

	device_pool_start(&pool);
	pool_run(&pool, NRANKS, "cuda", body, (void *)argument);
	pool_stop(&pool);
}

void buffer_create(struct buffer *buffer, bool on_device, size_t count, int factor)
{
	size_t bytes = (count + 2 * MARGIN) * sizeof(int32_t);
	int32_t *host = malloc(bytes);

	for (size_t i = 0; i < MARGIN; i++) {
		host[i] = OUTSIDE;
		host[MARGIN + count + i] = OUTSIDE;
	}
	for (size_t i = 0; i < count; i++) {
		host[MARGIN + i] = ((int32_t)i + 1) * factor;
	}
	*buffer = (struct buffer){.on_device = on_device, .count = count, .whole = host};
	if (on_device) {
		buffer->whole = gpu_alloc(bytes);
		gpu_upload(buffer->whole, host, bytes);
		free(host);
	}
	buffer->data = buffer->whole + MARGIN;
}

int buffer_register(struct pool_rank *rank, const void *user, const struct buffer *address,
	const struct buffer *content)
{
	struct smd_dmabuf dmabuf;
	size_t bytes = address->count * sizeof(int32_t);
	int ret;

	dmabuf.fd = gpu_export(content->data, bytes, &dmabuf.offset);
	ret = smd_context_register(rank->context, user, address->data, bytes, &dmabuf);
	close(dmabuf.fd);
	return ret;
}

void buffer_end(struct buffer *buffer, int factor)
{
	size_t bytes = (buffer->count + 2 * MARGIN) * sizeof(int32_t);
	int32_t *host = buffer->whole;

	if (buffer->on_device) {
		host = malloc(bytes);
		gpu_download(host, buffer->whole, bytes);
		gpu_free(buffer->whole);
	}
	for (size_t i = 0; i < MARGIN; i++) {
		CHECK(host[i] == OUTSIDE);
		CHECK(host[MARGIN + buffer->count + i] == OUTSIDE);
	}
	for (size_t i = 0; i < buffer->count; i++) {
		CHECK(host[MARGIN + i] == ((int32_t)i + 1) * factor);
	}
	free(host);
}
