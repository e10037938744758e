/* Copies an operation's chunks between device memory and stages. */
#include "worker/libsummand/path_staged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/cache_line.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/flow.h"
#include "worker/libsummand/history.h"

static const struct smd_path path_staged;

static struct smd_staging *staging_of(const struct smd_request *operation)
{
	return &operation->comm->context->staging;
}

static void staged_free_send(struct smd_staging *staging, struct smd_flow_send *send)
{
	struct smd_stage *stage = send->stage;

	send->stage = NULL;
	send->fetched = NULL;
	smd_staging_free_send(staging, stage);
}

static bool staged_takes_cards(const struct smd_request *operation)
{
	return (operation->send_allocation && operation->send_allocation->taken) ||
	       (operation->recv_allocation && operation->recv_allocation->taken);
}

static bool staged_contributes_from_device(const struct smd_request *operation)
{
	return smd_operation_contributes_results(operation) ? operation->writes_device
							    : operation->reads_device;
}

/*
 * Where what this rank contributes is kept, because it passes through memory of the host anyway;
 * made with the first chunk. NULL: it leaves no copies, or there is no memory for it, and then the
 * operation asks what others have before it returns.
 */
static uint8_t *staged_copy(struct smd_request *operation)
{
	if (!operation->copied && operation->leaves_copies &&
		staged_contributes_from_device(operation) && !staged_takes_cards(operation)) {
		operation->copy =
			smd_cache_lines_allocate(operation->count * operation->element_bytes);
	}
	operation->copied = true;
	return operation->copy;
}

/* ---- from the device ---- */

static void staged_on_fetched(struct smd_notice *notice)
{
	struct smd_stage *stage = (struct smd_stage *)notice;
	struct smd_request *operation = stage->operation;
	struct smd_staging *staging = staging_of(operation);
	struct smd_error error = {""};
	int ret = staging->ops->result(notice, &error);

	stage->reading = false;
	stage->failed = ret != 0;
	operation->copies_pending--;
	if (!smd_operation_contributes_results(operation) && staged_copy(operation)) {
		memcpy(operation->copy + stage->offset, stage->memory, stage->bytes);
	}
	if (ret) {
		smd_comm_fault_device(operation->comm, ret, &error);
	}
	if (stage->flow->dead || operation->comm->state == SMD_COMM_FAILED) {
		staged_free_send(staging, stage->send);
		smd_operation_check(operation);
	} else if (!ret) { /* else the chunk keeps it until the communicator has failed */
		operation->comm->pump(operation->comm);
	}
}

static enum smd_fetch staged_fetch_chunk(struct smd_flow *flow, struct smd_request *operation,
	uint64_t chunk, bool is_result, struct smd_stage *stage)
{
	struct smd_staging *staging = staging_of(operation);
	struct smd_flow_send *send = &flow->sends[flow->fetched % SMD_FLOW_WINDOW_MAX];
	struct smd_error error = {""};
	int ret;

	stage->flow = flow;
	stage->failed = false;
	send->stage = stage;
	send->fetched = stage->memory;
	stage->send = send;
	stage->offset = smd_operation_chunk_offset(operation, chunk);
	stage->bytes = smd_operation_chunk_bytes(operation, chunk);
	stage->notice.ended = staged_on_fetched;
	ret = staging->ops->read(operation->device, stage->memory,
		(is_result ? operation->recv : operation->send) + stage->offset, stage->bytes,
		&stage->notice, &error);
	if (ret) {
		staged_free_send(staging, send);
		smd_comm_fault_device(flow->comm, ret, &error);
		return SMD_FETCH_LATER;
	}
	smd_staging_watch(staging, &stage->notice);
	stage->reading = true;
	operation->copies_pending++;
	return SMD_FETCH_BEGUN;
}

static bool staged_sends_directly(const struct smd_flow *flow, const struct smd_request *operation,
	uint64_t chunk, uint64_t ordinal)
{
	return operation->send_allocation &&
	       smd_flow_sends_directly(flow, operation, chunk, ordinal);
}

