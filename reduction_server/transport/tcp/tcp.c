/*
 * TCP lanes: non-blocking sockets on libevent loops, scattering reads into the final buffers and
 * gathering writes from them.
 */
#include "reduction_server/transport/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOKS_PER_READ    16
#define PEER_SILENT_MS    20000 /* nothing taken, or heard of it, for so long: the peer is gone */
#define LOOKS             4     /* at a silent peer, in that time */
#define KEEPALIVE_IDLE_S  10
#define KEEPALIVE_PROBE_S 3
#define KEEPALIVE_PROBES  3

static struct tcp_lane *tcp_lane_of(struct smd_lane *lane)
{
	return (struct tcp_lane *)lane;
}

/* ---- the end ---- */

static void tcp_free(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;

	(void)fd;
	(void)what;
	free(tcp);
}

static void tcp_forget_events(struct tcp_lane *tcp)
{
	if (tcp->readable) {
		event_free(tcp->readable);
		event_free(tcp->writable);
		tcp->readable = NULL;
		tcp->writable = NULL;
	}
	if (tcp->watch.look) {
		event_free(tcp->watch.look);
		tcp->watch.look = NULL;
	}
}

static void tcp_close(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	const struct timeval now = {0, 0};

	assert(!tcp->closed);
	tcp->closed = true;
	tcp_forget_events(tcp);
	close(tcp->fd);
	while (!TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);

		TAILQ_REMOVE(&tcp->tx, send, link);
		send->done(send, -ECANCELED);
	}
	/* The caller may be inside one of this lane's callbacks, so its memory goes later. */
	if (!tcp->base || event_base_once(tcp->base, -1, EV_TIMEOUT, tcp_free, tcp, &now) != 0) {
		free(tcp);
	}
}

void smd_tcp_ended(struct tcp_lane *tcp, int err, const char *reason)
{
	if (tcp->closed) {
		return;
	}
	tcp->ended = true;
	event_del(tcp->readable);
	event_del(tcp->writable);
	if (tcp->watch.look) {
		event_del(tcp->watch.look);
	}
	tcp->callbacks->on_closed(tcp->owner, err, reason);
}

/* ---- sending and receiving ---- */

static void tcp_on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	smd_tcp_receive(arg);
}

static void tcp_send(struct smd_lane *lane, struct smd_send *send)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	bool idle = TAILQ_EMPTY(&tcp->tx);

	assert(!tcp->closed);
	TAILQ_INSERT_TAIL(&tcp->tx, send, link);
	if (idle && !tcp->connecting && !tcp->write_err) {
		smd_tcp_flush(tcp);
	}
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
	tcp->connecting = false;
	event_add(tcp->readable, NULL);
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
	if (tcp->connecting) {
		tcp_connected(tcp);
	} else {
		smd_tcp_flush(tcp);
	}
}

static void tcp_cancel(struct smd_lane *lane, const void *owner)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	struct smd_send *send = TAILQ_FIRST(&tcp->tx);

	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (send->owner == owner && send->sent == 0) {
			TAILQ_REMOVE(&tcp->tx, send, link);
			send->done(send, -ECANCELED);
		}
		send = next;
	}
}

/*
 * The socket is full: nearly all looks are for room in it. Looking for something to read takes its
 * lock from the kernel, which makes the room.
 */
static bool tcp_is_busy_sending(struct tcp_lane *tcp)
{
	return tcp->poll_only && !TAILQ_EMPTY(&tcp->tx) && !tcp->write_err &&
	       ++tcp->looks % LOOKS_PER_READ != 0;
}

static void tcp_poll(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	if (tcp->connecting || tcp->ended || tcp->closed) {
		return;
	}
	if (tcp->poll_only) {
		smd_tcp_flush(tcp);
	}
	if (!tcp->closed && !tcp_is_busy_sending(tcp)) {
		smd_tcp_receive(tcp);
	}
}

static void tcp_poll_only(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	tcp->poll_only = true;
	event_del(tcp->readable);
	event_del(tcp->writable);
}

/* ---- silence ---- */

static void tcp_on_look(evutil_socket_t fd, short what, void *arg)
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

static void tcp_watch_enter_loop(struct tcp_lane *tcp)
{
	unsigned ms = tcp->watch.patience_ms / LOOKS;
	const struct timeval interval = {ms / 1000, ms % 1000 * 1000};

	if (tcp->watch.wanted && !tcp->watch.look) {
		tcp->watch.look = event_new(tcp->base, -1, EV_PERSIST, tcp_on_look, tcp);
		if (tcp->watch.look) { /* or TCP itself gives up, after long */
			event_add(tcp->watch.look, &interval);
		}
	}
}

static void tcp_keepalive_only(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	smd_tcp_watch_begin(&tcp->watch, tcp->fd);
	if (tcp->base) {
		tcp_watch_enter_loop(tcp);
	}
}

static void tcp_redirect(struct smd_lane *lane, void *payload)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	if (tcp->rx_payload) {
		tcp->rx_payload = payload;
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
		{IPPROTO_TCP, TCP_USER_TIMEOUT, PEER_SILENT_MS},
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
	struct tcp_lane *tcp = calloc(1, sizeof(*tcp));

	if (!tcp) {
		return NULL;
	}
	tcp->lane.ops = &smd_transport_tcp;
	tcp->fd = fd;
	tcp->watch.patience_ms = PEER_SILENT_MS;
	TAILQ_INIT(&tcp->tx);
	tcp_set_options(fd);
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
	tcp_watch_enter_loop(tcp);
	if (tcp->rx_ahead_length) { /* came before, and will not make the socket readable again */
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

static int tcp_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	return smd_tcp_lane_enter_loop(tcp_lane_of(lane), base, callbacks, owner);
}

static void tcp_detach(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	assert(TAILQ_EMPTY(&tcp->tx) && !tcp->rx_payload);
	tcp_forget_events(tcp);
	tcp->base = NULL;
}

static const char *tcp_peer_name(const struct smd_lane *lane)
{
	return ((const struct tcp_lane *)lane)->peer;
}

const struct smd_transport_ops smd_transport_tcp = {
	.name = "tcp",
	.preference = 1,
	.port_slot = 0,
	.listen = smd_tcp_listen,
	.listener_close = smd_tcp_listener_close,
	.connect = smd_tcp_connect,
	.attach = tcp_attach,
	.detach = tcp_detach,
	.send = tcp_send,
	.cancel = tcp_cancel,
	.poll = tcp_poll,
	.keepalive_only = tcp_keepalive_only,
	.poll_only = tcp_poll_only,
	.redirect = tcp_redirect,
	.close = tcp_close,
	.peer_name = tcp_peer_name,
};
