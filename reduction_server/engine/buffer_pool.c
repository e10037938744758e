/* Hands out a shard's buffers. */
#include "reduction_server/engine/buffer_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int smd_buffer_pool_create(struct smd_buffer_pool *pool, size_t bytes, size_t buffer_bytes)
{
	size_t stride = SMD_BUFFER_POOL_STRIDE(buffer_bytes);
	size_t total = bytes / stride;

	if (total == 0) {
		return -EINVAL;
	}
	*pool = (struct smd_buffer_pool){
		.buffer_bytes = buffer_bytes, .total = total, .nfree = total};
	pool->free = malloc(total * sizeof(*pool->free));
	if (!pool->free) {
		return -ENOMEM;
	}
	if (smd_pages_map(&pool->pages, total * stride)) {
		free(pool->free);
		return -ENOMEM;
	}
	for (size_t i = 0; i < total; i++) {
		pool->free[i] = pool->pages.memory + (total - 1 - i) * stride;
	}
	return 0;
}

void smd_buffer_pool_destroy(struct smd_buffer_pool *pool)
{
	smd_pages_unmap(&pool->pages);
	free(pool->free);
}

bool smd_buffer_pool_reserve(struct smd_buffer_pool *pool, size_t n)
{
	if (n > pool->total - pool->reserved) {
		return false;
	}
	pool->reserved += n;
	return true;
}

void smd_buffer_pool_release(struct smd_buffer_pool *pool, size_t n)
{
	assert(n <= pool->reserved);
	pool->reserved -= n;
}

void *smd_buffer_pool_take(struct smd_buffer_pool *pool)
{
	assert(pool->nfree > 0); /* reserved before */
	return pool->free[--pool->nfree];
}

void smd_buffer_pool_give(struct smd_buffer_pool *pool, void *buffer)
{
	assert(pool->nfree < pool->total);
	pool->free[pool->nfree++] = buffer;
}
