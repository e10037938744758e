/* Reads and writes whole ballots, and never waits. */
#include "worker/nccl_plugin/collnet/caller.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

void smd_caller_close(struct smd_caller *caller)
{
	if (caller->fd >= 0) {
		close(caller->fd);
	}
	caller->fd = -1;
	caller->got = 0;
}

int smd_caller_read(struct smd_caller *caller)
{
	ssize_t n = recv(caller->fd, caller->bytes + caller->got, SMD_BALLOT_BYTES - caller->got,
		MSG_DONTWAIT);

	if (n < 0) {
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (n == 0) {
		return -ECONNRESET;
	}
	caller->got += (unsigned)n;
	if (caller->got < SMD_BALLOT_BYTES) {
		return 0;
	}
	caller->got = 0;
	return 1;
}

/* A ballot fits into any socket's buffer that nothing else is in. */
int smd_caller_write(const struct smd_caller *caller, const struct smd_ballot *ballot)
{
	uint8_t bytes[SMD_BALLOT_BYTES];
	ssize_t n;

	smd_ballot_encode(ballot, bytes);
	n = send(caller->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
	return n == (ssize_t)sizeof(bytes) ? 0 : n < 0 ? -errno : -EIO;
}