static enum smd_fetch staged_fetch(
	struct smd_flow *flow, struct smd_request *operation, uint64_t chunk, bool is_result)
{
	struct smd_stage *stage;

	/* What is done again may read a result that is still being copied to the device. */
	if (smd_operation_fence(operation) ||
		(flow->epoch != operation->home && operation->writing)) {
		return SMD_FETCH_LATER;
	}
	if (!(is_result ? operation->writes_device : operation->reads_device) ||
		(!is_result && staged_sends_directly(flow, operation, chunk, flow->fetched))) {
		return SMD_FETCH_NONE;
	}
	stage = smd_staging_take_send(staging_of(operation), operation);
	if (!stage) {
		smd_staging_wait(staging_of(operation), &flow->comm->waiter);
		return SMD_FETCH_LATER;
	}
	return staged_fetch_chunk(flow, operation, chunk, is_result, stage);
}

/* It has been fetched, or need not be. */
static bool staged_may_send(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	const struct smd_stage *stage = flow->sends[flow->next % SMD_FLOW_WINDOW_MAX].stage;

	(void)chunk;
	return !smd_operation_fence(operation) && flow->next < flow->fetched &&
	       !(stage && (stage->reading || stage->failed));
}

static void staged_sent(struct smd_flow_send *send)
{
	staged_free_send(staging_of(send->stage->operation), send);
}

/* ---- to the device ---- */

/* In the device's memory, or, where cards do not reach that, in a stage, if there is one. */
static void *staged_place(
	struct smd_flow *flow, struct smd_request *operation, void *memory, size_t bytes)
{
	struct smd_flow_send *send = &flow->sends[flow->next % SMD_FLOW_WINDOW_MAX];

	if (operation->writes_device && bytes && operation->recv_allocation &&
		smd_lane_can_dma(flow->remote->lane, memory, (uint32_t)bytes)) {
		return memory;
	}
	if (bytes <= SMD_DIRECT_ABOVE || !operation->writes_device) {
		return bytes > SMD_DIRECT_ABOVE ? memory : NULL;
	}
	send->place = smd_staging_take_place(staging_of(operation), operation);
	return send->place ? send->place->memory : NULL;
}

static void *staged_receive(struct smd_flow *flow, struct smd_request *operation, void *memory)
{
	if (!operation->writes_device) {
		return memory;
	}
	if (!flow->rx_stage) { /* else it is for a piece after the first */
		flow->rx_stage = smd_staging_take(staging_of(operation), operation);
	}
	return flow->rx_stage ? flow->rx_stage->memory : NULL;
}

static void staged_on_written(struct smd_notice *notice)
{
	struct smd_stage *stage = (struct smd_stage *)notice;
	struct smd_request *operation = stage->operation;
	struct smd_staging *staging = staging_of(operation);
	struct smd_error error = {""};
	int ret = staging->ops->result(notice, &error);

	smd_staging_free(staging, stage);
	operation->copies_pending--;
	operation->writing--;
	if (ret) {
		smd_comm_fault_device(operation->comm, ret, &error);
	} else {
		operation->chunks_done++;
	}
	if (operation->repaired && operation->writing == 0) {
		operation->comm->pump(operation->comm);
	}
	smd_operation_check(operation);
}

/* The result is in a stage, or beside its place if none was free. */
static void staged_write(
	struct smd_flow *flow, struct smd_request *operation, size_t offset, size_t bytes)
{
	struct smd_staging *staging = staging_of(operation);
	struct smd_stage *stage = flow->rx_stage;
	struct smd_error error = {""};
	int ret;

	flow->rx_stage = NULL;
	if (smd_operation_contributes_results(operation) && staged_copy(operation)) {
		memcpy(operation->copy + offset, stage ? stage->memory : flow->rx_beside, bytes);
	}
	if (!stage) {
		ret = staging->ops->write_now(operation->device, operation->recv + offset,
			flow->rx_beside, bytes, &error);
		operation->chunks_done += ret == 0;
	} else {
		stage->send = NULL;
		stage->notice.ended = staged_on_written;
		ret = staging->ops->write(operation->device, operation->recv + offset,
			stage->memory, bytes, &stage->notice, &error);
		if (ret) {
			smd_staging_free(staging, stage);
		} else {
			smd_staging_watch(staging, &stage->notice);
			operation->copies_pending++;
			operation->writing++;
		}
	}
	if (ret) {
		smd_comm_fault_device(flow->comm, ret, &error);
	}
}

