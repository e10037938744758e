/* The connection manager of a loop: opened when somebody needs it, and its events given to whom they
 * are for. */
#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "reduction_server/transport/rdma/device.h"

static void channel_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_loop *loop = arg;
	struct smd_verbs_event event;

	(void)fd;
	(void)what;
	while (smd_verbs_event_take(loop->channel, &event) == 0) {
		struct rdma_endpoint *endpoint = event.context;

		endpoint->on_event(endpoint, &event);
	}
}

int smd_rdma_loop_open_channel(struct rdma_loop *loop, struct smd_error *error)
{
	int ret = loop->channel ? 0 : smd_verbs_channel_create(&loop->channel);

	if (ret) {
		loop->channel = NULL;
		return smd_error_set(error, -ret, "rdma: cannot reach the connection manager: %s%s",
			strerror(-ret),
			ret == -ENODEV ? " (module rdma_ucm must be loaded)" : "");
	}
	if (loop->readable) {
		return 0;
	}
	loop->readable = event_new(
		loop->base, loop->channel->fd, EV_READ | EV_PERSIST, channel_on_readable, loop);
	if (!loop->readable || event_add(loop->readable, NULL) != 0) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	return 0;
}
