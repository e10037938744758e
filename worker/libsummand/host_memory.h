/*
 * Whether addresses are memory of this process, asked without touching them.
 */
#ifndef SMD_LIBSUMMAND_HOST_MEMORY_H
#define SMD_LIBSUMMAND_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the range begins and ends in memory that may be read, without a signal where it may not;
 * or begins in memory that may be written, and ends in such that may be read. Nothing is changed.
 * Else a copy would end the process, or the kernel would say so when half a chunk is on its way and
 * the lane can no longer be used.
 */
bool smd_host_memory_is_readable(const void *memory, size_t bytes);
bool smd_host_memory_is_writable(void *memory, size_t bytes);

#endif
