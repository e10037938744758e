/*
 * Reads, and writes, memory that may not be there: the kernel does, and says so where a processor
 * would end the process.
 */
#ifndef SMD_BASE_PEEK_H
#define SMD_BASE_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Whether this kernel, and a container's filter, lets the process do that at all. */
bool smd_peek_works(void);

/* The n places into `to`, which has room for all. False: some cannot be read. */
bool smd_peek(const struct iovec *from, unsigned n, void *to, size_t bytes);

/* Copies. False, with errno: EFAULT, or what forbids the process to ask the kernel. */
bool smd_poke(void *to, const void *from, size_t bytes);

/* Whether all of it is mapped: no page is touched, and one may be such that it cannot be read. 0.2
 * us, where to read a byte of each page takes 0.3 us for a page that is in no cache. */
bool smd_peek_is_mapped(const void *memory, size_t bytes);

#endif
