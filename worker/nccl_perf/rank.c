/* Measures all sizes, types and reductions as one rank of a communicator of NCCL. */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/base/hash.h"
#include "worker/nccl_perf/churn.h"
#include "worker/nccl_perf/nccl_perf.h"
#include "worker/perf/perf.h"

#define STALE_BYTE 0xa5
#define FIGURES    3

/*
 * All-reduces are begun in batches, of which only a few are in flight: NCCL takes so many without
 * waiting for its proxy, and it would wait without end for one that has failed.
 */
#define BATCH   16
#define BATCHES 4

struct rank_work {
	const void *send;
	void *recv;
	uint64_t count;
	ncclDataType_t dtype;
	ncclRedOp_t op;
};

/* All-reduces that were captured together. */
struct rank_graph {
	cudaGraphExec_t executable; /* NULL: none yet */
	struct rank_work work;
	int n;
};

struct rank {
	const struct nccl_perf_settings *settings;
	ncclComm_t comm;
	cudaStream_t stream;
	cudaEvent_t batches[BATCHES]; /* the end of each */
	unsigned nbatches;            /* begun until now */
	struct rank_graph graph;      /* of the batch that was begun last */
	uint8_t *send;
	uint8_t *recv;
	uint64_t *figures;          /* of all ranks; FIGURES, on the device */
	uint8_t *host;              /* inputs and results, as large as the largest size */
	struct nccl_perf_row *rows; /* of all types, reductions and sizes */
	size_t nrows;               /* that are done */
	struct nccl_perf_totals totals;
};

/* ---- what can go wrong ---- */

static int cuda_failed(cudaError_t result, const char *call, struct smd_error *error)
{
	return smd_error_set(error, EIO, "%s: %s", call, cudaGetErrorString(result));
}

static int nccl_failed(
	ncclResult_t result, ncclComm_t comm, const char *call, struct smd_error *error)
{
	return smd_error_set(
		error, EIO, "%s: %s: %s", call, ncclGetErrorString(result), ncclGetLastError(comm));
}

/* Nothing has happened for so long that nothing will. */
static void give_up(int signal_number)
{
	static const char text[] = "summand-nccl-perf: no progress until the timeout, giving up\n";

	(void)signal_number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(EXIT_FAILURE);
}

/* From here on something must happen in time, until it is taken back. */
static void expect_progress(const struct rank *rank)
{
	alarm((unsigned)rank->settings->timeout_s);
}

static void expect_nothing(void)
{
	alarm(0);
}

/* NCCL's kernels wait for ever when the network has failed: only its own word says so. */
static int look_for_error(struct rank *rank, struct smd_error *error)
{
	ncclResult_t state = ncclSuccess;
	ncclResult_t result = ncclCommGetAsyncError(rank->comm, &state);

	if (result == ncclSuccess && state == ncclSuccess) {
		return 0;
	}
	return nccl_failed(result != ncclSuccess ? result : state, rank->comm, "all-reduce", error);
}

/* Until the stream has done this batch, at once if it was never begun. */
static int await_batch(struct rank *rank, unsigned batch, struct smd_error *error)
{
	cudaError_t status;
	int ret = 0;

	expect_progress(rank);
	while ((status = cudaEventQuery(rank->batches[batch % BATCHES])) == cudaErrorNotReady &&
		ret == 0) {
		ret = look_for_error(rank, error);
		sched_yield();
	}
	expect_nothing();
	if (ret == 0 && status != cudaSuccess) {
		ret = cuda_failed(status, "cudaEventQuery", error);
	}
	return ret;
}

/* Until the stream has done all that it was given. */
static int finish(struct rank *rank, struct smd_error *error)
{
	int ret = 0;

	for (unsigned i = 0; i < BATCHES && !ret; i++) {
		ret = await_batch(rank, rank->nbatches + i, error);
	}
	return ret;
}

/* In the stream's order, as NCCL's work is. */
static int copy(struct rank *rank, void *to, const void *from, size_t size, struct smd_error *error)
{
	cudaError_t result;

	expect_progress(rank);
	result = cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, rank->stream);
	if (result == cudaSuccess) {
		result = cudaStreamSynchronize(rank->stream);
	}
	expect_nothing();
	return result == cudaSuccess ? 0 : cuda_failed(result, "cudaMemcpyAsync", error);
}

/* ---- one all-reduce after another ---- */

static ncclResult_t enqueue(struct rank *rank, const struct rank_work *work, int n)
{
	ncclResult_t result = ncclSuccess;

	for (int i = 0; i < n && result == ncclSuccess; i++) {
		result = ncclAllReduce(work->send, work->recv, work->count, work->dtype, work->op,
			rank->comm, rank->stream);
	}
	return result;
}

