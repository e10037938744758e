/* Wraps the lanes of another transport and delays, halves, withholds or cuts what they send. */
#include "reduction_server/transport/testing/fault.h"

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "reduction_server/transport/testing/fault_config.h"
#include "reduction_server/transport/transports.h"

#define MILLISECOND         1000000ull
#define SECOND_PART_MOST_NS (2 * MILLISECOND) /* after the first */

/* ---- a lane ---- */

/* A frame or part of one that has not been given to the wrapped lane yet. */
struct held {
	struct smd_send *send;
	uint64_t due_ns;
	bool part; /* leaves as it is */
	TAILQ_ENTRY(held) link;
};
TAILQ_HEAD(held_queue, held);

struct fault_lane {
	struct smd_lane lane;
	struct smd_lane *inner; /* NULL: it was cut */
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct event_base *base; /* NULL: not attached */
	struct event *pump;
	struct smd_fault_config config;
	bool harmless; /* nothing will ever be done to it */
	uint64_t random;
	uint64_t frames; /* given to the wrapped lane */
	uint64_t bytes;  /* of them */
	uint64_t last_due_ns;
	uint64_t rate_mbps; /* now, */
	uint64_t rate_until_ns;
	uint64_t carried_ns; /* all that was sent has left by then, at that rate */
	bool cutting;        /* the first held frame has left as far as it shall */
	bool cut;            /* and now the lane shall end */
	struct held_queue held;
	char peer[128]; /* of the wrapped lane, once that is gone */
};

/* What the wrapped lane is given instead of a frame: some of its bytes. */
struct frame_part {
	struct smd_send send;
	struct fault_lane *lane;
	struct smd_send *whole; /* whose done() is due with this part; NULL: not with this one */
	bool cut;               /* the lane ends after it */
};

static struct fault_lane *fault_of(struct smd_lane *lane)
{
	return (struct fault_lane *)lane;
}

/* Every lane has its own sequence, whatever the others do. */
static uint64_t fault_draw(struct fault_lane *lane, uint64_t below)
{
	return smd_random_next(&lane->random) % below;
}

static bool fault_is_stream(const struct fault_lane *lane)
{
	return lane->inner->ops->is_stream;
}

static void fault_wake(struct fault_lane *lane, uint64_t after_ns)
{
	const struct timeval delay = {
		(time_t)(after_ns / SMD_SECOND_NS), (suseconds_t)(after_ns / 1000 % 1000000)};

	evtimer_add(lane->pump, &delay);
}

static int fault_hold(struct fault_lane *lane, struct smd_send *send, uint64_t due_ns, bool part)
{
	struct held *held = malloc(sizeof(*held));

	if (!held) {
		return -ENOMEM;
	}
	*held = (struct held){.send = send, .due_ns = due_ns, .part = part};
	if (part) {
		TAILQ_INSERT_HEAD(&lane->held, held, link);
	} else {
		TAILQ_INSERT_TAIL(&lane->held, held, link);
	}
	return 0;
}

static void part_done(struct smd_send *send, int err)
{
	struct frame_part *part = (struct frame_part *)send;
	struct fault_lane *lane = part->lane;

	if (part->whole) {
		part->whole->done(part->whole, err);
	}
	if (part->cut && err == 0) {
		lane->cut = true;
		fault_wake(lane, 0);
	}
	free(part);
}

/* The bytes of the frame from `from` on: what was header and what was payload is one stream. */
static struct frame_part *part_create(
	struct fault_lane *lane, const struct smd_send *whole, uint32_t from, uint32_t bytes)
{
	struct frame_part *part = calloc(1, sizeof(*part));
	const uint8_t *payload = whole->payload;

	if (!part) {
		return NULL;
	}
	part->lane = lane;
	part->send.done = part_done;
	part->send.owner = part;
	part->send.length = bytes - SMD_FRAME_SIZE;
	if (from == 0) {
		memcpy(part->send.header, whole->header, SMD_FRAME_SIZE);
		part->send.payload = payload;
	} else {
		memcpy(part->send.header, payload + from - SMD_FRAME_SIZE, SMD_FRAME_SIZE);
		part->send.payload = payload + from;
	}
	return part;
}

