/* The memory that the simulated GPU has given out: device memory and pinned memory are both the
 * host's. */
#ifndef SMD_NCCL_SIM_MEMORY_H
#define SMD_NCCL_SIM_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

struct smd_range {
	uintptr_t base;
	size_t size;
	cudaMemoryType type;
	int file; /* of device memory that is the process's own, else -1 */
};

/* False where pointer lies in nothing that was given out. */
bool smd_memory_find(const void *pointer, smd_range *range);

#endif
