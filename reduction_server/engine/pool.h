/*
 * A shard's memory: equal buffers, all mapped at start, handed out last-in first-out so that the
 * ones in use stay in the caches and the others are never touched.
 *
 * Buffers are promised before they are taken: smd_pool_reserve() is where memory runs out, and
 * smd_pool_take() within what is reserved never fails. One thread uses a pool.
 */
#ifndef SMD_ENGINE_POOL_H
#define SMD_ENGINE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smd_pool {
	uint8_t *memory;
	size_t buffer_bytes;
	size_t total;    /* buffers */
	size_t reserved; /* of them, promised */
	size_t nfree;
	void **free; /* a stack */
};

/* Maps as many whole buffers as `bytes` hold: at least one. -ENOMEM, -EINVAL. */
int smd_pool_create(struct smd_pool *pool, size_t bytes, size_t buffer_bytes);
void smd_pool_destroy(struct smd_pool *pool);

/* Promises n more buffers; false when there are not so many. */
bool smd_pool_reserve(struct smd_pool *pool, size_t n);
void smd_pool_release(struct smd_pool *pool, size_t n);

void *smd_pool_take(struct smd_pool *pool);
void smd_pool_give(struct smd_pool *pool, void *buffer);

#endif
