/*
 * Reads memory that may not be there: the kernel does, and says so where a processor's read would
 * end the process.
 */
#ifndef SMD_BASE_PEEK_H
#define SMD_BASE_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define SMD_PEEK_MOST 256u

/* The n places, at most SMD_PEEK_MOST, into `to`, which has room for all. False: some cannot be
 * read, or this kernel, or a container's filter, has no process_vm_readv(). */
bool smd_peek(const struct iovec *from, unsigned n, void *to, size_t bytes);

/* Whether a byte of each page can be. 0.1 to 0.2 us for a page. */
bool smd_peek_pages(const void *memory, size_t bytes);

#endif
