/* Closes lanes, and gives back what they have. */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/transport/shm/shm.h"

static void lane_free(evutil_socket_t fd, short what, void *arg)
{
	struct shm_lane *lane = arg;

	(void)fd;
	(void)what;
	smd_shm_memory_free(&lane->memory);
	free(lane);
}

static void close_descriptors(struct shm_lane *lane)
{
	if (lane->listener >= 0) {
		close(lane->listener);
	}
	if (lane->fd >= 0) {
		smd_forks_forget(&lane->forked);
		close(lane->fd);
	}
}

static void free_events(struct shm_lane *lane)
{
	struct event *events[] = {lane->turn, lane->patience, lane->woken};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
}

void smd_shm_discard(struct shm_lane *lane)
{
	free_events(lane);
	close_descriptors(lane);
	lane_free(-1, 0, lane);
}

void smd_shm_close(struct smd_lane *outer)
{
	const struct timeval now = {0, 0};
	struct shm_lane *lane = shm_lane_of(outer);

	assert(!lane->closed);
	lane->closed = true;
	free_events(lane);
	close_descriptors(lane);
	if (lane->carrier) {
		smd_lane_close(lane->carrier); /* which the other end hears of */
	}
	while (!TAILQ_EMPTY(&lane->queue)) {
		struct smd_send *send = TAILQ_FIRST(&lane->queue);

		TAILQ_REMOVE(&lane->queue, send, link);
		send->done(send, -ECANCELED);
	}
	/* The caller may be inside one of this lane's callbacks, so its memory goes later. */
	if (event_base_once(lane->base, -1, EV_TIMEOUT, lane_free, lane, &now) != 0) {
		lane_free(-1, 0, lane);
	}
}
