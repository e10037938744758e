/* Chooses ports, opens their devices, and hears what happens to them. */
#include "reduction_server/transport/rdma/card.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/wire/message.h"

struct rdma_card {
	struct rdma_loop *loop;
	struct ibv_context *context;
	struct rdma_endpoint endpoint; /* of the id */
	struct rdma_cm_id *id;         /* tells of its removal; NULL: there is none for it */
	struct event *readable;
	bool removed;
	LIST_ENTRY(rdma_card) link;
};

/* ---- what a device tells ---- */

static bool card_is_used(const struct rdma_card *card)
{
	const struct rdma_device *device;

	if (card->loop->listing) { /* which may be asking it */
		return true;
	}
	LIST_FOREACH (device, &card->loop->devices, link) {
		if (device->context == card->context) {
			return true;
		}
	}
	return false;
}

/* Nobody keeps what has been removed. */
static void card_unprepare(const struct rdma_card *card)
{
	struct rdma_device *device = LIST_FIRST(&card->loop->devices);

	while (device) {
		struct rdma_device *next = LIST_NEXT(device, link);

		if (device->context == card->context) {
			smd_rdma_device_unprepare(device);
		}
		device = next;
	}
}

/* All that are here: lanes that come next find new ones. */
static void card_fail_queues(const struct rdma_card *card)
{
	struct rdma_device *device;

	LIST_FOREACH (device, &card->loop->devices, link) {
		if (device->context == card->context) {
			smd_rdma_device_fail_queue(device);
		}
	}
}

/* All lanes on it, or of a queue pair only that one's. */
static void card_fail(
	const struct rdma_card *card, const struct ibv_qp *pair, int err, const char *reason)
{
	struct rdma_device *device;

	LIST_FOREACH (device, &card->loop->devices, link) {
		if (device->context != card->context) {
			continue;
		}
		device->removed |= card->removed;
		if (pair) {
			smd_rdma_device_fail_pair(device, pair, err, reason);
		} else {
			smd_rdma_device_fail(device, err, reason);
		}
	}
}

static void card_on_port(const struct rdma_card *card, const struct ibv_async_event *event)
{
	bool up = event->event_type == IBV_EVENT_PORT_ACTIVE;

	card->loop->ports_ns = 0;
	smd_log(up ? SMD_LOG_INFO : SMD_LOG_WARN, "rdma", "%s: port %d is %s",
		ibv_get_device_name(card->context->device), event->element.port_num,
		up ? "up again" : "down; lanes last as long as their retries do");
}

static void card_take_event(struct rdma_card *card, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		card_on_port(card, event);
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
		card->loop->ports_ns = 0;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		card_fail(card, event->element.qp, -EIO, ibv_event_type_str(event->event_type));
		break;
	case IBV_EVENT_CQ_ERR:
		card_fail_queues(card);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		card->removed = true;
		card->loop->ports_ns = 0;
		card_fail(card, NULL, -ENODEV, "the RDMA device was removed");
		break;
	default: /* last WQE, COMM_EST, SRQ events: nothing that concerns a lane */
		break;
	}
}

static void card_close(struct rdma_card *card)
{
	LIST_REMOVE(card, link);
	if (card->id) {
		smd_verbs_id_destroy(card->id);
	}
	event_free(card->readable);
	smd_verbs_device_close(card->context);
	free(card);
}

static void card_close_removed(struct rdma_card *card)
{
	if (card->removed) {
		card_unprepare(card);
	}
	if (card->removed && !card_is_used(card)) {
		card_close(card);
		smd_verbs_forget_removed();
	}
}

static void card_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_card *card = arg;
	struct ibv_async_event event;

	(void)fd;
	(void)what;
	while (smd_verbs_device_event_take(card->context, &event) == 0) {
		card_take_event(card, &event);
	}
	card_close_removed(card);
}

/* ---- its removal ---- */

/* Some drivers cannot take a device from who has it open. They tell the connection manager, and
 * wait. */
static void card_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	const struct ibv_async_event removed = {.event_type = IBV_EVENT_DEVICE_FATAL};
	struct rdma_card *card =
		(struct rdma_card *)((char *)endpoint - offsetof(struct rdma_card, endpoint));

	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		smd_verbs_id_destroy(card->id);
		card->id = NULL;
		card_take_event(card, &removed);
		card_close_removed(card);
	}
}

