/*
 * Closes RDMA lanes, without waiting. What was sent before still arrives, if the other end takes
 * it: a lane that needs nothing but its own memory for that *drains*. It goes on without its owner,
 * polled as before, until all is acknowledged or DRAIN_S have passed. A lane that would need its
 * owner's memory, for a payload or because the other end may write to it, ends at once.
 *
 * What the maker has made the maker takes back as well (maker.h), as to destroy a queue pair takes
 * a card as long. Where the owner's memory is in use it says whether that can wait.
 */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/rdma/card.h"
#include "reduction_server/transport/rdma/rdma.h"

#define DRAIN_S   2
#define LINGER_NS 100000000ull /* from the close, where somebody does wait: who frees the loop */

/* ---- what belongs to the owner ---- */

static void lane_give_back_posted(struct rdma_lane *lane)
{
	for (; lane->posted_begin != lane->posted_end; lane->posted_begin++) {
		struct rdma_posted *posted = &lane->posted[lane->posted_begin % lane->depth];
		struct smd_send *send = posted->send;

		if (posted->region) {
			smd_rdma_region_put(posted->region);
		}
		posted->send = NULL;
		if (send) {
			send->done(send, -ECANCELED);
		}
	}
}

/* From that one on. */
static void lane_give_back_queued(struct rdma_lane *lane, struct smd_send *send)
{
	while (send) {
		struct smd_send *next = TAILQ_NEXT(send, link);

		smd_rdma_leave_queue(lane, send);
		send->done(send, -ECANCELED);
		send = next;
	}
}

/* The first queued send whose payload is the owner's. */
static struct smd_send *lane_first_of_owner(const struct rdma_lane *lane)
{
	struct smd_send *send = TAILQ_FIRST(&lane->tx);

	while (send && send->self_contained) {
		send = TAILQ_NEXT(send, link);
	}
	return send;
}

/* Nobody uses memory of the owner's any more, who hears that last. */
static void lane_release(struct rdma_lane *lane)
{
	void (*released)(void *owner) = lane->released;

	lane->released = NULL;
	if (released) {
		released(lane->released_owner);
	}
}

/* ---- the lane's own end ---- */

static void lane_free(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_lane *lane = arg;

	(void)fd;
	(void)what;
	lane_release(lane);
	if (lane->device) {
		struct ibv_context *context = lane->device->context;

		if (lane->memory) {
			smd_rdma_buffers_put(&lane->device->buffers, lane->memory);
		}
		smd_rdma_device_put(lane->device);
		smd_rdma_card_release(lane->loop, context);
	}
	if (lane->loop) {
		smd_rdma_loop_put(lane->loop);
	}
	free(lane->posted);
	smd_rdma_lane_free_advertisements(lane);
	free(lane);
}

_Static_assert(SMD_RDMA_REJECTION_MAX == SMD_VERBS_PRIVATE_MAX, "a rejection has room");

void smd_rdma_reject(struct rdma_cm_id *id, const char *text, bool again)
{
	uint8_t bytes[SMD_RDMA_REJECTION_MAX];
	size_t length = smd_rdma_rejection_encode(text, again, bytes);

	(void)smd_verbs_reject(id, bytes, (uint8_t)length); /* or it waits until it has enough */
}

static void lane_reject(struct rdma_lane *lane)
{
	const char *why = lane->reason[0] ? lane->reason : "it was closed before it was made";

	smd_rdma_reject(lane->id, why, !lane->accepting.in_vain);
}

/* Windows that are bound to it may hold on to it, and while it is at work it must not meet one that
 * has gone: so it is stopped before they go. */
static void lane_destroy_pair(struct rdma_lane *lane)
{
	if (lane->device->windows) {
		smd_verbs_pair_fail(lane->pair.qp);
		smd_rdma_lane_destroy_windows(lane);
	}
	smd_verbs_pair_destroy(lane->pair.qp);
}

/* What the kernel and the driver have to do, on this thread or on the maker's: the connection
 * manager tells the other end, and afterwards nobody reads or writes. */
static void lane_take_back(struct rdma_lane *lane)
{
	if (lane->id && lane->accepting.due) {
		lane_reject(lane);
	}
	if (lane->id) {
		smd_verbs_id_destroy(lane->id);
	}
	if (lane->paired) {
		lane_destroy_pair(lane);
	}
	smd_rdma_lane_destroy_windows(lane); /* of one without a queue pair */
	if (lane->region) {
		smd_verbs_region_destroy(lane->region);
	}
}

/* Nothing of a pair that was destroyed is left to come. */
static void lane_take_completions(struct rdma_lane *lane)
{
	if (lane->paired) {
		smd_rdma_device_sort(lane->device, &lane->pair, smd_rdma_count_completion);
		lane->paired = false;
	}
}

/* The rest, but for its memory. */
static void lane_let_go(struct rdma_lane *lane)
{
	lane_take_completions(lane);
	if (lane->placed) {
		smd_rdma_device_remove(lane->device, &lane->pair, lane->depth + RDMA_RECEIVES);
	}
	if (lane->patience) {
		event_free(lane->patience);
		lane->patience = NULL;
	}
	if (lane->carrier) { /* which tells the other end */
		smd_lane_close(lane->carrier);
	}
	lane_give_back_posted(lane);
	lane_give_back_queued(lane, TAILQ_FIRST(&lane->tx));
	smd_rdma_lane_forget_advertisements(lane);
}

