/*
 * Makes RDMA lanes with the connection manager: one end resolves the address and the way there and
 * asks, the other is asked, is moved to the loop of the shard that is wanted, and accepts. Both
 * tell where their receive buffers are.
 *
 * Who is asked is ready before it accepts, so who has asked sends first: its trial (send.c), which
 * the other answers by its own. A lane is open for an end when the other end's trial has come.
 */
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log_limit.h"
#include "reduction_server/transport/origin.h"
#include "reduction_server/transport/rdma/card.h"
#include "reduction_server/transport/rdma/listing.h"
#include "reduction_server/transport/rdma/rdma.h"
#include "reduction_server/wire/message.h"

#define RESOLVE_MS       2000
#define REJECTED_NOBODY  8  /* the connection manager's word for: nobody listens there */
#define REJECTED_BY_END  28 /* and for: the other end says so itself */

static void lane_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event);

static void lane_greet(const struct rdma_lane *lane, uint8_t bytes[SMD_RDMA_GREETING_SIZE])
{
	const struct smd_rdma_greeting greeting = smd_rdma_lane_greeting(lane);

	smd_rdma_greeting_encode(&greeting, bytes);
}

/* ---- the end that asks ---- */

static void lane_cannot(struct rdma_lane *lane, int err, const char *what)
{
	char text[256];

	snprintf(text, sizeof(text), "cannot connect over RDMA: %s: %s", what, strerror(-err));
	/* That there is no device at all was found out before; here, none leads there. */
	smd_rdma_lane_end(lane, err == -ENODEV ? -EHOSTUNREACH : err, text);
}

static void lane_on_address(struct rdma_lane *lane)
{
	int ret;

	if (lane->state != RDMA_LANE_RESOLVING) {
		return; /* it has an address */
	}
	lane->state = RDMA_LANE_ROUTING;
	ret = smd_verbs_resolve_route(lane->id, RESOLVE_MS);
	if (ret) {
		lane_cannot(lane, ret, "no route");
	}
}

static void lane_on_route(struct rdma_lane *lane)
{
	uint8_t greeting[SMD_RDMA_GREETING_SIZE];
	struct ibv_context *context;
	struct smd_error error = {""};
	int ret;

	if (lane->state != RDMA_LANE_ROUTING) {
		return; /* it has a queue pair */
	}
	ret = smd_rdma_card_of_id(lane->loop, lane->id, &context, &error);
	if (ret == 0) {
		ret = smd_rdma_lane_make_pair(lane, context, lane->id->port_num, &error);
	}
	if (ret) {
		smd_rdma_lane_end(lane, ret, error.text);
		return;
	}
	lane->state = RDMA_LANE_CONNECTING;
	lane_greet(lane, greeting);
	ret = smd_verbs_connect(lane->id, lane->pair.qp->qp_num, greeting, sizeof(greeting),
		lane->loop->settings.patience);
	if (ret) {
		lane_cannot(lane, ret, "the request could not be sent");
	}
}

static void lane_on_response(struct rdma_lane *lane, const struct smd_verbs_event *event)
{
	struct smd_error error = {""};
	int ret;

	if (lane->state != RDMA_LANE_CONNECTING) {
		return; /* it has come before, or was not asked for */
	}
	ret = smd_rdma_greeting_decode(
		event->private_data, event->private_length, &lane->other, &error);
	if (ret == 0) {
		ret = smd_rdma_lane_join_pair(lane, &error);
	}
	if (ret) {
		smd_rdma_lane_end(lane, ret, error.text);
		return;
	}
	ret = smd_verbs_confirm(lane->id);
	if (ret) {
		lane_cannot(lane, ret, "the connection could not be confirmed");
		return;
	}
	smd_rdma_lane_try(lane); /* for which the rest of its patience is left */
}

/* What the other end's connection manager refuses by itself, it may take when it is asked again. */
static void lane_on_rejected(struct rdma_lane *lane, const struct smd_verbs_event *event)
{
	char text[SMD_ERROR_TEXT_MAX];
	bool again;

	if (event->status == REJECTED_NOBODY) {
		smd_rdma_lane_end(lane, -ECONNREFUSED, "Connection refused");
	} else if (event->status == REJECTED_BY_END &&
		   smd_rdma_rejection_decode(
			   event->private_data, event->private_length, text, &again)) {
		smd_rdma_lane_end(lane, again ? -EAGAIN : -ECONNREFUSED, text);
	} else {
		snprintf(text, sizeof(text), "the request was rejected (reason %d)", event->status);
		smd_rdma_lane_end(lane, -EAGAIN, text);
	}
}