/* For want of a connection manager, or of an IP address, others tell it on their own (DEVICE_FATAL)
 * or not at all. */
static void card_watch_removal(struct rdma_card *card, const uint8_t address[16])
{
	struct sockaddr_storage name;

	if (card->id || smd_rdma_loop_open_channel(card->loop, NULL) ||
		smd_verbs_id_create(card->loop->channel, &card->endpoint, &card->id)) {
		return;
	}
	card->endpoint.on_event = card_on_event;
	smd_address_of_bytes(address, &name);
	if (smd_verbs_bind(card->id, (const struct sockaddr *)&name)) {
		smd_verbs_id_destroy(card->id);
		card->id = NULL;
	}
}

/* ---- which there are ---- */

static struct rdma_card *card_find(const struct rdma_loop *loop, const char *name)
{
	struct rdma_card *card;

	LIST_FOREACH (card, &loop->cards, link) {
		if (!card->removed && strcmp(ibv_get_device_name(card->context->device), name) == 0) {
			break;
		}
	}
	return card;
}

static int card_open(struct rdma_loop *loop, const char *name, struct rdma_card **out)
{
	struct rdma_card *card = calloc(1, sizeof(*card));
	int ret = card ? smd_verbs_device_open(name, &card->context) : -ENOMEM;

	if (ret) {
		free(card);
		return ret;
	}
	card->loop = loop;
	card->readable = event_new(
		loop->base, card->context->async_fd, EV_READ | EV_PERSIST, card_on_readable, card);
	if (!card->readable || event_add(card->readable, NULL) != 0) {
		if (card->readable) {
			event_free(card->readable);
		}
		smd_verbs_device_close(card->context);
		free(card);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&loop->cards, card, link);
	*out = card;
	return 0;
}

int smd_rdma_port_ask(struct smd_verbs_port *port, struct ibv_context *device)
{
	struct smd_verbs_limits limits;
	int ret = smd_verbs_query(device, port->number, &limits);

	if (ret == 0) {
		port->device = device;
		port->mtu = limits.mtu;
		port->routed = limits.routed;
	}
	return ret;
}

/* The device of a port, which is opened if it is not yet. Once, until ports are read anew: lanes are
 * at work meanwhile, and where there is no connection manager or no IP address asking does not help. */
static int card_of_port(struct rdma_loop *loop, struct smd_verbs_port *port)
{
	static const uint8_t none[16];
	struct rdma_card *card;
	int ret = 0;

	if (port->device) {
		return 0;
	}
	card = card_find(loop, port->name);
	if (!card) {
		ret = card_open(loop, port->name, &card);
	}
	if (ret == 0) {
		ret = smd_rdma_port_ask(port, card->context);
	}
	if (ret == 0) {
		card_watch_removal(
			card, memcmp(port->address, none, 16) ? port->address : port->gid);
	}
	return ret;
}

/* Lanes are on other devices, until ports are looked at again. */
static void ports_leave_out(struct rdma_loop *loop, const char *name)
{
	unsigned left = 0;

	for (unsigned i = 0; i < loop->nports; i++) {
		if (strcmp(loop->ports[i].name, name) != 0) {
			loop->ports[left++] = loop->ports[i];
		}
	}
	loop->nports = left;
}

static bool ports_are_named(const struct rdma_loop *loop, const char *devices)
{
	bool named = false;

	for (unsigned i = 0; i < loop->nports; i++) {
		named |=
			smd_rdma_port_is_named(devices, loop->ports[i].name, loop->ports[i].number);
	}
	return named;
}

/* Once: it is wrong for each lane. A server says it at its start (prepare.c). */
static void warn_of_devices(const struct rdma_loop *loop, const struct smd_error *error)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!loop->serves && !atomic_flag_test_and_set(&warned)) {
		smd_log(SMD_LOG_WARN, "rdma", "%s; RDMA is not used", error->text);
	}
}

static const char *wish_kind(const struct smd_rdma_wish *wish)
{
	bool roce = wish->other ? wish->other->ethernet : wish->kinds == SMD_HELLO_ROCE;

	return roce ? "RoCE" : "InfiniBand";
}

