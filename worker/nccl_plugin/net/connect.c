/*
 * Connects to a listener, and makes a sender of it: over the first transport that leads there.
 *
 * connect() is called again and again, with the same handle; in between, the bytes of the handle
 * that listen() leaves free have the attempt's number. NCCL does not say when it stops asking, as
 * it does when it aborts: what has not been asked for long is forgotten when another attempt
 * begins, or with the last context. Whoever cannot be reached gets some time to become reachable;
 * once the other end's kernel has taken the connection, its process may take as long as it likes to
 * call accept().
 */
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "reduction_server/base/clock.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/result.h"
#include "worker/nccl_plugin/net/comm.h"
#include "worker/nccl_plugin/net/fabrics.h"
#include "worker/nccl_plugin/net/options.h"
#include "worker/nccl_plugin/net/pair.h"
#include "worker/nccl_plugin/net/send.h"

#define REST_NS   50000000u /* between two tries */
#define ABANDONED 10        /* timeouts without a call: other calls may take some of the thread */

struct smd_net_attempt {
	LIST_ENTRY(smd_net_attempt) link;
	uint64_t number;
	bool asked;        /* connect() is about it just now */
	uint64_t asked_ns; /* else: when it was, the last time */
	struct smd_net_comm *comm;
	struct smd_net_options options;
	struct smd_net_handle handle;
	const struct smd_nccl_device *device;
	struct smd_net_key connection;
	char name[SMD_NET_NAME_MAX];
	unsigned transport; /* that is tried */
	uint64_t begun_ns;  /* with that one */
	uint64_t tried_ns;  /* the last time */
	bool reached;       /* the other end has taken a lane, that time */
	bool paired;        /* and has offered another over it */
	bool repeated;      /* which was tried once more */
	int err;            /* why it does not lead there; 0: it may yet */
	char reason[SMD_ERROR_TEXT_MAX];
};

LIST_HEAD(attempts, smd_net_attempt);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and who is asked */
static struct attempts attempts = LIST_HEAD_INITIALIZER(attempts);
static uint64_t last_number; /* 0 is none */

static const struct smd_transport_ops *attempt_transport(const struct smd_net_attempt *attempt)
{
	return attempt->options.transports[attempt->transport];
}

/* What is connected for it. */
static const struct smd_transport_ops *attempt_over(const struct smd_net_attempt *attempt)
{
	return smd_net_connects_over(&attempt->options, attempt_transport(attempt));
}

/* Whether the lane is to carry one of the transport that is tried. */
static bool attempt_pairs(const struct smd_net_attempt *attempt, const struct smd_lane *lane)
{
	return lane->ops != attempt_transport(attempt);
}

/* ---- a sender's lanes ---- */

static void sender_on_open(void *owner)
{
	struct smd_net_lane *lane = owner;
	struct smd_net_attempt *attempt = lane->comm->attempt;
	struct smd_frame frame = {.kind = SMD_FRAME_GREET,
		.window = attempt_pairs(attempt, lane->lane) ? SMD_NET_GREET_CARRIES
							     : SMD_NET_GREET_LANE};
	struct smd_net_greet greet = {
		.nonce = attempt->handle.nonce,
		.connection = attempt->connection,
		.lane = lane->index,
		.lanes = lane->comm->nlanes,
	};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	if (attempt->paired) {
		return; /* it has said so on the one that carries this */
	}
	attempt->reached = true;
	snprintf(greet.name, sizeof(greet.name), "%s", attempt->name);
	length = smd_net_greet_encode(&greet, payload);
	/* Without memory for it the connection is not made, in time. */
	(void)smd_lane_send_control(lane->lane, &frame, payload, length);
}

static int sender_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_net_lane *lane = owner;
	enum smd_frame_kind wanted = SMD_FRAME_ACCEPT;

	*payload = lane->control;
	if (lane->lane->direct) {
		return smd_error_set(error, EPROTO, "%s: must not be written to a buffer",
			smd_frame_kind_name(frame->kind));
	}
	if (lane->comm->greeted) {
		return smd_net_sender_on_header(lane, frame, error);
	}
	if (attempt_pairs(lane->comm->attempt, lane->lane)) {
		wanted = SMD_FRAME_PAIR;
	}
	if (frame->kind != wanted || lane->index != 0) {
		return smd_error_set(error, EPROTO, "%s: %s must come first",
			smd_frame_kind_name(frame->kind), smd_frame_kind_name(wanted));
	}
	return 0;
}

