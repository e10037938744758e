/*
 * TCP lanes: non-blocking sockets on libevent loops, scattering reads into the final buffers and
 * gathering writes from them.
 *
 * Receiving alternates between a header (into rx_header) and its payload (to where on_header()
 * said); the read that ends a payload also takes the next header, so a stream of chunks costs one
 * system call per socket buffer and not two per frame. A read event handles at most RX_BUDGET
 * bytes, so that one fast lane does not starve the others of its loop.
 */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/transport/transport.h"

#define RX_BUDGET         (1u << 20)
#define TX_IOVECS         32
#define PEER_SILENT_MS    20000 /* unacknowledged this long: the peer's machine is gone */
#define KEEPALIVE_IDLE_S  10
#define KEEPALIVE_PROBE_S 3
#define KEEPALIVE_PROBES  3
#define LISTEN_BACKLOG    1024

struct tcp_lane {
	struct smd_lane lane;
	int fd;
	struct event_base *base;
	struct event *readable;
	struct event *writable;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	bool connecting;
	bool closed;
	int write_err; /* a failed write; reported by the next read event */

	uint8_t rx_header[SMD_FRAME_SIZE];
	uint32_t rx_header_got;
	struct smd_frame rx_frame;
	uint8_t *rx_payload; /* NULL: between frames */
	uint32_t rx_payload_got;

	struct smd_send_queue tx;
	char peer[128];
};

struct smd_listener {
	int fd;
	struct event *acceptable;
	void (*on_accept)(void *owner, struct smd_lane *lane);
	void *owner;
};

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
	event_del(tcp->readable);
	event_del(tcp->writable);
	tcp->callbacks->on_closed(tcp->owner, err, reason);
}

/* ---- receiving ---- */

/* A header is whole: 0 to go on, 1 when the lane was closed or has ended. */
static int tcp_take_header(struct tcp_lane *tcp)
{
	struct smd_error error = {""};
	void *payload = tcp->rx_header; /* any address will do for an empty payload */
	int ret = smd_frame_decode(tcp->rx_header, &tcp->rx_frame, &error);

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
	tcp->rx_header_got = 0;
	tcp->rx_payload = payload;
	tcp->rx_payload_got = 0;
	return 0;
}

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
	tcp->rx_header_got += (uint32_t)got;
	while (tcp->rx_header_got == SMD_FRAME_SIZE) {
		if (tcp_take_header(tcp)) {
			return 1;
		}
		if (tcp->rx_frame.length == 0 && tcp_take_frame(tcp)) {
			return 1;
		}
	}
	return 0;
}

static ssize_t tcp_read(struct tcp_lane *tcp)
{
	struct iovec iov[2];
	int n = 0;

	if (tcp->rx_payload) {
		iov[n].iov_base = tcp->rx_payload + tcp->rx_payload_got;
		iov[n++].iov_len = tcp->rx_frame.length - tcp->rx_payload_got;
	}
	iov[n].iov_base = tcp->rx_header + tcp->rx_header_got;
	iov[n++].iov_len = SMD_FRAME_SIZE - tcp->rx_header_got;
	return readv(tcp->fd, iov, n);
}

static void tcp_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_lane *tcp = arg;
	size_t total = 0;

	(void)fd;
	(void)what;
	while (total < RX_BUDGET) {
		ssize_t got = tcp_read(tcp);

		if (got < 0 && errno == EINTR) {
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
			tcp_ended(tcp, -ECONNRESET, "the other end closed the connection");
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

static void tcp_address_print(const struct sockaddr *address, socklen_t size, char out[128])
{
	char host[64];
	char port[8];

	if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(out, 128, "unknown address");
	} else if (address->sa_family == AF_INET6) {
		snprintf(out, 128, "[%s]:%s", host, port);
	} else {
		snprintf(out, 128, "%s:%s", host, port);
	}
}

static struct tcp_lane *tcp_lane_create(int fd)
{
	struct tcp_lane *tcp = calloc(1, sizeof(*tcp));

	if (!tcp) {
		return NULL;
	}
	tcp->lane.ops = &smd_transport_tcp;
	tcp->fd = fd;
	TAILQ_INIT(&tcp->tx);
	tcp_set_options(fd);
	return tcp;
}

static int tcp_enter_loop(struct tcp_lane *tcp, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	tcp->readable = event_new(base, tcp->fd, EV_READ | EV_PERSIST, tcp_on_readable, tcp);
	if (!tcp->readable) {
		return -ENOMEM;
	}
	tcp->writable = event_new(base, tcp->fd, EV_WRITE, tcp_on_writable, tcp);
	if (!tcp->writable) {
		event_free(tcp->readable);
		tcp->readable = NULL;
		return -ENOMEM;
	}
	tcp->base = base;
	tcp->callbacks = callbacks;
	tcp->owner = owner;
	return event_add(tcp->connecting ? tcp->writable : tcp->readable, NULL) == 0 ? 0 : -ENOMEM;
}

static int tcp_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	return tcp_enter_loop(tcp_lane_of(lane), base, callbacks, owner);
}

static void tcp_detach(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	assert(TAILQ_EMPTY(&tcp->tx) && !tcp->rx_payload);
	tcp_forget_events(tcp);
	tcp->base = NULL;
}

