/*
 * The registration cache of device memory: which allocations the lanes' network cards read and
 * write themselves.
 *
 * When an operation on device memory begins, the whole allocation that its buffer lies in is
 * registered, by a dma-buf, with the lanes whose transport can use it (rdma). Chunks may then go
 * from there into the shard's buffers, and results back, without a copy; the lane says which ones
 * (smd_lane_can_dma()).
 *
 * The memory behind an address can change. So allocations are known by the id that the driver gives
 * each of them and never gives again. Nobody says when one is freed: those that are gone are
 * deregistered when the next one is registered, and so is the least recently used one when there
 * are SMD_ALLOCATIONS_MAX.
 *
 * All on the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_ALLOCATION_CACHE_H
#define SMD_LIBSUMMAND_ALLOCATION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "worker/libsummand/remote.h"

struct smd_device;
struct smd_device_ops;

#define SMD_ALLOCATIONS_MAX 64

struct smd_allocation {
	uint64_t id;
	struct smd_device *device;
	const void *base;
	size_t length;  /* 0: the driver does not let cards have it */
	bool taken;     /* some card reads and writes it, or did */
	unsigned users; /* buffers of operations in flight */
	TAILQ_ENTRY(smd_allocation) link;
};
TAILQ_HEAD(smd_allocation_queue, smd_allocation);

struct smd_allocations {
	struct smd_allocation_queue all; /* those used last first */
	unsigned count;
	bool said; /* why some cannot be registered */
	const struct smd_device_ops *ops;
	const struct smd_remotes *remotes;
};

void smd_allocations_create(struct smd_allocations *allocations, const struct smd_device_ops *ops,
	const struct smd_remotes *remotes);
/* When the lanes are closed. */
void smd_allocations_destroy(struct smd_allocations *allocations);

/* All that cards have now, for a lane that is there again, or of a server that is. What its card
 * does not take goes through pinned memory on that lane. */
void smd_allocations_restore(struct smd_allocations *allocations, struct smd_lane *lane);

/*
 * The allocation of that id, which the buffer at `pointer` lies in, to be given back with
 * smd_allocation_put(). NULL: no lane can use it, or there are too many.
 */
struct smd_allocation *smd_allocation_take(struct smd_allocations *allocations,
	struct smd_device *device, const void *pointer, uint64_t id);
/* NULL is allowed. */
void smd_allocation_put(struct smd_allocation *allocation);

#endif