static const struct smd_lane_callbacks sender_callbacks;

static int sender_on_pair(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_net_attempt *attempt = lane->comm->attempt;
	int ret = smd_net_pair_answer(
		lane, attempt_transport(attempt), frame, &sender_callbacks, error);

	attempt->paired = ret == 0 || ret == -ETIMEDOUT; /* both halves are there */
	return ret;
}

static int sender_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_net_lane *lane = owner;
	int ret;

	(void)payload;
	if (lane->comm->greeted) {
		return smd_net_sender_on_frame(lane, frame, error);
	}
	if (frame->kind == SMD_FRAME_PAIR) {
		return sender_on_pair(lane, frame, error);
	}
	ret = smd_net_accept_decode(lane->control, frame->length, lane->comm->name, error);
	lane->comm->greeted = ret == 0;
	return ret;
}

static void attempt_failed(struct smd_net_attempt *attempt, int err, const char *reason)
{
	if (!attempt->err) {
		attempt->err = err;
		snprintf(attempt->reason, sizeof(attempt->reason), "%s", reason);
	}
}

static void sender_on_closed(void *owner, int err, const char *reason)
{
	struct smd_net_lane *lane = owner;

	if (lane->comm->greeted) { /* it was made; who uses it hears of its end */
		smd_net_comm_lost(lane->comm, err, reason);
		return;
	}
	smd_lane_close(lane->lane);
	lane->lane = NULL;
	attempt_failed(lane->comm->attempt, err, reason);
}

static const struct smd_lane_callbacks sender_callbacks = {
	.on_open = sender_on_open,
	.on_header = sender_on_header,
	.on_frame = sender_on_frame,
	.on_closed = sender_on_closed,
	.trusting = true,
};

/* ---- attempts ---- */

static bool attempt_is_last(const struct smd_net_attempt *attempt)
{
	return attempt->transport + 1 == attempt->options.ntransports;
}

static bool attempt_is_late(const struct smd_net_attempt *attempt, uint64_t share)
{
	return smd_clock_ns() - attempt->begun_ns > attempt->options.timeout_ns / share;
}

/* By what other connections to that host have found out. */
static bool attempt_is_in_vain(const struct smd_net_attempt *attempt)
{
	return smd_net_fabric_is_silent(
		attempt->device, attempt_transport(attempt), &attempt->handle.address);
}

static void attempt_try(struct smd_net_attempt *attempt)
{
	const struct smd_transport_ops *ops = attempt_transport(attempt);
	const struct smd_transport_ops *over = attempt_over(attempt);
	uint16_t port = attempt->handle.ports[ops->port_slot];
	struct smd_net_comm *comm = attempt->comm;
	struct smd_origin origin = smd_nccl_device_origin(attempt->device);
	struct smd_error error = {""};
	bool bound;
	int ret;

	attempt->err = 0;
	attempt->reached = false;
	attempt->paired = false;
	attempt->tried_ns = smd_clock_ns();
	comm->nlanes = smd_transport_can_advertise(ops) || over != ops ? 1 : attempt->handle.lanes;
	smd_net_address(&attempt->handle.address, attempt->device, port, comm->peer);
	bound = smd_origin_reaches(&origin, comm->peer);
	ret = over != ops ? ops->check(comm->peer, &error) : 0;
	if (port == 0) {
		attempt_failed(attempt, -EPROTO, "it does not listen over this transport");
	} else if (ret) {
		attempt_failed(attempt, ret, error.text);
	} else if (smd_net_random(&attempt->connection)) { /* not that of the lanes before */
		attempt_failed(attempt, -EIO, "cannot get random numbers");
	}
	for (unsigned i = 0; i < comm->nlanes && !attempt->err; i++) {
		ret = over->connect(comm->base, comm->peer, bound ? &origin : NULL, 0,
			&sender_callbacks, &comm->lanes[i], &comm->lanes[i].lane, &error);

		if (ret == 0 && attempt->options.encrypt) {
			ret = smd_lane_encrypt(comm->lanes[i].lane, &attempt->options.key, &error);
			if (ret) {
				smd_lane_close(comm->lanes[i].lane);
			}
		}
		if (ret) {
			comm->lanes[i].lane = NULL;
			attempt_failed(attempt, ret, error.text);
		} else {
			smd_lane_keepalive_only(comm->lanes[i].lane, SMD_LANE_SILENT_MS);
		}
	}
}

