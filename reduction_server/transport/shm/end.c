/* Ends a lane for a reason: the one way to on_closed(). */
#include <event2/event.h>

#include "reduction_server/transport/shm/shm.h"

void smd_shm_ended(struct shm_lane *lane, int err, const char *reason)
{
	if (lane->closed || lane->ended) {
		return;
	}
	lane->ended = true;
	event_del(lane->turn);
	event_del(lane->patience);
	if (lane->woken) {
		event_del(lane->woken);
	}
	lane->callbacks->on_closed(lane->owner, err, reason);
}
