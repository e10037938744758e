/*
 * Lanes inside one process, for tests: two ends on any two loops, no socket.
 *
 * The ends share a *pipe*. A send is put on the other end's inbox; the other end's loop copies the
 * payload to where its owner wants it, says so twice (on_part() of the first half, and on_frame()
 * in a later turn of the loop: anything may happen between, as on a socket), and puts the send on
 * the sender's list of those that are finished, so every callback runs on the loop of its own lane.
 * The one lock is the pipe's.
 */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/testing/loopback.h"
#include "reduction_server/transport/testing/loopback_pipe.h"
#include "reduction_server/transport/transports.h"
#include "reduction_server/wire/zeros.h"

pthread_mutex_t smd_loopback_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, pipe) pipes = LIST_HEAD_INITIALIZER(pipes); /* under that lock */

unsigned (*smd_loopback_process)(void);

unsigned smd_loopback_this_process(void)
{
	return smd_loopback_process ? smd_loopback_process() : 0;
}

static struct loopback_lane *loopback_of(struct smd_lane *lane)
{
	return (struct loopback_lane *)lane;
}

/* Call with the pipe locked. */
static void loopback_wake(struct loopback_lane *end)
{
	if (end->wakeup.event) {
		smd_wakeup_signal(&end->wakeup);
	}
}

void smd_loopback_pipe_free(struct pipe *pipe)
{
	pthread_mutex_lock(&smd_loopback_lock);
	LIST_REMOVE(pipe, link);
	pthread_mutex_unlock(&smd_loopback_lock);
	pthread_mutex_destroy(&pipe->lock);
	free(pipe);
}

static void pipe_release(struct pipe *pipe)
{
	int left;

	pthread_mutex_lock(&pipe->lock);
	left = --pipe->users;
	pthread_mutex_unlock(&pipe->lock);
	if (left == 0) {
		smd_loopback_pipe_free(pipe);
	}
}

static void loopback_free(evutil_socket_t fd, short what, void *arg)
{
	struct loopback_lane *end = arg;

	(void)fd;
	(void)what;
	pipe_release(end->pipe);
}

/* A frame that its sender has left behind: as with a socket, what was sent before a close still
 * arrives. */
struct carried {
	struct smd_send send;
	uint8_t payload[];
};

/* Call with the pipe locked. NULL: out of memory, and the frame is lost with its lane. */
static struct smd_send *carry(const struct smd_send *send)
{
	struct carried *carried = malloc(sizeof(*carried) + send->length);

	if (!carried) {
		return NULL;
	}
	carried->send = *send;
	carried->send.payload = carried->payload;
	carried->send.done = NULL; /* nobody waits for it */
	if (send->length) {
		memcpy(carried->payload, send->payload, send->length);
	}
	return &carried->send;
}

/* Call with the pipe locked: the other end goes on with copies of what this one has sent. */
static void loopback_leave_behind(struct loopback_lane *end, struct smd_send_queue *unsent)
{
	struct smd_send_queue copies = TAILQ_HEAD_INITIALIZER(copies);
	struct smd_send *send;

	TAILQ_FOREACH (send, &end->other->inbox, link) {
		struct smd_send *copy = carry(send);

		if (!copy) {
			break;
		}
		TAILQ_INSERT_TAIL(&copies, copy, link);
	}
	TAILQ_CONCAT(unsent, &end->other->inbox, link);
	TAILQ_CONCAT(&end->other->inbox, &copies, link);
}

