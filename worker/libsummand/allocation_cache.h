/*
 * Allocations of device memory that network cards read and write themselves.
 *
 * When an operation on device memory begins, the lanes whose transport can use it (rdma) are told
 * of the whole allocation that the buffer lies in, by a dma-buf. Chunks may then go from there into
 * places at the shard, and results back, with no copy in between; which ones the lane says
 * (smd_lane_can_dma()).
 *
 * Behind an address there may be another memory than before. So allocations are known by the id
 * that the driver gives each of them, and never another. Nobody says when one is freed; lanes keep
 * what they were told of until it is withdrawn, which happens to those that are gone when the next
 * one becomes known, and to the one not used for longest when there are too many.
 *
 * All on the owner.
 */
#ifndef SMD_LIBSUMMAND_ALLOCATION_CACHE_H
#define SMD_LIBSUMMAND_ALLOCATION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct smd_context;
struct smd_device;

#define SMD_ALLOCATIONS_MAX 64

struct smd_allocation {
	uint64_t id;
	struct smd_device *device;
	const void *base;
	size_t length;  /* 0: the driver does not let cards have it */
	unsigned users; /* buffers of operations in flight */
	TAILQ_ENTRY(smd_allocation) link;
};
TAILQ_HEAD(smd_allocation_queue, smd_allocation);

struct smd_allocations {
	struct smd_allocation_queue all; /* those used last first */
	unsigned count;
	bool said; /* why some are out of reach */
};

void smd_allocations_create(struct smd_allocations *allocations);
/* When the lanes are closed. */
void smd_allocations_destroy(struct smd_allocations *allocations);

/*
 * The allocation of that id, which the buffer at `pointer` lies in, to be given back with
 * smd_allocation_put(). NULL: no lane can use it, or there are too many.
 */
struct smd_allocation *smd_allocation_take(
	struct smd_context *context, struct smd_device *device, const void *pointer, uint64_t id);
/* NULL is allowed. */
void smd_allocation_put(struct smd_allocation *allocation);

#endif
