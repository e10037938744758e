/*
 * Listens for senders, and makes receivers of them.
 *
 * Each lane that comes is a connection of its own until it has said in GREET which one it is of:
 * then it joins the lanes that have come before, or waits for the others. What does not know the
 * handle's nonce, or says nothing in time, is dropped. A lane that is to carry another (pair.h) is
 * answered by half of that one, which takes its place when it opens. There is no limit to how long
 * nobody comes: the other end's process may be busy with something else, and NCCL knows when to
 * stop asking.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/loop.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/result.h"
#include "worker/nccl_plugin/net/comm.h"
#include "worker/nccl_plugin/net/options.h"
#include "worker/nccl_plugin/net/pair.h"
#include "worker/nccl_plugin/net/receive.h"

/* More than these push out the oldest that have not said GREET. */
#define ARRIVALS_MAX 256

struct smd_net_arrival {
	struct smd_net_listen *listen;
	struct smd_net_comm *comm;
	struct smd_lane *made;         /* over its lane, and not open yet; NULL: none is */
	struct smd_net_key connection; /* once GREET has come */
	uint64_t since_ns;
	TAILQ_ENTRY(smd_net_arrival) link;
};

struct smd_net_listen {
	struct event_base *base;
	struct smd_net_options options;
	struct smd_lane_keys keys; /* the one of the options */
	struct smd_listener *listeners[SMD_TRANSPORTS_MAX];
	unsigned nlisteners;
	uint16_t ports[SMD_TRANSPORT_PORTS]; /* of these, by port_slot */
	struct smd_net_handle handle;
	char address[SMD_ADDRESS_TEXT_MAX];
	unsigned narrivals;
	TAILQ_HEAD(, smd_net_arrival) arrivals;
};

static const struct smd_lane_callbacks receiver_callbacks;

/* ---- arrivals ---- */

static void arrival_end(struct smd_net_arrival *arrival)
{
	TAILQ_REMOVE(&arrival->listen->arrivals, arrival, link);
	arrival->listen->narrivals--;
	if (arrival->made) {
		smd_lane_close(arrival->made);
	}
	smd_net_comm_destroy(arrival->comm);
	free(arrival);
}

static void listen_make_room(struct smd_net_listen *listen)
{
	struct smd_net_arrival *arrival;

	TAILQ_FOREACH (arrival, &listen->arrivals, link) {
		if (listen->narrivals >= ARRIVALS_MAX && !arrival->comm->nlanes) {
			arrival_end(arrival);
			return;
		}
	}
}

static void listen_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct smd_net_listen *listen = owner;
	struct smd_net_arrival *arrival = calloc(1, sizeof(*arrival));

	(void)shard;
	listen_make_room(listen);
	if (arrival) {
		arrival->comm = smd_net_comm_create(NULL);
	}
	if (!arrival || !arrival->comm ||
		smd_lane_attach(
			lane, arrival->comm->base, &receiver_callbacks, &arrival->comm->lanes[0])) {
		smd_nccl_log_info(NCCL_SUB_NET, "net: %s: cannot take a connection of %s",
			listen->address, smd_lane_peer_name(lane));
		smd_lane_close(lane);
		if (arrival && arrival->comm) {
			smd_net_comm_destroy(arrival->comm);
		}
		free(arrival);
		return;
	}
	arrival->listen = listen;
	arrival->since_ns = smd_clock_ns();
	arrival->comm->arrival = arrival;
	arrival->comm->lanes[0].lane = lane;
	smd_lane_keepalive_only(lane, SMD_LANE_SILENT_MS);
	snprintf(arrival->comm->peer, sizeof(arrival->comm->peer), "%s", smd_lane_peer_name(lane));
	TAILQ_INSERT_TAIL(&listen->arrivals, arrival, link);
	listen->narrivals++;
}

/* The connection that the lane is of: one that waits for it, or this lane's own. */
static struct smd_net_arrival *find_home(
	struct smd_net_arrival *arrival, const struct smd_net_greet *greet)
{
	struct smd_net_arrival *home;

	TAILQ_FOREACH (home, &arrival->listen->arrivals, link) {
		if (home->comm->nlanes && !home->comm->result &&
			memcmp(&home->connection, &greet->connection, sizeof(greet->connection)) ==
				0) {
			return home;
		}
	}
	arrival->comm->nlanes = greet->lanes;
	arrival->connection = greet->connection;
	snprintf(arrival->comm->name, sizeof(arrival->comm->name), "%s", greet->name);
	return arrival;
}

