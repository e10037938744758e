/* Hands out a shard's buffers. */
#include "reduction_server/engine/buffer_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define MIXED UINT64_MAX /* several have left something, of which nothing was cleared */

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
	pool->users = calloc(total, sizeof(*pool->users));
	if (!pool->free || !pool->users || smd_pages_map(&pool->pages, total * stride)) {
		free(pool->free);
		free(pool->users);
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
	free(pool->users);
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

void *smd_buffer_pool_take(struct smd_buffer_pool *pool, uint64_t user, bool *others)
{
	uint8_t *buffer;
	uint64_t *last;
	bool mixed;

	assert(pool->nfree > 0); /* reserved before */
	buffer = pool->free[--pool->nfree];
	last = &pool->users[(size_t)(buffer - pool->pages.memory) /
			    SMD_BUFFER_POOL_STRIDE(pool->buffer_bytes)];
	mixed = *last != 0 && *last != user;
	if (others) { /* who then clears it */
		*others = mixed;
	}
	*last = mixed && !others ? MIXED : user;
	return buffer;
}

void smd_buffer_pool_give(struct smd_buffer_pool *pool, void *buffer)
{
	assert(pool->nfree < pool->total);
	pool->free[pool->nfree++] = buffer;
}
