/*
 * What the plain reduction server and its workers say to each other: nothing but numbers of bytes.
 *
 * It is a yardstick and not a product: blocking sockets, one thread for each worker, no failures,
 * no authentication. A worker sends struct plain_head and then that many bytes, in chunks; the
 * server answers each chunk with its reduction.
 */
#ifndef SUMMAND_TOOLS_BENCH_PLAIN_H
#define SUMMAND_TOOLS_BENCH_PLAIN_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLAIN_CHUNK  131072 /* so that two of them fit into a socket's buffers */
#define PLAIN_AHEAD  2      /* chunks that a worker sends before it takes the first result */
#define PLAIN_BUFFER 212992 /* of a socket; the kernel doubles it, and allows no more by default   \
			     */

enum plain_op { PLAIN_SUM_FLOAT, PLAIN_MAX_DOUBLE };

/* What a worker says of itself, once. */
struct plain_greeting {
	uint32_t rank;
	uint32_t size;
};

/* What comes next; all workers say the same. */
struct plain_head {
	uint32_t op;
	uint32_t bytes;
};

static inline void plain_must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static inline void plain_tune(int fd)
{
	int on = 1;
	int size = PLAIN_BUFFER;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static inline void plain_write(int fd, const void *bytes, size_t length)
{
	const char *next = (const char *)bytes;

	while (length > 0) {
		ssize_t done = send(fd, next, length, MSG_NOSIGNAL);

		plain_must(done > 0, "send");
		next += done;
		length -= (size_t)done;
	}
}

/* 0 when the other side has ended. */
static inline int plain_read(int fd, void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t done = recv(fd, bytes, length, MSG_WAITALL);

		if (done <= 0) {
			return 0;
		}
		bytes = (char *)bytes + done;
		length -= (size_t)done;
	}
	return 1;
}

#endif
