/* Asks the kernel whether addresses are memory of this process. */
#include "worker/libsummand/host_memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

bool smd_host_memory_is_mapped(const void *memory, size_t bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t first = (uintptr_t)memory & ~(page - 1);
	const uintptr_t last = ((uintptr_t)memory + bytes - 1) & ~(page - 1);
	unsigned char resident;

	return mincore((void *)first, page, &resident) == 0 &&
	       (last == first || mincore((void *)last, page, &resident) == 0);
}

/* The kernel copies the set before it sees that it cannot do that with it. A fifth of what
 * mincore() takes. */
bool smd_host_memory_is_readable(const void *address)
{
	const void *word = (const void *)((uintptr_t)address & ~(uintptr_t)7);

	return syscall(SYS_rt_sigprocmask, ~0, word, NULL, (size_t)8) == 0 || errno != EFAULT;
}