static void lane_destroy(struct rdma_lane *lane)
{
	lane_take_back(lane);
	lane_let_go(lane);
}

/* ---- what the maker has, or takes back ---- */

static struct rdma_lane *lane_of_drain(struct rdma_drain *drain)
{
	return (struct rdma_lane *)((char *)drain - offsetof(struct rdma_lane, drain));
}

/* What becomes of the lane then is among that. */
static void making_end_with_loop(struct rdma_drain *drain)
{
	smd_rdma_loop_finish_maker(lane_of_drain(drain)->loop);
}

/* What can be the owner's goes back now, the rest when the maker is through: nobody waits for it.
 */
static void lane_leave_to_maker(struct rdma_lane *lane)
{
	if (lane->patience) {
		event_free(lane->patience);
		lane->patience = NULL;
	}
	if (lane->carrier) { /* which tells the other end */
		smd_lane_close(lane->carrier);
		lane->carrier = NULL;
	}
	lane_give_back_queued(lane, TAILQ_FIRST(&lane->tx));
	if (!lane->released) {
		smd_rdma_lane_forget_advertisements(lane);
	}
	lane->callbacks = NULL; /* who may be gone when the other end writes meanwhile */
	lane->owner = NULL;
	lane->drain.end = making_end_with_loop;
	LIST_INSERT_HEAD(&lane->loop->drains, &lane->drain, link);
}

/* Its queue pair must not be touched on this thread any more. */
static void gone_flush(struct rdma_pair *pair)
{
	(void)pair;
}

static void gone_fail(struct rdma_pair *pair, int err, const char *reason)
{
	(void)pair;
	(void)err;
	(void)reason;
}

static const struct rdma_pair_ops gone_pair = {
	.completed = smd_rdma_count_completion,
	.flush = gone_flush,
	.probe = gone_flush,
	.fail = gone_fail,
};

static void gone_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	(void)endpoint;
	(void)event;
}

static struct rdma_lane *lane_of_job(struct rdma_job *job)
{
	return (struct rdma_lane *)((char *)job - offsetof(struct rdma_lane, making.job));
}

static void job_take_back(struct rdma_job *job)
{
	lane_take_back(lane_of_job(job));
}

static void job_on_taken_back(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);

	LIST_REMOVE(&lane->drain, link);
	lane_let_go(lane);
	lane_free(-1, 0, lane);
}

/* Neither the card nor the other end may read or write anything of the owner's. */
static bool lane_is_alone(const struct rdma_lane *lane)
{
	for (uint32_t i = lane->posted_begin; i != lane->posted_end; i++) {
		if (lane->posted[i % lane->depth].send) {
			return false;
		}
	}
	return LIST_EMPTY(&lane->advertisements);
}

/* By the end of its queue pair: after that nothing is read or written. */
static void lane_become_alone(struct rdma_lane *lane)
{
	lane_destroy_pair(lane);
	lane_take_completions(lane);
	lane->pair.qp = NULL;
	lane_give_back_posted(lane);
}

/* False: there is nothing of it that could be, or no maker. */
static bool lane_is_taken_back_later(struct rdma_lane *lane)
{
	if (!lane->later || !lane->loop->maker || !(lane->paired || lane->region || lane->id)) {
		return false;
	}
	lane->pair.ops = &gone_pair;
	lane->endpoint.on_event = gone_on_event;
	if (lane->paired && !lane->released && !lane_is_alone(lane)) {
		lane_become_alone(lane);
	}
	lane_leave_to_maker(lane);
	lane->making.job = (struct rdma_job){.what = "destroy a queue pair",
		.run = job_take_back,
		.done = job_on_taken_back,
		.urgent = true}; /* it makes room */
	smd_rdma_maker_give(lane->loop->maker, &lane->making.job);
	return true;
}

/* ---- draining ---- */

static bool lane_is_drained(const struct rdma_lane *lane)
{
	return lane->err || (TAILQ_EMPTY(&lane->tx) && lane->requests == lane->completed);
}

static void drain_end(struct rdma_lane *lane)
{
	LIST_REMOVE(&lane->drain, link);
	if (!lane_is_taken_back_later(lane)) {
		lane_destroy(lane);
		lane_free(-1, 0, lane);
	}
}

static void drain_on_time(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	drain_end(arg);
}

/* The poller may be at work on its completions, so it goes later in this turn or in the next. */
static void drain_end_soon(struct rdma_lane *lane)
{
	event_active(lane->patience, EV_TIMEOUT, 1);
}

/* Nobody is left on the loop who would have to wait, and nobody would poll later. */
static void drain_end_with_loop(struct rdma_drain *drain)
{
	struct rdma_lane *lane = lane_of_drain(drain);

	while (!lane_is_drained(lane) && smd_clock_ns() < lane->linger_until_ns) {
		if (smd_rdma_device_poll(lane->device) == 0) {
			sched_yield();
		}
	}
	drain_end(lane);
}

