/* Asks the kernel whether addresses are memory of this process. */
#include "worker/libsummand/host_memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* of Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PART_BYTES ((size_t)4 << 20) /* brought in within 1 to 2 ms */

/* The kernel copies the set before it sees that it cannot do that with it. */
static bool may_read(const void *address)
{
	const void *word = (const void *)((uintptr_t)address & ~(uintptr_t)7);

	return syscall(SYS_rt_sigprocmask, ~0, word, NULL, (size_t)8) == 0 || errno != EFAULT;
}

/* The kernel adds nothing to the word, at once, and wakes nobody. Three times what reading takes.
 */
static bool may_write(void *address)
{
	static uint32_t nobody;
	void *word = (void *)((uintptr_t)address & ~(uintptr_t)3);

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, NULL, word,
		       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0)) >= 0 ||
	       errno != EFAULT;
}

/* A page of which one word may be used is one of which all may be. */
static bool may_read_last(const uint8_t *memory, size_t bytes)
{
	const uint8_t *last = memory + bytes - 1;

	return ((uintptr_t)memory ^ (uintptr_t)last) < SMD_HOST_PAGE_LEAST || may_read(last);
}

bool smd_host_memory_is_readable(const void *memory, size_t bytes)
{
	return may_read(memory) && may_read_last(memory, bytes);
}

bool smd_host_memory_is_writable(void *memory, size_t bytes)
{
	uint8_t *last = (uint8_t *)memory + bytes - 1;

	/* What has no more is not asked for as a whole, before a processor writes it. */
	if (bytes <= SMD_HOST_PAGE_LEAST) {
		return may_write(memory) &&
		       (((uintptr_t)memory ^ (uintptr_t)last) < SMD_HOST_PAGE_LEAST ||
			       may_write(last));
	}
	return may_write(memory) && may_read_last(memory, bytes);
}

/* Whether the kernel has brought in all of it. */
static bool is_populated(const uint8_t *memory, size_t bytes, int advice)
{
	uintptr_t before = (uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE);

	return madvise((void *)(memory - before), before + bytes, advice) == 0;
}

static uint8_t *next_page(uint8_t *at)
{
	return at + SMD_HOST_PAGE_LEAST - (uintptr_t)at % SMD_HOST_PAGE_LEAST;
}

static bool part_is_usable(uint8_t *at, size_t bytes, bool to_be_written)
{
	const uint8_t *end = at + bytes;

	if (is_populated(at, bytes, to_be_written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) {
		return true;
	}
	while (at < end && (to_be_written ? may_write(at) : may_read(at))) {
		at = next_page(at);
	}
	return at >= end;
}

/* The kernel lets no other thread map memory while it brings some in, and that may be one that has
 * a heartbeat to answer. */
static bool is_usable_throughout(uint8_t *memory, size_t bytes, bool to_be_written)
{
	for (size_t done = 0; done < bytes; done += PART_BYTES) {
		size_t left = bytes - done;

		if (!part_is_usable(
			    memory + done, left < PART_BYTES ? left : PART_BYTES, to_be_written)) {
			return false;
		}
	}
	return true;
}

bool smd_host_memory_is_readable_throughout(const void *memory, size_t bytes)
{
	return is_usable_throughout((uint8_t *)(uintptr_t)memory, bytes, false);
}

bool smd_host_memory_is_writable_throughout(void *memory, size_t bytes)
{
	return is_usable_throughout(memory, bytes, true);
}
