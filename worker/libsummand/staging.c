/* Keeps the pool of pinned memory, and copies chunks through it. */
#include "worker/libsummand/staging.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/wire/collective.h"
#include "worker/libsummand/comm.h"

#define STAGE_ALIGNMENT 4096u

static struct smd_staging *staging_of(const struct smd_request *operation)
{
	return &operation->comm->context->staging;
}

/* ---- stages, on the owner of the progress engine ---- */

static struct smd_stage *stage_take(struct smd_staging *staging, struct smd_request *operation)
{
	struct smd_stage *stage = SLIST_FIRST(&staging->free);

	if (stage) {
		SLIST_REMOVE_HEAD(&staging->free, link);
		stage->operation = operation;
	}
	return stage;
}

/* The chunks of a communicator that waits may go on, but not from here: the caller may be inside a
 * lane's callback. */
static void stage_free(struct smd_staging *staging, struct smd_stage *stage)
{
	SLIST_INSERT_HEAD(&staging->free, stage, link);
	if (!TAILQ_EMPTY(&staging->waiting) && !staging->resuming) {
		staging->resuming = true;
		smd_progress_defer(&staging->context->progress, &staging->resume);
	}
}

static void stage_free_send(struct smd_staging *staging, struct smd_flow_send *send)
{
	struct smd_stage *stage = send->stage;

	send->stage = NULL;
	staging->sending--;
	stage_free(staging, stage);
}

static void staging_wait(struct smd_staging *staging, struct smd_comm *comm)
{
	if (!comm->awaits_stage) {
		comm->awaits_stage = true;
		TAILQ_INSERT_TAIL(&staging->waiting, comm, stage_link);
	}
}

static void staging_resume(struct smd_task *task)
{
	struct smd_staging *staging =
		(struct smd_staging *)((char *)task - offsetof(struct smd_staging, resume));
	struct smd_comm *last = TAILQ_LAST(&staging->waiting, smd_comm_queue);
	struct smd_comm *comm = NULL;

	staging->resuming = false;
	while (comm != last) { /* whoever must wait again does so behind the last */
		comm = TAILQ_FIRST(&staging->waiting);
		TAILQ_REMOVE(&staging->waiting, comm, stage_link);
		comm->awaits_stage = false;
		smd_comm_pump(comm);
	}
}

static void staging_fault(struct smd_comm *comm, int err, const struct smd_error *error)
{
	char text[SMD_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "group %s: rank %u (%s) cannot use its device memory: %.200s",
		comm->group, comm->rank, comm->context->config.replica, error->text);
	smd_comm_fault(comm, err, text);
}

/* ---- from the device ---- */

static void staging_on_read(struct smd_task *task)
{
	struct smd_stage *stage = (struct smd_stage *)task;
	struct smd_request *operation = stage->operation;
	struct smd_staging *staging = staging_of(operation);
	struct smd_error error = {""};
	int ret = staging->ops->result(&stage->notice, &error);

	stage->reading = false;
	operation->copies_pending--;
	if (ret) {
		staging_fault(operation->comm, ret, &error);
	}
	if (ret || operation->comm->state == SMD_COMM_FAILED) {
		stage_free_send(staging, stage->send);
		smd_operation_check(operation);
	} else {
		smd_comm_pump(operation->comm);
	}
}

static bool staging_read_chunk(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	struct smd_staging *staging = staging_of(operation);
	struct smd_flow_send *send = &flow->sends[flow->read % SMD_FLOW_WINDOW_MAX];
	size_t offset = smd_operation_chunk_offset(operation, chunk);
	struct smd_error error = {""};
	int ret;

	send->stage = stage_take(staging, operation);
	send->stage->send = send;
	staging->sending++;
	send->stage->notice.task.run = staging_on_read;
	ret = staging->ops->read(operation->device, send->stage->memory, operation->send + offset,
		smd_operation_chunk_bytes(operation, chunk), &send->stage->notice, &error);
	if (ret) {
		stage_free_send(staging, send);
		staging_fault(flow->comm, ret, &error);
		return false;
	}
	send->stage->reading = true;
	operation->copies_pending++;
	flow->read++;
	return true;
}

bool smd_staging_reaches(const struct smd_request *operation,
	const struct smd_allocation *allocation, const struct smd_lane *lane, const void *memory,
	size_t bytes)
{
	return (allocation || operation->cards_only) &&
	       smd_lane_can_dma(lane, memory, (uint32_t)bytes);
}

