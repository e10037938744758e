/* One process of a scenario, a rank that NCCL takes for a node: how it meets the others, and
 * all-reduces whose result it knows. What fails ends the process and says where. */
#ifndef SMD_NCCL_SIM_RANK_H
#define SMD_NCCL_SIM_RANK_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

struct smd_rank {
	int rank, nranks;
	const char *id_file; /* where rank 0 leaves NCCL's ids for the others */
	cudaStream_t stream;
};

#define SMD_NCCL(call)                                                                             \
	do {                                                                                       \
		ncclResult_t result_ = (call);                                                     \
		if (result_ != ncclSuccess) {                                                      \
			fprintf(stderr, "%s: %s; %s\n", #call, ncclGetErrorString(result_),        \
				ncclGetLastError(NULL));                                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define SMD_CUDA(call)                                                                             \
	do {                                                                                       \
		cudaError_t result_ = (call);                                                      \
		if (result_ != cudaSuccess) {                                                      \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result_));           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A communicator of all ranks; each has a name of its own. */
ncclComm_t smd_rank_meet(const struct smd_rank *rank, const char *name);

void *smd_rank_allocate(size_t bytes);
void smd_rank_copy(void *to, const void *from, size_t bytes);
void smd_rank_finish(const struct smd_rank *rank);

/* count floats on the device: the rank's own, and whether they are the sum of those of ranks, whose ranks + 1 have this sum. */
void smd_rank_fill(const struct smd_rank *rank, float *device, size_t count);
void smd_rank_check(const char *what, const float *device, size_t count, int ranks_sum);

/* Sums count floats of each rank of the communicator, whose ranks + 1 have this sum. */
void smd_rank_all_reduce(
	const struct smd_rank *rank, ncclComm_t communicator, size_t count, int ranks_sum);

/* The sum of rank + 1 over first, first + step, ... */
int smd_rank_sum(const struct smd_rank *rank, int first, int step);

/* Ends the process where elements are wrong. */
void smd_rank_judge(const char *what, size_t wrong);

#endif
