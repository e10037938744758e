/* A TCP lane's bytes as they are: one system call for many frames. */
#include <sys/socket.h>
#include <sys/uio.h>

#include "reduction_server/transport/tcp/tcp.h"

static ssize_t plain_receive(struct tcp_lane *tcp, const struct iovec *iov, int n)
{
	/* Half of what readv() takes, where there is nothing: most polls are in vain. */
	return n == 1 ? recv(tcp->fd, iov->iov_base, iov->iov_len, 0) : readv(tcp->fd, iov, n);
}

static ssize_t plain_send(struct tcp_lane *tcp, struct iovec *iov, int n)
{
	const struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)n};

	return sendmsg(tcp->fd, &message, MSG_NOSIGNAL);
}

const struct tcp_stream smd_tcp_plain = {
	.receive = plain_receive,
	.send = plain_send,
};