/* Whether the lane's card takes the chunk from the device: it can, and there is a place for it.
 * What is so once stays so. */
static bool staging_sends_directly(const struct smd_flow *flow, const struct smd_request *operation,
	uint64_t chunk, uint64_t ordinal)
{
	size_t bytes = smd_operation_chunk_bytes(operation, chunk);

	return bytes <= smd_flow_remote_buffer(flow, ordinal).length &&
	       smd_staging_reaches(operation, operation->send_allocation, flow->remote->lane,
		       operation->send + smd_operation_chunk_offset(operation, chunk), bytes);
}

bool smd_staging_read(struct smd_flow *flow)
{
	struct smd_context *context = flow->comm->context;
	struct smd_staging *staging = &context->staging;

	flow->read = flow->read < flow->next ? flow->next : flow->read;
	for (; flow->read < flow->limit; flow->read++) {
		uint64_t chunk = smd_deal_chunk_of(&context->deal, flow->remote->index, flow->read);
		struct smd_request *operation = smd_comm_find_operation(flow->comm, chunk);

		if (!operation || operation->fence) {
			return false;
		}
		if (!operation->reads_device || operation->cards_only ||
			staging_sends_directly(flow, operation, chunk, flow->read)) {
			continue;
		}
		if (staging->sending == staging->sending_max || SLIST_EMPTY(&staging->free)) {
			staging_wait(staging, flow->comm);
			return false;
		}
		return staging_read_chunk(flow, operation, chunk);
	}
	return false;
}

bool smd_staging_may_send(
	const struct smd_flow *flow, const struct smd_request *operation, uint64_t chunk)
{
	const struct smd_stage *stage = flow->sends[flow->next % SMD_FLOW_WINDOW_MAX].stage;

	if (operation->fence) {
		return false;
	}
	if (stage) {
		return !stage->reading;
	}
	return !operation->reads_device ||
	       staging_sends_directly(flow, operation, chunk, flow->next);
}

void smd_staging_refuse(struct smd_request *operation, const char *what)
{
	struct smd_error error = {""};

	smd_error_set(&error, ENOTSUP, "%s", what);
	staging_fault(operation->comm, -ENOTSUP, &error);
}

bool smd_staging_may_go(const struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	size_t bytes = smd_operation_received_bytes(operation, chunk);

	if (operation->writes_device && bytes &&
		!smd_lane_can_dma(flow->remote->lane,
			operation->recv + smd_operation_chunk_offset(operation, chunk),
			(uint32_t)bytes)) {
		smd_staging_refuse(operation, "the network card does not write there");
		return false;
	}
	if (!operation->reads_device ||
		staging_sends_directly(flow, operation, chunk, flow->next)) {
		return true;
	}
	if (flow->next < flow->buffered) {
		smd_staging_refuse(operation, "the reduction server has no place for a chunk");
	}
	return false;
}

void smd_staging_sent(struct smd_flow_send *send)
{
	stage_free_send(staging_of(send->stage->operation), send);
}

/* ---- to the device ---- */

static void staging_on_written(struct smd_task *task)
{
	struct smd_stage *stage = (struct smd_stage *)task;
	struct smd_request *operation = stage->operation;
	struct smd_staging *staging = staging_of(operation);
	struct smd_error error = {""};
	int ret = staging->ops->result(&stage->notice, &error);

	stage_free(staging, stage);
	operation->copies_pending--;
	if (ret) {
		staging_fault(operation->comm, ret, &error);
	} else {
		operation->chunks_done++;
	}
	smd_operation_check(operation);
}

void *smd_staging_receive(struct smd_flow *flow)
{
	flow->rx_stage = stage_take(&flow->comm->context->staging, flow->rx_operation);
	return flow->rx_stage ? flow->rx_stage->memory : flow->remote->sink;
}

void smd_staging_write(
	struct smd_flow *flow, struct smd_request *operation, size_t offset, size_t bytes)
{
	const struct smd_device_ops *ops = staging_of(operation)->ops;
	struct smd_stage *stage = flow->rx_stage;
	struct smd_error error = {""};
	int ret;

	flow->rx_stage = NULL;
	if (!stage) {
		ret = ops->write_now(operation->device, operation->recv + offset,
			flow->remote->sink, bytes, &error);
		operation->chunks_done += ret == 0;
	} else {
		stage->send = NULL;
		stage->notice.task.run = staging_on_written;
		ret = ops->write(operation->device, operation->recv + offset, stage->memory, bytes,
			&stage->notice, &error);
		if (ret) {
			stage_free(staging_of(operation), stage);
		}
		operation->copies_pending += ret == 0;
	}
	if (ret) {
		staging_fault(flow->comm, ret, &error);
	}
}