static void lane_on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_lane *lane = arg;
	const unsigned patience_s = lane->loop->settings.connect_s;
	struct smd_error error = {""};
	int ret;

	(void)fd;
	(void)what;
	ret = lane->state == RDMA_LANE_TRYING
		      ? smd_rdma_lane_untried(lane, patience_s, &error)
		      : smd_error_set(
				&error, ETIMEDOUT, "no answer over RDMA within %u s", patience_s);
	smd_rdma_lane_end(lane, ret, error.text);
}

static void lane_on_unreachable(struct rdma_lane *lane)
{
	if (lane->state == RDMA_LANE_OPEN || smd_rdma_was_asked(lane)) {
		smd_rdma_lane_end(lane, -EHOSTUNREACH, "the other end no longer answers");
	} else {
		lane_cannot(lane, -EHOSTUNREACH, "the other end does not answer");
	}
}

/* An answer that was lost may come when it is asked for again. */
static int unreachable(const struct smd_verbs_event *event)
{
	return event->status == -ETIMEDOUT ? -ETIMEDOUT : -EHOSTUNREACH;
}

static void lane_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	static const char removed[] = "the RDMA device was removed";
	struct rdma_lane *lane =
		(struct rdma_lane *)((char *)endpoint - offsetof(struct rdma_lane, endpoint));

	if (lane->closed || lane->ended) {
		return;
	}
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		lane_on_address(lane);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		lane_on_route(lane);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		lane_on_response(lane, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		lane_cannot(lane, unreachable(event), "no RDMA device leads to the address");
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		lane_cannot(lane, unreachable(event), "no route");
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		lane_on_unreachable(lane);
		break;
	case RDMA_CM_EVENT_REJECTED:
		lane_on_rejected(lane, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		smd_rdma_lane_disconnected(
			lane, -ECONNRESET, "the other end closed the connection");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* Until each lane has heard, some could still tell the others' ends that this one's
		 * was lost, as if that had been the other end's fault. */
		if (lane->device) {
			smd_rdma_card_remove(lane->loop, lane->device->context);
		}
		smd_rdma_lane_end(lane, -ENODEV, removed);
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		smd_rdma_lane_end(lane, -ENETRESET, "the device's network address has changed");
		break;
	default: /* ESTABLISHED (who was asked hears it by the trial), TIMEWAIT_EXIT, ... */
		break;
	}
}

/* The address of a port of those that the user has named; of the server's network, if one is. */
static int lane_choose_source(struct rdma_lane *lane, const struct sockaddr *server,
	struct sockaddr_storage *out, struct smd_error *error)
{
	uint8_t address[16] = {0};
	const struct smd_rdma_wish wish = {.devices = lane->loop->settings.devices,
		.server = address,
		.turn = lane->loop->turn++};
	struct smd_verbs_port port;
	int ret;

	smd_address_bytes(server, address);
	ret = smd_rdma_listing_choose(lane->loop, &wish, &port, error);
	if (ret == 0) {
		smd_address_of_bytes(smd_rdma_port_address(&port), out);
	}
	return ret;
}

/* By the origin, which its owner has chosen; else by the devices that the user has named; else by
 * what the system chooses. */
static int lane_resolve(struct rdma_lane *lane, const struct sockaddr *server,
	const struct smd_origin *origin, struct smd_error *error)
{
	const struct sockaddr *from = origin ? (const struct sockaddr *)&origin->address : NULL;
	struct sockaddr_storage source;
	int ret = 0;

	if (!from && lane->loop->settings.devices[0]) {
		ret = lane_choose_source(lane, server, &source, error);
		from = (const struct sockaddr *)&source;
	}
	if (ret) {
		return ret;
	}
	ret = smd_verbs_id_create(lane->loop->channel, &lane->endpoint, &lane->id);
	if (ret == 0) {
		ret = smd_verbs_resolve_address(lane->id, from, server, RESOLVE_MS);
	}
	return ret ? smd_error_set(error, -ret, "%s: cannot connect over RDMA: %s", lane->peer,
			     strerror(-ret))
		   : 0;
}

