/* Registers allocations of device memory with the lanes' network cards, and evicts them. */
#include "worker/libsummand/allocation_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/device.h"

static bool allocations_have_cards(const struct smd_allocations *allocations)
{
	for (unsigned i = 0; i < allocations->remotes->count; i++) {
		const struct smd_lane *lane = allocations->remotes->each[i]->lane;

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

static void allocation_evict(struct smd_allocations *allocations, struct smd_allocation *allocation)
{
	struct smd_extent memory = {(void *)allocation->base, allocation->length};

	assert(allocation->users == 0);
	for (unsigned i = 0; memory.length && i < allocations->remotes->count; i++) {
		if (allocations->remotes->each[i]->lane) {
			smd_lane_deregister(allocations->remotes->each[i]->lane, memory);
		}
	}
	allocation_unlink(allocations, allocation);
}

/* Those that have been freed, and more if that is not enough. Those in use stay, as they must be
 * there. False: there is no room. */
static bool allocations_make_room(struct smd_allocations *allocations)
{
	const struct smd_device_ops *ops = allocations->ops;
	struct smd_allocation *allocation = TAILQ_FIRST(&allocations->all);
	struct smd_allocation *oldest = NULL;

	while (allocation) {
		struct smd_allocation *next = TAILQ_NEXT(allocation, link);

		if (allocation->users == 0) {
			if (ops->identify(allocation->device, allocation->base) != allocation->id) {
				allocation_evict(allocations, allocation);
			} else {
				oldest = allocation;
			}
		}
		allocation = next;
	}
	if (allocations->count == SMD_ALLOCATIONS_MAX && oldest) {
		allocation_evict(allocations, oldest);
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

/* Whether its card takes it. */
static bool allocation_tell_lane(struct smd_allocations *allocations,
	struct smd_allocation *allocation, struct smd_lane *lane,
	const struct smd_device_export *export)
{
	struct smd_error error = {""};
	int ret = smd_lane_register_device(lane, export->memory, export->fd, export->offset);

	if (ret) {
		smd_error_set(&error, -ret, "the network card of the lane to %s: %s",
			smd_lane_peer_name(lane), strerror(-ret));
		allocations_say(allocations, error.text);
	}
	allocation->taken |= ret == 0;
	return ret == 0;
}

static void allocation_tell_lanes(struct smd_allocations *allocations,
	struct smd_allocation *allocation, const struct smd_device_export *export)
{
	unsigned told = 0;

	for (unsigned i = 0; i < allocations->remotes->count; i++) {
		const struct smd_remote *remote = allocations->remotes->each[i];

		if (smd_remote_is_there(remote) && smd_lane_has_card(remote->lane)) {
			told += allocation_tell_lane(allocations, allocation, remote->lane, export);
		}
	}
	smd_log(SMD_LOG_DEBUG, "libsummand",
		"%zu bytes of device memory at %p: %u lanes read and write them",
		export->memory.length, export->memory.base, told);
}

static struct smd_allocation *allocation_add(struct smd_allocations *allocations,
	struct smd_device *device, const void *pointer, uint64_t id)
{
	struct smd_allocation *allocation;
	struct smd_device_export export;
	struct smd_error error = {""};

	if (!allocations_make_room(allocations)) {
		return NULL;
	}
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation) {
		return NULL;
	}
	allocation->id = id;
	allocation->device = device;
	allocation->base = pointer;
	if (allocations->ops->export(device, pointer, &export, &error)) {
		allocations_say(allocations, error.text); /* and is not tried again */
	} else {
		allocation->base = export.memory.base;
		allocation->length = export.memory.length;
		allocation_tell_lanes(allocations, allocation, &export);
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

struct smd_allocation *smd_allocation_take(struct smd_allocations *allocations,
	struct smd_device *device, const void *pointer, uint64_t id)
{
	struct smd_allocation *allocation;

	if (id == 0 || !allocations_have_cards(allocations)) {
		return NULL;
	}
	allocation = allocation_find(allocations, id);
	if (!allocation) {
		allocation = allocation_add(allocations, device, pointer, id);
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

void smd_allocations_restore(struct smd_allocations *allocations, struct smd_lane *lane)
{
	const struct smd_device_ops *ops = allocations->ops;
	struct smd_allocation *allocation;
	struct smd_device_export export;
	struct smd_error error = {""};

	if (!smd_lane_has_card(lane)) {
		return;
	}
	TAILQ_FOREACH (allocation, &allocations->all, link) {
		if (allocation->length == 0 ||
			ops->identify(allocation->device, allocation->base) != allocation->id) {
			continue; /* it has been freed, and is evicted when there is need */
		}
		if (ops->export(allocation->device, allocation->base, &export, &error)) {
			allocations_say(allocations, error.text);
			continue;
		}
		(void)allocation_tell_lane(allocations, allocation, lane, &export);
		close(export.fd);
	}
}

void smd_allocations_create(struct smd_allocations *allocations, const struct smd_device_ops *ops,
	const struct smd_remotes *remotes)
{
	*allocations = (struct smd_allocations){.ops = ops, .remotes = remotes};
	TAILQ_INIT(&allocations->all);
}

void smd_allocations_destroy(struct smd_allocations *allocations)
{
	while (!TAILQ_EMPTY(&allocations->all)) {
		allocation_unlink(allocations, TAILQ_FIRST(&allocations->all));
	}
}
