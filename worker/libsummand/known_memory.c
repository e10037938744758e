/* Remembers the callers' buffers whose memory could be used. */
#include "worker/libsummand/known_memory.h"

#include "reduction_server/base/peek.h"
#include "worker/libsummand/host_memory.h"

void smd_known_memory_create(struct smd_known_memory *known)
{
	*known = (struct smd_known_memory){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void smd_known_memory_destroy(struct smd_known_memory *known)
{
	pthread_mutex_destroy(&known->lock);
}

/* Where a buffer is, if it is known. */
static struct smd_known_range *range_of(
	struct smd_known_memory *known, const void *memory, size_t bytes)
{
	uint64_t mixed = ((uint64_t)(uintptr_t)memory ^ bytes) * 0x9e3779b97f4a7c15u;

	return &known->ranges[mixed >> (64 - SMD_KNOWN_MEMORY_BITS)];
}

static bool is_known(
	struct smd_known_memory *known, const void *memory, size_t bytes, bool to_be_written)
{
	const struct smd_known_range *range;
	bool same;

	pthread_mutex_lock(&known->lock);
	range = range_of(known, memory, bytes);
	same = range->at == (uintptr_t)memory && range->bytes == bytes &&
	       (range->writable || !to_be_written);
	pthread_mutex_unlock(&known->lock);
	return same && smd_peek_is_mapped(memory, bytes);
}

static void remember(
	struct smd_known_memory *known, const void *memory, size_t bytes, bool writable)
{
	pthread_mutex_lock(&known->lock);
	*range_of(known, memory, bytes) = (struct smd_known_range){
		.at = (uintptr_t)memory, .bytes = bytes, .writable = writable};
	pthread_mutex_unlock(&known->lock);
}

bool smd_known_memory_is_readable(struct smd_known_memory *known, const void *memory, size_t bytes)
{
	if (!smd_host_memory_is_readable(memory, bytes)) {
		return false;
	}
	if (bytes <= SMD_HOST_PAGE_LEAST || is_known(known, memory, bytes, false)) {
		return true;
	}
	if (!smd_host_memory_is_readable_throughout(memory, bytes)) {
		return false;
	}
	remember(known, memory, bytes, false);
	return true;
}

bool smd_known_memory_is_writable(struct smd_known_memory *known, void *memory, size_t bytes)
{
	if (!smd_host_memory_is_writable(memory, bytes)) {
		return false;
	}
	if (bytes <= SMD_HOST_PAGE_LEAST || is_known(known, memory, bytes, true)) {
		return true;
	}
	if (!smd_host_memory_is_writable_throughout(memory, bytes)) {
		return false;
	}
	remember(known, memory, bytes, true);
	return true;
}