static void fault_give(struct fault_lane *lane, struct smd_send *send)
{
	send->self_contained =
		false; /* done() comes here first, and this lane goes when it is closed */
	lane->inner->ops->send(lane->inner, send);
}

/* The lane ends here, as if the connection had broken. From the loop only. */
static void fault_end(struct fault_lane *lane, const char *reason)
{
	struct smd_lane *inner = lane->inner;

	snprintf(lane->peer, sizeof(lane->peer), "%s", smd_lane_peer_name(inner));
	lane->inner = NULL;
	smd_lane_close(inner);
	lane->callbacks->on_closed(lane->owner, -ECONNRESET, reason);
}

/* As much of the first held frame as may leave before the lane is cut: at least the header, or
 * nothing. False: the cut is due at once. */
static bool fault_halve(struct fault_lane *lane, struct smd_send *send)
{
	uint64_t left = lane->config.drop_bytes - lane->bytes;
	struct frame_part *part = NULL;

	if (left >= SMD_FRAME_SIZE && fault_is_stream(lane)) {
		part = part_create(lane, send, 0, (uint32_t)left);
	}
	if (!part) {
		return false;
	}
	part->cut = true;
	lane->cutting = true;
	lane->bytes += left;
	lane->lane.counts.bytes_sent += left;
	fault_give(lane, &part->send);
	return true;
}

/* In two parts; false when it has to go in one. */
static bool fault_split(struct fault_lane *lane, struct smd_send *send)
{
	uint32_t size = SMD_FRAME_SIZE + send->length;
	uint64_t due = smd_clock_ns() + fault_draw(lane, SECOND_PART_MOST_NS);
	uint32_t first;
	struct frame_part *parts[2];

	if (!fault_is_stream(lane) || send->length < SMD_FRAME_SIZE) {
		return false; /* the second part needs a header's worth of bytes */
	}
	first = SMD_FRAME_SIZE + (uint32_t)fault_draw(lane, send->length - SMD_FRAME_SIZE + 1);
	parts[0] = part_create(lane, send, 0, first);
	parts[1] = part_create(lane, send, first, size - first);
	if (!parts[0] || !parts[1] || fault_hold(lane, &parts[1]->send, due, true)) {
		free(parts[0]);
		free(parts[1]);
		return false;
	}
	parts[1]->whole = send;
	fault_give(lane, &parts[0]->send);
	return true;
}

/* Gives the first held frame to the wrapped lane. False: nothing more is to be done now. */
static bool fault_release(struct fault_lane *lane)
{
	struct held *held = TAILQ_FIRST(&lane->held);
	struct smd_send *send = held->send;
	uint64_t size = SMD_FRAME_SIZE + send->length;

	if (!held->part && lane->frames >= lane->config.stall_frames) {
		return false;
	}
	if (!held->part && lane->frames >= lane->config.kill_frames) {
		fault_end(lane, "the lane was cut between frames");
		return false;
	}
	if (!held->part && lane->config.drop_bytes - lane->bytes < size) {
		if (!fault_halve(lane, send)) {
			fault_end(lane, "the lane was cut");
		}
		return false;
	}
	TAILQ_REMOVE(&lane->held, held, link);
	if (!held->part) {
		lane->frames++;
		lane->bytes += size;
		lane->lane.counts.bytes_sent += size;
	}
	if (held->part || !lane->config.brief || !fault_split(lane, send)) {
		fault_give(lane, send);
	}
	free(held);
	return true;
}

static bool fault_may_leave(const struct fault_lane *lane, const struct held *held)
{
	const struct smd_fault_config *config = &lane->config;

	return held->part ||
	       (lane->frames < config->stall_frames && lane->frames < config->kill_frames &&
		       config->drop_bytes - lane->bytes >= SMD_FRAME_SIZE + held->send->length);
}

