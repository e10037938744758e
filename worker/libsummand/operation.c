/* Where an operation's chunks are, and when it is done. */
#include "worker/libsummand/operation.h"

#include "reduction_server/base/clock.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/segment.h"
#include "worker/libsummand/tuning.h"
#include "worker/libsummand/tuning_exchanges.h"

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

bool smd_operation_contributes_results(const struct smd_request *operation)
{
	return smd_collective_reduces(operation->collective) &&
	       smd_collective_receives(
		       operation->collective, operation->root, operation->comm->rank);
}

struct smd_extent smd_operation_extent(const struct smd_request *operation, const void *buffer)
{
	const struct smd_request *whole = operation->whole;

	if (whole) { /* which is registered at once */
		return (struct smd_extent){
			buffer == operation->recv ? whole->recv : (void *)whole->send,
			whole->bytes};
	}
	return (struct smd_extent){(void *)buffer, operation->count * operation->element_bytes};
}

bool smd_operation_overwrites(const struct smd_request *operation)
{
	return operation->path->host && operation->send == operation->recv &&
	       smd_collective_reduces(operation->collective);
}

bool smd_operations_are_lost(const struct smd_comm *comm)
{
	const struct smd_request *first = TAILQ_FIRST(&comm->operations);

	return comm->end != SMD_COMM_NO_END && (!first || first->sequence >= comm->end);
}

uint8_t smd_operations_open(const struct smd_comm *comm, uint64_t sequence)
{
	const struct smd_request *first = TAILQ_FIRST(&comm->operations);
	uint64_t before = first && first->sequence < sequence ? sequence - first->sequence : 0;

	return before < SMD_OPEN_MOST ? (uint8_t)(before + 1) : 0;
}

void smd_operations_heard_open(struct smd_comm *comm, const struct smd_frame *result)
{
	uint64_t ended = result->operation + 1 - result->open;

	if (result->open && ended > comm->ended) {
		comm->ended = ended;
		smd_history_release(&comm->history);
	}
}

static void operation_finish(struct smd_request *operation, int err)
{
	struct smd_comm *comm = operation->comm;
	struct smd_context *context = comm->context;
	bool exchanged = operation->pieces > 0;

	TAILQ_REMOVE(&comm->operations, operation, link);
	if (comm->tuning) {
		if (exchanged) {
			smd_tuning_exchanged(comm->tuning);
		}
		if (operation->served) { /* it may have begun in the span before */
			smd_tuning_serves(comm->tuning);
		}
		smd_tuning_end(comm->tuning, operation->timed, smd_clock_ns());
	}
	comm->holding -= operation->holds;
	if (operation->repaired) {
		smd_epochs_forget(operation);
	}
	comm->fetching -= operation->path->fetch != NULL;
	if (exchanged) {
		comm->end_pieces(operation);
	}
	if (operation->path->end) {
		operation->path->end(operation);
	}
	if (comm->state == SMD_COMM_ACTIVE && smd_operations_are_lost(comm)) {
		/* Soon: this may be inside a lane's callback. */
		smd_comm_fault(comm, comm->err, comm->error.text);
	}
	if (operation->whole) {
		operation = smd_segment_end(operation, &err);
		smd_comm_advance(comm);
	}
	if (!operation) {
		return;
	}
	smd_progress_lock(&context->progress);
	if (err == 0) {
		context->stats.operations++;
		context->stats.bytes_reduced += operation->bytes;
		context->stats.exchanges += exchanged;
	}
	comm->in_flight--;
	comm->late[0] = '\0'; /* who was late for it has come */
	context->progress.large -= operation->large;
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

/* It has all of its results. */
static void operation_return(struct smd_request *operation)
{
	struct smd_comm *comm = operation->comm;

	/* Nobody can ask for more of a communicator that is over. */
	if (comm->state == SMD_COMM_FAILED || comm->settle(operation)) {
		operation_finish(operation, 0);
	} else {
		comm->holding += !operation->holds;
		operation->holds = true;
	}
}

void smd_operation_check(struct smd_request *operation)
{
	if (operation->sends_pending || operation->copies_pending) {
		return;
	}
	if (operation->laid && operation->chunks_done == operation->nchunks &&
		operation->pieces_done == operation->pieces &&
		(operation->holds || operation_complete(operation))) {
		operation_return(operation);
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

void smd_operation_shape(const struct smd_request *operation, uint64_t chunk, struct smd_frame *out)
{
	*out = (struct smd_frame){
		.kind = SMD_FRAME_INPUT,
		.dtype = (uint8_t)operation->dtype,
		.op = (uint8_t)operation->op,
		.collective = (uint8_t)operation->collective,
		.root = (uint16_t)operation->root,
		.rank = operation->comm->rank,
		.operation = operation->sequence,
		.count = operation->count,
		.offset = smd_operation_chunk_offset(operation, chunk) / operation->element_bytes,
	};
}

void smd_operations_check_held(struct smd_comm *comm)
{
	struct smd_request *operation = comm->holding ? TAILQ_FIRST(&comm->operations) : NULL;

	while (operation) {
		struct smd_request *next = TAILQ_NEXT(operation, link);

		if (operation->holds) {
			smd_operation_check(operation);
		}
		operation = next;
	}
}
