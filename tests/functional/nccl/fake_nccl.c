/*
 * Stands in for a GPU and NCCL of one rank, in summand-nccl-perf: device memory is the host's, and
 * a reduction of one rank is a copy. FAKE chooses what goes wrong: "bit" (one bit of a result),
 * "last" (that of the last iterations only), "error" (the network fails), "late-error" (in the
 * midst of the iterations), "hang" (nothing ends), "slow" (each all-reduce takes the device a
 * while, but none the host). A graph has one all-reduce, which it does as often as it was captured.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"

#define SLOW_S     0.005
#define LATE       50  /* all-reduces that are done before the network fails */
#define QUEUE_MOST 200 /* those that NCCL takes while nothing is done, before it waits */

struct CUevent_st {
	unsigned calls; /* before it */
	double when;    /* that the device gets there */
};

/* What is captured is not done: with its arguments, and how often. */
struct CUgraph_st {
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t dtype;
	unsigned times;
};

static unsigned calls;
static double busy_until;
static struct CUgraph_st *captured; /* NULL: nothing is */

static int fake_is(const char *what)
{
	const char *fake = getenv("FAKE");

	return fake && strcmp(fake, what) == 0;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaSuccess ? "no error" : "some error";
}

cudaError_t cudaMalloc(void **memory, size_t size)
{
	*memory = malloc(size);
	return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind;
	(void)stream;
	memcpy(to, from, size);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t size, cudaStream_t stream)
{
	(void)stream;
	memset(memory, byte, size);
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	(void)flags;
	*stream = NULL;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	(void)stream;
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(**event));
	return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)stream;
	*event = (struct CUevent_st){.calls = calls, .when = busy_until};
	return cudaSuccess;
}

/* Not reached in time, or behind what never ends. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	int is_stuck = event->calls > 0 && (fake_is("error") || fake_is("hang"));

	is_stuck |= event->calls > LATE && fake_is("late-error");
	return is_stuck || smd_clock_seconds() < event->when ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
	return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	(void)stream;
	captured = calloc(1, sizeof(*captured));
	return captured && mode == cudaStreamCaptureModeThreadLocal ? cudaSuccess
								    : cudaErrorInvalidValue;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	(void)stream;
	*graph = captured;
	captured = NULL;
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(
	cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
	struct CUgraph_st *copy = malloc(sizeof(*copy));

	(void)flags;
	*copy = *graph;
	*executable = (cudaGraphExec_t)(void *)copy;
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	free(graph);
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
	free(executable);
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
	const struct CUgraph_st *graph = (const struct CUgraph_st *)(void *)executable;

	for (unsigned i = 0; i < graph->times; i++) {
		ncclAllReduce(graph->send, graph->recv, graph->count, graph->dtype, ncclSum,
			(ncclComm_t)&calls, stream);
	}
	return cudaSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = 29900;
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 7, sizeof(*id));
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	(void)rank;
	*comm = (ncclComm_t)&calls;
	return nranks == 1 && id.internal[0] == 7 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	(void)comm;
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	(void)comm;
	return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	(void)comm;
	*error = fake_is("error") || (fake_is("late-error") && calls > LATE) ? ncclRemoteError
									     : ncclSuccess;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	return result == ncclRemoteError ? "remote process has gone" : "another error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "NET/Summand: lost 10.0.0.9:2222";
}

/* The program's own figures are uint64 too, but few. */
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
	ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	(void)op;
	(void)comm;
	(void)stream;
	if (captured) {
		*captured = (struct CUgraph_st){send, recv, count, dtype, captured->times + 1};
		return ncclSuccess;
	}
	while (fake_is("late-error") && calls > LATE + QUEUE_MOST) {
		pause(); /* for a proxy that has ended */
	}
	if (fake_is("slow")) {
		double now = smd_clock_seconds();

		busy_until = (busy_until > now ? busy_until : now) + SLOW_S;
	}
	memmove(recv, send, count * smd_dtype_bytes(dtype));
	if (count > 3) {
		calls++;
		if (fake_is("bit") || (fake_is("last") && calls > 1)) {
			((unsigned char *)recv)[count] ^= 1;
		}
	}
	return ncclSuccess;
}
