/* Listens for RDMA lanes, through removals of the device too. */
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/transport/rdma/rdma.h"

#define LISTEN_BACKLOG 1024
#define AGAIN_S        1 /* after the device was removed: how often to look for it */

struct rdma_listener {
	struct smd_listener listener;
	struct rdma_endpoint endpoint;
	struct rdma_loop *loop;
	struct rdma_cm_id *id; /* NULL: the device was removed */
	char address[SMD_ADDRESS_TEXT_MAX];
	struct event *again;
	smd_accept *on_accept;
	void *owner;
};

/* What is told of a lane before it is attached is of no interest: accepting it will fail. */
static void nobody_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	(void)endpoint;
	(void)event;
}

static struct rdma_endpoint nobody = {nobody_on_event};

static void listener_refuse(struct rdma_cm_id *id, const char *peer, const char *text, bool again)
{
	smd_log_peer(SMD_LOG_WARN, "rdma", "", "refused %s: %s", peer, text);
	smd_rdma_reject(id, text, again);
	smd_verbs_id_destroy(id);
}

static void listener_on_request(struct rdma_listener *listener, const struct smd_verbs_event *event)
{
	struct smd_error error = {""};
	char peer[SMD_ADDRESS_TEXT_MAX];
	struct rdma_lane *lane;

	smd_address_print(
		&event->id->route.addr.dst_addr, sizeof(event->id->route.addr.dst_storage), peer);
	lane = smd_rdma_lane_create();
	if (!lane) {
		listener_refuse(event->id, peer, "out of memory", true);
		return;
	}
	if (smd_rdma_greeting_decode(
		    event->private_data, event->private_length, &lane->other, &error)) {
		listener_refuse(event->id, peer, error.text, false);
		free(lane);
		return;
	}
	event->id->context = &nobody;
	lane->id = event->id;
	lane->state = RDMA_LANE_REQUESTED;
	lane->accepting.due = true;
	snprintf(lane->peer, sizeof(lane->peer), "%s", peer);
	listener->on_accept(listener->owner, &lane->lane, lane->other.shard);
}

static void listener_retry_later(struct rdma_listener *listener)
{
	const struct timeval later = {AGAIN_S, 0};

	evtimer_add(listener->again, &later);
}

static void listener_on_event(struct rdma_endpoint *endpoint, const struct smd_verbs_event *event)
{
	struct rdma_listener *listener =
		(struct rdma_listener *)((char *)endpoint -
					 offsetof(struct rdma_listener, endpoint));

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		listener_on_request(listener, event);
	} else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL && listener->id) {
		smd_log(SMD_LOG_WARN, "rdma", "%s: the RDMA device was removed", listener->address);
		smd_verbs_id_destroy(listener->id);
		listener->id = NULL;
		listener_retry_later(listener);
	}
}

static int listener_bind(struct rdma_listener *listener, const char *address, char bound[128],
	struct smd_error *error)
{
	struct addrinfo *list;
	int ret = smd_address_resolve(address, AI_PASSIVE, &list, error);

	if (ret) {
		return ret;
	}
	/* The connection manager would listen on all devices instead. */
	if (smd_address_is_loopback(smd_address_choose(list)->ai_addr)) {
		freeaddrinfo(list);
		return smd_error_set(error, EADDRNOTAVAIL,
			"%s: loopback is not an address of an RDMA device", address);
	}
	ret = smd_verbs_id_create(listener->loop->channel, &listener->endpoint, &listener->id);
	if (ret == 0) {
		ret = smd_verbs_listen(
			listener->id, smd_address_choose(list)->ai_addr, LISTEN_BACKLOG);
		if (ret) {
			smd_verbs_id_destroy(listener->id);
			listener->id = NULL;
		}
	}
	if (ret) {
		smd_error_set(error, -ret, "%s: cannot listen over RDMA: %s%s", address,
			strerror(-ret),
			ret == -ENODEV || ret == -EADDRNOTAVAIL
				? " (the address must be one of an RDMA device, or any)"
				: "");
	} else {
		smd_address_print(&listener->id->route.addr.src_addr,
			sizeof(listener->id->route.addr.src_storage), bound);
	}
	freeaddrinfo(list);
	return ret;
}

static void listener_on_again(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_listener *listener = arg;
	char bound[SMD_ADDRESS_TEXT_MAX];

	(void)fd;
	(void)what;
	smd_verbs_forget_removed();
	if (listener_bind(listener, listener->address, bound, NULL)) {
		listener_retry_later(listener);
		return;
	}
	smd_log(SMD_LOG_INFO, "rdma", "%s: listens over RDMA again", listener->address);
}

static void listener_free(struct rdma_listener *listener)
{
	if (listener->id) {
		smd_verbs_id_destroy(listener->id);
	}
	if (listener->again) {
		event_free(listener->again);
	}
	if (listener->loop) {
		smd_rdma_loop_put(listener->loop);
	}
	free(listener);
}

int smd_rdma_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	struct rdma_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener) {
		return smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	listener->listener.ops = &smd_transport_rdma;
	listener->endpoint.on_event = listener_on_event;
	listener->on_accept = on_accept;
	listener->owner = owner;
	ret = smd_rdma_loop_get(base, &listener->loop, error);
	if (ret == 0) {
		ret = smd_rdma_loop_open_channel(listener->loop, error);
	}
	if (ret == 0) {
		ret = listener_bind(listener, address, bound, error);
	}
	if (ret == 0) {
		snprintf(listener->address, sizeof(listener->address), "%s", bound);
		listener->again = evtimer_new(base, listener_on_again, listener);
		ret = listener->again ? 0
				      : smd_error_set(error, ENOMEM, "%s: out of memory", address);
	}
	if (ret) {
		listener_free(listener);
		return ret;
	}
	*out = &listener->listener;
	return 0;
}

void smd_rdma_listener_close(struct smd_listener *outer)
{
	listener_free((struct rdma_listener *)outer);
}