static void forget_graph(struct rank_graph *graph)
{
	if (graph->executable) {
		cudaGraphExecDestroy(graph->executable);
	}
	*graph = (struct rank_graph){NULL};
}

static int is_captured(const struct rank_graph *graph, const struct rank_work *work, int n)
{
	const struct rank_work *known = &graph->work;

	return graph->executable && graph->n == n && known->send == work->send &&
	       known->recv == work->recv && known->count == work->count &&
	       known->dtype == work->dtype && known->op == work->op;
}

static int capture(struct rank *rank, const struct rank_work *work, int n, struct smd_error *error)
{
	cudaGraph_t graph = NULL;
	ncclResult_t enqueued;
	cudaError_t result;

	forget_graph(&rank->graph);
	result = cudaStreamBeginCapture(rank->stream, cudaStreamCaptureModeThreadLocal);
	if (result != cudaSuccess) {
		return cuda_failed(result, "cudaStreamBeginCapture", error);
	}
	enqueued = enqueue(rank, work, n);
	result = cudaStreamEndCapture(rank->stream, &graph);
	if (enqueued != ncclSuccess) {
		return nccl_failed(enqueued, rank->comm, "ncclAllReduce in a graph", error);
	}
	if (result != cudaSuccess) {
		return cuda_failed(result, "cudaStreamEndCapture", error);
	}
	result = cudaGraphInstantiateWithFlags(&rank->graph.executable, graph, 0);
	cudaGraphDestroy(graph);
	rank->graph.work = *work;
	rank->graph.n = n;
	return result == cudaSuccess ? 0 : cuda_failed(result, "cudaGraphInstantiate", error);
}

static int replay(struct rank *rank, const struct rank_work *work, int n, struct smd_error *error)
{
	int ret = is_captured(&rank->graph, work, n) ? 0 : capture(rank, work, n, error);
	cudaError_t result;

	if (ret) {
		return ret;
	}
	result = cudaGraphLaunch(rank->graph.executable, rank->stream);
	return result == cudaSuccess ? 0 : cuda_failed(result, "cudaGraphLaunch", error);
}

/* At most BATCH, in place of the oldest batch in flight. */
static int begin_batch(
	struct rank *rank, const struct rank_work *work, int n, struct smd_error *error)
{
	unsigned batch = rank->nbatches++;
	ncclResult_t result;
	cudaError_t status;
	int ret = await_batch(rank, batch, error);

	if (ret) {
		return ret;
	}
	expect_progress(rank);
	if (rank->settings->graph) {
		ret = replay(rank, work, n, error);
	} else {
		result = enqueue(rank, work, n);
		ret = result == ncclSuccess
			      ? 0
			      : nccl_failed(result, rank->comm, "ncclAllReduce", error);
	}
	expect_nothing();
	if (ret) {
		return ret;
	}
	status = cudaEventRecord(rank->batches[batch % BATCHES], rank->stream);
	return status == cudaSuccess ? 0 : cuda_failed(status, "cudaEventRecord", error);
}

static int allreduce(
	struct rank *rank, const struct rank_work *work, int n, struct smd_error *error)
{
	int ret = 0;

	for (int begun = 0; begun < n && !ret; begun += BATCH) {
		int rest = n - begun;

		ret = begin_batch(rank, work, rest < BATCH ? rest : BATCH, error);
	}
	return ret ? ret : finish(rank, error);
}

/* Overwrites `figures` with the largest of all ranks', or the sum. */
static int gather(
	struct rank *rank, uint64_t figures[FIGURES], ncclRedOp_t op, struct smd_error *error)
{
	size_t size = FIGURES * sizeof(*figures);
	const struct rank_work work = {
		.send = rank->figures,
		.recv = rank->figures,
		.count = FIGURES,
		.dtype = ncclUint64,
		.op = op,
	};
	int ret = copy(rank, rank->figures, figures, size, error);

	ret = ret ? ret : allreduce(rank, &work, 1, error);
	return ret ? ret : copy(rank, figures, rank->figures, size, error);
}

/* Word by word, because buffers are large, and then byte by byte. */
static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
	uint64_t hash = SMD_HASH_SEED;
	size_t i = 0;

	for (; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes + i, sizeof(word));
		hash = smd_hash_add(hash, word);
	}
	return smd_hash(hash, bytes + i, size - i);
}

static int check(struct rank *rank, const struct nccl_perf_row *row, uint64_t *wrong,
	uint64_t *hash, struct smd_error *error)
{
	int ret = copy(rank, rank->host, rank->recv, row->bytes, error);

	if (ret == 0) {
		*wrong += rank->settings->rounding
				  ? perf_input_check(rank->host, row->count, row->dtype, row->dtype,
					    row->op, rank->settings->nranks, 0)
				  : perf_input_check_near(rank->host, row->count, row->dtype,
					    row->op, rank->settings->nranks);
		*hash = hash_of(rank->host, row->bytes);
	}
	return ret;
}

