/* Where an operation's chunks are, and when it is done. */
#include "worker/libsummand/operation.h"

#include "reduction_server/base/clock.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/comm.h"

size_t smd_operation_chunk_offset(const struct smd_request *operation, uint64_t chunk)
{
	return (chunk - operation->first_chunk) * operation->chunk_elements *
	       operation->element_bytes;
}

size_t smd_operation_chunk_bytes(const struct smd_request *operation, uint64_t chunk)
{
	uint64_t before = (chunk - operation->first_chunk) * operation->chunk_elements;
	size_t left = operation->count - before;

	return (left < operation->chunk_elements ? left : operation->chunk_elements) *
	       operation->element_bytes;
}

size_t smd_operation_sent_bytes(const struct smd_request *operation, uint64_t chunk)
{
	return smd_collective_sends(operation->collective, operation->root, operation->comm->rank)
		       ? smd_operation_chunk_bytes(operation, chunk)
		       : 0;
}

size_t smd_operation_received_bytes(const struct smd_request *operation, uint64_t chunk)
{
	return smd_collective_receives(
		       operation->collective, operation->root, operation->comm->rank)
		       ? smd_operation_chunk_bytes(operation, chunk)
		       : 0;
}

bool smd_operations_are_lost(const struct smd_comm *comm)
{
	const struct smd_request *first = TAILQ_FIRST(&comm->operations);

	return comm->end != SMD_COMM_NO_END && (!first || first->sequence >= comm->end);
}

static void operation_finish(struct smd_request *operation, int err)
{
	struct smd_comm *comm = operation->comm;
	struct smd_context *context = comm->context;

	TAILQ_REMOVE(&comm->operations, operation, link);
	comm->fetching -= operation->path->fetch != NULL;
	if (operation->path->end) {
		operation->path->end(operation);
	}
	if (comm->state == SMD_COMM_ACTIVE && smd_operations_are_lost(comm)) {
		/* Soon: this may be inside a lane's callback. */
		smd_comm_fault(comm, comm->err, comm->error.text);
	}
	smd_progress_lock(&context->progress);
	if (err == 0) {
		context->stats.operations++;
		context->stats.bytes_reduced += operation->count * operation->element_bytes;
	}
	comm->in_flight--;
	if (--context->progress.in_flight == 0) {
		context->stats.busy_seconds += smd_clock_seconds() - context->busy_since;
	}
	operation->err = err;
	operation->finished = true; /* from here on it may be freed */
	smd_progress_publish(&context->progress);
}

static bool operation_complete(struct smd_request *operation)
{
	return !operation->path->complete || operation->path->complete(operation);
}

void smd_operation_check(struct smd_request *operation)
{
	if (operation->sends_pending || operation->copies_pending) {
		return;
	}
	if (operation->chunks_done == operation->nchunks && operation_complete(operation)) {
		operation_finish(operation, 0);
	} else if (operation->comm->state == SMD_COMM_FAILED && operation->comm->nopen == 0) {
		operation_finish(operation, operation->comm->err);
	}
}

void smd_operation_refuse(struct smd_request *operation)
{
	operation_finish(operation, operation->comm->err);
}

void smd_operation_begin(struct smd_request *operation)
{
	operation->comm->fetching += operation->path->fetch != NULL;
	if (operation->path->begin) {
		operation->path->begin(operation);
	}
}

struct smd_request *smd_operation_find(struct smd_comm *comm, uint64_t chunk)
{
	struct smd_request *operation;

	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (chunk - operation->first_chunk < operation->nchunks) {
			return operation;
		}
	}
	return NULL;
}
