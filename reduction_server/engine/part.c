/* Checks parts when they are announced, and says which slot they belong to. */
#include "reduction_server/engine/part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/resources.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/wire/request_text.h"

static int part_check_credit(
	const struct smd_member *member, const struct smd_frame *frame, struct smd_error *error)
{
	if (frame->ordinal != member->next) {
		return smd_error_set(error, EPROTO, "INPUT: ordinal must be %llu, got %llu",
			(unsigned long long)member->next, (unsigned long long)frame->ordinal);
	}
	if (frame->ordinal >= member->limit) {
		return smd_error_set(error, EPROTO,
			"INPUT: ordinal must be below %llu, which is granted, got %llu",
			(unsigned long long)member->limit, (unsigned long long)frame->ordinal);
	}
	if (frame->lag > SMD_WINDOW_MAX || frame->lag > frame->ordinal) {
		return smd_error_set(error, EPROTO,
			"INPUT: lag must be at most %d and the ordinal, got %u", SMD_WINDOW_MAX,
			frame->lag);
	}
	if (frame->open > frame->operation + 1) {
		return smd_error_set(error, EPROTO,
			"INPUT: open must be at most the operation's number and 1, got %u",
			frame->open);
	}
	return 0;
}

/* Of what two ranks have said, where 0 is more than can be said. */
static uint8_t most_open(uint8_t one, uint8_t other)
{
	return one == 0 || other == 0 ? 0 : one > other ? one : other;
}

static int part_check_elements(
	const struct smd_member *member, const struct smd_frame *frame, struct smd_error *error)
{
	const struct smd_server_comm *comm = member->comm;
	size_t chunk_bytes = comm->resources->chunk_bytes;
	size_t size = smd_dtype_bytes(frame->dtype);
	unsigned ranks = frame->collective == SMD_COLLECTIVE_ALLREDUCE ? 1 : comm->nranks;

	if (frame->root >= ranks) {
		return smd_error_set(error, EPROTO, "INPUT: root of %s must be below %u, got %u",
			smd_collective_name(frame->collective), ranks, frame->root);
	}
	if (frame->length && !smd_collective_sends(frame->collective, frame->root, member->rank)) {
		return smd_error_set(error, EPROTO,
			"INPUT: length must be 0 from rank %u in a %s from rank %u, got %u",
			member->rank, smd_collective_name(frame->collective), frame->root,
			frame->length);
	}
	if (frame->window > 1 || (frame->window && !smd_collective_reduces(frame->collective))) {
		return smd_error_set(error, EPROTO,
			"INPUT: must be 0, or 1 for a result of a reduction, got %u",
			frame->window);
	}
	if (size == 0 || frame->length % size || frame->length > chunk_bytes) {
		return smd_error_set(error, EPROTO,
			"INPUT: length must be whole elements of %s and at most %zu, got %u",
			smd_dtype_name(frame->dtype), chunk_bytes, frame->length);
	}
	if (frame->offset > frame->count || frame->length / size > frame->count - frame->offset) {
		return smd_error_set(error, EPROTO,
			"INPUT: the chunk must lie within %llu elements, got %llu at %llu",
			(unsigned long long)frame->count,
			(unsigned long long)(frame->length / size),
			(unsigned long long)frame->offset);
	}
	return 0;
}

static bool same_shape(const struct smd_frame *a, const struct smd_frame *b)
{
	return a->collective == b->collective && a->root == b->root && a->dtype == b->dtype &&
	       a->op == b->op && a->chunk == b->chunk && a->operation == b->operation &&
	       a->count == b->count && a->offset == b->offset &&
	       (a->length == b->length || !smd_collective_reduces(a->collective));
}

/* For ranks that ask for the same, but cut it differently. */
static void describe_chunk(const struct smd_frame *frame, char text[SMD_REQUEST_TEXT_MAX])
{
	snprintf(text, SMD_REQUEST_TEXT_MAX, "chunk %llu, %u bytes from element %llu on",
		(unsigned long long)frame->chunk, frame->length, (unsigned long long)frame->offset);
}

static void part_disagrees(struct smd_server_comm *comm, const struct smd_frame *first,
	const struct smd_member *second_member, const struct smd_frame *second)
{
	const struct smd_member *first_member = comm->members[first->rank];
	char text[SMD_ERROR_TEXT_MAX];
	char first_request[SMD_REQUEST_TEXT_MAX];
	char second_request[SMD_REQUEST_TEXT_MAX];

	smd_request_text(first, first_request);
	smd_request_text(second, second_request);
	if (strcmp(first_request, second_request) == 0) {
		describe_chunk(first, first_request);
		describe_chunk(second, second_request);
	}
	snprintf(text, sizeof(text),
		"group %.80s: all ranks must ask for the same, but rank %u (%.60s) asks for %s, "
		"rank %u (%.60s) for %s%s",
		comm->name, first->rank, smd_peer_replica(first_member), first_request,
		second->rank, smd_peer_replica(second_member), second_request,
		smd_requests_may_differ_in_wire(first, second)
			? " (one may have another SUMMAND_WIRE)"
			: "");
	smd_server_comm_abort(comm, EINVAL, text);
}

/* A chunk that this server can do, for ranks that are all still there. */
static bool part_can_be_done(struct smd_server_comm *comm, const struct smd_frame *frame)
{
	char text[SMD_ERROR_TEXT_MAX];

	if (smd_collective_reduces(frame->collective) &&
		!smd_kernel_find(frame->dtype, frame->op)) {
		snprintf(text, sizeof(text),
			"group %.200s: the reduction server does not support %s %s", comm->name,
			smd_dtype_name(frame->dtype), smd_op_name(frame->op));
		smd_server_comm_abort(comm, ENOTSUP, text);
		return false;
	}
	if (comm->attached < comm->nranks) {
		unsigned r = 0;

		while (comm->members[r]) {
			r++;
		}
		snprintf(text, sizeof(text),
			"group %.200s: rank %u has left, so operation %llu of rank %u cannot be "
			"done",
			comm->name, r, (unsigned long long)frame->operation, frame->rank);
		smd_server_comm_abort(comm, ECONNRESET, text);
		return false;
	}
	return true;
}

int smd_part_place(struct smd_member *member, const struct smd_frame *frame, struct smd_slot **out,
	struct smd_error *error)
{
	struct smd_server_comm *comm = member->comm;
	struct smd_slot *slot;
	int ret = part_check_credit(member, frame, error);

	if (ret == 0) {
		ret = part_check_elements(member, frame, error);
	}
	if (ret) {
		return ret;
	}
	*out = NULL;
	if (!part_can_be_done(comm, frame)) {
		return 0;
	}
	slot = &comm->slots[frame->ordinal % comm->nslots];
	if (slot->state == SMD_SLOT_FREE) {
		smd_slot_open(slot, frame);
	} else if (slot->state != SMD_SLOT_GATHERING) {
		return smd_error_set(error, EPROTO,
			"INPUT: slot of ordinal %llu must be free, it is %s",
			(unsigned long long)frame->ordinal, smd_slot_state_name(slot->state));
	} else if (!same_shape(&slot->shape, frame)) {
		part_disagrees(comm, &slot->shape, member, frame);
		return 0;
	}
	member->next++;
	member->held = frame->ordinal - frame->lag;
	slot->lag = frame->lag > slot->lag ? frame->lag : slot->lag;
	slot->open = most_open(slot->open, frame->open);
	slot->source = frame->window ? frame->rank : slot->source;
	slot->repaired |= frame->window != 0;
	if (comm->asking) {
		smd_server_comm_tell_held(comm);
	}
	*out = slot;
	return 0;
}