static int tcp_resolve(
	const char *address, int flags, struct addrinfo **out, struct smd_error *error)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags,
	};
	char host[256];
	char service[8];
	uint16_t port;
	int ret;

	if (smd_parse_endpoint(address, host, sizeof(host), &port)) {
		return smd_error_set(
			error, EINVAL, "address must be host:port, got \"%s\"", address);
	}
	snprintf(service, sizeof(service), "%u", port);
	ret = getaddrinfo(host, service, &hints, out);
	if (ret) {
		return smd_error_set(error, EHOSTUNREACH, "%s: cannot resolve the host: %s",
			address, gai_strerror(ret));
	}
	return 0;
}

/* One address is enough: an IPv4 one if there is any, because "localhost" servers mostly have that.
 */
static const struct addrinfo *tcp_choose(const struct addrinfo *list)
{
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		if (info->ai_family == AF_INET) {
			return info;
		}
	}
	return list;
}

static int tcp_connect(struct event_base *base, const char *address,
	const struct smd_lane_callbacks *callbacks, void *owner, struct smd_lane **out,
	struct smd_error *error)
{
	const struct addrinfo *info;
	struct addrinfo *list;
	struct tcp_lane *tcp;
	int fd;
	int ret = tcp_resolve(address, 0, &list, error);

	if (ret) {
		return ret;
	}
	info = tcp_choose(list);
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = smd_error_set(error, errno, "%s: cannot make a socket: %m", address);
		goto free_list;
	}
	tcp = tcp_lane_create(fd);
	if (!tcp) {
		ret = smd_error_set(error, ENOMEM, "%s: out of memory", address);
		goto close_fd;
	}
	snprintf(tcp->peer, sizeof(tcp->peer), "%s", address);
	if (connect(fd, info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS) {
		ret = smd_error_set(error, errno, "%s: cannot connect: %m", address);
		goto free_lane;
	}
	tcp->connecting = true;
	ret = tcp_enter_loop(tcp, base, callbacks, owner);
	if (ret) {
		smd_error_set(error, -ret, "%s: out of memory", address);
		goto forget_events;
	}
	freeaddrinfo(list);
	*out = &tcp->lane;
	return 0;

forget_events:
	tcp_forget_events(tcp);
free_lane:
	free(tcp);
close_fd:
	close(fd);
free_list:
	freeaddrinfo(list);
	return ret;
}

static void tcp_on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_listener *listener = arg;
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	struct tcp_lane *tcp;
	int accepted;

	(void)what;
	accepted = accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (accepted < 0) {
		return; /* the peer went away, or descriptors are short: it is asked again */
	}
	tcp = tcp_lane_create(accepted);
	if (!tcp) {
		close(accepted);
		return;
	}
	tcp_address_print((struct sockaddr *)&address, size, tcp->peer);
	listener->on_accept(listener->owner, &tcp->lane);
}

static int tcp_bind(const char *address, int *out, char bound[128], struct smd_error *error)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	struct addrinfo *info;
	const int yes = 1;
	int fd;
	int ret = tcp_resolve(address, AI_PASSIVE, &info, error);

	if (ret) {
		return ret;
	}
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = smd_error_set(error, errno, "%s: cannot make a socket: %m", address);
		goto free_info;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
		getsockname(fd, (struct sockaddr *)&name, &size) != 0) {
		ret = smd_error_set(error, errno, "%s: cannot listen: %m", address);
		goto close_fd;
	}
	tcp_address_print((struct sockaddr *)&name, size, bound);
	freeaddrinfo(info);
	*out = fd;
	return 0;

close_fd:
	close(fd);
free_info:
	freeaddrinfo(info);
	return ret;
}

static void tcp_listener_close(struct smd_listener *listener)
{
	event_free(listener->acceptable);
	close(listener->fd);
	free(listener);
}

static int tcp_listen(struct event_base *base, const char *address,
	void (*on_accept)(void *owner, struct smd_lane *lane), void *owner,
	struct smd_listener **out, char bound[128], struct smd_error *error)
{
	struct smd_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	ret = tcp_bind(address, &listener->fd, bound, error);
	if (ret) {
		goto free_listener;
	}
	listener->on_accept = on_accept;
	listener->owner = owner;
	listener->acceptable =
		event_new(base, listener->fd, EV_READ | EV_PERSIST, tcp_on_acceptable, listener);
	if (!listener->acceptable || event_add(listener->acceptable, NULL) != 0) {
		ret = smd_error_set(error, ENOMEM, "%s: out of memory", address);
		goto close_fd;
	}
	*out = listener;
	return 0;

close_fd:
	if (listener->acceptable) {
		event_free(listener->acceptable);
	}
	close(listener->fd);
free_listener:
	free(listener);
	return ret;
}

static const char *tcp_peer_name(const struct smd_lane *lane)
{
	return ((const struct tcp_lane *)lane)->peer;
}

const struct smd_transport_ops smd_transport_tcp = {
	.name = "tcp",
	.listen = tcp_listen,
	.listener_close = tcp_listener_close,
	.connect = tcp_connect,
	.attach = tcp_attach,
	.detach = tcp_detach,
	.send = tcp_send,
	.cancel = tcp_cancel,
	.redirect = tcp_redirect,
	.close = tcp_close,
	.peer_name = tcp_peer_name,
};
