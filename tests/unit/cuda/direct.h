/*
 * What tests of chunks share that network cards read from device memory and write to it: a driver and a
 * card that can, and all-reduces of all ranks.
 */
#ifndef SMD_TESTS_CUDA_DIRECT_H
#define SMD_TESTS_CUDA_DIRECT_H

#include <pthread.h>

#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/fake_cuda.h"

#ifdef __SANITIZE_THREAD__
enum { DIRECT_LARGE = 100000 }; /* many chunks */
#else
enum { DIRECT_LARGE = 300000 };
#endif
enum { DIRECT_SMALL = 200, DIRECT_LANES = 4 }; /* of a rank */

/* All ranks of a test meet there. */
extern pthread_barrier_t direct_ready;

/* Of each test; and that cards keep no memory, and that no file is left open. */
int direct_begin(void **state);
int direct_end(void **state);

void direct_allreduce(struct pool_rank *rank, struct buffer *send, struct buffer *recv);
/* In device memory that is allocated for it. */
void direct_allreduce_of(struct pool_rank *rank, size_t count);
void direct_large(struct pool_rank *rank);

/* Every chunk was copied. */
void direct_nothing_went(void);

#endif
