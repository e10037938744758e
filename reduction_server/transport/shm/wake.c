/* Who sleeps says so in shared memory, and is woken by a byte on a socket: else nothing is said. */
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "reduction_server/transport/shm/shm.h"

#define WAKES_AT_ONCE 64

void smd_shm_turn_soon(struct shm_lane *lane)
{
	const struct timeval now = {0, 0};

	/* After the loop has looked at others: what is active again is called again before that. */
	if (evtimer_add(lane->turn, &now)) {
		event_active(lane->turn, EV_TIMEOUT, 1);
	}
}

/* A full socket holds a byte that has not been taken yet; one that is closed is the carrier's to
 * tell of. */
static void wake(const struct shm_lane *lane)
{
	const char byte = 0;

	(void)!send(lane->fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void smd_shm_tell_bytes(struct shm_lane *lane)
{
	if (smd_shm_word_taken(&lane->tx.words->reader_sleeps)) {
		wake(lane);
	}
}

void smd_shm_tell_room(struct shm_lane *lane)
{
	if (smd_shm_word_taken(&lane->rx.words->writer_waits)) {
		wake(lane);
	}
}

/* What would be something to do; a broken ring is. */
static bool has_something(struct shm_lane *lane)
{
	uint32_t bytes;

	if (smd_shm_ring_held(&lane->rx, &bytes) || bytes > 0) {
		return true;
	}
	return !TAILQ_EMPTY(&lane->queue) &&
	       (smd_shm_ring_room(&lane->tx, lane->tx.size / 2, &bytes) ||
		       bytes >= lane->tx.size / 2);
}

bool smd_shm_sleep(struct shm_lane *lane)
{
	lane->armed = true;
	smd_shm_word_say(&lane->rx.words->reader_sleeps);
	if (!TAILQ_EMPTY(&lane->queue)) {
		smd_shm_word_say(&lane->tx.words->writer_waits);
	}
	if (has_something(lane)) {
		smd_shm_awake(lane);
		return false;
	}
	return true;
}

void smd_shm_awake(struct shm_lane *lane)
{
	lane->armed = false;
	smd_shm_word_take_back(&lane->rx.words->reader_sleeps);
	smd_shm_word_take_back(&lane->tx.words->writer_waits);
}

void smd_shm_woken(struct shm_lane *lane)
{
	char bytes[WAKES_AT_ONCE];
	ssize_t got = recv(lane->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
		event_del(lane->woken); /* it has gone, which the carrier tells */
	}
}