/* Gives back what is queued; the other end sees the closed flag. */
void smd_loopback_close(struct smd_lane *lane)
{
	struct loopback_lane *end = loopback_of(lane);
	struct smd_send_queue unsent = TAILQ_HEAD_INITIALIZER(unsent);
	struct smd_send_queue left = TAILQ_HEAD_INITIALIZER(left);
	const struct timeval now = {0, 0};

	assert(!end->closed);
	pthread_mutex_lock(&end->pipe->lock);
	end->closed = true;
	smd_wakeup_destroy(&end->wakeup);
	TAILQ_CONCAT(&unsent, &end->finished, link);
	if (end->other->closed) {
		TAILQ_CONCAT(&left, &end->inbox, link); /* copies, all of them */
	} else {
		loopback_leave_behind(end, &unsent);
		TAILQ_CONCAT(&end->other->finished, &end->inbox, link);
	}
	loopback_wake(end->other);
	pthread_mutex_unlock(&end->pipe->lock);
	while (!TAILQ_EMPTY(&left)) {
		struct smd_send *send = TAILQ_FIRST(&left);

		TAILQ_REMOVE(&left, send, link);
		free(send);
	}
	while (!TAILQ_EMPTY(&unsent)) {
		struct smd_send *send = TAILQ_FIRST(&unsent);

		TAILQ_REMOVE(&unsent, send, link);
		send->done(send, -ECANCELED);
	}
	if (!end->base ||
		event_base_once(end->base, -1, EV_TIMEOUT, loopback_free, end, &now) != 0) {
		pipe_release(end->pipe);
	}
}

static void loopback_finish_sends(struct loopback_lane *end)
{
	for (;;) {
		struct smd_send *send;

		pthread_mutex_lock(&end->pipe->lock);
		send = TAILQ_FIRST(&end->finished);
		if (send) {
			TAILQ_REMOVE(&end->finished, send, link);
		}
		pthread_mutex_unlock(&end->pipe->lock);
		if (!send) {
			return;
		}
		send->done(send, 0);
		if (end->closed) {
			return;
		}
	}
}

/*
 * The header of the next frame. False: there is none, and *over says whether none will come. What
 * is on the list of finished sends goes first (its arrival wakes this end again): a frame may be
 * the answer to one of them.
 */
static bool loopback_peek(struct loopback_lane *end, uint8_t header[SMD_FRAME_SIZE], bool *over)
{
	const struct smd_send *send;

	pthread_mutex_lock(&end->pipe->lock);
	send = TAILQ_EMPTY(&end->finished) ? TAILQ_FIRST(&end->inbox) : NULL;
	if (send) {
		memcpy(header, send->header, SMD_FRAME_SIZE);
	}
	*over = TAILQ_EMPTY(&end->finished) && !send && (end->other->closed || end->pipe->cut);
	pthread_mutex_unlock(&end->pipe->lock);
	return send != NULL;
}

/* As the sender's lane would send it: without what is found to be zeros, which is filled in. */
static void loopback_copy(struct loopback_lane *from, const struct smd_send *send, uint8_t *payload)
{
	const uint8_t *bytes = send->payload;
	uint8_t map[SMD_ZERO_MAP_MAX];
	uint32_t end;

	if (!from->skips_zeros || !send->elements ||
		smd_zero_map_find(&from->search, bytes, send->length, map) == 0) {
		memcpy(payload, bytes, send->length);
		return;
	}
	for (uint32_t at = 0; at < send->length; at = end) {
		bool zeros;

		end = smd_zero_map_run(map, send->length, at, &zeros);
		if (zeros) {
			memset(payload + at, 0, end - at);
		} else {
			memcpy(payload + at, bytes + at, end - at);
		}
	}
}

/* Copies the payload of the next frame and gives the send back. False: it was lost with its sender.
 */
static bool loopback_take(struct loopback_lane *end, void *payload)
{
	struct smd_send *send;

	pthread_mutex_lock(&end->pipe->lock);
	send = TAILQ_FIRST(&end->inbox);
	if (send) {
		if (send->length) {
			loopback_copy(end->other, send, payload);
		}
		TAILQ_REMOVE(&end->inbox, send, link);
		if (send->done) {
			TAILQ_INSERT_TAIL(&end->other->finished, send, link);
			loopback_wake(end->other);
		} else {
			free(send);
		}
	}
	pthread_mutex_unlock(&end->pipe->lock);
	return send != NULL;
}

/* 0, 1 when the lane was closed or detached, or -errno. */
static int loopback_finish(struct loopback_lane *end, struct smd_error *error)
{
	struct smd_frame frame = end->frame;
	int ret;

	end->half = false;
	smd_lane_received(&end->lane, SMD_FRAME_SIZE + frame.length);
	ret = end->callbacks->on_frame(end->owner, &frame, end->payload, error);
	return ret != SMD_LANE_DETACHED && end->closed ? 1 : ret;
}

