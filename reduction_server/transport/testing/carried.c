/* Lanes that are made over TCP lanes, and go on over them. */
#include "reduction_server/transport/testing/carried.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/transports.h"
#include "reduction_server/wire/message.h"

static const char word[] = "carried";

struct carried_lane {
	struct smd_lane lane;
	struct smd_lane *carrier; /* NULL: not joined */
	struct event_base *base;
	struct event *soon; /* offers, opens, or times out */
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	bool offers; /* and has not yet */
	bool answers;
	bool times_out;
	bool counted;
	uint8_t lost[SMD_CONTROL_MAX];
	char peer[128];
};

struct smd_carried_trials smd_carried_trials;

static struct carried_lane *carried_of(struct smd_lane *lane)
{
	return (struct carried_lane *)lane;
}

/* One of those that are to fail. */
static bool take_one(atomic_uint *left)
{
	unsigned n = atomic_load(left);

	while (n && !atomic_compare_exchange_weak(left, &n, n - 1)) {
	}
	return n > 0;
}

static void carried_count(struct carried_lane *lane)
{
	unsigned n = atomic_fetch_add(&smd_carried_trials.answering, 1) + 1;
	unsigned most = atomic_load(&smd_carried_trials.most);

	lane->counted = true;
	while (n > most && !atomic_compare_exchange_weak(&smd_carried_trials.most, &most, n)) {
	}
}

static void carried_uncount(struct carried_lane *lane)
{
	if (lane->counted) {
		lane->counted = false;
		atomic_fetch_sub(&smd_carried_trials.answering, 1);
	}
}

/* ---- what comes over the carrier ---- */

static int carrier_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct carried_lane *lane = owner;

	if (lane->times_out) { /* nothing comes of what the other end says */
		*payload = lane->lost;
		return 0;
	}
	return lane->callbacks->on_header(lane->owner, frame, payload, error);
}

static int carrier_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct carried_lane *lane = owner;

	return lane->times_out ? 0 : lane->callbacks->on_frame(lane->owner, frame, payload, error);
}

static void carrier_on_closed(void *owner, int err, const char *reason)
{
	struct carried_lane *lane = owner;

	lane->callbacks->on_closed(lane->owner, err, reason);
}

static const struct smd_lane_callbacks carrier_callbacks = {
	.on_header = carrier_on_header,
	.on_frame = carrier_on_frame,
	.on_closed = carrier_on_closed,
};

/* ---- making ---- */

static const char *carried_carrier(void)
{
	return atomic_load(&smd_carried_trials.itself) ? NULL : "tcp";
}

static int carried_check(const char *address, struct smd_error *error)
{
	(void)address;
	(void)error;
	return 0;
}

static struct smd_offer carried_own(void)
{
	struct smd_offer own = {.length = sizeof(word)};

	memcpy(own.bytes, word, sizeof(word));
	return own;
}

static void carried_on_soon(evutil_socket_t fd, short what, void *arg)
{
	struct carried_lane *lane = arg;

	(void)fd;
	(void)what;
	if (lane->offers) {
		const struct smd_offer own = carried_own();

		lane->offers = false;
		if (take_one(&smd_carried_trials.refuse_later)) {
			lane->callbacks->on_closed(
				lane->owner, -ENOSPC, "it is to be refused later");
		} else if (take_one(&smd_carried_trials.late)) {
			lane->callbacks->on_closed(lane->owner, -ETIMEDOUT, "it is to be late");
		} else {
			lane->callbacks->on_offered(lane->owner, &own);
		}
	} else if (lane->times_out) {
		lane->callbacks->on_closed(lane->owner, -ETIMEDOUT, "it is to time out");
	} else {
		carried_uncount(lane);
		lane->callbacks->on_open(lane->owner);
	}
}

static struct carried_lane *carried_create(
	struct event_base *base, const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct carried_lane *lane = calloc(1, sizeof(*lane));

	if (!lane) {
		return NULL;
	}
	lane->lane.ops = &smd_transport_carried;
	lane->base = base;
	lane->callbacks = callbacks;
	lane->owner = owner;
	lane->soon = evtimer_new(base, carried_on_soon, lane);
	if (!lane->soon) {
		free(lane);
		return NULL;
	}
	return lane;
}

static int carried_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error)
{
	struct carried_lane *lane;

	(void)shard;
	(void)kinds;
	if (take_one(&smd_carried_trials.refuse)) {
		return smd_error_set(error, ENOSPC, "it is to be refused");
	}
	if (other && take_one(&smd_carried_trials.no_path)) {
		return smd_error_set(error, ETIMEDOUT, "there is to be no path");
	}
	lane = carried_create(base, callbacks, owner);
	if (!lane) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	lane->answers = other != NULL;
	snprintf(lane->peer, sizeof(lane->peer), "%s", smd_lane_peer_name(carrier));
	lane->offers = callbacks->on_offered != NULL;
	if (lane->offers) {
		event_active(lane->soon, EV_TIMEOUT, 1);
	} else {
		*own = carried_own();
	}
	if (lane->answers) {
		carried_count(lane);
	}
	*out = &lane->lane;
	return 0;
}

