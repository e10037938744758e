/* Finds who listens by a name, and gives each its end of a pipe. */
#include "reduction_server/transport/testing/loopback_pipe.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LENGTH 100

struct loopback_listener {
	struct smd_listener listener;
	char name[NAME_MAX_LENGTH];
	unsigned process;
	bool deaf;       /* its process has died */
	uint64_t number; /* no other has ever had */
	struct event_base *base;
	smd_accept *on_accept;
	void *owner;
	LIST_ENTRY(loopback_listener) link;
};

/* Under the lock (loopback_pipe.h): */
static LIST_HEAD(, loopback_listener) listeners = LIST_HEAD_INITIALIZER(listeners);
static uint64_t nlisteners; /* there have been */

void smd_loopback_deafen(unsigned process)
{
	struct loopback_listener *listener;

	LIST_FOREACH (listener, &listeners, link) {
		listener->deaf |= listener->process == process;
	}
}

/* What a connect leaves on the listener's loop. */
struct arrival {
	uint64_t listener; /* by number: it may be closed before */
	struct loopback_lane *end;
};

/* NULL: it is closed. */
static struct loopback_listener *loopback_find_number(uint64_t number)
{
	struct loopback_listener *listener;

	pthread_mutex_lock(&smd_loopback_lock);
	LIST_FOREACH (listener, &listeners, link) {
		if (listener->number == number) {
			break;
		}
	}
	pthread_mutex_unlock(&smd_loopback_lock);
	return listener;
}

static void loopback_on_arrival(evutil_socket_t fd, short what, void *arg)
{
	struct arrival *arrival = arg;
	struct loopback_listener *listener = loopback_find_number(arrival->listener);

	(void)fd;
	(void)what;
	if (listener) {
		listener->on_accept(listener->owner, &arrival->end->lane, SMD_SHARD_UNKNOWN);
	} else {
		smd_loopback_close(&arrival->end->lane);
	}
	free(arrival);
}

static const char *loopback_name(const char *address)
{
	return strncmp(address, "loopback:", 9) == 0 ? address + 9 : address;
}

static struct loopback_listener *loopback_find(const char *name)
{
	struct loopback_listener *listener;

	LIST_FOREACH (listener, &listeners, link) {
		if (!listener->deaf && strcmp(listener->name, name) == 0) {
			return listener;
		}
	}
	return NULL;
}

/* Tells the listener, if there is one, on its own loop. */
static int loopback_announce(const char *name, struct loopback_lane *end)
{
	const struct timeval now = {0, 0};
	struct arrival *arrival = malloc(sizeof(*arrival));
	struct loopback_listener *listener;
	int ret = -ECONNREFUSED;

	if (!arrival) {
		return -ENOMEM;
	}
	pthread_mutex_lock(&smd_loopback_lock);
	listener = loopback_find(name);
	if (listener) {
		*arrival = (struct arrival){.listener = listener->number, .end = end};
		end->process = listener->process;
		ret = event_base_once(listener->base, -1, EV_TIMEOUT, loopback_on_arrival, arrival,
			      &now) == 0
			      ? 0
			      : -ENOMEM;
	}
	pthread_mutex_unlock(&smd_loopback_lock);
	if (ret) {
		free(arrival);
	}
	return ret;
}

int smd_loopback_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	const char *name = loopback_name(address);
	struct pipe *pipe = smd_loopback_pipe_create(name);
	int ret;

	(void)origin;
	(void)shard; /* HELLO says it */
	if (!pipe) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	pipe->ends[1].opened = true;
	ret = loopback_announce(name, &pipe->ends[1]);
	if (ret) {
		smd_error_set(error, -ret, "%s: cannot connect: %s", address, strerror(-ret));
		goto free_pipe;
	}
	ret = smd_loopback_attach(&pipe->ends[0].lane, base, callbacks, owner);
	if (ret) {
		/* The listener has the other end already; it will see this one closed. */
		smd_error_set(error, -ret, "%s: out of memory", address);
		smd_loopback_close(&pipe->ends[0].lane);
		return ret;
	}
	*out = &pipe->ends[0].lane;
	return 0;

free_pipe:
	smd_loopback_pipe_free(pipe);
	return ret;
}

int smd_loopback_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	const char *name = loopback_name(address);
	struct loopback_listener *listener;
	int ret = 0;

	if (strlen(name) >= NAME_MAX_LENGTH) {
		return smd_error_set(error, EINVAL,
			"loopback: a name must have at most %d bytes, got %zu", NAME_MAX_LENGTH - 1,
			strlen(name));
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	snprintf(listener->name, sizeof(listener->name), "%s", name);
	listener->listener.ops = &smd_transport_loopback;
	listener->process = smd_loopback_this_process();
	listener->base = base;
	listener->on_accept = on_accept;
	listener->owner = owner;
	pthread_mutex_lock(&smd_loopback_lock);
	if (loopback_find(name)) {
		ret = smd_error_set(
			error, EADDRINUSE, "loopback:%s: cannot listen: the name is in use", name);
	} else {
		listener->number = ++nlisteners;
		LIST_INSERT_HEAD(&listeners, listener, link);
	}
	pthread_mutex_unlock(&smd_loopback_lock);
	if (ret) {
		free(listener);
		return ret;
	}
	snprintf(bound, 128, "loopback:%s", name);
	*out = &listener->listener;
	return 0;
}

void smd_loopback_listener_close(struct smd_listener *outer)
{
	struct loopback_listener *listener = (struct loopback_listener *)outer;

	pthread_mutex_lock(&smd_loopback_lock);
	LIST_REMOVE(listener, link);
	pthread_mutex_unlock(&smd_loopback_lock);
	free(listener);
}
