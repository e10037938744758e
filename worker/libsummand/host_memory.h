/*
 * Whether addresses are memory of this process, asked without touching them.
 */
#ifndef SMD_LIBSUMMAND_HOST_MEMORY_H
#define SMD_LIBSUMMAND_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the range begins and ends in memory of this process, which may be such that it cannot be
 * read. The kernel would say so of all of it, when it has read half a chunk and the lane can no
 * longer be used; or a copy would end the process.
 */
bool smd_host_memory_is_mapped(const void *memory, size_t bytes);

/* Whether the eight bytes around it may be read, without a signal where they may not. */
bool smd_host_memory_is_readable(const void *address);

#endif