/* What was in the place of the result before must not pass for it. */
static int prepare(
	struct rank *rank, const struct nccl_perf_row *row, int in_place, struct smd_error *error)
{
	cudaError_t result;
	int ret;

	if (rank->settings->rounding) {
		perf_input_fill(rank->host, row->count, row->dtype, row->dtype, row->op,
			rank->settings->rank);
	} else {
		perf_input_fill_whole(
			rank->host, row->count, row->dtype, row->op, rank->settings->rank);
	}
	ret = copy(rank, rank->send, rank->host, row->bytes, error);
	if (ret) {
		return ret;
	}
	if (in_place) {
		return copy(rank, rank->recv, rank->host, row->bytes, error);
	}
	result = cudaMemsetAsync(rank->recv, STALE_BYTE, row->bytes, rank->stream);
	return result == cudaSuccess ? 0 : cuda_failed(result, "cudaMemsetAsync", error);
}

/* All iterations, begun together. In place each reduces the result of the one before. */
static int measure(
	struct rank *rank, const struct rank_work *work, uint64_t *ns, struct smd_error *error)
{
	uint64_t nothing[FIGURES] = {0};
	double begin;
	int ret = allreduce(rank, work, rank->settings->warmup, error);

	ret = ret ? ret : gather(rank, nothing, ncclSum, error);
	begin = smd_clock_seconds();
	ret = ret ? ret : allreduce(rank, work, rank->settings->iters, error);
	*ns = (uint64_t)((smd_clock_seconds() - begin) * 1e9 / rank->settings->iters);
	return ret;
}

/* One way, verified and then measured; apart, what the measured iterations leave is verified too.
 */
static int run_way(
	struct rank *rank, struct nccl_perf_row *row, int in_place, struct smd_error *error)
{
	struct nccl_perf_figures *figures = in_place ? &row->in_place : &row->apart;
	const struct rank_work work = {
		.send = in_place ? rank->recv : rank->send,
		.recv = rank->recv,
		.count = row->count,
		.dtype = (ncclDataType_t)row->dtype,
		.op = (ncclRedOp_t)row->op,
	};
	uint64_t wrong = 0, hash = 0, ns = 0;
	uint64_t most[FIGURES];
	uint64_t sums[FIGURES] = {0};
	int ret = prepare(rank, row, in_place, error);

	ret = ret ? ret : allreduce(rank, &work, 1, error);
	ret = ret ? ret : check(rank, row, &wrong, &hash, error);
	ret = ret ? ret : measure(rank, &work, &ns, error);
	if (ret == 0 && !in_place) {
		ret = check(rank, row, &wrong, &hash, error);
	}
	most[0] = ns;
	most[1] = hash;
	most[2] = ~hash;
	sums[0] = wrong;
	ret = ret ? ret : gather(rank, most, ncclMax, error);
	ret = ret ? ret : gather(rank, sums, ncclSum, error);
	if (ret == 0) {
		figures->us = (double)most[0] / 1e3;
		figures->wrong = sums[0];
		row->is_one_result &= most[1] == ~most[2] && (!in_place || most[1] == row->hash);
		row->hash = most[1];
	}
	return ret;
}

static int run_row(
	struct rank *rank, unsigned dtype, unsigned op, uint64_t size, struct smd_error *error)
{
	uint64_t count = size / smd_dtype_bytes(dtype);
	struct nccl_perf_row *row = &rank->rows[rank->nrows];
	int ret;

	*row = (struct nccl_perf_row){
		.bytes = count * smd_dtype_bytes(dtype),
		.count = count,
		.dtype = dtype,
		.op = op,
		.is_one_result = 1,
	};
	ret = run_way(rank, row, 0, error);
	ret = ret ? ret : run_way(rank, row, 1, error);
	if (ret) {
		return ret;
	}
	if (rank->settings->rank == 0) {
		nccl_perf_report_row(rank->settings, row);
	}
	rank->nrows++;
	rank->totals.wrong += row->apart.wrong + row->in_place.wrong;
	rank->totals.differing += !row->is_one_result;
	return 0;
}

static int run_type(struct rank *rank, unsigned dtype, unsigned op, struct smd_error *error)
{
	int ret = 0;

	for (unsigned i = 0; i < rank->settings->nsizes && !ret; i++) {
		ret = run_row(rank, dtype, op, rank->settings->sizes[i], error);
	}
	return ret;
}

