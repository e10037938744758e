/*
 * What a test asks of the fake driver beyond CUDA's own calls.
 */
#ifndef SMD_TESTS_FAKE_CUDA_H
#define SMD_TESTS_FAKE_CUDA_H

#include <stdbool.h>

/*
 * The n-th call (from 1) of that name returns `result`. "copying" and "filling" are no calls but
 * the work itself: its context is then broken, so every later call and callback gets the same.
 */
void smd_fake_fail(const char *call, unsigned n, int result);

/* Forgets what was to fail, mends contexts, and holds nobody. */
void smd_fake_mend(void);

/* From now on no call notices that its context is broken, and who asks that (cuStreamQuery()) has to
 * wait; or no longer. */
void smd_fake_hold_broken(bool hold);
/* From now on cuMemHostAlloc() waits, as it does for a device that is at work; or no longer. */
void smd_fake_hold_pins(bool hold);
/* Looks again at the words that streams wait for, which the processor has written. */
void smd_fake_look(void);
/* How many calls wait for either. */
unsigned smd_fake_held(void);

/* Streams, allocations and retained contexts that have not been given back. */
unsigned smd_fake_live(void);

/* Of these, streams. */
unsigned smd_fake_streams(void);
/* Of these, bytes of pinned memory. */
unsigned long smd_fake_pinned(void);
/* Host functions that have been put into streams so far. */
unsigned smd_fake_callbacks(void);

/* What the driver says of devices and memory; the first value is what it says at first. */
enum smd_fake_fact {
	SMD_FAKE_DMA_BUF,  /* 1, 0: network cards can have memory */
	SMD_FAKE_ORDERING, /* CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, ..._NONE */
	SMD_FAKE_FLUSH,    /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 0 */
	SMD_FAKE_WHOLE,    /* 1, 0: memory is of cuMemAlloc() */
	SMD_FAKE_MEMOPS,   /* 1, 0: streams write words */
	/* What a thread without a context hears of a pointer. 0: whose it is; 1: that there is no
	 * context; 2: nothing, as of memory that CUDA does not know. Drivers do one or another. */
	SMD_FAKE_BLIND,
	SMD_FAKE_NO_PRIMARY, /* 1: no primary context is in use, so far as anybody can tell */
	SMD_FAKE_FACTS_END
};
void smd_fake_set(enum smd_fake_fact fact, int value);

/* Calls of cuFlushGPUDirectRDMAWrites() so far. */
unsigned smd_fake_flushes(void);

#endif
