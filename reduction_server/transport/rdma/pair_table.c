/*
 * The queue pairs of a device: their numbers, by which completions are told apart, and room for all
 * of their completions in its queue.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/device.h"

#define NUMBER_LOW_BITS 16 /* a place in the table; the rest says how often it was used */

/* A queue that overflows takes all its lanes with it, so there must be room for the worst. */
int smd_rdma_device_make_room(struct rdma_device *device, uint32_t completions)
{
	uint32_t depth = device->queue_depth;
	int ret;

	while (depth < device->queue_used + completions) {
		depth *= 2;
	}
	if (depth > device->limits.completions) {
		depth = device->limits.completions;
	}
	if (depth < device->queue_used + completions) {
		return -ENOSPC;
	}
	if (depth == device->queue_depth) {
		return 0;
	}
	if (device->limits.resizes_slowly) { /* and lanes are at work on the loop */
		return -ENOSPC;
	}
	ret = smd_verbs_queue_resize(&device->queue, depth);
	if (ret == 0) {
		device->queue_depth = depth;
	}
	return ret;
}

struct rdma_pair *smd_rdma_device_find(const struct rdma_device *device, uint32_t number)
{
	uint32_t index = number & ((1u << NUMBER_LOW_BITS) - 1);
	struct rdma_pair *pair = index < device->npairs ? device->pairs[index] : NULL;

	return pair && pair->number == number ? pair : NULL;
}

static int device_grow_table(struct rdma_device *device)
{
	uint32_t size = device->npairs ? 2 * device->npairs : 16;
	struct rdma_pair **pairs;
	uint32_t *uses;

	if (size > 1u << NUMBER_LOW_BITS) {
		return -ENOSPC;
	}
	pairs = realloc(device->pairs, size * sizeof(*pairs));
	if (!pairs) {
		return -ENOMEM;
	}
	device->pairs = pairs;
	uses = realloc(device->uses, size * sizeof(*uses));
	if (!uses) {
		return -ENOMEM;
	}
	device->uses = uses;
	memset(pairs + device->npairs, 0, (size - device->npairs) * sizeof(*pairs));
	memset(uses + device->npairs, 0, (size - device->npairs) * sizeof(*uses));
	device->npairs = size;
	return 0;
}

int smd_rdma_device_add(struct rdma_device *device, struct rdma_pair *pair, uint32_t completions)
{
	uint32_t index = 0;
	int ret = smd_rdma_device_make_room(device, completions);

	while (ret == 0 && index < device->npairs && device->pairs[index]) {
		index++;
	}
	if (ret == 0 && index == device->npairs) {
		ret = device_grow_table(device);
	}
	if (ret) {
		return ret;
	}
	device->queue_used += completions;
	device->pairs[index] = pair;
	pair->number = ++device->uses[index] << NUMBER_LOW_BITS | index;
	return 0;
}

void smd_rdma_device_remove(
	struct rdma_device *device, struct rdma_pair *pair, uint32_t completions)
{
	device->pairs[pair->number & ((1u << NUMBER_LOW_BITS) - 1)] = NULL;
	device->queue_used -= completions;
	if (pair->dirty) {
		TAILQ_REMOVE(&device->dirty, pair, dirty_link);
		pair->dirty = false;
	}
}

void smd_rdma_device_wake(struct rdma_device *device, struct rdma_pair *pair)
{
	if (!pair->dirty) {
		pair->dirty = true;
		TAILQ_INSERT_TAIL(&device->dirty, pair, dirty_link);
		event_active(device->flush, EV_READ, 1);
	}
}
