/*
 * Any bytes at all as what a reduction server says to a worker, in answer to its HELLO, its JOIN
 * and its INPUT: every call of libsummand returns, with a result or a reason.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/wire/frame.h"
#include "tests/fuzz/input.h"
#include "worker/summand.h"

enum { COUNT = 16 };

struct server {
	int listener;
	char address[64];
	const uint8_t *bytes;
	size_t length;
	bool ends_early; /* the input is all that is said */
};

static void server_listen(struct server *server)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must_hold(server->listener >= 0);
	must_hold(bind(server->listener, (struct sockaddr *)&name, sizeof(name)) == 0);
	must_hold(listen(server->listener, 1) == 0);
	must_hold(getsockname(server->listener, (struct sockaddr *)&name, &size) == 0);
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%u", ntohs(name.sin_port));
}

/* The first frame of what is left, if that is whole; else all of it. */
static size_t next_part(const struct server *server)
{
	struct smd_frame frame;

	if (server->length < SMD_FRAME_SIZE || smd_frame_decode(server->bytes, &frame, NULL) ||
		frame.length > server->length - SMD_FRAME_SIZE) {
		return server->length;
	}
	return SMD_FRAME_SIZE + frame.length;
}

/* What the worker says next is taken and not looked at; it may be waiting too, and say nothing. */
static bool hear(int fd)
{
	static char said[1 << 16];
	ssize_t got = recv(fd, said, sizeof(said), 0);

	return got > 0 || (got < 0 && errno == EAGAIN);
}

static void say(int fd, struct server *server, size_t length)
{
	(void)send(fd, server->bytes, length, MSG_NOSIGNAL); /* it may have gone */
	server->bytes += length;
	server->length -= length;
}

/* Answers the first two things that the worker says with a frame each, the third with the rest. */
static void serve_input(int fd, struct server *server)
{
	for (int answers = 0; server->length && hear(fd); answers++) {
		say(fd, server, answers < 2 ? next_part(server) : server->length);
	}
}

/*
 * A worker whose lane ends before WELCOME comes again, after a tenth of a second. So that few do,
 * most inputs end with what it gives up for, and it hears that again when it comes.
 */
static void *serve(void *arg)
{
	static const char no_frame[SMD_FRAME_SIZE] = "HTTP/1.1 400 Bad Request";
	const struct timeval patience = {.tv_usec = 20000};
	struct server *server = arg;
	int fd;

	input_block_timer();
	for (int lanes = 0; (fd = accept(server->listener, NULL, NULL)) >= 0; lanes++) {
		must_hold(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
		if (lanes == 0) {
			serve_input(fd, server);
		}
		if (lanes > 0 || !server->ends_early) {
			(void)send(fd, no_frame, sizeof(no_frame), MSG_NOSIGNAL);
		}
		(void)shutdown(fd, SHUT_WR);
		while (hear(fd)) {
		}
		close(fd);
	}
	return NULL;
}

static void work(const char *address)
{
	const struct smd_context_options options = {.servers = address,
		.replica = "worker",
		.transport = "tcp",
		.connect_timeout_s = 10};
	int32_t values[COUNT + 1] = {[COUNT] = 0x5a5a5a5a};
	smd_context *context;
	smd_comm *comm;

	if (smd_context_create(&options, &context)) {
		return;
	}
	if (smd_comm_create(context, "fuzz", 1, 0, &comm) == 0) {
		while (smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM) == 0) {
		}
		smd_comm_destroy(comm);
	}
	smd_context_destroy(context);
	must_hold(values[COUNT] == 0x5a5a5a5a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct server server = {
		.bytes = bytes, .length = length, .ends_early = length % 16 == 0};
	pthread_t thread;

	setenv("SUMMAND_LOG", "error", 1);
	server_listen(&server);
	must_hold(pthread_create(&thread, NULL, serve, &server) == 0);
	work(server.address);
	must_hold(shutdown(server.listener, SHUT_RDWR) == 0); /* ends the thread's accept() */
	must_hold(pthread_join(thread, NULL) == 0);
	close(server.listener);
	return 0;
}
