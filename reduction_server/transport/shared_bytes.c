/* Counts the memory that lanes share with other processes. */
#include "reduction_server/transport/shared_bytes.h"

#include <stdatomic.h>

static atomic_size_t shared;

size_t smd_shared_bytes(void)
{
	return atomic_load(&shared);
}

void smd_shared_bytes_add(size_t bytes)
{
	atomic_fetch_add(&shared, bytes);
}

void smd_shared_bytes_take(size_t bytes)
{
	atomic_fetch_sub(&shared, bytes);
}
