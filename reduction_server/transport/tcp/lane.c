/* A TCP lane on its event loop: how it is made, what wakes it, and who asks after a silent peer. */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/transport/tcp/tls.h"

#define WATCH_CHECKS      4 /* at a silent peer, in that time */
#define KEEPALIVE_IDLE_S  10
#define KEEPALIVE_PROBE_S 3
#define KEEPALIVE_PROBES  3

/* ---- events ---- */

static void tcp_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;

	(void)fd;
	(void)what;
	if (tcp->lingers) {
		smd_tcp_linger_turn(tcp);
	} else {
		smd_tcp_receive(tcp);
	}
}

/* Where nobody listens at a port of this host, the kernel may give the socket that very port, and
 * TCP connects it with itself (simultaneous open). */
static bool is_with_itself(int fd)
{
	struct sockaddr_storage own, other;
	socklen_t length = sizeof(own);
	socklen_t other_length = sizeof(other);

	memset(&own, 0, sizeof(own));
	memset(&other, 0, sizeof(other));
	return getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
	       getpeername(fd, (struct sockaddr *)&other, &other_length) == 0 &&
	       length == other_length && memcmp(&own, &other, length) == 0;
}

static void tcp_connected(struct tcp_lane *tcp)
{
	int err = 0;
	socklen_t size = sizeof(err);

	getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &err, &size);
	if (err) {
		smd_tcp_ended(tcp, -err, strerror(err));
		return;
	}
	if (is_with_itself(tcp->fd)) {
		smd_tcp_ended(tcp, -ECONNREFUSED, strerror(ECONNREFUSED));
		return;
	}
	tcp->connecting = false;
	event_add(tcp->readable, NULL);
	if (tcp->securing) {
		(void)smd_tcp_secure(tcp);
		return;
	}
	tcp->callbacks->on_open(tcp->owner);
	if (!tcp->closed) {
		smd_tcp_flush(tcp);
	}
}

static void tcp_on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;

	(void)fd;
	(void)what;
	if (tcp->lingers) {
		smd_tcp_linger_turn(tcp);
	} else if (tcp->connecting) {
		tcp_connected(tcp);
	} else if (tcp->securing) {
		(void)smd_tcp_secure(tcp);
	} else {
		smd_tcp_flush(tcp);
	}
}

/* ---- silence ---- */

static void tcp_on_watch(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;
	unsigned ms = tcp->connecting ? 0 : smd_tcp_watch_silence_ms(&tcp->watch, tcp->fd);

	(void)fd;
	(void)what;
	if (ms) {
		char reason[64];

		snprintf(reason, sizeof(reason), "its machine has not answered for %u s",
			(ms + 500) / 1000);
		smd_tcp_ended(tcp, -ETIMEDOUT, reason);
	}
}

void smd_tcp_watch_enter_loop(struct tcp_lane *tcp)
{
	unsigned ms = tcp->watch.patience_ms / WATCH_CHECKS;
	const struct timeval interval = {ms / 1000, ms % 1000 * 1000};

	if (tcp->watch.wanted && !tcp->watch.timer) {
		tcp->watch.timer = event_new(tcp->base, -1, EV_PERSIST, tcp_on_watch, tcp);
		if (tcp->watch.timer) { /* or TCP itself gives up, after long */
			event_add(tcp->watch.timer, &interval);
		}
	}
}

/* ---- the beginning ---- */

static void tcp_set_options(int fd)
{
	const struct {
		int level;
		int name;
		int value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, SMD_LANE_SILENT_MS},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_PROBE_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		/* Each only makes things better; a kernel without one still works. */
		(void)setsockopt(
			fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
	}
}

struct tcp_lane *smd_tcp_lane_create(int fd)
{
	struct tcp_lane *tcp = malloc(sizeof(*tcp));

	if (!tcp) {
		return NULL;
	}
	memset(tcp, 0, offsetof(struct tcp_lane, rx_ahead));
	tcp->lane.ops = &smd_transport_tcp;
	tcp->fd = fd;
	tcp->stream = &smd_tcp_plain;
	TAILQ_INIT(&tcp->tx);
	tcp_set_options(fd);
	smd_forks_close(&tcp->forked, fd);
	return tcp;
}

int smd_tcp_lane_enter_loop(struct tcp_lane *tcp, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	tcp->readable = event_new(base, tcp->fd, EV_READ | EV_PERSIST, tcp_on_readable, tcp);
	if (!tcp->readable) {
		return -ENOMEM;
	}
	tcp->writable = event_new(base, tcp->fd, EV_WRITE, tcp_on_writable, tcp);
	if (!tcp->writable) {
		goto free_readable;
	}
	if (event_add(tcp->connecting ? tcp->writable : tcp->readable, NULL) != 0) {
		goto free_writable;
	}
	tcp->base = base;
	tcp->callbacks = callbacks;
	tcp->owner = owner;
	smd_tcp_watch_enter_loop(tcp);
	/* What came before will not make the socket readable again. */
	if (tcp->rx_ahead_length || (tcp->tls && smd_tcp_tls_holds(tcp))) {
		event_active(tcp->readable, EV_READ, 1);
	}
	return 0;

free_writable:
	event_free(tcp->writable);
	tcp->writable = NULL;
free_readable:
	event_free(tcp->readable);
	tcp->readable = NULL;
	return -ENOMEM;
}