/* It opens, or times out. */
static void carried_go_on(struct carried_lane *lane)
{
	const unsigned ms = lane->times_out ? smd_carried_trials.time_out_ms : 0;
	const struct timeval later = {ms / 1000, ms % 1000 * 1000};

	if (ms) {
		evtimer_add(lane->soon, &later);
	} else {
		event_active(lane->soon, EV_TIMEOUT, 1);
	}
}

/* An end that is to time out has joined, and the other waits for what it says. */
static int carried_join(struct smd_lane *outer, struct smd_lane *carrier,
	const struct smd_offer *other, struct smd_error *error)
{
	struct carried_lane *lane = carried_of(outer);

	if (other->length != sizeof(word) || memcmp(other->bytes, word, sizeof(word)) != 0) {
		return smd_error_set(error, EPROTO, "the offer must be \"%s\"", word);
	}
	lane->times_out = lane->answers && !take_one(&smd_carried_trials.open) &&
			  take_one(&smd_carried_trials.time_out);
	lane->carrier = carrier;
	carrier->ops->set_owner(carrier, &carrier_callbacks, lane);
	carried_go_on(lane);
	return 0;
}

/* ---- connecting by itself ---- */

static void carrier_on_open(void *owner)
{
	struct carried_lane *lane = owner;

	if (!take_one(&smd_carried_trials.silent)) {
		carried_go_on(lane);
	}
}

static const struct smd_lane_callbacks itself_callbacks = {
	.on_open = carrier_on_open,
	.on_header = carrier_on_header,
	.on_frame = carrier_on_frame,
	.on_closed = carrier_on_closed,
};

static int carried_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	struct carried_lane *lane;
	int ret;

	if (!atomic_load(&smd_carried_trials.itself)) {
		return smd_carried_connect(
			base, address, origin, shard, callbacks, owner, out, error);
	}
	lane = carried_create(base, callbacks, owner);
	if (!lane) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = smd_transport_find("tcp")->connect(
		base, address, origin, shard, &itself_callbacks, lane, &lane->carrier, error);
	if (ret) {
		event_free(lane->soon);
		free(lane);
		return ret;
	}
	snprintf(lane->peer, sizeof(lane->peer), "%s", address);
	carried_count(lane);
	lane->times_out =
		!take_one(&smd_carried_trials.open) && take_one(&smd_carried_trials.time_out);
	*out = &lane->lane;
	return 0;
}

static int carried_attach(struct smd_lane *outer, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct carried_lane *lane = carried_of(outer);

	lane->callbacks = callbacks;
	lane->owner = owner;
	return lane->base == base ? 0 : -EINVAL;
}

/* ---- going on over the carrier ---- */

static void carried_send(struct smd_lane *outer, struct smd_send *send)
{
	struct smd_lane *carrier = carried_of(outer)->carrier;

	carrier->ops->send(carrier, send);
}

static void carried_cancel(struct smd_lane *outer, const void *owner)
{
	smd_lane_cancel(carried_of(outer)->carrier, owner);
}

static void carried_redirect(struct smd_lane *outer, void *payload)
{
	smd_lane_redirect(carried_of(outer)->carrier, payload);
}

static void carried_free(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	free(arg);
}

static void carried_close(struct smd_lane *outer)
{
	const struct timeval now = {0, 0};
	struct carried_lane *lane = carried_of(outer);

	event_free(lane->soon);
	carried_uncount(lane);
	if (lane->carrier) {
		lane->carrier->parts = outer->parts;
		smd_lane_close(lane->carrier);
	}
	if (event_base_once(lane->base, -1, EV_TIMEOUT, carried_free, lane, &now) != 0) {
		free(lane);
	}
}

static const char *carried_peer_name(const struct smd_lane *outer)
{
	return ((const struct carried_lane *)outer)->peer;
}

const struct smd_transport_ops smd_transport_carried = {
	.name = "carried",
	.is_stream = true,
	.room = 64u << 10,
	.hello_flag = SMD_HELLO_PAIR,
	.carrier = carried_carrier,
	.check = carried_check,
	.offer = carried_offer,
	.join = carried_join,
	.listen = smd_carried_listen,
	.times_out = true,
	.connect = carried_connect,
	.attach = carried_attach,
	.send = carried_send,
	.cancel = carried_cancel,
	.redirect = carried_redirect,
	.close = carried_close,
	.peer_name = carried_peer_name,
};
