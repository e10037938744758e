/*
 * TCP lanes: non-blocking sockets on libevent loops, scattering reads into the final buffers and
 * gathering writes from them.
 *
 * Receiving. A read is for the payload that is coming in, right into where on_header() said, and
 * for what comes after it: the next header, and while frames are small as much as `rx_ahead` holds.
 * So a stream of large chunks costs one system call per socket buffer and no copy, and small frames
 * cost one call and a copy of a few KiB instead of two calls each. A read that gets less than it
 * asked for has emptied the socket: it is not asked again before it is readable. A read event
 * handles about RX_BUDGET bytes, so that one fast lane does not starve the others of its loop.
 */
#include "reduction_server/transport/tcp.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RX_BUDGET         (1u << 20)
#define TX_IOVECS         32
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

static void tcp_ended(struct tcp_lane *tcp, int err, const char *reason)
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

/* ---- receiving ---- */

/* A header is whole: 0 to go on, 1 when the lane was closed or has ended. */
static int tcp_take_header(struct tcp_lane *tcp, const uint8_t header[SMD_FRAME_SIZE])
{
	struct smd_error error = {""};
	void *payload = tcp->rx_ahead; /* any address will do for an empty payload */
	int ret = smd_frame_decode(header, &tcp->rx_frame, &error);

	if (ret == 0) {
		ret = tcp->callbacks->on_header(tcp->owner, &tcp->rx_frame, &payload, &error);
	}
	if (tcp->closed) {
		return 1;
	}
	if (ret) {
		tcp_ended(tcp, ret, error.text);
		return 1;
	}
	tcp->rx_payload = payload;
	tcp->rx_payload_got = 0;
	return 0;
}

/* 1 when the lane was detached, was closed or has ended. */
static int tcp_take_frame(struct tcp_lane *tcp)
{
	struct smd_error error = {""};
	void *payload = tcp->rx_payload;
	int ret;

	tcp->rx_payload = NULL;
	ret = tcp->callbacks->on_frame(tcp->owner, &tcp->rx_frame, payload, &error);
	if (ret == SMD_LANE_DETACHED || tcp->closed) {
		return 1;
	}
	if (ret) {
		tcp_ended(tcp, ret, error.text);
		return 1;
	}
	return 0;
}

static const uint8_t *tcp_consume_ahead(struct tcp_lane *tcp, uint32_t bytes)
{
	const uint8_t *first = tcp->rx_ahead + tcp->rx_ahead_at;

	tcp->rx_ahead_at += bytes;
	tcp->rx_ahead_length -= bytes;
	return first;
}

/*
 * Makes frames of what was read ahead. 1 when the lane was detached, was closed or has ended: it is
 * then not looked at any more, because another thread may have it.
 */
static int tcp_take_ahead(struct tcp_lane *tcp)
{
	while (tcp->rx_ahead_length >= SMD_FRAME_SIZE) {
		uint32_t take;

		if (tcp_take_header(tcp, tcp_consume_ahead(tcp, SMD_FRAME_SIZE))) {
			return 1;
		}
		take = tcp->rx_frame.length;
		take = take < tcp->rx_ahead_length ? take : tcp->rx_ahead_length;
		if (take) {
			memcpy(tcp->rx_payload, tcp_consume_ahead(tcp, take), take);
		}
		tcp->rx_payload_got = take;
		if (take < tcp->rx_frame.length) {
			break; /* and nothing is left */
		}
		if (tcp_take_frame(tcp)) {
			return 1;
		}
	}
	memmove(tcp->rx_ahead, tcp->rx_ahead + tcp->rx_ahead_at, tcp->rx_ahead_length);
	tcp->rx_ahead_at = 0;
	return 0;
}

/* Gives out what `got` more bytes have completed. 1 when the lane was closed or has ended. */
static int tcp_received(struct tcp_lane *tcp, size_t got)
{
	if (tcp->rx_payload) {
		uint32_t missing = tcp->rx_frame.length - tcp->rx_payload_got;
		uint32_t take = got < missing ? (uint32_t)got : missing;

		tcp->rx_payload_got += take;
		got -= take;
		if (take == missing && tcp_take_frame(tcp)) {
			return 1;
		}
	}
	tcp->rx_ahead_length += (uint32_t)got;
	return tcp_take_ahead(tcp);
}

/* Reads into the payload and ahead of it: at most *asked bytes. */
static ssize_t tcp_read(struct tcp_lane *tcp, size_t *asked)
{
	bool small = tcp->rx_frame.length < SMD_TCP_AHEAD_MAX;
	struct iovec iov[2];
	int n = 0;

	*asked = 0;
	if (tcp->rx_payload) {
		iov[n].iov_base = tcp->rx_payload + tcp->rx_payload_got;
		iov[n].iov_len = tcp->rx_frame.length - tcp->rx_payload_got;
		*asked += iov[n++].iov_len;
	}
	iov[n].iov_base = tcp->rx_ahead + tcp->rx_ahead_length;
	iov[n].iov_len = (small ? SMD_TCP_AHEAD_MAX : SMD_FRAME_SIZE) - tcp->rx_ahead_length;
	*asked += iov[n++].iov_len;
	return readv(tcp->fd, iov, n);
}

