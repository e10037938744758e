/*
 * Buffers that could not be registered, so that not each of their chunks tries again: the last few,
 * for a second each.
 */
#ifndef SMD_TRANSPORT_RDMA_REFUSALS_H
#define SMD_TRANSPORT_RDMA_REFUSALS_H

#include <stdint.h>

#include "reduction_server/transport/rdma/memory_watch.h"

#define SMD_RDMA_REFUSALS 8u

/* Zeros at first. */
struct smd_rdma_refusals {
	struct smd_rdma_refusal {
		struct smd_memory_range buffer;
		unsigned access; /* each includes those before it */
		int err;
		uint64_t until_ns; /* 0: none */
	} last[SMD_RDMA_REFUSALS];
	unsigned next;
};

void smd_rdma_refusals_remember(struct smd_rdma_refusals *refusals, struct smd_memory_range buffer,
	unsigned access, int err);
/* With what such a range of a buffer was refused; 0: it was not. */
int smd_rdma_refusals_find(
	const struct smd_rdma_refusals *refusals, struct smd_memory_range range, unsigned access);
/* What was refused may go now. */
void smd_rdma_refusals_forget(struct smd_rdma_refusals *refusals);

#endif