/* What is in the way, for somebody who looks for it. -ENETDOWN: for any lane. */
static int card_explain(
	const struct rdma_loop *loop, const struct smd_rdma_wish *wish, struct smd_error *error)
{
	int ret;

	if (loop->nports == 0) {
		return smd_error_set(error, ENETDOWN,
			"no RDMA device has a port that is up and has an address");
	}
	if (wish->devices && *wish->devices && !ports_are_named(loop, wish->devices)) {
		ret = smd_error_set(error, ENETDOWN,
			"SUMMAND_RDMA_DEVICE: must name a port that is up, got \"%.100s\"",
			wish->devices);
		warn_of_devices(loop, error);
		return ret;
	}
	if (wish->server) {
		return smd_error_set(error, ENETUNREACH,
			"SUMMAND_RDMA_DEVICE: must name a port that has an IP address of the "
			"server's version, got \"%.100s\"",
			wish->devices);
	}
	if (wish->devices && *wish->devices) {
		return smd_error_set(error, ENETUNREACH,
			"SUMMAND_RDMA_DEVICE: must name a port that is up and of the other end's "
			"kind, got \"%.100s\"",
			wish->devices);
	}
	return smd_error_set(error, ENETUNREACH,
		"the other end is on %s, and no device here is; SUMMAND_RDMA_DEVICE there may name "
		"others",
		wish_kind(wish));
}

/* None could be opened, this one for that reason. What passes is told as it is, and what does not must
 * not be taken for want of any device (ENODEV), nor for the other end's word (EACCES). */
static int card_give_up(
	struct rdma_loop *loop, const char *name, int err, struct smd_error *error)
{
	loop->ports_ns = 0; /* the next lane looks for them again */
	return smd_error_set(error, smd_transport_error_passes(err) ? -err : ENETUNREACH,
		"rdma: cannot open %s: %s", name, strerror(-err));
}

int smd_rdma_card_choose(struct rdma_loop *loop, const struct smd_rdma_wish *wish,
	struct smd_verbs_port *out, struct smd_error *error)
{
	const struct smd_verbs_port *port;
	int failed = 0;

	while ((port = smd_rdma_port_choose(loop->ports, loop->nports, wish))) {
		failed = card_of_port(loop, &loop->ports[port - loop->ports]);
		*out = *port;
		if (failed == 0) {
			return 0;
		}
		smd_log_peer(SMD_LOG_INFO, "rdma", out->name, "%s takes no lanes: cannot open it: %s",
			out->name, strerror(-failed));
		ports_leave_out(loop, out->name);
	}
	return failed ? card_give_up(loop, out->name, failed, error)
		      : card_explain(loop, wish, error);
}

/* ---- where the connection manager chooses ---- */

int smd_rdma_card_of_id(struct rdma_loop *loop, const struct rdma_cm_id *id,
	struct ibv_context **out, struct smd_error *error)
{
	const char *name = ibv_get_device_name(id->verbs->device);
	struct rdma_card *card = card_find(loop, name);
	uint8_t address[16];
	int ret;

	if (!card) {
		ret = card_open(loop, name, &card);
		if (ret) {
			return card_give_up(loop, name, ret, error);
		}
		if (smd_address_bytes(&id->route.addr.src_addr, address)) {
			card_watch_removal(card, address);
		}
	}
	*out = card->context;
	return 0;
}

void smd_rdma_card_remove(struct rdma_loop *loop, const struct ibv_context *context)
{
	const struct ibv_async_event removed = {.event_type = IBV_EVENT_DEVICE_FATAL};
	struct rdma_card *card;

	LIST_FOREACH (card, &loop->cards, link) {
		if (card->context == context && !card->removed) {
			card_take_event(card, &removed);
			card_close_removed(card);
			return;
		}
	}
}

/* ---- the end ---- */

void smd_rdma_card_release(struct rdma_loop *loop, struct ibv_context *context)
{
	struct rdma_card *card;

	LIST_FOREACH (card, &loop->cards, link) {
		if (card->context == context) {
			card_close_removed(card);
			return;
		}
	}
}

void smd_rdma_cards_release(struct rdma_loop *loop)
{
	struct rdma_card *card = LIST_FIRST(&loop->cards);

	while (card) {
		struct rdma_card *next = LIST_NEXT(card, link);

		card_close_removed(card);
		card = next;
	}
}

void smd_rdma_cards_close(struct rdma_loop *loop)
{
	while (!LIST_EMPTY(&loop->cards)) {
		card_close(LIST_FIRST(&loop->cards));
	}
	free(loop->ports);
}
