/* The connection manager of the script: ids, channels and their events. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/rdma/wire.h"
#include "tests/unit/rdma/script_parts.h"

#define REJECTED_NOBODY 8
#define REJECTED_BY_END 28

struct told {
	struct smd_verbs_event event;
	struct script_id *to;
	TAILQ_ENTRY(told) link;
};
TAILQ_HEAD(told_list, told);

struct script_channel {
	struct rdma_event_channel channel; /* first */
	struct told_list events;
};

static LIST_HEAD(, script_id) ids = LIST_HEAD_INITIALIZER(ids);

/* ---- channels ---- */

static struct script_channel *channel_of(struct rdma_event_channel *channel)
{
	return (struct script_channel *)channel;
}

/* Readable while there are events. */
static void channel_count(struct script_channel *channel, int more)
{
	uint64_t one = 1;
	ssize_t n = more > 0 ? write(channel->channel.fd, &one, sizeof(one))
			     : read(channel->channel.fd, &one, sizeof(one));

	if (n != sizeof(one)) {
		script_stop("an event channel's descriptor does not work");
	}
}

int smd_verbs_channel_create(struct rdma_event_channel **out)
{
	struct script_channel *channel;
	int err = script_fault(SCRIPT_channel_create);

	if (err) {
		return err;
	}
	channel = calloc(1, sizeof(*channel));
	channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	TAILQ_INIT(&channel->events);
	script.live++;
	*out = &channel->channel;
	return 0;
}

void smd_verbs_channel_destroy(struct rdma_event_channel *outer)
{
	struct script_channel *channel = channel_of(outer);
	struct script_id *id;

	script_lock();
	LIST_FOREACH (id, &ids, link) {
		if (id->id.channel == outer) {
			script_stop("a channel was destroyed before its ids");
		}
	}
	script_unlock();
	close(channel->channel.fd);
	free(channel);
	script.live--;
}

int smd_verbs_event_take(struct rdma_event_channel *outer, struct smd_verbs_event *out)
{
	struct script_channel *channel = channel_of(outer);
	struct told *told;
	int err = script_fault(SCRIPT_event_take);

	if (err) {
		return err;
	}
	script_lock();
	told = TAILQ_FIRST(&channel->events);
	if (told) {
		TAILQ_REMOVE(&channel->events, told, link);
		channel_count(channel, -1);
		*out = told->event;
		out->context = told->event.id->context;
	}
	script_unlock();
	free(told);
	return told ? 0 : -EAGAIN;
}

static void tell(struct script_id *to, enum rdma_cm_event_type type, int status, const void *data,
	size_t length)
{
	struct script_channel *channel;
	struct told *told = calloc(1, sizeof(*told));

	if (length > SMD_VERBS_PRIVATE_MAX) {
		script_stop("private data of %zu bytes", length);
	}
	told->to = to;
	told->event = (struct smd_verbs_event){
		.type = type,
		.status = status,
		.id = &to->id,
		.private_length = (uint8_t)length,
	};
	if (length) {
		memcpy(told->event.private_data, data, length);
	}
	script_lock();
	channel = channel_of(to->id.channel);
	TAILQ_INSERT_TAIL(&channel->events, told, link);
	channel_count(channel, 1);
	script_unlock();
}

void script_tell(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status, const void *data,
	size_t length)
{
	tell(script_id_of(id), type, status, data, length);
}

/* Moves the id's events to another channel; NULL: forgets them. */
static void id_move_events(struct script_id *id, struct script_channel *to)
{
	struct script_channel *from = channel_of(id->id.channel);
	struct told *told = TAILQ_FIRST(&from->events);

	while (told) {
		struct told *next = TAILQ_NEXT(told, link);

		if (told->to == id) {
			TAILQ_REMOVE(&from->events, told, link);
			channel_count(from, -1);
			if (to) {
				TAILQ_INSERT_TAIL(&to->events, told, link);
				channel_count(to, 1);
			} else {
				free(told);
			}
		}
		told = next;
	}
}

/* ---- ids ---- */

static struct script_id *id_create(struct rdma_event_channel *channel, void *context)
{
	struct script_id *id = calloc(1, sizeof(*id));
	struct sockaddr_in *address = (struct sockaddr_in *)&id->id.route.addr.src_addr;

	id->id.channel = channel;
	id->id.context = context;
	id->id.verbs = &script_devices[0];
	id->id.port_num = 1;
	address->sin_family = AF_INET;
	address->sin_port = htons(7);
	address->sin_addr.s_addr = htonl(0x0a000001);
	memcpy(&id->id.route.addr.dst_addr, address, sizeof(*address));
	script_lock();
	LIST_INSERT_HEAD(&ids, id, link);
	script_unlock();
	script.live++;
	return id;
}

int smd_verbs_id_create(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out)
{
	int err = script_fault(SCRIPT_id_create);

	if (err == 0) {
		*out = &id_create(channel, context)->id;
	}
	return err;
}

