/*
 * Memory between two pages that must not be touched, so that a kernel that reads or writes beyond
 * its buffers ends the checker, in every build; it then says what it was about.
 */
#ifndef TESTS_KERNELS_GUARDED_H
#define TESTS_KERNELS_GUARDED_H

#include <stddef.h>

struct guarded {
	unsigned char *low;
	unsigned char *high; /* one behind the last byte */
};

/* At least `bytes`, rounded up to pages. */
struct guarded guarded_make(size_t bytes);
void guarded_free(struct guarded *memory);

/* What is said when a guard page is touched. The text is not copied. */
void guarded_tell(const char *what);

#endif