/* Nothing is left to read: the other end has closed it, or a write was told why it is over. */
static void tcp_drained(struct tcp_lane *tcp)
{
	if (tcp->write_err && tcp->write_err != EPIPE && tcp->write_err != ECONNRESET) {
		tcp_ended(tcp, -tcp->write_err, strerror(tcp->write_err));
	} else {
		tcp_ended(tcp, -ECONNRESET, "the other end closed the connection");
	}
}

static void tcp_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;
	size_t total = 0;
	size_t asked = 0;
	ssize_t got = 0;

	(void)fd;
	(void)what;
	if (tcp_take_ahead(tcp)) { /* what came before the lane was on this loop */
		return;
	}
	while (total < RX_BUDGET && ((size_t)got == asked || tcp->write_err)) {
		got = tcp_read(tcp, &asked);
		if (got < 0 && errno == EINTR) {
			got = (ssize_t)asked;
			continue;
		}
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && !tcp->write_err) {
			return;
		}
		if (got < 0) {
			int err = tcp->write_err ? tcp->write_err : errno;

			tcp_ended(tcp, -err, strerror(err));
			return;
		}
		if (got == 0) {
			tcp_drained(tcp);
			return;
		}
		tcp->lane.counts.bytes_received += (size_t)got;
		total += (size_t)got;
		if (tcp_received(tcp, (size_t)got)) {
			return;
		}
	}
}

/* ---- sending ---- */

static int tcp_gather(struct tcp_lane *tcp, struct iovec iov[TX_IOVECS])
{
	struct smd_send *send;
	int n = 0;

	TAILQ_FOREACH (send, &tcp->tx, link) {
		uint32_t sent = send->sent;

		if (n + 2 > TX_IOVECS) {
			break;
		}
		if (sent < SMD_FRAME_SIZE) {
			iov[n].iov_base = send->header + sent;
			iov[n++].iov_len = SMD_FRAME_SIZE - sent;
			sent = SMD_FRAME_SIZE;
		}
		if (send->length) {
			iov[n].iov_base = (uint8_t *)send->payload + (sent - SMD_FRAME_SIZE);
			iov[n++].iov_len = send->length - (sent - SMD_FRAME_SIZE);
		}
	}
	return n;
}

static void tcp_sent(struct tcp_lane *tcp, size_t bytes)
{
	while (bytes && !TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);
		size_t missing = SMD_FRAME_SIZE + (size_t)send->length - send->sent;

		if (bytes < missing) {
			send->sent += (uint32_t)bytes;
			return;
		}
		bytes -= missing;
		TAILQ_REMOVE(&tcp->tx, send, link);
		send->done(send, 0);
		if (tcp->closed) {
			return;
		}
	}
}

/* Writes what the socket takes now; waits for it to take more if anything is left. */
static void tcp_flush(struct tcp_lane *tcp)
{
	while (!tcp->closed && !TAILQ_EMPTY(&tcp->tx)) {
		struct iovec iov[TX_IOVECS];
		struct msghdr message = {.msg_iov = iov};
		ssize_t sent;

		message.msg_iovlen = (size_t)tcp_gather(tcp, iov);
		sent = sendmsg(tcp->fd, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR) {
			continue;
		}
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			event_add(tcp->writable, NULL);
			return;
		}
		if (sent < 0) {
			/* Ends must come from the loop. What the peer said before may still be
			 * there to read. */
			tcp->write_err = errno;
			event_active(tcp->readable, EV_READ, 1);
			return;
		}
		tcp->lane.counts.bytes_sent += (size_t)sent;
		tcp_sent(tcp, (size_t)sent);
	}
}

static void tcp_send(struct smd_lane *lane, struct smd_send *send)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	bool idle = TAILQ_EMPTY(&tcp->tx);

	assert(!tcp->closed);
	TAILQ_INSERT_TAIL(&tcp->tx, send, link);
	if (idle && !tcp->connecting && !tcp->write_err) {
		tcp_flush(tcp);
	}
}

static void tcp_connected(struct tcp_lane *tcp)
{
	int err = 0;
	socklen_t size = sizeof(err);

	getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &err, &size);
	if (err) {
		tcp_ended(tcp, -err, strerror(err));
		return;
	}
	tcp->connecting = false;
	event_add(tcp->readable, NULL);
	tcp->callbacks->on_open(tcp->owner);
	if (!tcp->closed) {
		tcp_flush(tcp);
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
		tcp_flush(tcp);
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

static void tcp_poll(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	if (!tcp->connecting && !tcp->ended && !tcp->closed) {
		tcp_on_readable(tcp->fd, EV_READ, tcp);
	}
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
		tcp_ended(tcp, -ETIMEDOUT, reason);
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

static void tcp_bear_silence(struct smd_lane *lane)
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
	.listen = smd_tcp_listen,
	.listener_close = smd_tcp_listener_close,
	.connect = smd_tcp_connect,
	.attach = tcp_attach,
	.detach = tcp_detach,
	.send = tcp_send,
	.cancel = tcp_cancel,
	.poll = tcp_poll,
	.bear_silence = tcp_bear_silence,
	.redirect = tcp_redirect,
	.close = tcp_close,
	.peer_name = tcp_peer_name,
};