/* What was only late must have left before a close, as it would have without us. */
static void fault_flush(struct fault_lane *lane)
{
	while (!lane->cutting && !TAILQ_EMPTY(&lane->held) &&
		fault_may_leave(lane, TAILQ_FIRST(&lane->held))) {
		struct held *held = TAILQ_FIRST(&lane->held);

		TAILQ_REMOVE(&lane->held, held, link);
		lane->frames += !held->part;
		lane->bytes += held->part ? 0 : SMD_FRAME_SIZE + held->send->length;
		fault_give(lane, held->send);
		free(held);
	}
}

static void fault_pump(evutil_socket_t fd, short what, void *arg)
{
	struct fault_lane *lane = arg;
	bool more = true;

	(void)fd;
	(void)what;
	if (lane->cut && lane->inner) {
		fault_end(lane, "the lane was cut in the middle of a frame");
		return;
	}
	while (more && lane->inner && !lane->cutting && !TAILQ_EMPTY(&lane->held)) {
		uint64_t due = TAILQ_FIRST(&lane->held)->due_ns;
		uint64_t now = smd_clock_ns();

		if (due > now) {
			fault_wake(lane, due - now);
			return;
		}
		more = fault_release(lane);
	}
}

/* ---- the ops ---- */

/* When a frame of so many bytes has left, at the lane's rate, behind those before it. */
static uint64_t fault_carry(struct fault_lane *lane, uint64_t bytes, uint64_t now_ns)
{
	const struct smd_fault_config *config = &lane->config;

	if (config->rate_most_mbps == 0) {
		return now_ns;
	}
	if (now_ns >= lane->rate_until_ns) {
		lane->rate_mbps =
			config->rate_least_mbps +
			fault_draw(lane, config->rate_most_mbps - config->rate_least_mbps + 1);
		lane->rate_until_ns = now_ns + SMD_SECOND_NS;
	}
	lane->carried_ns = (lane->carried_ns > now_ns ? lane->carried_ns : now_ns) +
			   bytes * 8000 / lane->rate_mbps;
	return lane->carried_ns;
}

static void fault_send(struct smd_lane *outer, struct smd_send *send)
{
	struct fault_lane *lane = fault_of(outer);
	const struct smd_fault_config *config = &lane->config;
	uint64_t now = smd_clock_ns();
	uint64_t due;

	if (lane->harmless && lane->inner) {
		outer->counts.bytes_sent += SMD_FRAME_SIZE + send->length;
		fault_give(lane, send);
		return;
	}
	due = fault_carry(lane, SMD_FRAME_SIZE + send->length, now) +
	      config->delay_least_ms * MILLISECOND;
	due += fault_draw(lane, (config->delay_most_ms - config->delay_least_ms) * MILLISECOND + 1);
	if (due < lane->last_due_ns) {
		due = lane->last_due_ns; /* none overtakes the one before it */
	}
	lane->last_due_ns = due;
	if (fault_hold(lane, send, due, false)) {
		send->done(send, -ENOMEM);
		lane->cut = true; /* a stream that lacks a frame is none */
	}
	if (lane->cut || !evtimer_pending(lane->pump, NULL)) {
		fault_wake(lane, lane->cut ? 0 : due - now);
	}
}

static void fault_cancel(struct smd_lane *outer, const void *owner)
{
	struct fault_lane *lane = fault_of(outer);
	struct held *held = TAILQ_FIRST(&lane->held);

	if (lane->inner) {
		smd_lane_cancel(lane->inner, owner);
	}
	if (held && lane->cutting) {
		held = TAILQ_NEXT(held, link); /* that one has begun */
	}
	while (held) {
		struct held *next = TAILQ_NEXT(held, link);

		if (!held->part && held->send->owner == owner) {
			TAILQ_REMOVE(&lane->held, held, link);
			held->send->done(held->send, -ECANCELED);
			free(held);
		}
		held = next;
	}
}

