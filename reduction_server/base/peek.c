/* Has the kernel copy from the process to itself. */
#include "reduction_server/base/peek.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The main thread's number, which is the process's, names nothing once that thread has ended. */
static pid_t own_number(void)
{
	return (pid_t)syscall(SYS_gettid);
}

bool smd_peek(const struct iovec *from, unsigned n, void *to, size_t bytes)
{
	const struct iovec into = {.iov_base = to, .iov_len = bytes};

	return process_vm_readv(own_number(), &into, 1, from, n, 0) == (ssize_t)bytes;
}

bool smd_poke(void *to, const void *from, size_t bytes)
{
	const struct iovec here = {.iov_base = (void *)from, .iov_len = bytes};
	const struct iovec there = {.iov_base = to, .iov_len = bytes};
	ssize_t put = process_vm_writev(own_number(), &here, 1, &there, 1, 0);

	if (put >= 0 && put < (ssize_t)bytes) {
		errno = EFAULT; /* behind what it has written */
	}
	return put == (ssize_t)bytes;
}

bool smd_peek_works(void)
{
	uint8_t there = 1;
	const struct iovec from = {.iov_base = &there, .iov_len = 1};
	uint8_t got = 0;

	return smd_peek(&from, 1, &got, 1) && got == 1 && smd_peek_is_mapped(&there, 1);
}

bool smd_peek_is_mapped(const void *memory, size_t bytes)
{
	uintptr_t before = (uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE);

	/* Linux writes nothing back then, and says ENOMEM of what is not mapped. */
	return msync((uint8_t *)(uintptr_t)memory - before, before + bytes, MS_ASYNC) == 0;
}