static int run_types(struct rank *rank, struct smd_error *error)
{
	const struct nccl_perf_settings *settings = rank->settings;
	int version = 0;
	int ret = 0;

	ncclGetVersion(&version);
	if (settings->rank == 0) {
		nccl_perf_report_begin(settings, version);
	}
	for (unsigned dtype = 0; dtype < 32 && !ret; dtype++) {
		for (unsigned op = 0; op < 32 && !ret; op++) {
			if (settings->dtypes >> dtype & settings->ops >> op & 1) {
				ret = run_type(rank, dtype, op, error);
			}
		}
	}
	if (ret == 0 && settings->rank == 0) {
		nccl_perf_report_end(settings, version, rank->rows, rank->nrows, &rank->totals);
	}
	return ret ? ret : rank->totals.wrong || rank->totals.differing;
}

/* ---- begin and end ---- */

static int allocate(struct rank *rank, struct smd_error *error)
{
	const struct nccl_perf_settings *settings = rank->settings;
	size_t nrows = settings->nsizes * (size_t)__builtin_popcount(settings->dtypes) *
		       (size_t)__builtin_popcount(settings->ops);
	uint64_t largest = 0;
	cudaError_t result;

	for (unsigned i = 0; i < settings->nsizes; i++) {
		uint64_t size = settings->sizes[i];

		largest = size > largest ? size : largest;
	}
	rank->host = malloc(largest);
	rank->rows = calloc(nrows, sizeof(*rank->rows));
	if (!rank->host || !rank->rows) {
		return smd_error_set(
			error, ENOMEM, "%llu bytes: out of memory", (unsigned long long)largest);
	}
	result = cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking);
	for (int i = 0; i < BATCHES && result == cudaSuccess; i++) {
		result = cudaEventCreateWithFlags(&rank->batches[i], cudaEventDisableTiming);
	}
	if (result == cudaSuccess) {
		result = cudaMalloc((void **)&rank->send, largest);
	}
	if (result == cudaSuccess) {
		result = cudaMalloc((void **)&rank->recv, largest);
	}
	if (result == cudaSuccess) {
		result = cudaMalloc((void **)&rank->figures, FIGURES * sizeof(*rank->figures));
	}
	return result == cudaSuccess ? 0 : cuda_failed(result, "memory of the device", error);
}

static void release(struct rank *rank)
{
	cudaFree(rank->figures);
	cudaFree(rank->recv);
	cudaFree(rank->send);
	for (int i = 0; i < BATCHES; i++) {
		if (rank->batches[i]) {
			cudaEventDestroy(rank->batches[i]);
		}
	}
	if (rank->stream) {
		cudaStreamDestroy(rank->stream);
	}
	free(rank->rows);
	free(rank->host);
}

static int join(struct rank *rank, struct smd_error *error)
{
	const struct nccl_perf_settings *settings = rank->settings;
	ncclResult_t result;
	ncclUniqueId id;
	int ret;

	expect_progress(rank);
	ret = nccl_perf_meet(settings, &id, error);
	if (ret) {
		return ret;
	}
	result = ncclCommInitRank(&rank->comm, settings->nranks, id, settings->rank);
	expect_nothing();
	nccl_perf_forget(settings);
	return result == ncclSuccess ? 0 : nccl_failed(result, NULL, "ncclCommInitRank", error);
}

int nccl_perf_run(const struct nccl_perf_settings *settings, struct smd_error *error)
{
	struct rank rank = {.settings = settings};
	struct nccl_perf_churn churn = {.running = 0};
	int ret;

	signal(SIGALRM, give_up);
	ret = allocate(&rank, error);
	ret = ret ? ret : join(&rank, error);
	if (ret == 0 && settings->churn) {
		ret = nccl_perf_churn_begin(&churn, error);
	}
	ret = ret ? ret : run_types(&rank, error);
	if (settings->churn) {
		fprintf(stderr, "summand-nccl-perf: %llu allocations beside\n",
			nccl_perf_churn_end(&churn));
	}
	expect_progress(&rank);
	forget_graph(&rank.graph);
	if (rank.comm && ret < 0) {
		ncclCommAbort(rank.comm);
	} else if (rank.comm) {
		ncclCommDestroy(rank.comm);
	}
	release(&rank);
	expect_nothing();
	return ret;
}

int nccl_perf_find_device(const struct nccl_perf_settings *settings, struct smd_error *error)
{
	int n = 0;
	int device = settings->device;
	cudaError_t result = cudaGetDeviceCount(&n);

	if (result != cudaSuccess || n == 0) {
		return smd_error_set(error, ENODEV, "there is no CUDA device that can be used: %s",
			result != cudaSuccess ? cudaGetErrorString(result) : "none was found");
	}
	if (device >= n) {
		return smd_error_set(
			error, EINVAL, "--device: must be below %d, got %d", n, device);
	}
	result = cudaSetDevice(device >= 0 ? device : settings->rank % n);
	return result == cudaSuccess ? 0
				     : smd_error_set(error, ENODEV, "cudaSetDevice: %s",
					       cudaGetErrorString(result));
}
