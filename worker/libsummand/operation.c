/* The public calls that start, test and wait for operations. */
#include "worker/libsummand/operation.h"

#include <errno.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/kernels/kernels.h"
#include "worker/libsummand/comm.h"

size_t smd_operation_chunk_bytes(const struct smd_request *operation, uint64_t chunk)
{
	uint64_t before = (chunk - operation->first_chunk) * operation->chunk_elements;
	size_t left = operation->count - before;

	return (left < operation->chunk_elements ? left : operation->chunk_elements) *
	       operation->element_bytes;
}

static void operation_finish(struct smd_request *operation, int err)
{
	struct smd_context *context = operation->comm->context;

	TAILQ_REMOVE(&operation->comm->operations, operation, link);
	context->in_flight--;
	pthread_mutex_lock(&context->lock);
	if (err == 0) {
		context->stats.operations++;
		context->stats.bytes_reduced += operation->count * operation->element_bytes;
	}
	if (context->in_flight == 0) {
		context->stats.busy_seconds += smd_clock_seconds() - context->busy_since;
	}
	operation->err = err;
	operation->finished = true; /* from here on it may be freed */
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

void smd_operation_check(struct smd_request *operation)
{
	if (operation->sends_pending) {
		return;
	}
	if (operation->chunks_done == operation->nchunks) {
		operation_finish(operation, 0);
	} else if (operation->comm->state == SMD_COMM_FAILED) {
		operation_finish(operation, operation->comm->err);
	}
}

static void operation_start(struct smd_task *task)
{
	struct smd_request *operation =
		(struct smd_request *)((char *)task - offsetof(struct smd_request, start));
	struct smd_context *context = operation->comm->context;

	if (context->in_flight++ == 0) {
		context->busy_since = smd_clock_seconds();
	}
	smd_comm_start(operation->comm, operation);
}

static int check_arguments(const struct smd_comm *comm, const void *send, const void *recv,
	size_t count, unsigned dtype, unsigned op, struct smd_error *error)
{
	size_t size = smd_dtype_bytes(dtype);
	const char *s = send;
	const char *r = recv;

	if (!smd_kernel_find(dtype, op)) {
		return smd_error_set(error, ENOTSUP,
			"all-reduce in group %s: this version does %s, got %s %s", comm->group,
			"float32 sum and int32 sum", smd_dtype_name(dtype), smd_op_name(op));
	}
	if (count > SIZE_MAX / 2 / size) {
		return smd_error_set(error, EINVAL,
			"all-reduce in group %s: count must fit into memory, got %zu", comm->group,
			count);
	}
	if (count && (!send || !recv)) {
		return smd_error_set(error, EINVAL,
			"all-reduce in group %s: buffers must not be NULL", comm->group);
	}
	if (s != r && s < r + count * size && r < s + count * size) {
		return smd_error_set(error, EINVAL,
			"all-reduce in group %s: send and recv must be the same or must not "
			"overlap",
			comm->group);
	}
	return 0;
}

int smd_allreduce_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, enum smd_op op, smd_request **out)
{
	struct smd_error error = {""};
	struct smd_request *operation;
	int ret = check_arguments(comm, send, recv, count, dtype, op, &error);

	if (ret) {
		return smd_error_remember(ret, &error);
	}
	operation = calloc(1, sizeof(*operation));
	if (!operation) {
		smd_error_set(&error, ENOMEM, "all-reduce in group %s: out of memory", comm->group);
		return smd_error_remember(-ENOMEM, &error);
	}
	operation->comm = comm;
	operation->start.run = operation_start;
	operation->send = send;
	operation->recv = recv;
	operation->count = count;
	operation->dtype = dtype;
	operation->op = op;
	operation->element_bytes = smd_dtype_bytes(dtype);
	smd_context_post(comm->context, &operation->start);
	*out = operation;
	return 0;
}

int smd_request_test(smd_request *request)
{
	struct smd_context *context = request->comm->context;
	int finished;

	pthread_mutex_lock(&context->lock);
	finished = request->finished;
	pthread_mutex_unlock(&context->lock);
	return finished;
}

int smd_request_wait(smd_request *request)
{
	struct smd_context *context = request->comm->context;
	struct smd_error error = {""};
	int err;

	pthread_mutex_lock(&context->lock);
	while (!request->finished) {
		pthread_cond_wait(&context->changed, &context->lock);
	}
	err = request->err;
	if (err) {
		error = request->comm->error;
	}
	pthread_mutex_unlock(&context->lock);
	free(request);
	return smd_error_remember(err, &error);
}

int smd_allreduce(smd_comm *comm, const void *send, void *recv, size_t count, enum smd_dtype dtype,
	enum smd_op op)
{
	smd_request *request = NULL;
	int ret = smd_allreduce_start(comm, send, recv, count, dtype, op, &request);

	return ret ? ret : smd_request_wait(request);
}

int smd_barrier(smd_comm *comm)
{
	int32_t here = 1;

	return smd_allreduce(comm, &here, &here, 1, SMD_INT32, SMD_SUM);
}

size_t smd_dtype_size(enum smd_dtype dtype)
{
	return smd_dtype_bytes(dtype);
}