static int greet_check(const struct smd_net_arrival *arrival, const struct smd_lane *lane,
	bool carries, const struct smd_net_greet *greet, struct smd_error *error)
{
	const struct smd_net_handle *handle = &arrival->listen->handle;
	unsigned lanes = smd_lane_can_advertise(lane) || carries ? 1 : handle->lanes;

	if (carries && !smd_net_carried_by(&arrival->listen->options, lane->ops)) {
		return smd_error_set(
			error, EPROTO, "GREET: no lanes are made over %s here", lane->ops->name);
	}
	if (!carries && handle->ports[lane->ops->port_slot] == 0) {
		return smd_error_set(error, EPROTO, "GREET: a lane over %s must carry another here",
			lane->ops->name);
	}
	if (memcmp(&greet->nonce, &handle->nonce, sizeof(handle->nonce)) != 0) {
		return smd_error_set(error, EPROTO, "GREET: the nonce must be the handle's");
	}
	if (greet->lanes != lanes) {
		return smd_error_set(error, EPROTO, "GREET: there must be %u lanes, got %u", lanes,
			greet->lanes);
	}
	return 0;
}

/* Puts the lane where its number says. 0, SMD_LANE_DETACHED, -errno. */
static int lane_go_home(struct smd_net_lane *lane, struct smd_net_arrival *home, unsigned index,
	struct smd_error *error)
{
	struct smd_net_lane *place = &home->comm->lanes[index];
	struct smd_lane *moving = lane->lane;

	if (place == lane) {
		return 0;
	}
	if (place->lane || home->made) {
		return smd_error_set(error, EPROTO, "GREET: lane %u is there already", index);
	}
	smd_lane_detach(moving);
	lane->lane = NULL;
	if (smd_lane_attach(moving, home->comm->base, &receiver_callbacks, place)) {
		smd_lane_close(moving);
		smd_net_comm_fail(home->comm, NCCL_SYSTEM_ERROR, "out of memory");
		return SMD_LANE_DETACHED;
	}
	place->lane = moving;
	return SMD_LANE_DETACHED;
}

static int accept_connection(struct smd_net_comm *comm, struct smd_error *error)
{
	struct smd_frame frame = {.kind = SMD_FRAME_ACCEPT};
	uint8_t payload[SMD_CONTROL_MAX];
	char name[SMD_NET_NAME_MAX];
	size_t length;

	smd_net_own_name(name);
	length = smd_net_accept_encode(name, payload);
	comm->greeted = true;
	return smd_lane_send_control(comm->lanes[0].lane, &frame, payload, length)
		       ? smd_error_set(error, ENOMEM, "out of memory")
		       : 0;
}

/* ---- lanes that are made over others ---- */

static void made_on_open(void *owner)
{
	struct smd_net_arrival *arrival = owner;
	struct smd_net_comm *comm = arrival->comm;
	struct smd_error error = {""};

	comm->lanes[0].lane = arrival->made;
	arrival->made = NULL;
	(void)smd_lane_attach(
		comm->lanes[0].lane, comm->base, &receiver_callbacks, &comm->lanes[0]);
	comm->lanes_there = 1;
	if (accept_connection(comm, &error)) {
		smd_net_comm_fail(comm, NCCL_SYSTEM_ERROR, "%s", error.text);
	}
}

static int made_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	(void)owner;
	(void)payload;
	return smd_error_set(
		error, EPROTO, "%s: must come after ACCEPT", smd_frame_kind_name(frame->kind));
}

static void made_on_closed(void *owner, int err, const char *reason)
{
	struct smd_net_arrival *arrival = owner;

	smd_lane_close(arrival->made);
	arrival->made = NULL;
	smd_net_comm_lost(arrival->comm, err, reason);
}

static const struct smd_lane_callbacks made_callbacks = {
	.on_open = made_on_open,
	.on_header = made_on_header,
	.on_closed = made_on_closed,
	.trusting = true,
};

/* ---- GREET ---- */

static int lane_on_greet(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_net_arrival *arrival = lane->comm->arrival;
	bool carries = frame->window == SMD_NET_GREET_CARRIES;
	struct smd_net_arrival *home;
	struct smd_net_greet greet;
	int ret = smd_net_greet_decode(lane->control, frame->length, &greet, error);
	int went;

	if (ret == 0) {
		ret = greet_check(arrival, lane->lane, carries, &greet, error);
	}
	if (ret) {
		return ret;
	}
	home = find_home(arrival, &greet);
	if (carries && home == arrival) {
		return smd_net_pair_offer(lane,
			smd_net_carried_by(&arrival->listen->options, lane->lane->ops),
			&made_callbacks, arrival, &arrival->made, error);
	}
	went = lane_go_home(lane, home, greet.lane, error);
	if (went < 0) {
		return went;
	}
	if (!home->comm->result && ++home->comm->lanes_there == home->comm->nlanes) {
		ret = accept_connection(home->comm, error);
	}
	if (ret && went == SMD_LANE_DETACHED) {
		smd_net_comm_fail(home->comm, NCCL_SYSTEM_ERROR, "out of memory");
		ret = 0;
	}
	return ret ? ret : went;
}

