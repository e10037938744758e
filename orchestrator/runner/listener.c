/* Accepts agents that come by TCP. */
#include "orchestrator/runner/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/agent/host/inspect.h"

#define GREETINGS_MAX 64 /* connections that have not said yet whose they are */
#define BACKLOG       1024

struct smd_runner_listener {
	struct smd_runner_listener_options options;
	struct event_base *base;
	struct event *event;
	struct smd_agent_greeting *greetings[GREETINGS_MAX];
	struct smd_host_facts facts;
	uint16_t port;
};

static void on_done(void *owner, struct smd_agent_greeting *greeting)
{
	struct smd_runner_listener *listener = owner;

	for (size_t i = 0; i < GREETINGS_MAX; i++) {
		if (listener->greetings[i] == greeting) {
			listener->greetings[i] = NULL;
			event_add(listener->event, NULL);
		}
	}
}

static struct smd_run_host *find(void *owner, int number, struct smd_error *error)
{
	const struct smd_runner_listener *listener = owner;

	return listener->options.find(listener->options.owner, number, error);
}

static void greet(struct smd_runner_listener *listener, size_t place, int fd)
{
	const struct smd_greeting_options options = {.read_fd = fd,
		.write_fd = fd,
		.key = listener->options.key,
		.silence_ms = listener->options.silence_ms,
		.where = "an agent",
		.find = find,
		.on_done = on_done,
		.owner = listener};
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)smd_greeting_open(&listener->greetings[place], listener->base, &options, NULL);
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_runner_listener *listener = arg;

	(void)what;
	for (size_t i = 0; i < GREETINGS_MAX; i++) {
		int accepted;

		if (listener->greetings[i]) {
			continue;
		}
		accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (accepted < 0) {
			return;
		}
		greet(listener, i, accepted);
	}
	event_del(listener->event); /* until one of them is done */
}

/* Of both families; without IPv6, of v4. */
static int open_socket(uint16_t *port)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_storage bound;
	socklen_t size = sizeof(bound);
	int off = 0;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)&v6, sizeof(v6))) {
		if (fd >= 0) {
			close(fd);
		}
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0 || bind(fd, (struct sockaddr *)&v4, sizeof(v4))) {
			goto fail;
		}
	}
	if (listen(fd, BACKLOG) || getsockname(fd, (struct sockaddr *)&bound, &size)) {
		goto fail;
	}
	*port = ntohs(bound.ss_family == AF_INET6
			      ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
			      : ((struct sockaddr_in *)(void *)&bound)->sin_port);
	return fd;
fail:
	off = errno;
	if (fd >= 0) {
		close(fd);
	}
	return -off;
}

void smd_runner_listener_close(struct smd_runner_listener *listener)
{
	if (!listener) {
		return;
	}
	for (size_t i = 0; i < GREETINGS_MAX; i++) {
		if (listener->greetings[i]) {
			smd_greeting_close(listener->greetings[i]);
		}
	}
	if (listener->event) {
		close(event_get_fd(listener->event));
		event_free(listener->event);
	}
	smd_host_facts_clear(&listener->facts);
	free(listener);
}

int smd_runner_listener_open(struct smd_runner_listener **out, struct event_base *base,
	const struct smd_runner_listener_options *options, struct smd_error *error)
{
	struct smd_runner_listener *listener = calloc(1, sizeof(*listener));
	int fd;

	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	listener->options = *options;
	listener->base = base;
	fd = open_socket(&listener->port);
	if (fd < 0) {
		free(listener);
		return smd_error_set(
			error, -fd, "a port for agents: cannot be had: %s", strerror(-fd));
	}
	listener->event = event_new(base, fd, EV_READ | EV_PERSIST, on_acceptable, listener);
	if (!listener->event || event_add(listener->event, NULL) ||
		smd_host_inspect(&listener->facts, error)) {
		if (!listener->event) {
			close(fd);
		}
		smd_runner_listener_close(listener);
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	*out = listener;
	return 0;
}

void smd_runner_listener_addresses(
	const struct smd_runner_listener *listener, struct smd_invitation *invitation)
{
	const struct smd_host_facts *facts = &listener->facts;

	for (int loopback = 0; loopback <= 1; loopback++) {
		for (size_t i = 0; i < facts->ninterfaces; i++) {
			const struct smd_host_interface *interface = &facts->interfaces[i];

			for (size_t n = 0; n < interface->naddresses; n++) {
				const struct smd_host_address *address = &interface->addresses[n];

				if (interface->is_loopback != loopback ||
					invitation->naddresses == SMD_INVITATION_ADDRESSES) {
					continue;
				}
				snprintf(invitation->addresses[invitation->naddresses++],
					SMD_INVITATION_ADDRESS_SIZE, "%s%s%s:%u",
					address->is_v6 ? "[" : "", address->text,
					address->is_v6 ? "]" : "", (unsigned)listener->port);
			}
		}
	}
}
