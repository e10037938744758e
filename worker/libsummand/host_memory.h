/*
 * Whether addresses are memory of this process, asked without touching them.
 */
#ifndef SMD_LIBSUMMAND_HOST_MEMORY_H
#define SMD_LIBSUMMAND_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define SMD_HOST_MEMORY_REFUSED "passed a buffer whose memory it does not have, or may not use so"
#define SMD_HOST_PAGE_LEAST 4096u

/*
 * Whether the range begins and ends in memory that may be read, without a signal where it may not;
 * or begins in memory that may be written, and ends in such that may be read, or written where it
 * has no more than a page. Nothing is changed. Else a copy would end the process, or the kernel
 * would say so when half a chunk is on its way and the lane can no longer be used.
 */
bool smd_host_memory_is_readable(const void *memory, size_t bytes);
bool smd_host_memory_is_writable(void *memory, size_t bytes);

/*
 * Whether all of the range may be, holes in its middle included, for a processor that is to use it.
 * The kernel brings in what is not there yet, as the first touch of it would: 0.3 us, and 0.04 to
 * 0.2 us for each page that is. What it cannot bring in so (memory of a device; before Linux 5.14
 * any) is asked for page by page, 0.1 to 0.3 us each.
 */
bool smd_host_memory_is_readable_throughout(const void *memory, size_t bytes);
bool smd_host_memory_is_writable_throughout(void *memory, size_t bytes);

#endif
