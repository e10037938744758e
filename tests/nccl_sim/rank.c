/* One process of a scenario: it meets the others through a file, and knows what their sums must be.
 */
#include "rank.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static void leave_id(const char *path, ncclUniqueId *id)
{
	char fresh[PATH_MAX + sizeof(".new")];
	FILE *file;

	SMD_NCCL(ncclGetUniqueId(id));
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "w");
	if (!file || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) || rename(fresh, path)) {
		fprintf(stderr, "%s: must be written: %s\n", path, strerror(errno));
		exit(1);
	}
}

/* Whoever started the process sees to it that this ends. */
static void find_id(const char *path, ncclUniqueId *id)
{
	enum { PAUSE_US = 10000 };
	FILE *file;

	while (!(file = fopen(path, "r"))) {
		usleep(PAUSE_US);
	}
	if (fread(id, sizeof(*id), 1, file) != 1) {
		fprintf(stderr, "%s: must hold an id of NCCL\n", path);
		exit(1);
	}
	fclose(file);
}

ncclComm_t smd_rank_meet(const struct smd_rank *rank, const char *name)
{
	char path[PATH_MAX];
	ncclComm_t communicator;
	ncclUniqueId id;

	snprintf(path, sizeof(path), "%s.%s", rank->id_file, name);
	if (rank->rank == 0) {
		leave_id(path, &id);
	} else {
		find_id(path, &id);
	}
	SMD_NCCL(ncclCommInitRank(&communicator, rank->nranks, id, rank->rank));
	return communicator;
}

void *smd_rank_allocate(size_t bytes)
{
	void *device;

	SMD_CUDA(cudaMalloc(&device, bytes));
	return device;
}

void smd_rank_copy(void *to, const void *from, size_t bytes)
{
	SMD_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

void smd_rank_finish(const struct smd_rank *rank)
{
	SMD_CUDA(cudaStreamSynchronize(rank->stream));
}

void smd_rank_judge(const char *what, size_t wrong)
{
	printf("%s: %zu wrong\n", what, wrong);
	if (wrong != 0) {
		exit(1);
	}
}

/* Up to 1,023, as sums must be exact; what is summed at a wrong place shows (a Weyl sequence). */
static int element(size_t i)
{
	return (int)((uint64_t)i * 0x9e3779b97f4a7c15u >> 54);
}

static float *host_memory(size_t count)
{
	float *host = malloc(count * sizeof(float));

	if (!host) {
		abort();
	}
	return host;
}

void smd_rank_fill(const struct smd_rank *rank, float *device, size_t count)
{
	float *host = host_memory(count);

	for (size_t i = 0; i < count; i++) {
		host[i] = (float)((rank->rank + 1) * element(i));
	}
	smd_rank_copy(device, host, count * sizeof(float));
	free(host);
}

void smd_rank_check(const char *what, const float *device, size_t count, int ranks_sum)
{
	float *host = host_memory(count);
	size_t wrong = 0;

	smd_rank_copy(host, device, count * sizeof(float));
	for (size_t i = 0; i < count; i++) {
		wrong += host[i] != (float)(ranks_sum * element(i));
	}
	free(host);
	smd_rank_judge(what, wrong);
}

void smd_rank_all_reduce(
	const struct smd_rank *rank, ncclComm_t communicator, size_t count, int ranks_sum)
{
	float *device = smd_rank_allocate(count * sizeof(float));

	smd_rank_fill(rank, device, count);
	SMD_NCCL(ncclAllReduce(
		device, device, count, ncclFloat, ncclSum, communicator, rank->stream));
	smd_rank_finish(rank);
	smd_rank_check("all-reduce", device, count, ranks_sum);
	SMD_CUDA(cudaFree(device));
}

int smd_rank_sum(const struct smd_rank *rank, int first, int step)
{
	int sum = 0;

	for (int i = first; i < rank->nranks; i += step) {
		sum += i + 1;
	}
	return sum;
}
