/*
 * A thread that allocates and frees memory of the GPU again and again, as programs do beside their
 * all-reduces. Both may wait until the GPU has nothing to do, with locks of the driver's: whoever
 * needs one of these for an all-reduce to end would then wait for ever.
 */
#ifndef SMD_NCCL_PERF_CHURN_H
#define SMD_NCCL_PERF_CHURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "reduction_server/base/error.h"

struct nccl_perf_churn {
	pthread_t thread;
	int running;
	int device;
	atomic_int ending;
	unsigned long long allocations;
};

/* On the device that the caller uses. 0 or -errno with a text. */
int nccl_perf_churn_begin(struct nccl_perf_churn *churn, struct smd_error *error);
/* Ends it, if it was begun: how many allocations there were. */
unsigned long long nccl_perf_churn_end(struct nccl_perf_churn *churn);

#endif
