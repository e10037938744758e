/* Makes event loops without locks, and wakes them. */
#include "reduction_server/transport/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "reduction_server/transport/transport.h"

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

void smd_loop_look(struct event_base *base)
{
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

void smd_loop_free(struct event_base *base)
{
	if (base) {
		smd_transport_end_loop(base);
		event_base_free(base);
	}
}

static void wakeup_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_wakeup *wakeup = arg;
	uint64_t signals;

	(void)what;
	if (read(fd, &signals, sizeof(signals)) == sizeof(signals)) {
		wakeup->on_signal(wakeup->owner);
	}
}

int smd_wakeup_create(struct smd_wakeup *wakeup, struct event_base *base,
	void (*on_signal)(void *owner), void *owner)
{
	*wakeup = (struct smd_wakeup){.on_signal = on_signal, .owner = owner};
	wakeup->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wakeup->fd < 0) {
		return -errno;
	}
	wakeup->event =
		event_new(base, wakeup->fd, EV_READ | EV_PERSIST, wakeup_on_readable, wakeup);
	if (!wakeup->event || event_add(wakeup->event, NULL) != 0) {
		smd_wakeup_destroy(wakeup);
		return -ENOMEM;
	}
	return 0;
}

void smd_wakeup_destroy(struct smd_wakeup *wakeup)
{
	if (wakeup->event) {
		event_free(wakeup->event);
	}
	if (wakeup->on_signal && wakeup->fd >= 0) {
		close(wakeup->fd);
	}
	memset(wakeup, 0, sizeof(*wakeup));
}

void smd_wakeup_signal(struct smd_wakeup *wakeup)
{
	const uint64_t one = 1;

	/* It fails only when so many signals wait already that the counter is full. */
	(void)!write(wakeup->fd, &one, sizeof(one));
}
