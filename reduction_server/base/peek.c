/* Has the kernel copy from the process to itself. */
#include "reduction_server/base/peek.h"

#include <stdint.h>
#include <unistd.h>

#define PAGE_LEAST 4096u

bool smd_peek(const struct iovec *from, unsigned n, void *to, size_t bytes)
{
	const struct iovec into = {.iov_base = to, .iov_len = bytes};

	return process_vm_readv(getpid(), &into, 1, from, n, 0) == (ssize_t)bytes;
}

bool smd_peek_pages(const void *memory, size_t bytes)
{
	const uint8_t *const end = (const uint8_t *)memory + bytes;
	const uint8_t *at = memory;
	struct iovec from[SMD_PEEK_MOST];
	uint8_t to[SMD_PEEK_MOST];

	while (at < end) {
		unsigned n = 0;

		for (; n < SMD_PEEK_MOST && at < end; n++) {
			from[n] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = 1};
			at += PAGE_LEAST - (uintptr_t)at % PAGE_LEAST;
		}
		if (!smd_peek(from, n, to, n)) {
			return false;
		}
	}
	return true;
}