static void drain_completed(struct rdma_pair *pair, const struct ibv_wc *completion)
{
	smd_rdma_count_completion(pair, completion);
	smd_rdma_device_wake(rdma_lane_of_pair(pair)->device, pair);
}

static void drain_flush(struct rdma_pair *pair)
{
	struct rdma_lane *lane = rdma_lane_of_pair(pair);

	smd_rdma_settle(lane); /* before more is posted in their place */
	smd_rdma_post(lane);
	if (lane_is_drained(lane)) {
		drain_end_soon(lane);
	}
}

static void drain_probe(struct rdma_pair *pair)
{
	(void)pair; /* its deadline finds out */
}

static void drain_fail(struct rdma_pair *pair, int err, const char *reason)
{
	struct rdma_lane *lane = rdma_lane_of_pair(pair);

	(void)reason;
	lane->err = err;
	drain_end_soon(lane);
}

static const struct rdma_pair_ops drain_pair = {
	.completed = drain_completed,
	.flush = drain_flush,
	.probe = drain_probe,
	.fail = drain_fail,
};

static void drain_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	struct rdma_lane *lane =
		(struct rdma_lane *)((char *)endpoint - offsetof(struct rdma_lane, endpoint));

	switch (event->type) {
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		lane->device->removed = true;
		drain_fail(&lane->pair, -ENODEV, "");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		drain_fail(&lane->pair, -ECONNRESET, "");
		break;
	default: /* that the connection is there, which is known */
		break;
	}
}

/*
 * What is to be sent is handed to the device as far as there is room; whether that, and what was
 * before, needs nothing of the owner's. A payload that the other end has taken does not count: were
 * it read again, the other end would throw it away.
 */
static bool lane_lets_owner_go(struct rdma_lane *lane)
{
	if (lane->state != RDMA_LANE_OPEN || lane->ended || lane->err) {
		return false;
	}
	smd_rdma_device_sort(lane->device, &lane->pair, smd_rdma_count_completion);
	smd_rdma_settle(lane);
	smd_rdma_post(lane);
	return !lane->err && lane->posted_settled == lane->posted_end &&
	       LIST_EMPTY(&lane->advertisements);
}

static bool lane_begin_draining(struct rdma_lane *lane)
{
	const struct timeval most = {DRAIN_S, 0};

	if (lane->patience) {
		event_free(lane->patience);
	}
	lane->patience = evtimer_new(lane->loop->base, drain_on_time, lane);
	if (!lane->patience || evtimer_add(lane->patience, &most) != 0) {
		return false;
	}
	for (uint32_t i = lane->remotes_begin; i != lane->remotes_end; i++) {
		/* The other end is not to be told of it any more. */
		lane->remotes[i % lane->remotes_room] = (struct rdma_remote){.advertisement = NULL};
	}
	lane->callbacks = NULL;
	lane->owner = NULL;
	lane->pair.ops = &drain_pair;
	lane->endpoint.on_event = drain_on_event;
	lane->drain.end = drain_end_with_loop;
	lane->linger_until_ns = smd_clock_ns() + LINGER_NS;
	LIST_INSERT_HEAD(&lane->loop->drains, &lane->drain, link);
	return true;
}

static bool lane_drains(struct rdma_lane *lane)
{
	if (!lane->paired || !lane_lets_owner_go(lane)) {
		return false;
	}
	/* Frames behind one that goes back could not be understood without it. */
	lane_give_back_queued(lane, lane_first_of_owner(lane));
	return !lane_is_drained(lane) && lane_begin_draining(lane);
}

void smd_rdma_close_made(struct rdma_lane *lane)
{
	drain_end(lane);
}

/* ---- the end of its owner's use ---- */

void smd_rdma_close(struct smd_lane *outer)
{
	struct rdma_lane *lane = rdma_lane_of(outer);
	const struct timeval now = {0, 0};
	struct event_base *base = lane->loop ? lane->loop->base : NULL;

	assert(!lane->closed);
	lane->closed = true;
	lane->making.unwanted = true; /* what has not been taken up yet */
	if (lane->rx_taking) {
		lane->rx_next++; /* in its callback: what comes in the meantime is the next one */
		lane->rx_taking = false;
	}
	if (lane->making.under_way) {
		lane->pair.ops = &gone_pair;
		lane_leave_to_maker(lane);
		return;
	}
	if (lane_drains(lane)) { /* which needs nothing of the owner's */
		lane_release(lane);
		return;
	}
	if (lane_is_taken_back_later(lane)) {
		return;
	}
	lane_destroy(lane);
	lane_release(lane);
	/* The caller may be inside one of this lane's callbacks, so its memory goes later. */
	if (!base || event_base_once(base, -1, EV_TIMEOUT, lane_free, lane, &now) != 0) {
		lane_free(-1, 0, lane);
	}
}

void smd_rdma_close_later(struct smd_lane *outer, void (*released)(void *owner), void *owner)
{
	struct rdma_lane *lane = rdma_lane_of(outer);

	lane->released = released;
	lane->released_owner = owner;
	smd_rdma_close(outer);
}
