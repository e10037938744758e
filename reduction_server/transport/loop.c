/* Makes event loops without locks, and wakes them. */
#include "reduction_server/transport/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event_base *smd_loop_create(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config) {
		return NULL;
	}
	/* No change list: it would tell epoll of descriptors after they were closed, when another
	 * thread may have them. */
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

static void bell_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_bell *bell = arg;
	uint64_t rings;

	(void)what;
	if (read(fd, &rings, sizeof(rings)) == sizeof(rings)) {
		bell->on_ring(bell->owner);
	}
}

int smd_bell_create(
	struct smd_bell *bell, struct event_base *base, void (*on_ring)(void *owner), void *owner)
{
	*bell = (struct smd_bell){.on_ring = on_ring, .owner = owner};
	bell->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (bell->fd < 0) {
		return -errno;
	}
	bell->event = event_new(base, bell->fd, EV_READ | EV_PERSIST, bell_on_readable, bell);
	if (!bell->event || event_add(bell->event, NULL) != 0) {
		smd_bell_destroy(bell);
		return -ENOMEM;
	}
	return 0;
}

void smd_bell_destroy(struct smd_bell *bell)
{
	if (bell->event) {
		event_free(bell->event);
	}
	if (bell->on_ring && bell->fd >= 0) {
		close(bell->fd);
	}
	memset(bell, 0, sizeof(*bell));
}

void smd_bell_ring(struct smd_bell *bell)
{
	const uint64_t one = 1;

	/* It fails only when so many rings wait already that the counter is full. */
	(void)!write(bell->fd, &one, sizeof(one));
}
