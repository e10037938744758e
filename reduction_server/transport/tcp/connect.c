/* Makes TCP lanes: resolves addresses, connects, listens and accepts. */
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/log_limit.h"
#include "reduction_server/transport/origin.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "reduction_server/transport/tcp/tls.h"

#define LISTEN_BACKLOG 4096   /* ranks that connect at once; somaxconn may say less */
#define ACCEPT_REST_US 100000 /* when descriptors are short: until the next try */

struct tcp_listener {
	struct smd_listener listener;
	int fd;
	struct smd_fork_entry forked; /* a child listens to nobody */
	struct event *acceptable;
	struct event *rested; /* the listener has paused, and goes on */
	smd_accept *on_accept;
	void *owner;
	struct ssl_ctx_st *tls; /* NULL: lanes are plain */
};

/* The kernel chooses the port when it knows the other end, so that the address has more of them. */
static int tcp_bind_origin(
	int fd, const struct smd_origin *origin, const char *address, struct smd_error *error)
{
	const int yes = 1;

	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	if (bind(fd, (const struct sockaddr *)&origin->address, origin->length) != 0) {
		return smd_error_set(
			error, errno, "%s: cannot connect from %s: %m", address, origin->interface);
	}
	return 0;
}

int smd_tcp_connect(struct event_base *base, const char *address, const struct smd_origin *origin,
	unsigned shard, const struct smd_lane_callbacks *callbacks, void *owner,
	struct smd_lane **out, struct smd_error *error)
{
	const struct addrinfo *info;
	struct addrinfo *list;
	struct tcp_lane *tcp;
	int fd;
	int ret;

	(void)shard; /* HELLO says it */
	ret = smd_address_resolve(address, 0, &list, error);

	if (ret) {
		return ret;
	}
	info = smd_address_choose(list);
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = smd_error_set(error, errno, "%s: cannot make a socket: %m", address);
		goto free_list;
	}
	ret = origin ? tcp_bind_origin(fd, origin, address, error) : 0;
	if (ret) {
		goto close_fd;
	}
	tcp = smd_tcp_lane_create(fd);
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
	ret = smd_tcp_lane_enter_loop(tcp, base, callbacks, owner);
	if (ret) {
		smd_error_set(error, -ret, "%s: out of memory", address);
		goto free_lane;
	}
	freeaddrinfo(list);
	*out = &tcp->lane;
	return 0;

free_lane:
	smd_forks_forget(&tcp->forked);
	free(tcp);
close_fd:
	close(fd);
free_list:
	freeaddrinfo(list);
	return ret;
}

static void tcp_on_rested(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_listener *listener = arg;

	(void)fd;
	(void)what;
	event_add(listener->acceptable, NULL);
}

/* A peer that went away is nobody's business; without descriptors, trying on at once would only
 * burn the processor, because the connection stays in the backlog. */
static void tcp_accept_failed(struct tcp_listener *listener, int err)
{
	const struct timeval rest = {0, ACCEPT_REST_US};

	if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) {
		smd_log_peer(
			SMD_LOG_WARN, "tcp", "", "cannot accept a connection: %s", strerror(err));
		event_del(listener->acceptable);
		evtimer_add(listener->rested, &rest);
	}
}

static void tcp_on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct tcp_listener *listener = arg;
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	struct tcp_lane *tcp;
	int accepted;

	(void)what;
	accepted = accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (accepted < 0) {
		tcp_accept_failed(listener, errno);
		return;
	}
	tcp = smd_tcp_lane_create(accepted);
	if (!tcp) {
		close(accepted);
		return;
	}
	smd_address_print((struct sockaddr *)&address, size, tcp->peer);
	if (listener->tls && smd_tcp_tls_create(tcp, listener->tls)) {
		smd_log_peer(SMD_LOG_WARN, "tcp", "", "cannot take %s: out of memory", tcp->peer);
		smd_lane_close(&tcp->lane);
		return;
	}
	listener->on_accept(listener->owner, &tcp->lane, SMD_SHARD_UNKNOWN);
}

static int tcp_bind(const char *address, int *out, char bound[128], struct smd_error *error)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	struct addrinfo *list;
	const struct addrinfo *info;
	const int yes = 1;
	int fd;
	int ret = smd_address_resolve(address, AI_PASSIVE, &list, error);

	if (ret) {
		return ret;
	}
	info = smd_address_choose(list);
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = smd_error_set(error, errno, "%s: cannot make a socket: %m", address);
		goto free_list;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
		getsockname(fd, (struct sockaddr *)&name, &size) != 0) {
		ret = smd_error_set(error, errno, "%s: cannot listen: %m", address);
		goto close_fd;
	}
	smd_address_print((struct sockaddr *)&name, size, bound);
	freeaddrinfo(list);
	*out = fd;
	return 0;

close_fd:
	close(fd);
free_list:
	freeaddrinfo(list);
	return ret;
}

static void tcp_listener_free(struct tcp_listener *listener)
{
	if (listener->acceptable) {
		event_free(listener->acceptable);
	}
	if (listener->rested) {
		event_free(listener->rested);
	}
	smd_tls_context_free(listener->tls);
	smd_forks_forget(&listener->forked);
	close(listener->fd);
	free(listener);
}

int smd_tcp_listener_encrypt(
	struct smd_listener *outer, const struct smd_lane_keys *keys, struct smd_error *error)
{
	struct tcp_listener *listener = (struct tcp_listener *)outer;

	listener->tls = smd_tls_context_create(keys, error);
	return listener->tls ? 0 : -ENOTSUP;
}

void smd_tcp_listener_close(struct smd_listener *outer)
{
	tcp_listener_free((struct tcp_listener *)outer);
}

int smd_tcp_listen(struct event_base *base, const char *address, smd_accept *on_accept, void *owner,
	struct smd_listener **out, char bound[128], struct smd_error *error)
{
	struct tcp_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	ret = tcp_bind(address, &listener->fd, bound, error);
	if (ret) {
		free(listener);
		return ret;
	}
	smd_forks_close(&listener->forked, listener->fd);
	listener->listener.ops = &smd_transport_tcp;
	listener->on_accept = on_accept;
	listener->owner = owner;
	listener->acceptable =
		event_new(base, listener->fd, EV_READ | EV_PERSIST, tcp_on_acceptable, listener);
	listener->rested = evtimer_new(base, tcp_on_rested, listener);
	if (!listener->acceptable || !listener->rested ||
		event_add(listener->acceptable, NULL) != 0) {
		tcp_listener_free(listener);
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	*out = &listener->listener;
	return 0;
}
