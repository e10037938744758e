/* Remembers which buffers could not be registered. */
#include "reduction_server/transport/rdma/refusals.h"

#include "reduction_server/base/clock.h"

#define REFUSED_NS SMD_SECOND_NS

void smd_rdma_refusals_remember(struct smd_rdma_refusals *refusals, struct smd_memory_range buffer,
	unsigned access, int err)
{
	refusals->last[refusals->next++ % SMD_RDMA_REFUSALS] = (struct smd_rdma_refusal){
		.buffer = buffer,
		.access = access,
		.err = err,
		.until_ns = smd_clock_ns() + REFUSED_NS,
	};
}

int smd_rdma_refusals_find(
	const struct smd_rdma_refusals *refusals, struct smd_memory_range range, unsigned access)
{
	for (unsigned i = 0; i < SMD_RDMA_REFUSALS; i++) {
		const struct smd_rdma_refusal *refusal = &refusals->last[i];

		if (refusal->until_ns && smd_memory_range_contains(refusal->buffer, range) &&
			access >= refusal->access && smd_clock_ns() < refusal->until_ns) {
			return refusal->err;
		}
	}
	return 0;
}

void smd_rdma_refusals_forget(struct smd_rdma_refusals *refusals)
{
	*refusals = (struct smd_rdma_refusals){.next = 0};
}