static bool staged_received(struct smd_flow *flow, struct smd_request *operation, bool direct)
{
	if (!operation->writes_device || (direct && !flow->rx_stage)) {
		operation->unflushed |= operation->writes_device;
		return true;
	}
	staged_write(flow, operation, smd_operation_chunk_offset(operation, flow->rx_chunk),
		flow->rx_bytes);
	return false;
}

static bool staged_complete(struct smd_request *operation)
{
	struct smd_error error = {""};
	int ret;

	if (operation->unflushed) {
		operation->unflushed = false;
		ret = staging_of(operation)->ops->flush(operation->device, &error);
		operation->unseen = ret != 0;
		if (ret) {
			smd_comm_fault_device(operation->comm, ret, &error);
		}
	}
	return !operation->unseen;
}

/* ---- operations ---- */

static void staged_watch_fence(struct smd_fence *fence)
{
	if (!fence->watched) {
		fence->watched = true;
		smd_staging_watch(fence->owner, &fence->notice);
	}
}

static void staged_begin(struct smd_request *operation)
{
	struct smd_allocations *allocations = &staging_of(operation)->allocations;

	if (operation->fence) {
		staged_watch_fence(operation->fence);
	}
	if (operation->reads_device) {
		operation->send_allocation = smd_allocation_take(
			allocations, operation->device, operation->send, operation->send_id);
	}
	if (operation->writes_device) {
		operation->recv_allocation = smd_allocation_take(
			allocations, operation->device, operation->recv, operation->recv_id);
	}
}

/* Whether its fence has opened or not. */
static void staged_end(struct smd_request *operation)
{
	smd_allocation_put(operation->send_allocation);
	smd_allocation_put(operation->recv_allocation);
	free(operation->copy);
	if (operation->fence) { /* its notice comes later */
		staged_watch_fence(operation->fence);
		operation->fence->operation = NULL;
		operation->fence = NULL;
	}
}

/* Copies to the device are of whole results, so what is there is an input or a result. */
static const char *staged_why_lost(const struct smd_request *operation)
{
	return staged_takes_cards(operation) ? "network cards use its memory of a device themselves"
					     : NULL;
}

static bool staged_contribution(const struct smd_request *operation, const uint8_t **out)
{
	if (!staged_contributes_from_device(operation)) {
		return true;
	}
	*out = operation->copy;
	return operation->copy != NULL;
}

static const struct smd_path path_staged = {
	.name = "staged",
	.begin = staged_begin,
	.end = staged_end,
	.fetch = staged_fetch,
	.may_send = staged_may_send,
	.sent = staged_sent,
	.place = staged_place,
	.receive = staged_receive,
	.received = staged_received,
	.why_lost = staged_why_lost,
	.contribution = staged_contribution,
	.complete = staged_complete,
};

void smd_path_staged_abandon_flow(struct smd_flow *flow)
{
	struct smd_staging *staging = &flow->comm->context->staging;

	if (flow->rx_stage) {
		smd_staging_free(staging, flow->rx_stage);
		flow->rx_stage = NULL;
	}
	for (unsigned k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		struct smd_flow_send *send = &flow->sends[k];

		/* Those that are read or sent now are given back after that. */
		if (send->stage && !send->stage->reading && !send->operation) {
			staged_free_send(staging, send);
		}
	}
}

void smd_path_staged_abandon(struct smd_comm *comm)
{
	struct smd_staging *staging = &comm->context->staging;

	smd_staging_wait_no_longer(staging, &comm->waiter);
	for (struct smd_epoch *epoch = &comm->base; epoch && staging->ops; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			smd_path_staged_abandon_flow(&epoch->flows[i]);
		}
	}
}

