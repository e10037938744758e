/* One end of a connection: its life, its turns, and what is registered for it. */
#include "worker/nccl_plugin/net/comm.h"

#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "reduction_server/transport/loop.h"
#include "worker/libsummand/registration.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/result.h"
#include "worker/nccl_plugin/device/device.h"

/* Lanes are looked at directly; what else there is on the loop, less often. */
#define TURNS_OF_LOOP 64

/* ---- its life ---- */

static bool comm_make_requests(struct smd_net_comm *comm)
{
	if (!comm->pump) {
		comm->receives = calloc(NCCL_NET_REQUESTS, sizeof(*comm->receives));
		for (unsigned i = 0; comm->receives && i < NCCL_NET_REQUESTS; i++) {
			comm->receives[i].number = i;
		}
		return comm->receives != NULL;
	}
	comm->sends = calloc(SMD_NET_SENDS, sizeof(*comm->sends));
	comm->slots = calloc(NCCL_NET_REQUESTS, sizeof(*comm->slots));
	for (unsigned i = 0; comm->slots && i < NCCL_NET_REQUESTS; i++) {
		comm->slots[i].number = i;
	}
	return comm->sends && comm->slots;
}

struct smd_net_comm *smd_net_comm_create(void (*pump)(struct smd_net_comm *comm))
{
	struct smd_net_comm *comm = calloc(1, sizeof(*comm));

	if (!comm) {
		return NULL;
	}
	comm->pump = pump;
	pthread_mutex_init(&comm->lock, NULL);
	LIST_INIT(&comm->memory);
	TAILQ_INIT(&comm->unmatched);
	TAILQ_INIT(&comm->active);
	TAILQ_INIT(&comm->posted);
	for (unsigned i = 0; i < SMD_NET_LANES_MAX; i++) {
		comm->lanes[i].comm = comm;
		comm->lanes[i].index = i;
	}
	comm->base = smd_loop_create();
	if (!comm->base || !comm_make_requests(comm)) {
		smd_net_comm_destroy(comm);
		return NULL;
	}
	return comm;
}

void smd_net_comm_close_lanes(struct smd_net_comm *comm)
{
	for (unsigned i = 0; i < SMD_NET_LANES_MAX; i++) {
		struct smd_lane *lane = comm->lanes[i].lane;

		comm->lanes[i].lane = NULL;
		comm->lanes[i].receive = NULL;
		if (lane) {
			smd_lane_close(lane);
		}
	}
	comm->lanes_there = 0;
}

static void memory_forget(struct smd_net_memory *memory)
{
	LIST_REMOVE(memory, link);
	free(memory);
}

void smd_net_comm_destroy(struct smd_net_comm *comm)
{
	smd_loss_close(comm);
	smd_net_comm_close_lanes(comm);
	if (comm->base) {
		/* The lanes' memory goes at the end of a turn. */
		event_base_loop(comm->base, EVLOOP_NONBLOCK);
		smd_loop_free(comm->base);
	}
	for (unsigned i = 0; i < NCCL_NET_REQUESTS; i++) {
		if (comm->slots) {
			free(comm->slots[i].remote_buffers);
		}
		if (comm->receives) {
			free(comm->receives[i].advertisements);
		}
	}
	while (!LIST_EMPTY(&comm->memory)) {
		memory_forget(LIST_FIRST(&comm->memory));
	}
	pthread_mutex_destroy(&comm->lock);
	free(comm->sends);
	free(comm->slots);
	free(comm->receives);
	free(comm);
}

void smd_net_comm_ready(struct smd_net_comm *comm)
{
	const struct smd_lane *lane = comm->lanes[0].lane;

	if (!lane) {
		return; /* it has ended already */
	}
	comm->poll_only = true;
	for (unsigned i = 0; i < comm->nlanes; i++) {
		struct smd_lane *each = comm->lanes[i].lane;

		comm->poll_only = each && smd_lane_poll_only(each) && comm->poll_only;
	}
	snprintf(comm->peer, sizeof(comm->peer), "%s (%s)", comm->name, smd_lane_peer_name(lane));
	smd_nccl_log_info(NCCL_SUB_NET, "net: %s %s over %s, %u lane%s",
		comm->pump ? "sends to" : "receives from", comm->peer, lane->ops->name,
		comm->nlanes, comm->nlanes > 1 ? "s" : "");
}