/* ---- operations ---- */

void smd_staging_begin(struct smd_request *operation)
{
	struct smd_context *context = operation->comm->context;

	operation->comm->on_device++;
	if (operation->reads_device) {
		operation->send_allocation = smd_allocation_take(
			context, operation->device, operation->send, operation->send_id);
	}
	if (operation->writes_device) {
		operation->recv_allocation = smd_allocation_take(
			context, operation->device, operation->recv, operation->recv_id);
	}
}

bool smd_staging_flush(struct smd_request *operation)
{
	struct smd_error error = {""};
	int ret;

	if (operation->unflushed) {
		operation->unflushed = false;
		ret = staging_of(operation)->ops->flush(operation->device, &error);
		operation->unseen = ret != 0;
		if (ret) {
			staging_fault(operation->comm, ret, &error);
		}
	}
	return !operation->unseen;
}

void smd_staging_end(struct smd_request *operation)
{
	operation->comm->on_device--;
	smd_allocation_put(operation->send_allocation);
	smd_allocation_put(operation->recv_allocation);
	if (operation->fence) { /* its notice comes later */
		operation->fence->operation = NULL;
		operation->fence = NULL;
	}
}

void smd_staging_abandon(struct smd_comm *comm)
{
	struct smd_staging *staging = &comm->context->staging;

	if (comm->awaits_stage) {
		comm->awaits_stage = false;
		TAILQ_REMOVE(&staging->waiting, comm, stage_link);
	}
	for (unsigned i = 0; staging->ops && i < comm->context->nremotes; i++) {
		struct smd_flow *flow = &comm->flows[i];

		if (flow->rx_stage) {
			stage_free(staging, flow->rx_stage);
			flow->rx_stage = NULL;
		}
		for (unsigned k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
			struct smd_flow_send *send = &flow->sends[k];

			/* Those that are read or sent now are given back after that. */
			if (send->stage && !send->stage->reading && !send->operation) {
				stage_free_send(staging, send);
			}
		}
	}
}

/* ---- fences ---- */

static void fence_put(struct smd_staging *staging, struct smd_fence *fence)
{
	pthread_mutex_lock(&staging->lock);
	SLIST_INSERT_HEAD(&fence->device->idle_fences, fence, idle_link);
	pthread_mutex_unlock(&staging->lock);
}

/* On the owner: what was in the user's stream is done. The operation may have ended before. */
static void staging_on_fence(struct smd_task *task)
{
	struct smd_fence *fence = (struct smd_fence *)task;
	struct smd_staging *staging = fence->owner;
	struct smd_request *operation = fence->operation;
	struct smd_error error = {""};
	int ret = staging->ops->result(&fence->notice, &error);

	if (operation && ret) {
		staging_fault(operation->comm, ret, &error); /* and the fence stays shut */
		return;
	}
	fence_put(staging, fence);
	if (operation) {
		operation->fence = NULL;
		smd_comm_pump(operation->comm);
	}
}

/* ---- on callers' threads ---- */

/* The calls of this section down to staging_set_fence() are made with the lock. */
static int staging_make_stages(
	struct smd_staging *staging, struct smd_device *device, struct smd_error *error)
{
	const struct smd_context *context = staging->context;
	size_t stride = (context->deal.chunk_bytes + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT *
			STAGE_ALIGNMENT;
	size_t n = context->config.staging_bytes / stride;
	struct smd_stage *stages;
	void *memory;
	int ret;

	n = n < 2 ? 2 : n;
	stages = calloc(n, sizeof(*stages));
	if (!stages) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = staging->ops->pin(device, n * stride, &memory, error);
	if (ret) {
		free(stages);
		return ret;
	}
	for (size_t i = 0; i < n; i++) {
		stages[i].memory = (uint8_t *)memory + i * stride;
		SLIST_INSERT_HEAD(&staging->free, &stages[i], link);
	}
	staging->pinned_by = device;
	staging->memory = memory;
	staging->sending_max = (unsigned)(n - n / 2);
	staging->stages = stages;
	return 0;
}

static int staging_find_device(struct smd_staging *staging, const struct smd_device_location *place,
	struct smd_device **out, struct smd_error *error)
{
	struct smd_device *device;
	int ret;