/* ---- a receiver's lanes ---- */

static int receiver_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_net_lane *lane = owner;

	if (lane->comm->greeted) {
		return smd_net_receiver_on_header(lane, frame, payload, error);
	}
	*payload = lane->control;
	if (frame->kind == SMD_FRAME_PAIR && lane->comm->arrival->made) {
		return 0;
	}
	if (frame->kind != SMD_FRAME_GREET || lane->comm->nlanes || lane->lane->direct) {
		return smd_error_set(error, EPROTO, "%s: GREET must come first, and once",
			smd_frame_kind_name(frame->kind));
	}
	return 0;
}

static int receiver_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_net_lane *lane = owner;

	(void)payload;
	if (lane->comm->greeted) {
		return smd_net_receiver_on_frame(lane, frame, error);
	}
	return frame->kind == SMD_FRAME_PAIR
		       ? smd_net_pair_join(lane, lane->comm->arrival->made, frame, error)
		       : lane_on_greet(lane, frame, error);
}

static void receiver_on_closed(void *owner, int err, const char *reason)
{
	smd_net_comm_receiver_lane_ended(owner, err, reason);
}

static const struct smd_lane_callbacks receiver_callbacks = {
	.on_header = receiver_on_header,
	.on_frame = receiver_on_frame,
	.on_closed = receiver_on_closed,
	.trusting = true,
};

/* ---- listening ---- */

static void listen_free(struct smd_net_listen *listen)
{
	while (!TAILQ_EMPTY(&listen->arrivals)) {
		arrival_end(TAILQ_FIRST(&listen->arrivals));
	}
	while (listen->nlisteners) {
		smd_listener_close(listen->listeners[--listen->nlisteners]);
	}
	if (listen->base) {
		event_base_loop(listen->base, EVLOOP_NONBLOCK);
		smd_loop_free(listen->base);
	}
	free(listen);
}

/* All of a job's processes have one key. */
static bool listen_find_key(
	const void *owner, const char *identity, uint8_t secret[SMD_LANE_SECRET_SIZE])
{
	const struct smd_net_listen *listen = owner;

	memcpy(secret, listen->options.key.secret, SMD_LANE_SECRET_SIZE);
	return strcmp(identity, listen->options.key.identity) == 0;
}

/* Lanes of one transport come from now on, if they did not yet. */
static int listen_over(struct smd_net_listen *listen, const struct smd_transport_ops *transport,
	const char *address, struct smd_error *error)
{
	struct smd_listener **listener = &listen->listeners[listen->nlisteners];
	char bound[128];
	int ret;

	if (listen->ports[transport->port_slot]) {
		return 0;
	}
	ret = transport->listen(
		listen->base, address, listen_on_accept, listen, listener, bound, error);
	if (ret == 0 && listen->options.encrypt) {
		listen->keys = (struct smd_lane_keys){.find = listen_find_key, .owner = listen};
		ret = smd_listener_encrypt(*listener, &listen->keys, error);
		if (ret) {
			smd_listener_close(*listener);
		}
	}
	if (ret == 0) {
		listen->nlisteners++;
		listen->ports[transport->port_slot] = (uint16_t)atoi(strrchr(bound, ':') + 1);
		snprintf(listen->address, sizeof(listen->address), "%s", bound);
	}
	return ret;
}

/* That a transport's lanes may be made; *port is where its senders connect to. */
static int listen_for(struct smd_net_listen *listen, const struct smd_transport_ops *transport,
	const char *address, uint16_t *port, struct smd_error *error)
{
	const struct smd_transport_ops *over = smd_net_connects_over(&listen->options, transport);
	int ret = over != transport ? transport->check(address, error) : 0;

	if (ret == 0) {
		ret = listen_over(listen, over, address, error);
	}
	if (ret == 0) {
		*port = listen->ports[over->port_slot];
	}
	return ret;
}

/* Over all transports; one that is not to be had is left out if there is another. */
static int listen_open(struct smd_net_listen *listen, const struct smd_nccl_device *device,
	struct smd_error *error)
{
	struct smd_net_handle *handle = &listen->handle;
	char address[128];
	unsigned open = 0;
	int ret = 0;