static int lane_ask(struct rdma_lane *lane, const char *address, const struct smd_origin *origin,
	struct smd_error *error)
{
	const struct timeval patience = {lane->loop->settings.connect_s, 0};
	struct addrinfo *list;
	int ret = smd_rdma_loop_open_channel(lane->loop, error);

	if (ret == 0) {
		ret = smd_address_resolve(address, 0, &list, error);
	}
	if (ret) {
		return ret;
	}
	ret = lane_resolve(lane, smd_address_choose(list)->ai_addr, origin, error);
	freeaddrinfo(list);
	if (ret) {
		return ret;
	}
	lane->patience = evtimer_new(lane->loop->base, lane_on_patience, lane);
	if (!lane->patience || evtimer_add(lane->patience, &patience) != 0) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	return 0;
}

int smd_rdma_connect(struct event_base *base, const char *address, const struct smd_origin *origin,
	unsigned shard, const struct smd_lane_callbacks *callbacks, void *owner,
	struct smd_lane **out, struct smd_error *error)
{
	struct rdma_lane *lane = smd_rdma_lane_create();
	int ret;

	if (!lane) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	lane->endpoint.on_event = lane_on_event;
	lane->state = RDMA_LANE_RESOLVING;
	lane->shard = shard;
	lane->callbacks = callbacks;
	lane->owner = owner;
	snprintf(lane->peer, sizeof(lane->peer), "%s", address);
	ret = smd_rdma_loop_get(base, &lane->loop, error);
	if (ret == 0) {
		ret = lane_ask(lane, address, origin, error);
	}
	if (ret) {
		smd_lane_close(&lane->lane);
		return ret;
	}
	*out = &lane->lane;
	return 0;
}

/* ---- the end that is asked ---- */

/* Said here, and to who has asked when the lane is closed. Whoever asks again and again does not
 * fill the log. */
static void lane_tell_unaccepted(struct rdma_lane *lane, int err, const char *text)
{
	smd_log_peer(SMD_LOG_WARN, "rdma", "", "%s: %s", lane->peer, text);
	snprintf(lane->reason, sizeof(lane->reason), "%s", text);
	lane->accepting.in_vain = !smd_transport_error_passes(err);
}

/* Its queue pair is joined, and takes what comes as soon as the other end knows of it. */
static void lane_begin_accept(struct rdma_lane *lane)
{
	lane->accepting.number = lane->pair.qp->qp_num;
	lane->answers = true;
	smd_rdma_lane_try(lane);
}

/* On this thread or on the maker's. */
static int lane_accept(struct rdma_lane *lane, struct smd_error *error)
{
	uint8_t greeting[SMD_RDMA_GREETING_SIZE];
	int ret;

	lane_greet(lane, greeting);
	ret = smd_verbs_accept(lane->id, lane->accepting.number, greeting, sizeof(greeting),
		lane->loop->settings.patience);
	lane->accepting.due = ret != 0;
	return ret ? smd_error_set(error, -ret, "rdma: cannot accept: %s", strerror(-ret)) : 0;
}

static void lane_cannot_accept(struct rdma_lane *lane, int err, const char *text)
{
	lane_tell_unaccepted(lane, err, text);
	smd_rdma_lane_end(lane, err, text);
}

static struct rdma_lane *lane_of_job(struct rdma_job *job)
{
	return (struct rdma_lane *)((char *)job - offsetof(struct rdma_lane, accepting.job));
}

static void job_accept(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);

	lane->accepting.ret =
		lane->making.unwanted ? -ECANCELED : lane_accept(lane, &lane->accepting.error);
}

/* With the other end, whose own patience with its try began before. */
static unsigned lane_trial_s(const struct rdma_lane *lane)
{
	return lane->loop->settings.connect_s + RDMA_LATER_S;
}