	SLIST_FOREACH(device, &staging->devices, link)
	{
		if (device->place.ordinal == place->ordinal &&
			device->place.context == place->context) {
			*out = device;
			return 0;
		}
	}
	ret = staging->ops->open(place, &staging->context->progress, out, error);
	if (ret == 0) {
		SLIST_INSERT_HEAD(&staging->devices, *out, link);
	}
	return ret;
}

static int staging_take_fence(struct smd_staging *staging, struct smd_device *device,
	struct smd_fence **out, struct smd_error *error)
{
	int ret;

	*out = SLIST_FIRST(&device->idle_fences);
	if (*out) {
		SLIST_REMOVE_HEAD(&device->idle_fences, idle_link);
		return 0;
	}
	ret = staging->ops->fence_create(device, out, error);
	if (ret == 0) {
		(*out)->owner = staging;
		(*out)->notice.task.run = staging_on_fence;
		SLIST_INSERT_HEAD(&device->fences, *out, link);
	}
	return ret;
}

static int staging_take_device(struct smd_request *operation,
	const struct smd_device_location *place, struct smd_fence **fence, struct smd_error *error)
{
	struct smd_staging *staging = staging_of(operation);
	int ret;

	pthread_mutex_lock(&staging->lock);
	ret = staging_find_device(staging, place, &operation->device, error);
	if (ret == 0 && !staging->stages) {
		ret = staging_make_stages(staging, operation->device, error);
	}
	if (ret == 0 && operation->comm->stream != SMD_STREAM_NONE) {
		ret = staging_take_fence(staging, operation->device, fence, error);
	}
	pthread_mutex_unlock(&staging->lock);
	return ret;
}

/* The operation begins when what is in the user's stream now is done. That may be at any time from
 * here on. */
static int staging_set_fence(
	struct smd_request *operation, struct smd_fence *fence, struct smd_error *error)
{
	int ret;

	fence->operation = operation;
	operation->fence = fence;
	ret = staging_of(operation)->ops->fence_set(fence, operation->comm->stream, error);
	if (ret) {
		operation->fence = NULL;
		fence_put(staging_of(operation), fence);
	}
	return ret < 0 ? ret : 0;
}

static int staging_locate(
	struct smd_request *operation, struct smd_device_location *place, struct smd_error *error)
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
			"%s in group %s: send and recv must be on the same device, got %d and %d",
			smd_collective_name(operation->collective), operation->comm->group,
			from.ordinal, to.ordinal);
	}
	*place = operation->reads_device && (from.context || !operation->writes_device) ? from : to;
	return ret;
}

int smd_staging_prepare(struct smd_request *operation, struct smd_error *error)
{
	struct smd_error why = {""};
	struct smd_device_location place;
	struct smd_fence *fence = NULL; /* none is needed */
	int ret;

	if (operation->count == 0) {
		return 0;
	}
	ret = staging_locate(operation, &place, &why);
	if (ret == 0 && place.ordinal < 0) {
		return 0;
	}
	if (ret == 0) {
		ret = staging_take_device(operation, &place, &fence, &why);
	}
	if (ret == 0 && fence) {
		ret = staging_set_fence(operation, fence, &why);
	}
	if (ret && ret != -EINVAL) {
		staging_fault(operation->comm, ret, &why);
	}
	return ret ? smd_error_set(error, -ret, "%s", why.text) : 0;
}

void smd_staging_create(struct smd_staging *staging, struct smd_context *context)
{
	*staging = (struct smd_staging){
		.ops = smd_device_ops(),
		.context = context,
		.resume.run = staging_resume,
	};
	pthread_mutex_init(&staging->lock, NULL);
	smd_allocations_create(&staging->allocations);
	SLIST_INIT(&staging->devices);
	SLIST_INIT(&staging->free);
	TAILQ_INIT(&staging->waiting);
}

void smd_staging_destroy(struct smd_staging *staging)
{
	smd_allocations_destroy(&staging->allocations);
	if (staging->stages) {
		staging->ops->unpin(staging->pinned_by, staging->memory);
		free(staging->stages);
	}
	while (!SLIST_EMPTY(&staging->devices)) {
		struct smd_device *device = SLIST_FIRST(&staging->devices);

		SLIST_REMOVE_HEAD(&staging->devices, link);
		staging->ops->close(device);
	}
	pthread_mutex_destroy(&staging->lock);
}