	smd_net_address(&device->address, device, 0, address);
	for (unsigned i = 0; i < listen->options.ntransports; i++) {
		const struct smd_transport_ops *transport = listen->options.transports[i];
		struct smd_error reason = {""};

		ret = listen_for(
			listen, transport, address, &handle->ports[transport->port_slot], &reason);
		open += ret == 0;
		if (ret) {
			smd_error_set(error, -ret, "%s", reason.text);
			smd_nccl_log_info(NCCL_SUB_NET, "net: %s", reason.text);
		}
	}
	handle->lanes = listen->options.sockets;
	handle->address = device->address;
	return open ? 0 : ret;
}

static int listen_create(
	const struct smd_nccl_device *device, struct smd_net_listen **out, struct smd_error *error)
{
	struct smd_net_listen *listen = calloc(1, sizeof(*listen));
	int ret;

	if (!listen) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	TAILQ_INIT(&listen->arrivals);
	ret = smd_net_options_read(device, &listen->options, error);
	if (ret == 0 && smd_net_random(&listen->handle.nonce)) {
		ret = smd_error_set(error, EIO, "cannot get random numbers: %m");
	}
	if (ret == 0) {
		listen->base = smd_loop_create();
		ret = listen->base ? listen_open(listen, device, error)
				   : smd_error_set(error, ENOMEM, "cannot make an event loop: %m");
	}
	if (ret) {
		listen_free(listen);
		return ret;
	}
	*out = listen;
	return 0;
}

int smd_net_listen(int dev, void *handle, void **listen_comm)
{
	const struct smd_nccl_device *device = smd_nccl_device(dev);
	struct smd_net_listen *listen = NULL;
	struct smd_error error = {""};
	int ret;

	if (smd_nccl_lacks_any("listen", "handle", handle, "result", listen_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*listen_comm = NULL;
	if (!device) {
		smd_nccl_log_warn(
			"net: device must be 0 to %d, got %d", smd_nccl_devices() - 1, dev);
		return NCCL_INVALID_ARGUMENT;
	}
	ret = listen_create(device, &listen, &error);
	if (ret) {
		smd_nccl_log_warn("net: cannot listen on %s: %s", device->name, error.text);
		return smd_nccl_result(ret);
	}
	memset(handle, 0, NCCL_HANDLE_BYTES);
	smd_net_handle_encode(&listen->handle, handle);
	*listen_comm = listen;
	return NCCL_SUCCESS;
}

/* Turns what is arriving; the first connection that is complete, or NULL. */
static struct smd_net_comm *listen_progress(struct smd_net_listen *listen)
{
	struct smd_net_arrival *arrival, *next;
	uint64_t now;

	event_base_loop(listen->base, EVLOOP_NONBLOCK);
	TAILQ_FOREACH (arrival, &listen->arrivals, link) {
		event_base_loop(arrival->comm->base, EVLOOP_NONBLOCK);
	}
	now = smd_clock_ns();
	for (arrival = TAILQ_FIRST(&listen->arrivals); arrival; arrival = next) {
		struct smd_net_comm *comm = arrival->comm;

		next = TAILQ_NEXT(arrival, link);
		if (comm->greeted && !comm->result) {
			comm->arrival = NULL;
			arrival->comm = NULL;
			TAILQ_REMOVE(&listen->arrivals, arrival, link);
			listen->narrivals--;
			free(arrival);
			return comm;
		}
		if (comm->result) {
			smd_nccl_log_info(NCCL_SUB_NET, "net: %s: dropped a connection: %s",
				listen->address, comm->text);
			arrival_end(arrival);
		} else if (!comm->nlanes && !comm->lanes[0].lane) {
			arrival_end(arrival); /* its lane has gone home */
		} else if (!comm->nlanes && now - arrival->since_ns > listen->options.timeout_ns) {
			smd_nccl_log_info(NCCL_SUB_NET,
				"net: %s: dropped a connection: %s does not say GREET",
				listen->address, comm->peer);
			arrival_end(arrival);
		}
	}
	return NULL;
}

int smd_net_accept(void *listen_comm, void **recv_comm)
{
	struct smd_net_comm *comm;

	if (smd_nccl_lacks_any("accept", "listening comm", listen_comm, "result", recv_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	comm = listen_progress(listen_comm);
	*recv_comm = comm;
	if (comm) {
		smd_net_comm_ready(comm);
	}
	return NCCL_SUCCESS;
}

int smd_net_close_listen(void *listen_comm)
{
	if (smd_nccl_lacks("closeListen", "listening comm", listen_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	listen_free(listen_comm);
	return NCCL_SUCCESS;
}
