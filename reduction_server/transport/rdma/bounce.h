/*
 * Bounce slots: registered memory of our own that payloads are copied through, where a caller's
 * memory cannot stay registered because nobody would tell when it is unmapped.
 *
 * Slots are cut from slabs of huge pages on the card's NUMA node that are registered once, the first
 * beforehand and others when all are in use, and kept until the pool is destroyed. A slot may be held for
 * as long as other ranks are waited for, so nobody waits for one: where none is free the caller
 * does without.
 *
 * One thread uses a pool.
 */
#ifndef SMD_TRANSPORT_RDMA_BOUNCE_H
#define SMD_TRANSPORT_RDMA_BOUNCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/rdma/registration.h"

/* A slab is registered as a whole; a longer payload has no slot. The last slab may be shorter. */
#define SMD_RDMA_BOUNCE_SLAB (8u << 20)
/* The shortest slot; the others are powers of 2 times as long. */
#define SMD_RDMA_BOUNCE_LEAST 8192u

struct smd_rdma_bounce_slab;

struct smd_rdma_bounce {
	const struct smd_rdma_memory_config *config; /* registers; bounce_max: bytes of all slabs */
	struct smd_rdma_memory_counts *counts;
	uint64_t bytes;                          /* of slabs, those too that could not be had */
	LIST_HEAD(, smd_rdma_bounce_slab) slabs; /* the one that was given a slot back last first */
};

void smd_rdma_bounce_create(struct smd_rdma_bounce *bounce,
	const struct smd_rdma_memory_config *config, struct smd_rdma_memory_counts *counts);
/* The first slab, if there may be one, so that no payload has to wait for it. */
void smd_rdma_bounce_prepare(struct smd_rdma_bounce *bounce);
/* No slot may be in use. */
void smd_rdma_bounce_destroy(struct smd_rdma_bounce *bounce);

/* A region whose slot holds `length` bytes, for reading and writing. NULL: none is free. */
struct smd_rdma_region *smd_rdma_bounce_take(struct smd_rdma_bounce *bounce, size_t length);
void smd_rdma_bounce_give(struct smd_rdma_bounce *bounce, struct smd_rdma_region *region);

#endif