static void job_on_accepted(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);

	lane->accepting.under_way = false;
	if (lane->closed || lane->ended) {
		return;
	}
	if (lane->accepting.ret) {
		lane_cannot_accept(lane, lane->accepting.ret, lane->accepting.error.text);
	} else if (lane->state == RDMA_LANE_TRYING) { /* else it was heard before */
		lane->lane.made = true;
		smd_rdma_lane_be_patient(lane, lane_trial_s(lane) * SMD_SECOND_NS);
	}
}

/* If it is closed meanwhile, the maker takes it back after this. */
static void lane_on_joined(struct rdma_lane *lane, int ret, const char *text)
{
	if (ret) {
		lane_cannot_accept(lane, ret, text);
		return;
	}
	lane_begin_accept(lane);
	lane->accepting.under_way = true;
	lane->accepting.job = (struct rdma_job){.what = "accept a connection",
		.run = job_accept,
		.done = job_on_accepted,
		.urgent = true}; /* as who joins */
	smd_rdma_maker_give(lane->loop->maker, &lane->accepting.job);
}

static void lane_on_made(struct rdma_lane *lane, int ret, const char *text)
{
	if (ret) {
		lane_cannot_accept(lane, ret, text);
	} else {
		smd_rdma_lane_join_pair_later(lane, lane_on_joined);
	}
}

static void lane_on_making_time(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_lane *lane = arg;
	struct smd_error error = {""};
	int ret;

	(void)fd;
	(void)what;
	ret = lane->lane.made ? smd_rdma_lane_untried(lane, lane_trial_s(lane), &error)
			      : smd_rdma_lane_check_making(lane, &error);
	if (ret) {
		lane_cannot_accept(lane, ret, error.text);
	}
}

static int lane_begin_accepting_later(
	struct rdma_lane *lane, struct ibv_context *context, struct smd_error *error)
{
	uint64_t patience_ns = lane->loop->settings.connect_s * SMD_SECOND_NS;

	lane->patience = evtimer_new(lane->loop->base, lane_on_making_time, lane);
	if (!lane->patience || smd_rdma_lane_be_patient(lane, patience_ns)) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	lane->lane.opening = true;
	return smd_rdma_lane_make_pair_later(
		lane, context, lane->id->port_num, lane_on_made, error);
}

/* The lane goes to that loop, and is made and accepts: of a shard's when its maker is through. */
static int lane_begin_accepting(
	struct rdma_lane *lane, struct event_base *base, struct smd_error *error)
{
	struct ibv_context *context;
	int ret = smd_rdma_loop_get(base, &lane->loop, error);

	if (ret == 0) {
		ret = smd_rdma_loop_open_channel(lane->loop, error);
	}
	if (ret) {
		return ret;
	}
	lane->endpoint.on_event = lane_on_event;
	ret = smd_verbs_migrate(lane->id, lane->loop->channel);
	if (ret) {
		return smd_error_set(
			error, -ret, "rdma: cannot move the connection: %s", strerror(-ret));
	}
	lane->id->context = &lane->endpoint;
	lane->later = lane->loop->serves;
	ret = smd_rdma_card_of_id(lane->loop, lane->id, &context, error);
	if (ret) {
		return ret;
	}
	if (lane->later) {
		return lane_begin_accepting_later(lane, context, error);
	}
	ret = smd_rdma_lane_make_pair(lane, context, lane->id->port_num, error);
	if (ret == 0) {
		ret = smd_rdma_lane_join_pair(lane, error);
	}
	if (ret) {
		return ret;
	}
	lane_begin_accept(lane);
	return lane_accept(lane, error);
}

int smd_rdma_attach(struct smd_lane *outer, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct rdma_lane *lane = rdma_lane_of(outer);
	struct smd_error error = {""};
	int ret = 0;

	lane->callbacks = callbacks;
	lane->owner = owner;
	if (lane->state == RDMA_LANE_REQUESTED) {
		ret = lane_begin_accepting(lane, base, &error);
	} else if (lane->loop->base != base) {
		ret = smd_error_set(&error, EINVAL, "rdma: a lane cannot change its loop");
	} else if (lane->err) {
		smd_rdma_device_wake(lane->device, &lane->pair); /* it has ended meanwhile */
	}
	if (ret) {
		lane->state = RDMA_LANE_REQUESTED; /* nothing can be said on it */
		lane_tell_unaccepted(lane, ret, error.text);
	}
	return ret;
}