static void fault_limit_unsent(struct smd_lane *outer, uint32_t bytes)
{
	if (fault_of(outer)->inner) {
		smd_lane_limit_unsent(fault_of(outer)->inner, bytes);
	}
}

static int fault_skip_zeros(struct smd_lane *outer, uint32_t largest, bool careful)
{
	return fault_of(outer)->inner
		       ? smd_lane_skip_zeros(fault_of(outer)->inner, largest, careful)
		       : 0;
}

static void fault_redirect(struct smd_lane *outer, void *payload)
{
	if (fault_of(outer)->inner) {
		smd_lane_redirect(fault_of(outer)->inner, payload);
	}
}

static void fault_free(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	free(arg);
}

static void fault_close(struct smd_lane *outer)
{
	struct fault_lane *lane = fault_of(outer);
	struct smd_lane *inner = lane->inner;
	const struct timeval now = {0, 0};

	if (inner) {
		fault_flush(lane);
		lane->inner = NULL;
		smd_lane_close(inner);
	}
	while (!TAILQ_EMPTY(&lane->held)) {
		struct held *held = TAILQ_FIRST(&lane->held);

		TAILQ_REMOVE(&lane->held, held, link);
		held->send->done(held->send, -ECANCELED);
		free(held);
	}
	if (lane->pump) {
		event_free(lane->pump);
	}
	if (!lane->base ||
		event_base_once(lane->base, -1, EV_TIMEOUT, fault_free, lane, &now) != 0) {
		free(lane);
	}
}

static const char *fault_peer_name(const struct smd_lane *outer)
{
	const struct fault_lane *lane = (const struct fault_lane *)outer;

	return lane->inner ? smd_lane_peer_name(lane->inner) : lane->peer;
}

/* ---- what the wrapped lane says ---- */

static void fault_count(struct fault_lane *lane)
{
	lane->lane.counts.bytes_received = lane->inner->counts.bytes_received;
	lane->lane.heard_ns = lane->inner->heard_ns;
	lane->lane.counts.bytes_skipped = lane->inner->counts.bytes_skipped;
}

static void fault_on_open(void *owner)
{
	struct fault_lane *lane = owner;

	lane->callbacks->on_open(lane->owner);
}

static int fault_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct fault_lane *lane = owner;

	fault_count(lane);
	return lane->callbacks->on_header(lane->owner, frame, payload, error);
}

static int fault_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct fault_lane *lane = owner;

	fault_count(lane);
	return lane->callbacks->on_frame(lane->owner, frame, payload, error);
}

static void fault_on_closed(void *owner, int err, const char *reason)
{
	struct fault_lane *lane = owner;

	fault_count(lane);
	lane->callbacks->on_closed(lane->owner, err, reason);
}

static const struct smd_lane_callbacks fault_callbacks = {
	.on_open = fault_on_open,
	.on_header = fault_on_header,
	.on_frame = fault_on_frame,
	.on_closed = fault_on_closed,
};

/* ---- making lanes ---- */

static struct fault_lane *fault_create(struct smd_error *error)
{
	struct fault_lane *lane = calloc(1, sizeof(*lane));
	const struct smd_fault_config *config;
	uint64_t number;

	if (!lane) {
		smd_error_set(error, ENOMEM, "fault: out of memory");
		return NULL;
	}
	if (smd_fault_config_now(&lane->config, &number, error)) {
		free(lane);
		return NULL;
	}
	config = &lane->config;
	lane->lane.ops = &smd_transport_fault;
	lane->random = config->seed * 0x2545f4914f6cdd1du + number;
	lane->harmless = (config->lane != SMD_FAULT_NEVER && config->lane != number) ||
			 (config->delay_most_ms == 0 && config->rate_most_mbps == 0 &&
				 !config->brief && config->drop_bytes == SMD_FAULT_NEVER &&
				 config->kill_frames == SMD_FAULT_NEVER &&
				 config->stall_frames == SMD_FAULT_NEVER);
	TAILQ_INIT(&lane->held);
	return lane;
}