/* Over the first from that one on that is not known to be silent, or the last. */
static void attempt_start(struct smd_net_attempt *attempt, unsigned transport)
{
	attempt->transport = transport;
	while (!attempt_is_last(attempt) && attempt_is_in_vain(attempt)) {
		attempt->transport++;
	}
	attempt->repeated = false;
	attempt->begun_ns = smd_clock_ns();
	attempt_try(attempt);
}

/* Whether the same transport may lead there yet, after what has happened. */
static bool attempt_has_hope(const struct smd_net_attempt *attempt)
{
	if (attempt->reached) {
		return false; /* it was the other end that did not want it, or has ended */
	}
	switch (attempt->err) {
	case -ETIMEDOUT: /* so may a listener that is not asked: no sign of an end */
		return attempt_over(attempt)->times_out
			       ? attempt_is_last(attempt) || !attempt_is_late(attempt, 2)
			       : !attempt_is_late(attempt, 1);
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -ENETUNREACH: /* where there is another way, that one is tried at once */
		return attempt_is_last(attempt) && !attempt_is_late(attempt, 1);
	default:
		return false;
	}
}

/* Goes on after a failure: the same transport again, or the next one. False: there is none. */
static bool attempt_again(struct smd_net_attempt *attempt)
{
	const struct smd_transport_ops *tried;
	char reason[SMD_ERROR_TEXT_MAX];

	smd_net_comm_close_lanes(attempt->comm);
	if (attempt->paired && !attempt->repeated &&
		(attempt_is_last(attempt) || !attempt_is_in_vain(attempt))) {
		attempt->repeated = true; /* what was lost on the way may arrive the next time */
		smd_nccl_log_info(NCCL_SUB_NET, "net: %s: tries %s again: %s", attempt->comm->peer,
			attempt_transport(attempt)->name, attempt->reason);
		attempt_try(attempt);
		return true;
	}
	if (attempt_has_hope(attempt)) {
		if (smd_clock_ns() - attempt->tried_ns > REST_NS) {
			attempt_try(attempt);
		}
		return true;
	}
	if (attempt_is_last(attempt)) {
		return false;
	}
	tried = attempt_transport(attempt);
	if (attempt->paired && attempt->err == -ETIMEDOUT) {
		smd_net_fabric_in_vain(
			attempt->device, tried, &attempt->handle.address, attempt->reason);
	}
	snprintf(reason, sizeof(reason), "%s", attempt->reason);
	attempt_start(attempt, attempt->transport + 1);
	smd_nccl_log_info(NCCL_SUB_NET, "net: %s: tries %s after %s: %s", attempt->comm->peer,
		attempt_transport(attempt)->name, tried->name, reason);
	return true;
}

static struct smd_net_attempt *attempt_create(
	const struct smd_nccl_device *device, const void *handle, struct smd_error *error)
{
	struct smd_net_attempt *attempt = calloc(1, sizeof(*attempt));

	if (!attempt) {
		smd_error_set(error, ENOMEM, "out of memory");
		return NULL;
	}
	if (smd_net_handle_decode(handle, &attempt->handle, error) ||
		smd_net_options_read(device, &attempt->options, error)) {
		goto free_attempt;
	}
	attempt->device = device;
	smd_net_own_name(attempt->name);
	attempt->comm = smd_net_comm_create(smd_net_pump);
	if (!attempt->comm) {
		smd_error_set(error, ENOMEM, "cannot make an event loop: %m");
		goto free_attempt;
	}
	attempt->comm->attempt = attempt;
	attempt->asked = true;
	pthread_mutex_lock(&lock);
	attempt->number = ++last_number;
	LIST_INSERT_HEAD(&attempts, attempt, link);
	pthread_mutex_unlock(&lock);
	attempt_start(attempt, 0);
	return attempt;

free_attempt:
	free(attempt);
	return NULL;
}

/* NULL: none has the number, or it was forgotten. */
static struct smd_net_attempt *attempt_find(uint64_t number)
{
	struct smd_net_attempt *attempt;