void smd_verbs_id_destroy(struct rdma_cm_id *outer)
{
	struct script_id *id = script_id_of(outer);

	script_fault(SCRIPT_id_destroy);
	script_lock();
	if (id->pair) {
		script_pair_lose_id(id->pair);
	}
	if (id->peer) {
		id->peer->peer = NULL;
		if (id->connected) {
			tell(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		} else if (!id->peer->connected) {
			tell(id->peer, RDMA_CM_EVENT_REJECTED, REJECTED_BY_END, NULL, 0);
		}
	}
	id_move_events(id, NULL);
	LIST_REMOVE(id, link);
	script_unlock();
	free(id);
	script.live--;
}

int smd_verbs_migrate(struct rdma_cm_id *outer, struct rdma_event_channel *channel)
{
	int err = script_fault(SCRIPT_migrate);

	if (err == 0) {
		script_lock();
		id_move_events(script_id_of(outer), channel_of(channel));
		outer->channel = channel;
		script_unlock();
	}
	return err;
}

int smd_verbs_bind(struct rdma_cm_id *id, const struct sockaddr *address)
{
	int err = script_fault(SCRIPT_bind);

	(void)address;
	script_id_of(id)->bound = err == 0;
	return err;
}

struct rdma_cm_id *script_bound(void)
{
	struct script_id *id;

	script_lock();
	LIST_FOREACH (id, &ids, link) {
		if (id->bound) {
			break;
		}
	}
	script_unlock();
	return id ? &id->id : NULL;
}

int smd_verbs_listen(struct rdma_cm_id *id, const struct sockaddr *address, int backlog)
{
	int err = script_fault(SCRIPT_listen);

	(void)address;
	(void)backlog;
	script_id_of(id)->listens = err == 0;
	return err;
}

int smd_verbs_resolve_address(struct rdma_cm_id *id, const struct sockaddr *source,
	const struct sockaddr *address, int ms)
{
	int err = script_fault(SCRIPT_resolve_address);

	(void)address;
	(void)ms;
	memset(script.source, 0, sizeof(script.source));
	if (source) {
		smd_address_bytes(source, script.source);
	}
	if (err == 0 && script.connects) {
		script_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	}
	return err;
}

int smd_verbs_resolve_route(struct rdma_cm_id *id, int ms)
{
	int err = script_fault(SCRIPT_resolve_route);

	(void)ms;
	if (err == 0 && script.connects) {
		script_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	}
	return err;
}

/* ---- asking and being asked ---- */

static void id_say(struct script_id *id, const void *data, size_t length)
{
	memcpy(id->said, data, length);
	id->said_length = length;
}

const uint8_t *script_said(const struct rdma_cm_id *id, size_t *length)
{
	*length = script_id_of(id)->said_length;
	return script_id_of(id)->said;
}

struct rdma_cm_id *script_listening(void)
{
	struct script_id *id;

	script_lock();
	LIST_FOREACH (id, &ids, link) {
		if (id->listens) {
			break;
		}
	}
	script_unlock();
	return id ? &id->id : NULL;
}

struct rdma_cm_id *script_request(const void *data, size_t length)
{
	struct rdma_cm_id *listening = script_listening();
	struct script_id *id;

	if (!listening) {
		return NULL;
	}
	id = id_create(listening->channel, listening->context);
	tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, length);
	return &id->id;
}

/* Of a pair that is not ready, or another's, the other end would learn a number that is none. One
 * that is gone meanwhile does no harm: it hears that, too. */
static void check_pair(const struct script_id *id, uint32_t number, bool joined)
{
	if ((id->id.qp && id->id.qp->qp_num != number) || id->joined != joined) {
		script_stop("an id tells of a queue pair that is not %s as it says",
			joined ? "joined" : "made ready");
	}
}

int smd_verbs_connect(struct rdma_cm_id *outer, uint32_t pair, const void *private_data,
	uint8_t length, struct smd_verbs_patience patience)
{
	struct script_id *id = script_id_of(outer);
	int err = script_fault(SCRIPT_connect);

	check_pair(id, pair, false);
	script.patience = patience;
	if (err) {
		return err;
	}
	id_say(id, private_data, length);
	if (script.connects) {
		struct rdma_cm_id *asked = script_request(private_data, length);

		if (asked) {
			id->peer = script_id_of(asked);
			id->peer->peer = id;
		} else {
			tell(id, RDMA_CM_EVENT_REJECTED, REJECTED_NOBODY, NULL, 0);
		}
	}
	return 0;
}

/* The other end, which has accepted, is told. */
int smd_verbs_confirm(struct rdma_cm_id *outer)
{
	struct script_id *id = script_id_of(outer);
	int err = script_fault(SCRIPT_confirm);

	check_pair(id, outer->qp->qp_num, true);
	if (err == 0) {
		script_lock();
		id->connected = true;
		if (id->peer) {
			tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
		}
		script_unlock();
	}
	return err;
}

int smd_verbs_accept(struct rdma_cm_id *outer, uint32_t pair, const void *private_data,
	uint8_t length, struct smd_verbs_patience patience)
{
	struct script_id *id = script_id_of(outer);
	int err = script_fault(SCRIPT_accept);

	script_lock();
	check_pair(id, pair, true);
	script.patience = patience;
	if (err == 0) {
		id_say(id, private_data, length);
		id->connected = true;
	}
	if (err == 0 && id->peer) {
		tell(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, private_data, length);
	}
	script_unlock();
	return err;
}

bool script_says_again(void)
{
	char text[SMD_ERROR_TEXT_MAX];
	bool again;

	smd_rdma_rejection_decode(
		(const uint8_t *)script.last_rejection, SMD_VERBS_PRIVATE_MAX, text, &again);
	return again;
}

int smd_verbs_reject(struct rdma_cm_id *outer, const void *private_data, uint8_t length)
{
	struct script_id *id = script_id_of(outer);
	/* As on the wire: what is not filled are zeros. */
	uint8_t padded[SMD_VERBS_PRIVATE_MAX] = {0};
	int err = script_fault(SCRIPT_reject);

	if (err) {
		return err;
	}
	memcpy(padded, private_data, length);
	script_lock();
	memcpy(script.last_rejection, padded, sizeof(padded));
	script.rejections++;
	if (id->peer) {
		tell(id->peer, RDMA_CM_EVENT_REJECTED, REJECTED_BY_END, padded, sizeof(padded));
		id->peer->peer = NULL;
		id->peer = NULL;
	}
	script_unlock();
	return 0;
}
