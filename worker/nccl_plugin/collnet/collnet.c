/* What NCCL asks of a CollNet communicator while it is used. */
#include "worker/nccl_plugin/collnet/collnet.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/context.h"
#include "worker/libsummand/request.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/result.h"
#include "worker/nccl_plugin/collnet/comm.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/device/gdr.h"

/* ---- memory ---- */

/* What regMr() was given. */
struct region {
	void *memory;
	size_t bytes;
	bool device; /* a GPU's */
};

static int region_create(struct smd_coll *coll, void *data, size_t size,
	const struct smd_dmabuf *dmabuf, void **mhandle)
{
	struct region *region = malloc(sizeof(*region));
	int ret;

	if (!region) {
		return NCCL_SYSTEM_ERROR;
	}
	*region = (struct region){data, size, dmabuf != NULL};
	ret = smd_loops_register(&coll->loops, coll, data, size, dmabuf);
	if (ret) {
		smd_nccl_log_warn("CollNet: %zu bytes at %p cannot be registered: %s", size, data,
			strerror(-ret));
		free(region);
		return NCCL_SYSTEM_ERROR;
	}
	*mhandle = region;
	return NCCL_SUCCESS;
}

int smd_collnet_register(void *coll_comm, void *data, size_t size, int type, void **mhandle)
{
	if (smd_nccl_lacks_any("regMr", "comm", coll_comm, "result", mhandle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (type != NCCL_PTR_HOST) {
		smd_nccl_refuse_memory("CollNet", type);
		return NCCL_INVALID_USAGE;
	}
	return region_create(coll_comm, data, size, NULL, mhandle);
}

int smd_collnet_register_dmabuf(
	void *coll_comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mhandle)
{
	const struct smd_dmabuf dmabuf = {fd, offset};

	if (smd_nccl_lacks_any("regMrDmaBuf", "comm", coll_comm, "result", mhandle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (type == NCCL_PTR_CUDA && !smd_nccl_devices_take_gpu_memory()) {
		smd_nccl_log_warn("CollNet: memory must be the host's, got a GPU's dma-buf");
		return NCCL_INVALID_USAGE;
	}
	if (type != NCCL_PTR_CUDA) {
		return smd_collnet_register(coll_comm, data, size, type, mhandle);
	}
	return region_create(coll_comm, data, size, &dmabuf, mhandle);
}

/* NCCL may free the memory as soon as this returns, whatever is in flight. */
int smd_collnet_deregister(void *coll_comm, void *mhandle)
{
	struct region *region = mhandle;
	struct smd_coll *coll = coll_comm;
	bool abandoned;

	if (smd_nccl_lacks_any("deregMr", "comm", coll_comm, "memory", mhandle)) {
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&coll->lock);
	abandoned = smd_coll_abandon(coll, region);
	pthread_mutex_unlock(&coll->lock);
	if (abandoned) {
		smd_nccl_log_warn("CollNet over %u nodes (this is node %u): memory was given back "
				  "while operations used it, so they have failed",
			coll->nnodes, coll->node);
	}
	smd_loops_deregister(&coll->loops, coll, region->memory, region->bytes);
	free(region);
	return NCCL_SUCCESS;
}

/* ---- beginning; what is static is called with the lock ---- */

/* The failure is this communicator's, and is told once. */
static int coll_fail(struct smd_coll *coll, int err, const char *text)
{
	if (coll->err == 0) {
		coll->err = err;
		smd_nccl_log_warn("CollNet over %u nodes (this is node %u): %s", coll->nnodes,
			coll->node, text);
		smd_loss_tell(coll, text);
		smd_loops_fail(&coll->loops, err, text); /* others' operations may be of other loops */
	}
	return smd_nccl_result(coll->err);
}

/* An operation did not begin: those that did must end first. */
static int request_abort(struct smd_coll_request *request, int err)
{
	struct smd_coll *coll = request->coll;
	int result = coll_fail(coll, err, smd_error_message());

	smd_coll_clear(coll);
	return result;
}

/* 0, or NCCL's code; *request stays NULL when all are in flight. */
static int request_begin(struct smd_coll *coll, unsigned nparts, struct smd_coll_request **request)
{
	*request = NULL;
	if (coll->err) {
		return smd_nccl_result(coll->err);
	}
	*request = smd_coll_take(coll);
	if (!*request) {
		return NCCL_SUCCESS;
	}
	(*request)->parts = nparts <= 1 ? &(*request)->only : calloc(nparts, sizeof(smd_request *));
	if (!(*request)->parts) {
		(*request)->parts = &(*request)->only;
		smd_coll_give(*request);
		*request = NULL;
		return coll_fail(coll, -ENOMEM, "out of memory");
	}
	return NCCL_SUCCESS;
}

int smd_collnet_allreduce(void *coll_comm, void *send, void *recv, size_t count, int dtype, int op,
	void *send_mhandle, void *recv_mhandle, void **request)
{
	struct smd_coll *coll = coll_comm;
	struct smd_coll_request *own;
	int result;
	int ret;

	if (smd_nccl_lacks_any("iallreduce", "comm", coll_comm, "request", request)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*request = NULL;
	pthread_mutex_lock(&coll->lock);
	result = request_begin(coll, 1, &own);
	if (!own) {
		goto unlock;
	}
	own->bytes = count * smd_dtype_size((enum smd_dtype)dtype);
	own->send = send_mhandle;
	own->recv = recv_mhandle;
	ret = smd_allreduce_start(smd_loops_next(&coll->loops, own->bytes), send, recv, count,
		(enum smd_dtype)dtype, (enum smd_op)op, &own->only);
	if (ret) {
		result = request_abort(own, ret);
		goto unlock;
	}
	own->nparts = 1;
	*request = own;
unlock:
	pthread_mutex_unlock(&coll->lock);
	return result;
}

/* ---- windows ---- */

/* Of [offset, offset + bytes) the part that is node n's, from the window's beginning on. */
struct share {
	size_t begin;
	size_t bytes;
};

struct coll_window {
	size_t bytes_per_rank;
	size_t offset;
	size_t bytes;
	unsigned first; /* nodes that have a share in it */
	unsigned nodes;
};

static int window_make(const struct smd_coll *coll, size_t bytes_per_rank, size_t offset,
	size_t bytes, size_t element, struct coll_window *out)
{
	size_t all = bytes_per_rank * coll->nnodes;

	if (offset > all || bytes > all - offset || element == 0 || bytes_per_rank % element ||
		offset % element || bytes % element) {
		smd_nccl_log_warn("CollNet: a window must lie in the %zu bytes of %u nodes, got "
				  "[%zu, %zu), of elements of %zu bytes",
			all, coll->nnodes, offset, offset + bytes, element);
		return NCCL_INVALID_ARGUMENT;
	}
	*out = (struct coll_window){
		.bytes_per_rank = bytes_per_rank, .offset = offset, .bytes = bytes};
	if (bytes) {
		out->first = (unsigned)(offset / bytes_per_rank);
		out->nodes = (unsigned)((offset + bytes - 1) / bytes_per_rank) - out->first + 1;
	}
	return NCCL_SUCCESS;
}

static struct share window_share(const struct coll_window *window, unsigned node)
{
	size_t begin = node * window->bytes_per_rank;
	size_t end = begin + window->bytes_per_rank;
	size_t window_end = window->offset + window->bytes;

	begin = begin > window->offset ? begin : window->offset;
	end = end < window_end ? end : window_end;
	return (struct share){begin - window->offset, end > begin ? end - begin : 0};
}

/* Several parts are copied, which a GPU's memory is not for; NCCL's come as one (coll_net.cc of
 * 2.21.5 to 2.24, 2.26.6 and 2.30.7). */
static int parts_check(struct smd_coll *coll, const struct coll_window *window, int nparts,
	const struct nccl_sge_v9 *parts)
{
	struct smd_context *context = smd_shared_context_get_context(coll->loops.each[0].shared);
	size_t sum = 0;

	for (int i = 0; i < nparts; i++) {
		sum += parts[i].size;
		if (nparts > 1 && smd_context_is_device_registered(
					  context, parts[i].address, parts[i].size)) {
			smd_nccl_log_warn(
				"CollNet: a window in GPU memory must be one part, got %d", nparts);
			return NCCL_INVALID_ARGUMENT;
		}
	}
	if (nparts < 1 || sum != window->bytes) {
		smd_nccl_log_warn(
			"CollNet: the parts must be the window's %zu bytes, got %zu in %d",
			window->bytes, sum, nparts);
		return NCCL_INVALID_ARGUMENT;
	}
	return NCCL_SUCCESS;
}

/* The window in one piece: the only part, or memory of our own. NULL: out of memory. */
static uint8_t *request_window(
	struct smd_coll_request *own, int nparts, const struct nccl_sge_v9 *parts, size_t bytes)
{
	if (nparts == 1) {
		return parts[0].address;
	}
	own->between = malloc(bytes);
	own->scatter = calloc((size_t)nparts, sizeof(*own->scatter));
	if (!own->between || !own->scatter) {
		return NULL;
	}
	memcpy(own->scatter, parts, (size_t)nparts * sizeof(*parts));
	own->nscatter = (unsigned)nparts;
	return own->between;
}

/* What both begin with. *own stays NULL when all requests are in flight, and on failure. */
static int windowed_begin(struct smd_coll *coll, int nparts, const struct nccl_sge_v9 *parts,
	const struct coll_window *window, struct smd_coll_request **own, uint8_t **whole)
{
	int result = parts_check(coll, window, nparts, parts);

	*own = NULL;
	if (result == NCCL_SUCCESS) {
		result = request_begin(coll, window->nodes, own);
	}
	if (!*own) {
		return result;
	}
	*whole = request_window(*own, nparts, parts, window->bytes);
	if (!*whole && window->bytes) {
		smd_coll_give(*own);
		*own = NULL;
		return coll_fail(coll, -ENOMEM, "out of memory");
	}
	return NCCL_SUCCESS;
}

int smd_collnet_allgather(void *coll_comm, void *send, int nparts, struct nccl_sge_v9 *parts,
	size_t bytes_per_rank, size_t offset, size_t bytes, void *send_mhandle, void **request)
{
	struct smd_coll *coll = coll_comm;
	struct smd_coll_request *own = NULL;
	struct coll_window window;
	smd_comm *comm;
	uint8_t *whole;
	int result;

	if (smd_nccl_lacks_any("iallgather", "comm", coll_comm, "request", request) ||
		smd_nccl_lacks("iallgather", "parts", parts)) {
		return NCCL_INVALID_ARGUMENT;
	}
	result = window_make(coll, bytes_per_rank, offset, bytes, 1, &window);
	*request = NULL;
	pthread_mutex_lock(&coll->lock);
	if (result == NCCL_SUCCESS) {
		result = windowed_begin(coll, nparts, parts, &window, &own, &whole);
	}
	if (!own) {
		goto unlock;
	}
	comm = smd_loops_next(&coll->loops, bytes);
	own->bytes = bytes;
	own->send = window_share(&window, coll->node).bytes ? send_mhandle : NULL;
	own->recv = nparts == 1 ? parts->mhandle : NULL;
	for (unsigned i = 0; i < window.nodes; i++) {
		struct share share = window_share(&window, window.first + i);
		int ret = smd_broadcast_out_of_place_start(comm, send, whole + share.begin,
			share.bytes, SMD_UINT8, (int)(window.first + i), &own->parts[i]);

		if (ret) {
			result = request_abort(own, ret);
			goto unlock;
		}
		own->nparts++;
	}
	*request = own;
unlock:
	pthread_mutex_unlock(&coll->lock);
	return result;
}

int smd_collnet_reducescatter(void *coll_comm, int nparts, struct nccl_sge_v9 *parts, void *recv,
	size_t bytes_per_rank, size_t offset, size_t bytes, int dtype, int op, void *recv_mhandle,
	void **request)
{
	struct smd_coll *coll = coll_comm;
	size_t element = smd_dtype_size((enum smd_dtype)dtype);
	struct smd_coll_request *own = NULL;
	struct coll_window window;
	smd_comm *comm;
	uint8_t *whole;
	int result;

	if (smd_nccl_lacks_any("ireducescatter", "comm", coll_comm, "request", request) ||
		smd_nccl_lacks("ireducescatter", "parts", parts)) {
		return NCCL_INVALID_ARGUMENT;
	}
	result = window_make(coll, bytes_per_rank, offset, bytes, element, &window);
	*request = NULL;
	pthread_mutex_lock(&coll->lock);
	if (result == NCCL_SUCCESS) {
		result = windowed_begin(coll, nparts, parts, &window, &own, &whole);
	}
	if (!own) {
		goto unlock;
	}
	for (size_t i = 0, at = 0; i < own->nscatter; at += parts[i].size, i++) {
		memcpy(whole + at, parts[i].address, parts[i].size);
	}
	comm = smd_loops_next(&coll->loops, bytes);
	own->nscatter = 0; /* they have been read, and nothing goes back */
	own->bytes = window_share(&window, coll->node).bytes;
	own->send = nparts == 1 ? parts->mhandle : NULL;
	own->recv = own->bytes ? recv_mhandle : NULL;
	for (unsigned i = 0; i < window.nodes; i++) {
		struct share share = window_share(&window, window.first + i);
		int ret = smd_reduce_start(comm, whole + share.begin, recv,
			share.bytes / element, (enum smd_dtype)dtype, (enum smd_op)op,
			(int)(window.first + i), &own->parts[i]);

		if (ret) {
			result = request_abort(own, ret);
			goto unlock;
		}
		own->nparts++;
	}
	*request = own;
unlock:
	pthread_mutex_unlock(&coll->lock);
	return result;
}

int smd_collnet_flush(void *coll_comm, void *mhandle, void **request)
{
	const struct region *region = mhandle;
	struct smd_coll *coll = coll_comm;
	struct smd_coll_request *own;
	int result = NCCL_SUCCESS;

	if (smd_nccl_lacks_any("iflush", "comm", coll_comm, "request", request)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*request = NULL;
	if (region && region->device) {
		result = smd_gdr_flush();
	}
	if (result == NCCL_SUCCESS) {
		pthread_mutex_lock(&coll->lock);
		result = request_begin(coll, 0, &own);
		pthread_mutex_unlock(&coll->lock);
		*request = own; /* with no parts: it is done */
	}
	return result;
}

static atomic_bool without_float8;

void smd_collnet_leave_float8(void)
{
	without_float8 = true;
}

int smd_collnet_reduce_support(int dtype, int op, int *supported)
{
	int types = without_float8 ? NCCL_DTYPES_UNTIL_2_23 : NCCL_DTYPE_COUNT;

	if (smd_nccl_lacks("reduceSupport", "result", supported)) {
		return NCCL_INVALID_ARGUMENT;
	}
	*supported = dtype >= 0 && dtype < types && op >= 0 && op < NCCL_OP_COUNT;
	return NCCL_SUCCESS;
}

/* ---- ending ---- */

/*
 * A request is never done at its first test(). NCCL's receiving side (recvProxyProgress() in coll_net.cc, 2.13 to 2.30) tells
 * the GPU that all results are there of which it knows, though it has told only of the oldest where it is; the GPU then reads
 * the others at a place of an operation before, and the sum is wrong. NCCL tests the oldest request once in each turn of its
 * progress thread, so it knows of one result at a time.
 */
static bool request_is_done(struct smd_coll_request *request)
{
	bool first = !request->asked;

	request->asked = true;
	while (request->ndone < request->nparts &&
		smd_request_test(request->parts[request->ndone])) {
		request->ndone++;
	}
	return !first && request->ndone == request->nparts;
}

/* It is done: how, as NCCL says it. With the lock. */
static int request_end(struct smd_coll_request *request, int *size)
{
	int ret = smd_coll_wait(request);

	if (ret) {
		(void)coll_fail(request->coll, ret, smd_error_message());
	} else {
		smd_coll_scatter(request);
	}
	if (size) {
		*size = (int)request->bytes;
	}
	smd_coll_give(request);
	return smd_nccl_result(ret);
}

/* What it looks at without the lock the calling thread alone writes. */
int smd_collnet_test(void *request, int *done, int *size)
{
	struct smd_coll_request *own = request;
	struct smd_coll *coll;
	int result;

	if (smd_nccl_lacks_any("test", "request", request, "result", done)) {
		return NCCL_INVALID_ARGUMENT;
	}
	coll = own->coll;
	*done = 0;
	if (own->used && !request_is_done(own)) {
		return NCCL_SUCCESS;
	}
	pthread_mutex_lock(&coll->lock);
	if (own->used) {
		*done = 1;
		result = request_end(own, size);
	} else { /* it has ended with its communicator */
		result = smd_nccl_result(coll->err ? coll->err : -EINVAL);
	}
	pthread_mutex_unlock(&coll->lock);
	return result;
}

int smd_collnet_close(void *coll_comm)
{
	if (smd_nccl_lacks("closeColl", "comm", coll_comm)) {
		return NCCL_INVALID_ARGUMENT;
	}
	smd_coll_destroy(coll_comm);
	return NCCL_SUCCESS;
}
