/*
 * What the two files of the fake driver share: calls, contexts, streams and their work.
 */
#ifndef SMD_TESTS_FAKE_H
#define SMD_TESTS_FAKE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "fake CUDA: %s must hold in %s\n", #condition, __func__);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct CUctx_st {
	int ordinal;
	unsigned retained;
	CUresult broken; /* CUDA_SUCCESS: it is not */
};

enum kind { RECORD, WAIT, WAIT_VALUE, COPY, FILL, CALLBACK };

struct work {
	enum kind kind;
	uint64_t number;  /* in the stream, from 1 */
	uint64_t ticket;  /* among all */
	CUstream awaited; /* WAIT: until it has done so many */
	uint64_t awaited_number;
	uint8_t *to; /* WAIT_VALUE: the word */
	const uint8_t *from;
	size_t bytes;
	uint32_t value;
	CUstreamCallback callback;
	void *argument;
	STAILQ_ENTRY(work) link;
};

struct CUstream_st {
	CUcontext context;
	bool blocking; /* in order with the legacy stream */
	bool legacy;
	bool destroyed;
	uint64_t queued;
	uint64_t done;
	STAILQ_HEAD(, work) works; /* the first may be running */
	pthread_t thread;
	LIST_ENTRY(CUstream_st) link;
};

struct CUevent_st {
	CUcontext context;
	CUstream stream; /* NULL: never recorded */
	uint64_t number;
};

extern struct CUctx_st fake_contexts[];
extern int fake_facts[];   /* under the lock: by enum smd_fake_fact */
extern unsigned fake_live; /* under the lock: things that have not been given back */

/* Every call begins with ENTER, which returns what is to fail and else takes the lock, and ends
 * with fake_leave(). */
CUresult fake_enter(const char *call, bool needs_context);
CUresult fake_leave(CUresult result);
/* The same for calls that give something back: they work in broken contexts too. */
void fake_enter_end(void);

#define ENTER(call, needs_context)                                                                 \
	do {                                                                                       \
		CUresult entered = fake_enter(call, needs_context);                                \
		if (entered != CUDA_SUCCESS) {                                                     \
			return entered;                                                            \
		}                                                                                  \
	} while (0)

/* With the lock, and with a context. */
CUcontext fake_context(void);
CUstream fake_stream(CUstream stream);
uint64_t fake_enqueue(CUstream stream, const struct work *wanted);
void fake_drain(CUstream stream);
/* Where so many bytes of device memory really are. */
uint8_t *fake_shadow(CUdeviceptr pointer, size_t bytes, CUcontext context);

#endif