/*
 * Hands one frame to the owner, or the first half of it. 0, 1 when the lane was closed or detached
 * or goes on in another turn, or -errno. The sender gets its send back before on_frame(), which may
 * answer: the answer must not overtake that.
 */
static int loopback_deliver(
	struct loopback_lane *end, const uint8_t header[SMD_FRAME_SIZE], struct smd_error *error)
{
	int ret = smd_frame_decode(header, &end->frame, error);

	end->payload = NULL;
	if (ret == 0) {
		ret = end->callbacks->on_header(end->owner, &end->frame, &end->payload, error);
	}
	if (end->closed) {
		return 1;
	}
	if (ret) {
		return ret;
	}
	if (!loopback_take(end, end->payload)) {
		return smd_error_set(error, ECONNRESET, "the other end closed the lane");
	}
	if (end->frame.length < 2) {
		return loopback_finish(end, error);
	}
	end->half = true;
	if (end->callbacks->on_part) {
		end->callbacks->on_part(end->owner, &end->frame, end->frame.length / 2);
	}
	if (!end->closed) {
		pthread_mutex_lock(&end->pipe->lock);
		loopback_wake(end);
		pthread_mutex_unlock(&end->pipe->lock);
	}
	return 1;
}

static bool loopback_is_cut(struct loopback_lane *end)
{
	bool cut;

	pthread_mutex_lock(&end->pipe->lock);
	cut = end->pipe->cut;
	pthread_mutex_unlock(&end->pipe->lock);
	return cut;
}

static void loopback_ended(struct loopback_lane *end, int err, const char *reason)
{
	end->ended = true;
	end->callbacks->on_closed(end->owner, err, reason);
}

static void loopback_on_wakeup(void *owner)
{
	struct loopback_lane *end = owner;

	if (!end->opened) {
		end->opened = true;
		end->callbacks->on_open(end->owner);
	}
	while (!end->closed && !end->ended) {
		uint8_t header[SMD_FRAME_SIZE];
		struct smd_error error = {""};
		bool over;
		int ret;

		loopback_finish_sends(end);
		if (end->closed) {
			return;
		}
		if (end->half && loopback_is_cut(end)) {
			loopback_ended(end, -ECONNRESET, "the other end closed the lane");
			return;
		}
		if (!end->half && !loopback_peek(end, header, &over)) {
			if (over) {
				loopback_ended(end, -ECONNRESET, "the other end closed the lane");
			}
			return;
		}
		ret = end->half ? loopback_finish(end, &error)
				: loopback_deliver(end, header, &error);
		if (ret < 0) {
			loopback_ended(end, ret, error.text);
		}
		if (ret) {
			return;
		}
	}
}

static void loopback_send(struct smd_lane *lane, struct smd_send *send)
{
	struct loopback_lane *end = loopback_of(lane);

	assert(!end->closed);
	end->lane.counts.bytes_sent += SMD_FRAME_SIZE + send->length;
	pthread_mutex_lock(&end->pipe->lock);
	send->sent = SMD_FRAME_SIZE + send->length;
	if (end->other->closed || end->pipe->cut) {
		TAILQ_INSERT_TAIL(&end->finished, send, link);
		loopback_wake(end);
	} else {
		TAILQ_INSERT_TAIL(&end->other->inbox, send, link);
		loopback_wake(end->other);
	}
	pthread_mutex_unlock(&end->pipe->lock);
}

static void loopback_cancel(struct smd_lane *lane, const void *owner)
{
	(void)lane; /* every send has begun as soon as it is queued */
	(void)owner;
}

static int loopback_skip_zeros(struct smd_lane *lane, uint32_t largest, bool careful)
{
	struct loopback_lane *end = loopback_of(lane);

	(void)largest;
	(void)careful;
	pthread_mutex_lock(&end->pipe->lock);
	end->skips_zeros = true;
	pthread_mutex_unlock(&end->pipe->lock);
	return 0;
}

static void loopback_redirect(struct smd_lane *lane, void *payload)
{
	loopback_of(lane)->payload = payload;
}