/* On the owner: what was in the user's stream is done. The operation may have ended before. */
static void staged_on_fence(struct smd_notice *notice)
{
	struct smd_fence *fence = (struct smd_fence *)notice;
	struct smd_staging *staging = fence->owner;
	struct smd_request *operation = fence->operation;
	struct smd_error error = {""};
	int ret = staging->ops->result(notice, &error);

	if (operation && ret) {
		smd_comm_fault_device(operation->comm, ret, &error); /* and the fence stays shut */
		return;
	}
	fence->watched = false;
	smd_staging_put_fence(staging, fence);
	if (operation) {
		operation->fence = NULL;
		operation->comm->pump(operation->comm);
	}
}

/* ---- on callers' threads ---- */

/* The operation begins when what is in the user's stream now is done. That may be at any time from
 * here on. */
static int staged_set_fence(
	struct smd_request *operation, struct smd_fence *fence, struct smd_error *error)
{
	struct smd_staging *staging = staging_of(operation);
	int ret;

	fence->notice.ended = staged_on_fence;
	fence->operation = operation;
	operation->fence = fence;
	ret = staging->ops->fence_set(fence, operation->comm->stream, error);
	if (ret) {
		operation->fence = NULL;
		smd_staging_put_fence(staging, fence);
	}
	return ret;
}

static int staged_locate(struct smd_request *operation, struct smd_device_location *location,
	struct smd_error *error)
{
	const struct smd_device_ops *ops = staging_of(operation)->ops;
	struct smd_device_location from = {.ordinal = -1};
	struct smd_device_location to = {.ordinal = -1};
	unsigned rank = operation->comm->rank;
	int ret = 0;

	if (smd_collective_sends(operation->collective, operation->root, rank)) {
		ret = ops->locate(operation->send, &from, error);
	}
	if (ret == 0 && smd_collective_receives(operation->collective, operation->root, rank)) {
		ret = ops->locate(operation->recv, &to, error);
	}
	operation->reads_device = from.ordinal >= 0;
	operation->writes_device = to.ordinal >= 0;
	operation->send_id = from.allocation;
	operation->recv_id = to.allocation;
	if (ret == 0 && operation->reads_device && operation->writes_device &&
		from.ordinal != to.ordinal) {
		return smd_error_set(error, EINVAL,
			"send and recv must be on the same device, got %d and %d", from.ordinal,
			to.ordinal);
	}
	*location =
		operation->reads_device && (from.context || !operation->writes_device) ? from : to;
	return ret;
}

/* Why an operation on such memory does not start. */
static int staged_refuse(struct smd_request *operation, int ret, const struct smd_error *why,
	struct smd_error *error)
{
	if (ret == -EINVAL) {
		return smd_error_set(error, EINVAL, "%s in group %s: %s",
			smd_collective_name(operation->collective), operation->comm->group,
			why->text);
	}
	smd_comm_fault_device(operation->comm, ret, why);
	smd_error_set(error, -ret, "%s", why->text);
	return ret;
}

int smd_path_staged_choose(struct smd_request *operation, struct smd_device_location *location,
	struct smd_error *error)
{
	struct smd_error why = {""};
	int ret = operation->count ? staged_locate(operation, location, &why) : 0;

	if (ret) {
		return staged_refuse(operation, ret, &why, error);
	}
	if (operation->reads_device || operation->writes_device) {
		operation->path = &path_staged;
	}
	return 0;
}

int smd_path_staged_prepare(struct smd_request *operation,
	const struct smd_device_location *location, struct smd_error *error)
{
	bool follows = operation->comm->stream != SMD_STREAM_NONE;
	struct smd_error why = {""};
	struct smd_fence *fence = NULL;
	int ret;

	if (operation->path != &path_staged) {
		return 0;
	}
	ret = smd_staging_take_device(staging_of(operation), location,
		operation->count * operation->element_bytes, &operation->device,
		follows ? &fence : NULL, &why);
	if (ret == 0 && fence) {
		ret = staged_set_fence(operation, fence, &why);
	}
	return ret ? staged_refuse(operation, ret, &why, error) : 0;
}
