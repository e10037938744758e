/*
 * What the files of the fake driver share: calls, contexts, streams and their work.
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

#define FAKE_DEVICES 2

struct CUctx_st {
	int ordinal;
	unsigned retained;
	CUresult broken; /* CUDA_SUCCESS: it is not */
};

enum kind { WAIT_VALUE, WRITE_VALUE, COPY, FILL, ALLOCATE, CALLBACK };

struct work {
	enum kind kind;
	uint64_t ticket; /* among all */
	uint8_t *to;     /* WAIT_VALUE, WRITE_VALUE: the word; ALLOCATE: a flag, which is set */
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
	CUstreamCaptureStatus capture; /* under the lock */
	CUstreamCaptureMode capture_mode;
	unsigned captured;         /* works, which will not be run */
	STAILQ_HEAD(, work) works; /* the first may be running */
	pthread_t thread;
	LIST_ENTRY(CUstream_st) link;
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
void fake_lock(void);
/* A number as it is now; it takes the lock. */
unsigned fake_count(const unsigned *count);

#define ENTER(call, needs_context)                                                                 \
	do {                                                                                       \
		CUresult entered = fake_enter(call, needs_context);                                \
		if (entered != CUDA_SUCCESS) {                                                     \
			return entered;                                                            \
		}                                                                                  \
	} while (0)

/* With the lock, and with a context. */
CUcontext fake_context(void); /* NULL: the thread has none */
CUstream fake_stream(CUstream stream);
/* Or captures it, where the stream is being captured. */
CUresult fake_enqueue(CUstream stream, const struct work *wanted);
void fake_drain(CUstream stream);
/* Where so many bytes of device memory really are. */
uint8_t *fake_shadow(CUdeviceptr pointer, size_t bytes, CUcontext context);
/* Where a stream may write a word: memory of a device, or pinned. */
uint8_t *fake_word(CUdeviceptr pointer, CUcontext context);

#endif