/* ---- its end ---- */

int smd_net_comm_tell(struct smd_net_comm *comm)
{
	if (!comm->told) {
		comm->told = true;
		smd_nccl_log_warn("net: %s", comm->text);
		smd_loss_tell(comm, comm->text);
	}
	return comm->result;
}

void smd_net_comm_fail(struct smd_net_comm *comm, int result, const char *format, ...)
{
	va_list args;

	if (comm->result) {
		return;
	}
	va_start(args, format);
	vsnprintf(comm->text, sizeof(comm->text), format, args);
	va_end(args);
	comm->result = result;
	if (comm->pending) {
		smd_net_comm_tell(comm);
	}
	smd_net_comm_close_lanes(comm);
}

void smd_net_comm_lost(struct smd_net_comm *comm, int err, const char *reason)
{
	smd_net_comm_fail(comm, smd_nccl_result(err), "%s was lost: %s", comm->peer, reason);
}

void smd_net_comm_receiver_lane_ended(struct smd_net_lane *lane, int err, const char *reason)
{
	struct smd_net_comm *comm = lane->comm;
	bool closed = err == -ECONNRESET || err == -EPIPE;

	if (!comm->greeted || !closed || lane->receive || comm->lanes_there == 1) {
		smd_net_comm_lost(comm, err, reason);
		return;
	}
	smd_lane_close(lane->lane);
	lane->lane = NULL;
	comm->lanes_there--;
}

/* ---- its turns ---- */

/* There is one lane, and nothing of ours waits for it. */
static bool comm_only_listens(const struct smd_net_comm *comm)
{
	const struct smd_net_lane *only = &comm->lanes[0];

	return comm->nlanes == 1 && only->queued == 0 && only->lane && only->lane->controls == 0 &&
	       only->lane->ops->poll;
}

static void comm_poll(struct smd_net_comm *comm)
{
	for (unsigned i = 0; i < comm->nlanes; i++) {
		if (comm->lanes[i].lane) { /* the one before may have ended all */
			smd_lane_poll(comm->lanes[i].lane);
		}
	}
}

void smd_net_comm_progress(struct smd_net_comm *comm)
{
	if (comm->turns++ % TURNS_OF_LOOP && (comm->poll_only || comm_only_listens(comm))) {
		comm_poll(comm);
	} else {
		smd_loop_look(comm->base);
	}
	if (comm->pump) {
		comm->pump(comm);
	}
}

/* ---- requests ---- */

void smd_net_request_begin(struct smd_net_request *request, struct smd_net_comm *comm)
{
	*request = (struct smd_net_request){.comm = comm, .busy = true};
	comm->pending++;
}

void smd_net_request_end(struct smd_net_request *request, int result)
{
	request->done = true;
	request->result = result;
	request->comm->pending--;
}

static void tell_sizes(const struct smd_net_request *request, int *sizes)
{
	const struct smd_net_comm *comm = request->comm;

	if (comm->pump) {
		sizes[0] = (int)((const struct smd_net_send *)request)->size;
		return;
	}
	for (unsigned i = 0; i < ((const struct smd_net_receive *)request)->n; i++) {
		sizes[i] = (int)((const struct smd_net_receive *)request)->entries[i].total;
	}
}

static int request_test(struct smd_net_request *request, int *done, int *sizes)
{
	struct smd_net_comm *comm = request->comm;

	*done = 0;
	if (!request->done && !comm->result) {
		smd_net_comm_progress(comm);
	}
	if (!request->done) {
		return comm->result ? smd_net_comm_tell(comm) : NCCL_SUCCESS;
	}
	if (request->result) { /* NCCL may ask again, or not look at what this returns */
		smd_loss_tell(comm, "a message did not fit where it was received");
		return request->result;
	}
	request->busy = false;
	*done = 1;
	if (sizes) {
		tell_sizes(request, sizes);
	}
	return NCCL_SUCCESS;
}

