/* Moves bytes between two sockets. */
#include "tests/unit/transport/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int loopback_socket(const char *address, bool listens)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	const int yes = 1;
	int ret;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	name.sin_port = htons((uint16_t)(listens ? 0 : atoi(strrchr(address, ':') + 1)));
	ret = listens ? bind(fd, (struct sockaddr *)&name, sizeof(name))
		      : connect(fd, (struct sockaddr *)&name, sizeof(name));
	if (ret || (listens && listen(fd, 1))) {
		abort();
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return fd;
}

static void relay_cut(struct relay *relay)
{
	struct relay_way *ways[] = {&relay->there, &relay->back};

	for (int i = 0; i < 2; i++) {
		if (ways[i]->readable) {
			event_free(ways[i]->readable);
			ways[i]->readable = NULL;
			shutdown(ways[i]->from, SHUT_RDWR);
		}
	}
}

static void way_move(evutil_socket_t fd, short what, void *arg)
{
	struct relay_way *way = arg;
	struct relay *relay = way->relay;
	bool there = way == &relay->there;
	uint8_t bytes[65536];
	size_t piece = relay->piece ? relay->piece : sizeof(bytes);
	ssize_t got = recv(fd, bytes, piece, 0);

	(void)what;
	if (got <= 0) {
		event_del(way->readable);
		shutdown(way->to, SHUT_WR);
		return;
	}
	if (there && relay->flip_at >= way->moved && relay->flip_at < way->moved + (size_t)got &&
		relay->flip_at) {
		bytes[relay->flip_at - way->moved] ^= 0x10;
	}
	if (way->moved + (size_t)got <= RELAY_SEEN_MAX) {
		memcpy(way->seen + way->moved, bytes, (size_t)got);
	}
	way->moved += (size_t)got;
	/* The other end reads on this loop too, so what is sent at once must fit its socket. */
	if (send(way->to, bytes, (size_t)got, MSG_NOSIGNAL) < 0 ||
		(there && relay->cut_at && way->moved >= relay->cut_at)) {
		relay_cut(relay);
	}
}

static void way_open(struct relay_way *way, struct relay *relay, int from, int to)
{
	way->relay = relay;
	way->from = from;
	way->to = to;
	way->seen = malloc(RELAY_SEEN_MAX);
	way->readable = event_new(relay->base, from, EV_READ | EV_PERSIST, way_move, way);
	event_add(way->readable, NULL);
}

static void relay_accept(evutil_socket_t fd, short what, void *arg)
{
	struct relay *relay = arg;
	int near = accept(fd, NULL, NULL);
	int far = loopback_socket(relay->target, false);

	(void)what;
	way_open(&relay->there, relay, near, far);
	way_open(&relay->back, relay, far, near);
}

void relay_open(struct relay *relay, struct event_base *base, char address[128])
{
	struct sockaddr_in name;
	socklen_t size = sizeof(name);

	*relay = (struct relay){.base = base};
	snprintf(relay->target, sizeof(relay->target), "%s", address);
	relay->listener = loopback_socket(NULL, true);
	getsockname(relay->listener, (struct sockaddr *)&name, &size);
	snprintf(address, 128, "127.0.0.1:%u", ntohs(name.sin_port));
	relay->acceptable = event_new(base, relay->listener, EV_READ, relay_accept, relay);
	event_add(relay->acceptable, NULL);
}

void relay_close(struct relay *relay)
{
	struct relay_way *ways[] = {&relay->there, &relay->back};

	for (int i = 0; i < 2; i++) {
		if (ways[i]->readable) {
			event_free(ways[i]->readable);
		}
		if (ways[i]->seen) {
			close(ways[i]->from);
			free(ways[i]->seen);
		}
	}
	event_free(relay->acceptable);
	close(relay->listener);
}

bool relay_has_seen(const struct relay *relay, const void *bytes, size_t length)
{
	return memmem(relay->there.seen, relay->there.moved, bytes, length) ||
	       memmem(relay->back.seen, relay->back.moved, bytes, length);
}
