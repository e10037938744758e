/*
 * TCP lanes as their owners see them: non-blocking sockets on libevent loops, scattering reads into
 * the final buffers and gathering writes from them. lane.c has what the loop calls, end.c the end.
 */
#include "reduction_server/transport/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/tcp/tls.h"
#include "reduction_server/transport/tcp/zeros.h"

#define POLLS_PER_READ 16

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
	free(tcp->tls);
	free(tcp->zeros);
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
	if (tcp->watch.timer) {
		event_free(tcp->watch.timer);
		tcp->watch.timer = NULL;
	}
}

static void tcp_close(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	const struct timeval now = {0, 0};

	assert(!tcp->closed);
	tcp->closed = true;
	if (tcp->lane.parts && smd_tcp_linger(tcp)) {
		return;
	}
	tcp_forget_events(tcp);
	smd_forks_forget(&tcp->forked);
	smd_tcp_tls_close(tcp);
	close(tcp->fd);
	while (!TAILQ_EMPTY(&tcp->tx)) {
		struct smd_send *send = TAILQ_FIRST(&tcp->tx);

		TAILQ_REMOVE(&tcp->tx, send, link);
		send->done(send, -ECANCELED);
	}
	/* The caller may be inside one of this lane's callbacks, so its memory goes later. */
	if (!tcp->base || event_base_once(tcp->base, -1, EV_TIMEOUT, tcp_free, tcp, &now) != 0) {
		tcp_free(-1, 0, tcp);
	}
}

/* ---- sending and receiving ---- */

static void tcp_send(struct smd_lane *lane, struct smd_send *send)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	bool idle = TAILQ_EMPTY(&tcp->tx);

	assert(!tcp->closed);
	TAILQ_INSERT_TAIL(&tcp->tx, send, link);
	if (idle && !tcp->settling && !tcp->connecting && !tcp->securing && !tcp->write_err) {
		smd_tcp_flush(tcp);
	}
}

static void tcp_cancel(struct smd_lane *lane, const void *owner)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);
	struct smd_send *send = TAILQ_FIRST(&tcp->tx);

	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (send->owner == owner && !smd_tcp_has_begun(tcp, send)) {
			TAILQ_REMOVE(&tcp->tx, send, link);
			smd_tcp_zeros_pass(tcp, send, NULL);
			send->done(send, -ECANCELED);
		}
		send = next;
	}
}

/*
 * The socket is full: nearly all polls are for room in it. Asking for something to read takes its
 * lock from the kernel, which makes the room.
 */
static bool tcp_is_busy_sending(struct tcp_lane *tcp)
{
	return tcp->poll_only && !tcp->write_err && (!TAILQ_EMPTY(&tcp->tx) || tcp->unsent) &&
	       ++tcp->polls % POLLS_PER_READ != 0;
}

static void tcp_poll(struct smd_lane *lane)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	if (tcp->connecting || tcp->ended || tcp->closed) {
		return;
	}
	if (tcp->poll_only && !tcp->securing) {
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

static void tcp_keepalive_only(struct smd_lane *lane, unsigned patience_ms)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	smd_tcp_watch_begin(&tcp->watch, tcp->fd, patience_ms);
	if (tcp->base) {
		smd_tcp_watch_enter_loop(tcp);
	}
}

static void tcp_limit_unsent(struct smd_lane *lane, uint32_t bytes)
{
	const int most = (int)bytes;

	(void)setsockopt(
		tcp_lane_of(lane)->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof(most));
}

static void tcp_redirect(struct smd_lane *lane, void *payload)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	if (tcp->rx_payload) {
		tcp->rx_payload = payload;
	}
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

static void tcp_set_owner(
	struct smd_lane *lane, const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct tcp_lane *tcp = tcp_lane_of(lane);

	tcp->callbacks = callbacks;
	tcp->owner = owner;
}

static bool tcp_local_address(const struct smd_lane *lane, uint8_t address[16])
{
	const struct tcp_lane *tcp = (const struct tcp_lane *)lane;
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);

	return getsockname(tcp->fd, (struct sockaddr *)&name, &size) == 0 &&
	       smd_address_bytes((const struct sockaddr *)&name, address);
}

static const char *tcp_peer_name(const struct smd_lane *lane)
{
	return ((const struct tcp_lane *)lane)->peer;
}

const struct smd_transport_ops smd_transport_tcp = {
	.name = "tcp",
	.preference = 1,
	.is_stream = true,
	.room = 64u << 10, /* small frames leave together; the next large one is given in time */
	.port_slot = 0,
	.listen = smd_tcp_listen,
	.listener_close = smd_tcp_listener_close,
	.connect = smd_tcp_connect,
#ifdef SMD_TLS
	.encrypt = smd_tcp_encrypt,
	.listener_encrypt = smd_tcp_listener_encrypt,
#endif
	.attach = tcp_attach,
	.detach = tcp_detach,
	.set_owner = tcp_set_owner,
	.local_address = tcp_local_address,
	.send = tcp_send,
	.cancel = tcp_cancel,
	.poll = tcp_poll,
	.keepalive_only = tcp_keepalive_only,
	.poll_only = tcp_poll_only,
	.limit_unsent = tcp_limit_unsent,
	.skip_zeros = smd_tcp_skip_zeros,
	.redirect = tcp_redirect,
	.close = tcp_close,
	.loop_end = smd_tcp_loop_end,
	.peer_name = tcp_peer_name,
};