	pthread_mutex_lock(&lock);
	LIST_FOREACH (attempt, &attempts, link) {
		if (attempt->number == number) {
			attempt->asked = true;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return attempt;
}

static void attempt_rest(struct smd_net_attempt *attempt)
{
	pthread_mutex_lock(&lock);
	attempt->asked = false;
	attempt->asked_ns = smd_clock_ns();
	pthread_mutex_unlock(&lock);
}

/* It is on the list no longer. */
static void attempt_free(struct smd_net_attempt *attempt)
{
	if (attempt->comm) {
		smd_net_comm_destroy(attempt->comm);
	}
	free(attempt);
}

static void attempt_end(struct smd_net_attempt *attempt)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(attempt, link);
	pthread_mutex_unlock(&lock);
	attempt_free(attempt);
}

static bool attempt_is_abandoned(const struct smd_net_attempt *attempt)
{
	return smd_clock_ns() - attempt->asked_ns > ABANDONED * attempt->options.timeout_ns;
}

static void attempts_forget(bool all)
{
	struct attempts forgotten = LIST_HEAD_INITIALIZER(forgotten);
	struct smd_net_attempt *attempt;
	struct smd_net_attempt *next;

	pthread_mutex_lock(&lock);
	for (attempt = LIST_FIRST(&attempts); attempt; attempt = next) {
		next = LIST_NEXT(attempt, link);
		if (!attempt->asked && (all || attempt_is_abandoned(attempt))) {
			LIST_REMOVE(attempt, link);
			LIST_INSERT_HEAD(&forgotten, attempt, link);
		}
	}
	pthread_mutex_unlock(&lock);
	while ((attempt = LIST_FIRST(&forgotten))) {
		LIST_REMOVE(attempt, link);
		attempt_free(attempt);
	}
}

void smd_net_forget_attempts(void)
{
	attempts_forget(true);
	smd_net_fabrics_end();
}

static int attempt_give_up(const struct smd_net_attempt *attempt)
{
	char within[32] = "";

	if (!attempt->reached && attempt_is_late(attempt, 1)) {
		snprintf(within, sizeof(within), " within %u s",
			(unsigned)(attempt->options.timeout_ns / SMD_SECOND_NS));
	}
	smd_nccl_log_warn(
		"net: cannot connect to %s%s: %s", attempt->comm->peer, within, attempt->reason);
	return smd_nccl_result(attempt->err);
}

/* A step towards a connection: 0, or why there will be none. */
static int attempt_step(struct smd_net_attempt *attempt)
{
	event_base_loop(attempt->comm->base, EVLOOP_NONBLOCK);
	if (attempt->comm->greeted) {
		return NCCL_SUCCESS;
	}
	/* Others take minutes to say so. */
	if (!attempt->reached && !attempt_over(attempt)->times_out && attempt_is_late(attempt, 1)) {
		attempt_failed(attempt, -ETIMEDOUT, "it does not answer");
	}
	return attempt->err && !attempt_again(attempt) ? attempt_give_up(attempt) : NCCL_SUCCESS;
}

int smd_net_connect(int dev, void *handle, void **send_comm)
{
	const struct smd_nccl_device *device = smd_nccl_device(dev);
	struct smd_net_attempt *attempt;
	struct smd_error error = {""};
	uint64_t number;
	int ret;

	if (smd_nccl_lacks_any("connect", "handle", handle, "result", send_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*send_comm = NULL;
	if (!device) {
		smd_nccl_log_warn(
			"net: device must be 0 to %d, got %d", smd_nccl_devices() - 1, dev);
		return NCCL_INVALID_ARGUMENT;
	}
	memcpy(&number, (uint8_t *)handle + SMD_NET_HANDLE_BYTES, sizeof(number));
	attempt = attempt_find(number);
	if (!attempt) {
		attempts_forget(false);
		attempt = attempt_create(device, handle, &error);
	}
	if (!attempt) {
		smd_nccl_log_warn("net: cannot connect: %s", error.text);
		return NCCL_INVALID_USAGE;
	}
	number = attempt->number;
	ret = attempt_step(attempt);
	if (ret == NCCL_SUCCESS && attempt->comm->greeted) {
		if (attempt->paired) {
			smd_net_fabric_crosses(
				device, attempt_transport(attempt), &attempt->handle.address);
		}
		attempt->comm->attempt = NULL;
		smd_net_comm_ready(attempt->comm);
		*send_comm = attempt->comm;
		attempt->comm = NULL;
	}
	if (ret || *send_comm) {
		attempt_end(attempt);
		number = 0;
	} else {
		attempt_rest(attempt);
	}
	memcpy((uint8_t *)handle + SMD_NET_HANDLE_BYTES, &number, sizeof(number));
	return ret;
}