int smd_loopback_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct loopback_lane *end = loopback_of(lane);
	int ret;

	end->base = base;
	end->callbacks = callbacks;
	end->owner = owner;
	pthread_mutex_lock(&end->pipe->lock);
	ret = smd_wakeup_create(&end->wakeup, base, loopback_on_wakeup, end);
	loopback_wake(end); /* something may have come before */
	pthread_mutex_unlock(&end->pipe->lock);
	return ret;
}

static void loopback_detach(struct smd_lane *lane)
{
	struct loopback_lane *end = loopback_of(lane);

	pthread_mutex_lock(&end->pipe->lock);
	smd_wakeup_destroy(&end->wakeup);
	pthread_mutex_unlock(&end->pipe->lock);
	end->base = NULL;
}

/* Call with the pipe locked: all but the first frames that are on their way to `end` are lost. */
static void loopback_lose(struct loopback_lane *end, unsigned keep)
{
	struct smd_send *send = TAILQ_FIRST(&end->inbox);

	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		if (keep) {
			keep--;
		} else {
			TAILQ_REMOVE(&end->inbox, send, link);
			if (send->done) {
				TAILQ_INSERT_TAIL(&end->other->finished, send, link);
			} else {
				free(send);
			}
		}
		send = next;
	}
}

static bool is_between(const struct pipe *pipe, int a, int b)
{
	int first = (int)pipe->ends[0].process;
	int second = (int)pipe->ends[1].process;

	return (first == a && (b == SMD_LOOPBACK_ANY || second == b)) ||
	       (second == a && (b == SMD_LOOPBACK_ANY || first == b));
}

void smd_loopback_cut(int a, int b, unsigned keep)
{
	struct pipe *pipe;

	pthread_mutex_lock(&smd_loopback_lock);
	LIST_FOREACH (pipe, &pipes, link) {
		if (!is_between(pipe, a, b)) {
			continue;
		}
		pthread_mutex_lock(&pipe->lock);
		pipe->cut = true;
		for (int i = 0; i < 2; i++) {
			loopback_lose(&pipe->ends[i], keep);
		}
		for (int i = 0; i < 2; i++) {
			loopback_wake(&pipe->ends[i]);
		}
		pthread_mutex_unlock(&pipe->lock);
	}
	if (b == SMD_LOOPBACK_ANY) {
		smd_loopback_deafen((unsigned)a);
	}
	pthread_mutex_unlock(&smd_loopback_lock);
}

struct pipe *smd_loopback_pipe_create(const char *name)
{
	struct pipe *pipe = calloc(1, sizeof(*pipe));

	if (!pipe) {
		return NULL;
	}
	pthread_mutex_init(&pipe->lock, NULL);
	pipe->users = 2;
	for (int i = 0; i < 2; i++) {
		struct loopback_lane *end = &pipe->ends[i];

		end->lane.ops = &smd_transport_loopback;
		end->pipe = pipe;
		end->other = &pipe->ends[1 - i];
		TAILQ_INIT(&end->inbox);
		TAILQ_INIT(&end->finished);
		snprintf(end->peer, sizeof(end->peer), "loopback:%s", name);
	}
	pipe->ends[0].process = smd_loopback_this_process();
	pthread_mutex_lock(&smd_loopback_lock);
	LIST_INSERT_HEAD(&pipes, pipe, link);
	pthread_mutex_unlock(&smd_loopback_lock);
	return pipe;
}

static const char *loopback_peer_name(const struct smd_lane *lane)
{
	return ((const struct loopback_lane *)lane)->peer;
}

const struct smd_transport_ops smd_transport_loopback = {
	.name = "loopback",
	.names = true,
	.room = 64u << 10,
	.listen = smd_loopback_listen,
	.listener_close = smd_loopback_listener_close,
	.connect = smd_loopback_connect,
	.attach = smd_loopback_attach,
	.detach = loopback_detach,
	.send = loopback_send,
	.cancel = loopback_cancel,
	.skip_zeros = loopback_skip_zeros,
	.redirect = loopback_redirect,
	.close = smd_loopback_close,
	.peer_name = loopback_peer_name,
};
