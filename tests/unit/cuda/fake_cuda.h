/*
 * What a test asks of the fake driver beyond CUDA's own calls.
 */
#ifndef SMD_TESTS_FAKE_CUDA_H
#define SMD_TESTS_FAKE_CUDA_H

/*
 * The n-th call (from 1) of that name returns `result`. "copying" and "filling" are no calls but
 * the work itself: its context is then broken, so every later call and callback gets the same.
 */
void smd_fake_fail(const char *call, unsigned n, int result);

/* Forgets what was to fail, and mends contexts. */
void smd_fake_mend(void);

/* Streams, events, allocations and retained contexts that have not been given back. */
unsigned smd_fake_live(void);

#endif
