/* Looks at everything on a list when its timer fires. */
#include "worker/libsummand/lookout.h"

#include <errno.h>
#include <event2/event.h>

static int lookout_arm(struct smd_lookout *lookout, unsigned ms)
{
	const struct timeval pause = {ms / 1000, ms % 1000 * 1000};

	return event_add(lookout->timer, &pause);
}

static void lookout_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct smd_lookout *lookout = arg;
	struct smd_looked_at *object = LIST_FIRST(&lookout->objects);
	unsigned soonest = lookout->period_ms;

	(void)fd;
	(void)what;
	for (; object; object = lookout->next) {
		unsigned ms;

		lookout->next = LIST_NEXT(object, link);
		ms = object->look(object);
		soonest = ms && ms < soonest ? ms : soonest;
	}
	if (!LIST_EMPTY(&lookout->objects)) {
		(void)lookout_arm(lookout, soonest); /* it was pending before, so there is memory */
	}
}

int smd_lookout_begin(struct smd_lookout *lookout, struct event_base *base, unsigned period_ms,
	struct smd_looked_at *object)
{
	lookout->period_ms = period_ms;
	if (!lookout->timer) {
		lookout->timer = event_new(base, -1, 0, lookout_on_timer, lookout);
	}
	if (!lookout->timer ||
		(LIST_EMPTY(&lookout->objects) && lookout_arm(lookout, period_ms) != 0)) {
		return -ENOMEM;
	}
	if (!object->listed) {
		LIST_INSERT_HEAD(&lookout->objects, object, link);
		object->listed = true;
	}
	return 0;
}

void smd_lookout_end(struct smd_lookout *lookout, struct smd_looked_at *object)
{
	if (!object->listed) {
		return;
	}
	if (lookout->next == object) {
		lookout->next = LIST_NEXT(object, link);
	}
	LIST_REMOVE(object, link);
	object->listed = false;
	if (LIST_EMPTY(&lookout->objects)) {
		event_del(lookout->timer);
	}
}

void smd_lookout_free(struct smd_lookout *lookout)
{
	if (lookout->timer) {
		event_free(lookout->timer);
	}
	*lookout = (struct smd_lookout){.timer = NULL};
}
