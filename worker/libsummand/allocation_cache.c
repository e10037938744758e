/* Tells lanes of allocations of device memory, and withdraws them. */
#include "worker/libsummand/allocation_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/context.h"

static bool context_has_cards(const struct smd_context *context)
{
	for (unsigned i = 0; i < context->nremotes; i++) {
		const struct smd_lane *lane = context->remotes[i]->lane;

		if (lane && smd_lane_has_card(lane)) {
			return true;
		}
	}
	return false;
}

static void allocation_unlink(
	struct smd_allocations *allocations, struct smd_allocation *allocation)
{
	TAILQ_REMOVE(&allocations->all, allocation, link);
	allocations->count--;
	free(allocation);
}

static void allocation_evict(struct smd_context *context, struct smd_allocation *allocation)
{
	struct smd_extent memory = {(void *)allocation->base, allocation->length};

	assert(allocation->users == 0);
	for (unsigned i = 0; memory.length && i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			smd_lane_deregister(context->remotes[i]->lane, memory);
		}
	}
	allocation_unlink(&context->staging.allocations, allocation);
}

/* Those that have been freed, and more if that is not enough. Those in use stay, as they must be
 * there. False: there is no room. */
static bool allocations_make_room(struct smd_context *context)
{
	struct smd_allocations *allocations = &context->staging.allocations;
	const struct smd_device_ops *ops = context->staging.ops;
	struct smd_allocation *allocation = TAILQ_FIRST(&allocations->all);
	struct smd_allocation *oldest = NULL;

	while (allocation) {
		struct smd_allocation *next = TAILQ_NEXT(allocation, link);

		if (allocation->users == 0) {
			if (ops->identify(allocation->device, allocation->base) != allocation->id) {
				allocation_evict(context, allocation);
			} else {
				oldest = allocation;
			}
		}
		allocation = next;
	}
	if (allocations->count == SMD_ALLOCATIONS_MAX && oldest) {
		allocation_evict(context, oldest);
	}
	return allocations->count < SMD_ALLOCATIONS_MAX;
}

/* One reason, the first, is enough to look for the cause. */
static void allocations_say(struct smd_allocations *allocations, const char *reason)
{
	if (!allocations->said) {
		allocations->said = true;
		smd_log(SMD_LOG_INFO, "libsummand",
			"device memory goes through pinned memory of the host: %s", reason);
	}
}

static void allocation_tell_lanes(
	struct smd_context *context, const struct smd_device_export *export)
{
	unsigned told = 0;

	for (unsigned i = 0; i < context->nremotes; i++) {
		struct smd_lane *lane = context->remotes[i]->lane;
		struct smd_error error = {""};
		int ret;

		if (!lane || !smd_lane_has_card(lane)) {
			continue;
		}
		ret = smd_lane_register_device(lane, export->memory, export->fd, export->offset);
		told += ret == 0;
		if (ret) {
			smd_error_set(&error, -ret, "the network card of the lane to %s: %s",
				smd_lane_peer_name(lane), strerror(-ret));
			allocations_say(&context->staging.allocations, error.text);
		}
	}
	smd_log(SMD_LOG_DEBUG, "libsummand",
		"%zu bytes of device memory at %p: %u lanes read and write them",
		export->memory.length, export->memory.base, told);
}

static struct smd_allocation *allocation_add(
	struct smd_context *context, struct smd_device *device, const void *pointer, uint64_t id)
{
	struct smd_allocations *allocations = &context->staging.allocations;
	struct smd_allocation *allocation;
	struct smd_device_export export;
	struct smd_error error = {""};

	if (!allocations_make_room(context)) {
		return NULL;
	}
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation) {
		return NULL;
	}
	allocation->id = id;
	allocation->device = device;
	allocation->base = pointer;
	if (context->staging.ops->export(device, pointer, &export, &error)) {
		allocations_say(allocations, error.text); /* and is not tried again */
	} else {
		allocation->base = export.memory.base;
		allocation->length = export.memory.length;
		allocation_tell_lanes(context, &export);
		close(export.fd);
	}
	TAILQ_INSERT_HEAD(&allocations->all, allocation, link);
	allocations->count++;
	return allocation;
}

static struct smd_allocation *allocation_find(struct smd_allocations *allocations, uint64_t id)
{
	struct smd_allocation *allocation;

	TAILQ_FOREACH (allocation, &allocations->all, link) {
		if (allocation->id == id) {
			TAILQ_REMOVE(&allocations->all, allocation, link);
			TAILQ_INSERT_HEAD(&allocations->all, allocation, link);
			break;
		}
	}
	return allocation;
}

struct smd_allocation *smd_allocation_take(
	struct smd_context *context, struct smd_device *device, const void *pointer, uint64_t id)
{
	struct smd_allocation *allocation;

	if (id == 0 || !context_has_cards(context)) {
		return NULL;
	}
	allocation = allocation_find(&context->staging.allocations, id);
	if (!allocation) {
		allocation = allocation_add(context, device, pointer, id);
	}
	if (allocation) {
		allocation->users++;
	}
	return allocation;
}

void smd_allocation_put(struct smd_allocation *allocation)
{
	if (allocation) {
		allocation->users--;
	}
}

void smd_allocations_create(struct smd_allocations *allocations)
{
	*allocations = (struct smd_allocations){.count = 0};
	TAILQ_INIT(&allocations->all);
}

void smd_allocations_destroy(struct smd_allocations *allocations)
{
	while (!TAILQ_EMPTY(&allocations->all)) {
		allocation_unlink(allocations, TAILQ_FIRST(&allocations->all));
	}
}