static int fault_enter_loop(struct fault_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	lane->pump = evtimer_new(base, fault_pump, lane);
	if (!lane->pump) {
		return -ENOMEM;
	}
	lane->base = base;
	lane->callbacks = callbacks;
	lane->owner = owner;
	return 0;
}

static void fault_leave_loop(struct fault_lane *lane)
{
	event_free(lane->pump);
	lane->pump = NULL;
	lane->base = NULL;
}

static int fault_attach(struct smd_lane *outer, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct fault_lane *lane = fault_of(outer);
	int ret = fault_enter_loop(lane, base, callbacks, owner);

	if (ret == 0) {
		ret = smd_lane_attach(lane->inner, base, &fault_callbacks, lane);
		if (ret) {
			fault_leave_loop(lane);
		}
	}
	return ret;
}

static void fault_detach(struct smd_lane *outer)
{
	struct fault_lane *lane = fault_of(outer);

	smd_lane_detach(lane->inner);
	fault_leave_loop(lane);
}

/* The wrapped transport, which the address names, else a stream; and the address as it knows it. */
static const struct smd_transport_ops *fault_inner(const char **address)
{
	const struct smd_transport_ops *stream = NULL;

	if (strncmp(*address, "fault:", 6) == 0) {
		*address += 6;
	}
	for (size_t i = 0; smd_transports[i]; i++) {
		const struct smd_transport_ops *ops = smd_transports[i];
		size_t length = strlen(ops->name);

		if (ops->names && strncmp(*address, ops->name, length) == 0 &&
			(*address)[length] == ':') {
			return ops;
		}
		if (!stream && ops->is_stream) {
			stream = ops;
		}
	}
	return stream;
}

static int fault_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	const struct smd_transport_ops *inner = fault_inner(&address);
	struct fault_lane *lane = fault_create(error);
	int ret = -EINVAL;

	if (!lane) {
		return ret;
	}
	ret = fault_enter_loop(lane, base, callbacks, owner);
	if (ret) {
		smd_error_set(error, -ret, "%s: out of memory", address);
		goto free_lane;
	}
	ret = inner->connect(
		base, address, origin, shard, &fault_callbacks, lane, &lane->inner, error);
	if (ret) {
		goto leave_loop;
	}
	*out = &lane->lane;
	return 0;

leave_loop:
	fault_leave_loop(lane);
free_lane:
	free(lane);
	return ret;
}

struct fault_listener {
	struct smd_listener listener;
	struct smd_listener *inner;
	smd_accept *on_accept;
	void *owner;
};

static void fault_on_accept(void *owner, struct smd_lane *inner, int shard)
{
	struct fault_listener *listener = owner;
	struct fault_lane *lane = fault_create(NULL);

	if (!lane) {
		smd_lane_close(inner);
		return;
	}
	lane->inner = inner;
	listener->on_accept(listener->owner, &lane->lane, shard);
}

static int fault_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	struct fault_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	listener->listener.ops = &smd_transport_fault;
	listener->on_accept = on_accept;
	listener->owner = owner;
	ret = fault_inner(&address)->listen(
		base, address, fault_on_accept, listener, &listener->inner, bound, error);
	if (ret) {
		free(listener);
		return ret;
	}
	*out = &listener->listener;
	return 0;
}

static void fault_listener_close(struct smd_listener *outer)
{
	struct fault_listener *listener = (struct fault_listener *)outer;

	smd_listener_close(listener->inner);
	free(listener);
}

const struct smd_transport_ops smd_transport_fault = {
	.name = "fault",
	.names = true,
	.room = 64u << 10,
	.listen = fault_listen,
	.listener_close = fault_listener_close,
	.connect = fault_connect,
	.attach = fault_attach,
	.detach = fault_detach,
	.send = fault_send,
	.cancel = fault_cancel,
	.limit_unsent = fault_limit_unsent,
	.skip_zeros = fault_skip_zeros,
	.redirect = fault_redirect,
	.close = fault_close,
	.peer_name = fault_peer_name,
};
