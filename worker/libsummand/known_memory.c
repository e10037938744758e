/* Remembers the callers' buffers whose memory could be used. */
#include "worker/libsummand/known_memory.h"

#include <stdlib.h>

#include "reduction_server/base/peek.h"
#include "worker/libsummand/host_memory.h"

#define PLACES_BITS 12u /* so that of some hundred tensors few have the same place */
#define PLACES      ((size_t)1 << PLACES_BITS)

struct smd_known_range {
	uintptr_t at;
	size_t bytes; /* 0: none */
};

void smd_known_memory_create(struct smd_known_memory *known)
{
	pthread_mutex_init(&known->lock, NULL);
	known->ranges = calloc(2 * PLACES, sizeof(*known->ranges));
}

void smd_known_memory_destroy(struct smd_known_memory *known)
{
	free(known->ranges);
	known->ranges = NULL;
	pthread_mutex_destroy(&known->lock);
}

/* Where a buffer that begins there is, if it is known. NULL: there was no memory for any. */
static struct smd_known_range *range_of(
	struct smd_known_memory *known, const void *memory, bool to_be_written)
{
	uint64_t mixed = (uint64_t)(uintptr_t)memory * 0x9e3779b97f4a7c15u;
	size_t place = mixed >> (64 - PLACES_BITS);

	return known->ranges ? &known->ranges[to_be_written * PLACES + place] : NULL;
}

/* So many bytes from there, or more, could be used. */
static bool is_known(
	struct smd_known_memory *known, const void *memory, size_t bytes, bool to_be_written)
{
	const struct smd_known_range *range = range_of(known, memory, to_be_written);
	bool holds;

	pthread_mutex_lock(&known->lock);
	holds = range && range->at == (uintptr_t)memory && range->bytes >= bytes;
	pthread_mutex_unlock(&known->lock);
	return holds && smd_peek_is_mapped(memory, bytes);
}

static void remember(
	struct smd_known_memory *known, const void *memory, size_t bytes, bool to_be_written)
{
	struct smd_known_range *range = range_of(known, memory, to_be_written);

	pthread_mutex_lock(&known->lock);
	if (range) {
		*range = (struct smd_known_range){.at = (uintptr_t)memory, .bytes = bytes};
	}
	pthread_mutex_unlock(&known->lock);
}

/* What is between the ends of a buffer whose ends may be used. */
static bool is_usable_throughout(
	struct smd_known_memory *known, void *memory, size_t bytes, bool to_be_written)
{
	if (bytes <= SMD_HOST_PAGE_LEAST || is_known(known, memory, bytes, to_be_written)) {
		return true;
	}
	if (to_be_written ? !smd_host_memory_is_writable_throughout(memory, bytes)
			  : !smd_host_memory_is_readable_throughout(memory, bytes)) {
		return false;
	}
	remember(known, memory, bytes, to_be_written);
	return true;
}

bool smd_known_memory_is_readable(struct smd_known_memory *known, const void *memory, size_t bytes)
{
	return smd_host_memory_is_readable(memory, bytes) &&
	       is_usable_throughout(known, (void *)(uintptr_t)memory, bytes, false);
}

bool smd_known_memory_is_writable(struct smd_known_memory *known, void *memory, size_t bytes)
{
	return smd_host_memory_is_writable(memory, bytes) &&
	       is_usable_throughout(known, memory, bytes, true);
}
