/*
 * A CUDA driver without a device, for tests.
 *
 * Device memory is address space without access beside a shadow that only this file knows, so a
 * host that touches it crashes. Each stream is a thread that does its work in order, after random
 * delays; so what does not wait for what it needs meets old bytes, and the thread sanitizer sees
 * it. What CUDA forbids ends the program: calls from callbacks, streams of another device, copies
 * beyond an allocation.
 */
#include "tests/unit/cuda/fake_cuda.h"

#include <unistd.h>

#include "tests/unit/cuda/fake.h"

static struct CUstream_st legacy_streams[FAKE_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(, CUstream_st) streams = LIST_HEAD_INITIALIZER(streams);
static bool initialized;
static uint64_t tickets;
unsigned fake_live;
static char fail_call[64];
static unsigned fail_in;
static CUresult fail_result;
static bool holds_broken;
static bool holds_pins;
static unsigned held; /* calls that wait for that to end */
int fake_facts[SMD_FAKE_FACTS_END] = {
	[SMD_FAKE_DMA_BUF] = 1,
	[SMD_FAKE_ORDERING] = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER,
	[SMD_FAKE_FLUSH] = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST,
	[SMD_FAKE_WHOLE] = 1,
	[SMD_FAKE_MEMOPS] = 1,
};
static unsigned callbacks;
static unsigned live_streams;
static unsigned global_captures; /* under way, of CU_STREAM_CAPTURE_MODE_GLOBAL */

static _Thread_local bool in_callback;
static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- what is to fail; with the lock ---- */

static CUresult failure_of(const char *call)
{
	if (fail_in == 0 || strcmp(call, fail_call) != 0 || --fail_in) {
		return CUDA_SUCCESS;
	}
	return fail_result;
}

void smd_fake_fail(const char *call, unsigned n, int result)
{
	pthread_mutex_lock(&lock);
	snprintf(fail_call, sizeof(fail_call), "%s", call);
	fail_in = n;
	fail_result = (CUresult)result;
	pthread_mutex_unlock(&lock);
}

void smd_fake_mend(void)
{
	pthread_mutex_lock(&lock);
	fail_in = 0;
	holds_broken = false;
	holds_pins = false;
	for (int i = 0; i < FAKE_DEVICES; i++) {
		fake_contexts[i].broken = CUDA_SUCCESS;
	}
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void smd_fake_hold_broken(bool hold)
{
	pthread_mutex_lock(&lock);
	holds_broken = hold;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void smd_fake_hold_pins(bool hold)
{
	pthread_mutex_lock(&lock);
	holds_pins = hold;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for_pins(void)
{
	held++;
	while (holds_pins) {
		pthread_cond_wait(&changed, &lock);
	}
	held--;
}

static CUresult context_result(const char *call, CUcontext context)
{
	if (strcmp(call, "cuStreamQuery") != 0) {
		return holds_broken ? CUDA_SUCCESS : context->broken;
	}
	held++;
	while (holds_broken && context->broken != CUDA_SUCCESS) {
		pthread_cond_wait(&changed, &lock);
	}
	held--;
	return context->broken;
}

void smd_fake_set(enum smd_fake_fact fact, int value)
{
	pthread_mutex_lock(&lock);
	fake_facts[fact] = value;
	pthread_mutex_unlock(&lock);
}

unsigned fake_count(const unsigned *count)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = *count;
	pthread_mutex_unlock(&lock);
	return n;
}

void smd_fake_look(void)
{
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

unsigned smd_fake_held(void)
{
	return fake_count(&held);
}

unsigned smd_fake_live(void)
{
	return fake_count(&fake_live);
}

unsigned smd_fake_streams(void)
{
	return fake_count(&live_streams);
}

unsigned smd_fake_callbacks(void)
{
	return fake_count(&callbacks);
}

/* ---- captures; with the lock ---- */

/* What a program may not do while any of its threads captures, unless it knows better. CUDA says of
 * few calls whether they are among these, so all are that libsummand makes and that have a result.
 */
static bool is_unsafe(const char *call)
{
	static const char *const unsafe[] = {"cuCtxGetDevice", "cuDeviceGet",
		"cuDeviceGetAttribute", "cuDeviceGetCount", "cuDevicePrimaryCtxGetState",
		"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRetain",
		"cuFlushGPUDirectRDMAWrites", "cuMemAlloc", "cuMemAllocManaged", "cuMemFreeHost",
		"cuMemGetAddressRange", "cuMemGetHandleForAddressRange", "cuMemHostAlloc",
		"cuPointerGetAttributes", "cuPointerSetAttribute", "cuStreamCreate",
		"cuStreamQuery", "cuStreamSynchronize"};

	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++) {
		if (strcmp(call, unsafe[i]) == 0) {
			return true;
		}
	}
	return false;
}

static void invalidate(bool all)
{
	CUstream stream;

	LIST_FOREACH (stream, &streams, link) {
		if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
			(all || stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
			stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		}
	}
}

/* The legacy stream waits for blocking ones, and cannot while one is only being captured. */
static bool is_unusable(CUstream legacy)
{
	CUstream stream;

	LIST_FOREACH (stream, &streams, link) {
		if (legacy->legacy && stream->blocking && stream->context == legacy->context &&
			stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
			return true;
		}
	}
	return false;
}

/* Every call begins here: takes the lock if the call goes on. */
CUresult fake_enter(const char *call, bool needs_context)
{
	CUresult result = CUDA_SUCCESS;

	REQUIRE(!in_callback);
	if (needs_context && !fake_context()) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	pthread_mutex_lock(&lock);
	if (!initialized) {
		result = CUDA_ERROR_NOT_INITIALIZED;
	} else if (needs_context) {
		result = context_result(call, fake_context());
	}
	if (strcmp(call, "cuMemHostAlloc") == 0) {
		wait_for_pins();
	}
	if (result == CUDA_SUCCESS) {
		result = failure_of(call);
	}
	if (result == CUDA_SUCCESS && global_captures && is_unsafe(call) &&
		capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
		invalidate(false);
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (result != CUDA_SUCCESS) {
		pthread_mutex_unlock(&lock);
	}
	return result;
}

CUresult fake_leave(CUresult result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

void fake_enter_end(void)
{
	REQUIRE(!in_callback && fake_context());
	pthread_mutex_lock(&lock);
}

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

/* ---- streams ---- */

static bool has_older_work(const struct CUstream_st *stream, uint64_t ticket)
{
	const struct work *first = STAILQ_FIRST(&stream->works);

	return first && first->ticket < ticket;
}

static bool may_run(const struct CUstream_st *stream, const struct work *work)
{
	const struct CUstream_st *other;

	if (stream->context->broken) {
		return true; /* what is waited for may never be */
	}
	if (work->kind == WAIT_VALUE &&
		__atomic_load_n((uint32_t *)work->to, __ATOMIC_RELAXED) != work->value) {
		return false;
	}
	LIST_FOREACH (other, &streams, link) {
		bool ordered =
			(stream->legacy && other->blocking) || (stream->blocking && other->legacy);

		if (ordered && other->context == stream->context &&
			has_older_work(other, work->ticket)) {
			return false;
		}
	}
	return true;
}

/* Without the lock. */
static void run(CUstream stream, const struct work *work, CUresult status)
{
	uint32_t *to = (uint32_t *)work->to;

	switch (work->kind) {
	case COPY:
		memcpy(work->to, work->from, work->bytes);
		break;
	case FILL:
		for (size_t i = 0; i < work->bytes / sizeof(*to); i++) {
			__atomic_store_n(
				&to[i], work->value, __ATOMIC_RELAXED); /* may be waited for */
		}
		break;
	case WRITE_VALUE:
		__atomic_store_n(to, work->value, __ATOMIC_RELEASE);
		break;
	case ALLOCATE:
		__atomic_store_n(work->to, 1, __ATOMIC_RELEASE);
		break;
	case CALLBACK:
		in_callback = true;
		work->callback(stream, status, work->argument);
		in_callback = false;
		break;
	default:
		break;
	}
}

static void dawdle(unsigned *seed)
{
	unsigned random = (unsigned)rand_r(seed);

	if (random % 3 == 0) {
		usleep(random / 3 % 400);
	}
}

static void *stream_main(void *arg)
{
	CUstream stream = arg;
	unsigned seed = (unsigned)(uintptr_t)stream;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct work *work = STAILQ_FIRST(&stream->works);
		bool data;

		if (!work && stream->destroyed) {
			break;
		}
		if (!work || !may_run(stream, work)) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		data = work->kind == COPY || work->kind == FILL;
		if (data && stream->context->broken == CUDA_SUCCESS) {
			stream->context->broken =
				failure_of(work->kind == COPY ? "copying" : "filling");
		}
		if (stream->context->broken == CUDA_SUCCESS || work->kind == CALLBACK) {
			CUresult status = stream->context->broken;

			pthread_mutex_unlock(&lock);
			dawdle(&seed);
			run(stream, work, status);
			pthread_mutex_lock(&lock);
		}
		STAILQ_REMOVE_HEAD(&stream->works, link);
		free(work);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void stream_begin(CUstream stream, CUcontext context)
{
	stream->context = context;
	STAILQ_INIT(&stream->works);
	LIST_INSERT_HEAD(&streams, stream, link);
	REQUIRE(pthread_create(&stream->thread, NULL, stream_main, stream) == 0);
}

CUstream fake_stream(CUstream stream)
{
	if (!stream || stream == CU_STREAM_LEGACY) {
		stream = &legacy_streams[fake_context()->ordinal];
	}
	REQUIRE(!stream->destroyed);
	return stream;
}

CUresult fake_enqueue(CUstream stream, const struct work *wanted)
{
	struct work *work;

	if (is_unusable(stream)) {
		invalidate(true);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
		stream->captured++;
		return stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	work = malloc(sizeof(*work));
	REQUIRE(work);
	*work = *wanted;
	work->ticket = ++tickets;
	STAILQ_INSERT_TAIL(&stream->works, work, link);
	pthread_cond_broadcast(&changed);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	CUstream stream;

	ENTER("cuStreamCreate", true);
	stream = calloc(1, sizeof(*stream));
	REQUIRE(stream);
	stream->blocking = flags == CU_STREAM_DEFAULT;
	stream_begin(stream, fake_context());
	fake_live++;
	live_streams++;
	*out = stream;
	return fake_leave(CUDA_SUCCESS);
}

void fake_drain(CUstream stream)
{
	while (!STAILQ_EMPTY(&stream->works)) {
		pthread_cond_wait(&changed, &lock);
	}
}

CUresult cuStreamQuery(CUstream stream)
{
	ENTER("cuStreamQuery", true);
	return fake_leave(
		STAILQ_EMPTY(&fake_stream(stream)->works) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER("cuStreamSynchronize", true);
	stream = fake_stream(stream);
	fake_drain(stream);
	return fake_leave(stream->context->broken);
}

/* Allowed in a broken context. Its events may be asked after it, so its memory stays. */
CUresult cuStreamDestroy(CUstream stream)
{
	fake_enter_end();
	REQUIRE(!stream->destroyed && stream->context == fake_context());
	stream->destroyed = true;
	fake_live--;
	live_streams--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	pthread_join(stream->thread, NULL);
	return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(
	CUstream stream, CUstreamCallback callback, void *argument, unsigned flags)
{
	struct work work = {.kind = CALLBACK, .callback = callback, .argument = argument};

	ENTER("cuStreamAddCallback", true);
	REQUIRE(flags == 0);
	callbacks++;
	return fake_leave(fake_enqueue(fake_stream(stream), &work));
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
	struct work work = {.kind = WAIT_VALUE, .value = value};

	ENTER("cuStreamWaitValue32", true);
	REQUIRE(flags == CU_STREAM_WAIT_VALUE_EQ);
	work.to = fake_word(word, fake_context());
	return fake_leave(fake_enqueue(fake_stream(stream), &work));
}

#ifndef FAKE_OLD
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
	struct work work = {.kind = WRITE_VALUE, .value = value};

	ENTER("cuStreamWriteValue32", true);
	REQUIRE(flags == CU_STREAM_WRITE_VALUE_DEFAULT);
	if (!fake_facts[SMD_FAKE_MEMOPS]) {
		return fake_leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	work.to = fake_word(word, fake_context());
	stream = fake_stream(stream);
	if (stream->context != fake_context()) {
		return fake_leave(CUDA_ERROR_INVALID_HANDLE);
	}
	return fake_leave(fake_enqueue(stream, &work));
}
#endif

/* ---- captures ---- */

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
	ENTER("cuStreamBeginCapture", true);
	REQUIRE(stream && !stream->legacy && stream->capture == CU_STREAM_CAPTURE_STATUS_NONE);
	stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture_mode = mode;
	stream->captured = 0;
	global_captures += mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
	return fake_leave(CUDA_SUCCESS);
}

/* What stands for the graph is how many works it has. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
	bool active;

	ENTER("cuStreamEndCapture", true);
	REQUIRE(stream->capture != CU_STREAM_CAPTURE_STATUS_NONE);
	active = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	global_captures -= stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
	*out = (CUgraph)(uintptr_t)(active ? stream->captured : 0); /* NOLINT: no pointer */
	return fake_leave(active ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* Asking of the legacy stream invalidates nothing. */
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out)
{
	ENTER("cuStreamIsCapturing", true);
	stream = fake_stream(stream);
	*out = stream->capture;
	return fake_leave(is_unusable(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	REQUIRE(!in_callback);
	capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* ---- the driver itself ---- */

CUresult cuInit(unsigned flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	if (!initialized) {
		initialized = true;
		for (int i = 0; i < FAKE_DEVICES; i++) {
			legacy_streams[i].legacy = true;
			stream_begin(&legacy_streams[i], &fake_contexts[i]);
		}
	}
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuGetErrorName(CUresult result, const char **out)
{
	switch (result) {
#define NAME(error)                                                                                \
	case error:                                                                                \
		*out = #error;                                                                     \
		return CUDA_SUCCESS;
		NAME(CUDA_ERROR_ILLEGAL_ADDRESS)
		NAME(CUDA_ERROR_INVALID_CONTEXT)
		NAME(CUDA_ERROR_INVALID_HANDLE)
		NAME(CUDA_ERROR_LAUNCH_FAILED)
		NAME(CUDA_ERROR_NOT_SUPPORTED)
		NAME(CUDA_ERROR_OUT_OF_MEMORY)
#undef NAME
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