int smd_net_test(void *handle, int *done, int *sizes)
{
	struct smd_net_request *request = handle;
	struct smd_net_comm *comm;
	int ret;

	if (smd_nccl_lacks_any("test", "request", handle, "result", done)) {
		return NCCL_INVALID_ARGUMENT;
	}
	comm = request->comm;
	pthread_mutex_lock(&comm->lock);
	ret = request_test(request, done, sizes);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* ---- registered memory ---- */

static struct smd_net_memory *memory_find(
	const struct smd_net_comm *comm, const void *data, size_t size)
{
	struct smd_net_memory *memory;

	LIST_FOREACH (memory, &comm->memory, link) {
		if (memory->extent.base == data && memory->extent.length == size) {
			break;
		}
	}
	return memory;
}

/* dmabuf: what stands for memory of a GPU, else NULL. 0 or -errno. */
static int lane_register(struct smd_net_comm *comm, const struct smd_net_memory *memory,
	const struct smd_dmabuf *dmabuf)
{
	struct smd_lane *lane = comm->lanes[0].lane;

	if (dmabuf) {
		return lane && smd_lane_has_card(lane)
			       ? smd_lane_register_device(
					 lane, memory->extent, dmabuf->fd, dmabuf->offset)
			       : -ENOTSUP;
	}
	if (lane && memory->extent.length) {
		smd_lane_register(lane, memory->extent, SMD_NET_PIECE, false);
	}
	return 0;
}

/* NCCL may have freed a GPU's memory, been given its address again, and not said so yet. */
static int lane_renew(struct smd_net_comm *comm, const struct smd_net_memory *memory,
	const struct smd_dmabuf *dmabuf)
{
	if (comm->lanes[0].lane) {
		smd_lane_deregister(comm->lanes[0].lane, memory->extent);
	}
	return lane_register(comm, memory, dmabuf);
}

/* Registers it, or once more. 0 or -errno. */
static int comm_register(struct smd_net_comm *comm, struct smd_extent extent,
	const struct smd_dmabuf *dmabuf, struct smd_net_memory **out)
{
	struct smd_net_memory *memory = memory_find(comm, extent.base, extent.length);
	int ret;

	if (!memory) {
		memory = calloc(1, sizeof(*memory));
		if (!memory) {
			return -ENOMEM;
		}
		memory->extent = extent;
		memory->device = dmabuf != NULL;
		ret = lane_register(comm, memory, dmabuf);
		if (ret) {
			free(memory);
			return ret;
		}
		LIST_INSERT_HEAD(&comm->memory, memory, link);
	} else if (memory->device && dmabuf) {
		ret = lane_renew(comm, memory, dmabuf);
		if (ret) {
			return ret;
		}
	}
	memory->users++;
	*out = memory;
	return 0;
}

static int register_memory(struct smd_net_comm *comm, struct smd_extent extent,
	const struct smd_dmabuf *dmabuf, void **mhandle)
{
	struct smd_net_memory *memory = NULL;
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = comm_register(comm, extent, dmabuf, &memory);
	pthread_mutex_unlock(&comm->lock);
	*mhandle = memory;
	if (ret) {
		smd_nccl_log_warn("net: %zu bytes at %p cannot be registered: %s", extent.length,
			extent.base, strerror(-ret));
	}
	return ret ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;
}

int smd_net_register(void *comm, void *data, size_t size, int type, void **mhandle)
{
	if (smd_nccl_lacks_any("regMr", "comm", comm, "result", mhandle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (type != NCCL_PTR_HOST) {
		smd_nccl_refuse_memory("net", type);
		return NCCL_INVALID_USAGE;
	}
	return register_memory(comm, (struct smd_extent){data, size}, NULL, mhandle);
}

int smd_net_register_dmabuf(
	void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mhandle)
{
	const struct smd_dmabuf dmabuf = {fd, offset};

	if (smd_nccl_lacks_any("regMrDmaBuf", "comm", comm, "result", mhandle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (type != NCCL_PTR_CUDA || !smd_nccl_devices_take_gpu_memory()) {
		smd_nccl_log_warn(
			"net: memory must be of the host, got a dma-buf of type %d", type);
		return NCCL_INVALID_USAGE;
	}
	return register_memory(comm, (struct smd_extent){data, size}, &dmabuf, mhandle);
}

static bool overlaps(const struct smd_extent *extent, const void *data, size_t size)
{
	uintptr_t begin = (uintptr_t)extent->base;
	uintptr_t at = (uintptr_t)data;

	return at < begin + extent->length && begin < at + size;
}

static bool send_uses(const struct smd_net_send *send, const struct smd_extent *extent)
{
	return send->request.busy && !send->request.done &&
	       overlaps(extent, send->data, send->size);
}

static bool receive_uses(const struct smd_net_receive *receive, const struct smd_extent *extent)
{
	bool uses = false;

	for (unsigned i = 0; receive->request.busy && !receive->request.done && i < receive->n;
		i++) {
		uses = uses || overlaps(extent, receive->entries[i].data, receive->entries[i].size);
	}
	return uses;
}

static bool comm_uses(const struct smd_net_comm *comm, const struct smd_extent *extent)
{
	bool uses = false;

	for (unsigned i = 0; comm->sends && i < SMD_NET_SENDS; i++) {
		uses = uses || send_uses(&comm->sends[i], extent);
	}
	for (unsigned i = 0; comm->receives && i < NCCL_NET_REQUESTS; i++) {
		uses = uses || receive_uses(&comm->receives[i], extent);
	}
	return uses;
}

/* Who has given up does this first, and may then free the memory: nobody uses it any more. */
static void comm_deregister(struct smd_net_comm *comm, struct smd_net_memory *memory)
{
	if (--memory->users) {
		return;
	}
	if (comm->pending && comm_uses(comm, &memory->extent)) {
		comm->told = true;
		smd_net_comm_fail(comm, NCCL_INVALID_USAGE,
			"%s: memory must not be deregistered while requests use it", comm->peer);
	}
	if (comm->lanes[0].lane && memory->extent.length) {
		smd_lane_deregister(comm->lanes[0].lane, memory->extent);
	}
	memory_forget(memory);
}

int smd_net_deregister(void *handle, void *mhandle)
{
	struct smd_net_comm *comm = handle;

	if (smd_nccl_lacks("deregMr", "comm", handle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (mhandle) {
		pthread_mutex_lock(&comm->lock);
		comm_deregister(comm, mhandle);
		pthread_mutex_unlock(&comm->lock);
	}
	return NCCL_SUCCESS;
}

/* ---- odds ---- */

void smd_net_own_name(char name[SMD_NET_NAME_MAX])
{
	char host[64] = "";

	(void)gethostname(host, sizeof(host) - 1); /* or without */
	snprintf(name, SMD_NET_NAME_MAX, "%s:%d", host, (int)getpid());
}

int smd_net_random(struct smd_net_key *key)
{
	return getrandom(key, sizeof(*key), 0) == (ssize_t)sizeof(*key) ? 0 : -EIO;
}

int smd_net_close_send(void *handle)
{
	struct smd_net_comm *comm = handle;

	if (smd_nccl_lacks("closeSend", "comm", handle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (!comm->result) {
		smd_net_comm_progress(comm); /* what is unread would make TCP drop what was sent */
	}
	smd_net_comm_destroy(comm);
	return NCCL_SUCCESS;
}

int smd_net_close_receive(void *handle)
{
	if (smd_nccl_lacks("closeRecv", "comm", handle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	smd_net_comm_destroy(handle);
	return NCCL_SUCCESS;
}
