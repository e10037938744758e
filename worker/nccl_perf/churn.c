/* Allocates and frees. */
#include "worker/nccl_perf/churn.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LEAST    ((size_t)1 << 20)
#define DOUBLES  5    /* the largest is so many times twice the least */
#define PAUSE_US 1000 /* else all-reduces would have no turn of the driver */

static void *churn_main(void *arg)
{
	struct nccl_perf_churn *churn = arg;

	if (cudaSetDevice(churn->device) != cudaSuccess) {
		return NULL;
	}
	while (!churn->ending) {
		void *memory;

		if (cudaMalloc(&memory, LEAST << churn->allocations % (DOUBLES + 1)) ==
			cudaSuccess) {
			churn->allocations++;
			cudaFree(memory);
		}
		usleep(PAUSE_US);
	}
	return NULL;
}

int nccl_perf_churn_begin(struct nccl_perf_churn *churn, struct smd_error *error)
{
	int err;

	if (cudaGetDevice(&churn->device) != cudaSuccess) {
		return smd_error_set(error, EIO, "cudaGetDevice failed");
	}
	err = pthread_create(&churn->thread, NULL, churn_main, churn);
	churn->running = err == 0;
	return err ? smd_error_set(error, err, "no thread can be started: %s", strerror(err)) : 0;
}

unsigned long long nccl_perf_churn_end(struct nccl_perf_churn *churn)
{
	if (churn->running) {
		churn->ending = 1;
		pthread_join(churn->thread, NULL);
	}
	return churn->allocations;
}
