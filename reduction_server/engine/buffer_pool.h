/*
 * A shard's memory: equal buffers, all mapped at start, handed out last-in first-out so that the
 * ones in use stay in the caches and the others are never touched.
 *
 * Buffers do not follow each other at once. All chunks of an operation are as long as each other
 * and mostly shorter than a buffer, and a kernel reads the same place of n of them at a time: with
 * a distance that is a power of two these would all want the same few lines of the caches, and
 * throw each other out.
 *
 * Buffers are promised before they are taken: smd_buffer_pool_reserve() is where memory runs out,
 * and smd_buffer_pool_take() within what is reserved never fails. One thread uses a pool.
 */
#ifndef SMD_ENGINE_BUFFER_POOL_H
#define SMD_ENGINE_BUFFER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/pages.h"

/* From a buffer to the next: another line of its page, and another page. */
#define SMD_BUFFER_POOL_STRIDE(buffer_bytes) ((size_t)(buffer_bytes) + 4096 + 64)

struct smd_buffer_pool {
	struct smd_pages pages;
	size_t buffer_bytes;
	size_t total;    /* buffers */
	size_t reserved; /* of them, promised */
	size_t nfree;
	void **free; /* a stack */
	uint64_t
		*users; /* [total], who has last used each, in the order of memory; 0: nobody has */
};

/* Maps as many buffers, with what lies between them, as `bytes` hold: at least one. A buffer begins
 * at a multiple of 64 if its length is one. -ENOMEM, -EINVAL. */
int smd_buffer_pool_create(struct smd_buffer_pool *pool, size_t bytes, size_t buffer_bytes);
void smd_buffer_pool_destroy(struct smd_buffer_pool *pool);

/* Of all buffers and what lies between them, from pool->pages.memory on. */
static inline size_t smd_buffer_pool_bytes(const struct smd_buffer_pool *pool)
{
	return pool->total * SMD_BUFFER_POOL_STRIDE(pool->buffer_bytes);
}

/* Promises n more buffers; false when there are not so many. */
bool smd_buffer_pool_reserve(struct smd_buffer_pool *pool, size_t n);
void smd_buffer_pool_release(struct smd_buffer_pool *pool, size_t n);

/* For that user, a number from 1 on. *others: another one has left something in it, which the
 * caller clears; NULL: it stays, and the next one is told so. */
void *smd_buffer_pool_take(struct smd_buffer_pool *pool, uint64_t user, bool *others);
void smd_buffer_pool_give(struct smd_buffer_pool *pool, void *buffer);

#endif
