/* Gathers, reduces and sends one chunk. */
#include "reduction_server/engine/slot.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/piece.h"
#include "reduction_server/engine/receive_buffer.h"
#include "reduction_server/engine/resources.h"
#include "reduction_server/engine/window.h"
#include "reduction_server/kernels/kernels.h"

const char *smd_slot_state_name(enum smd_slot_state state)
{
	static const char *const names[] = {
#define X(state_, predecessors, meaning) [state_] = #state_,
		SMD_SLOT_STATES(X)
#undef X
	};

	return names[state] + strlen("SMD_SLOT_");
}

static void slot_set_state(struct smd_slot *slot, enum smd_slot_state state)
{
	static const unsigned legal[] = {
#define X(state_, predecessors, meaning) [state_] = predecessors,
		SMD_SLOT_STATES(X)
#undef X
	};

	assert(legal[state] & SMD_SLOT_BIT(slot->state));
	slot->state = state;
}

void smd_slot_open(struct smd_slot *slot, const struct smd_frame *frame)
{
	slot_set_state(slot, SMD_SLOT_GATHERING);
	slot->shape = *frame;
	slot->length = 0;
	slot->opened_ns = smd_clock_ns();
	slot->begun = 0;
	slot->arrived = 0;
	slot->ready = 0;
	slot->slowest = slot->comm->nranks;
	slot->lag = 0;
	slot->open = 1;
	slot->repaired = false;
	slot->source = 0;
	memset(slot->whole, 0, slot->comm->nranks);
	slot->comm->busy_slots++;
	slot->resources->busy_slots++;
}

void *smd_slot_receive(struct smd_slot *slot, const struct smd_frame *frame, void *advertised)
{
	struct smd_buffer_pool *pool = &slot->resources->pool;
	unsigned rank = frame->rank;

	assert(slot->state == SMD_SLOT_GATHERING && !slot->parts[rank] && !slot->whole[rank]);
	slot->receiving++;
	slot->begun++;
	slot->got[rank] = 0;
	if (frame->length) {
		slot->parts[rank] =
			advertised ? advertised
				   : smd_buffer_pool_take(pool, slot->comm->job->number, NULL);
		slot->length = frame->length;
	} else if (advertised) {
		smd_buffer_pool_give(pool, advertised);
	}
	return slot->parts[rank];
}

void smd_slot_received(struct smd_slot *slot, unsigned rank, int whole)
{
	slot->receiving--;
	if (whole) {
		slot->whole[rank] = 1;
		slot->arrived++;
		smd_piece_grow(slot, rank, slot->length);
	}
	smd_slot_advance(slot);
}

/* The rank whose buffer holds the result. */
static unsigned slot_holder(const struct smd_slot *slot)
{
	return smd_collective_reduces(slot->shape.collective) ? 0 : slot->shape.root;
}

/* All buffers but that of rank `kept`. */
static void slot_give_back(struct smd_slot *slot, unsigned kept)
{
	for (unsigned r = 0; r < slot->comm->nranks; r++) {
		if (slot->parts[r] && r != kept) {
			smd_buffer_pool_give(&slot->resources->pool, slot->parts[r]);
			slot->parts[r] = NULL;
		}
	}
}

const void *smd_slot_result(const struct smd_slot *slot)
{
	return slot->parts[slot_holder(slot)];
}

void smd_slot_reduce(struct smd_slot *slot, uint32_t end)
{
	const struct smd_frame *shape = &slot->shape;
	const void **rest = slot->comm->rest;

	if (smd_collective_reduces(shape->collective) && end > slot->ready) {
		smd_kernel *kernel = smd_kernel_find(shape->dtype, shape->op);

		for (unsigned r = 0; r < slot->comm->nranks; r++) {
			rest[r] = (const uint8_t *)slot->parts[r] + slot->ready;
		}
		kernel((uint8_t *)slot->parts[0] + slot->ready, rest, slot->comm->nranks,
			(end - slot->ready) / smd_dtype_bytes(shape->dtype));
	}
	slot->ready = end;
}

/* All parts are there. */
static void slot_finish(struct smd_slot *slot)
{
	const struct smd_frame *shape = &slot->shape;

	if (slot->repaired) { /* that it is, whatever the others have sent */
		void *result = slot->parts[slot->source];

		slot->parts[slot->source] = slot->parts[0];
		slot->parts[0] = result;
	} else {
		smd_slot_reduce(slot, slot->length);
	}
	slot->resources->chunks++;
	if (slot->comm->counted != shape->operation + 1) { /* its chunks follow each other */
		slot->comm->counted = shape->operation + 1;
		slot->resources->operations++;
	}
	slot_give_back(slot, slot_holder(slot));
}

static void slot_sent(struct smd_send *send, int err)
{
	struct smd_slot *slot = send->owner;

	if (err == 0) { /* a lane that ended costs the communicator this rank */
		smd_window_granted(slot->comm, (unsigned)(send - slot->sends), slot->shape.ordinal,
			slot->window);
	}
	if (--slot->sending == 0) {
		smd_slot_advance(slot);
	}
	smd_turns_sent(send->turns, send, err);
}

uint32_t smd_slot_length_for(const struct smd_slot *slot, unsigned rank)
{
	const struct smd_frame *shape = &slot->shape;

	return smd_collective_receives(shape->collective, shape->root, rank) ? slot->length : 0;
}

static void slot_send_to(struct smd_slot *slot, struct smd_member *member)
{
	const struct smd_frame *shape = &slot->shape;
	unsigned rank = member->rank;
	struct smd_frame frame = *shape;

	slot->sends[rank] = (struct smd_send){
		.payload = (const uint8_t *)smd_slot_result(slot) + member->given,
		.length = smd_slot_length_for(slot, rank) - member->given,
		.done = slot_sent,
		.owner = slot,
		.turns = member->turns,
		.elements = true,
		.remote_buffer = slot->remote_buffers[rank],
	};
	frame.kind = SMD_FRAME_RESULT;
	frame.comm = member->number;
	frame.rank = (uint16_t)rank;
	frame.window = (uint16_t)slot->window;
	frame.lag = slot->lag;
	frame.open = slot->open;
	frame.offset += member->given / smd_dtype_bytes(frame.dtype);
	smd_piece_end(member);
	/* Without memory for the table of receive buffers the member does without them. */
	(void)smd_member_advertise(member, shape->ordinal + 1 + slot->window);
	smd_turns_send(member->turns, &frame, &slot->sends[rank]);
}

/* The slot of the member's next result; NULL: there is none. */
static struct smd_slot *slot_next(const struct smd_member *member)
{
	struct smd_server_comm *comm = member->comm;

	return member->answered < comm->done ? &comm->slots[member->answered % comm->nslots] : NULL;
}

void smd_slot_wait(struct smd_member *member)
{
	const struct smd_slot *slot = slot_next(member);
	uint32_t piece = slot ? 0 : smd_piece_waiting(member);

	if (slot) {
		smd_turns_wait(member->turns, &member->turn,
			smd_slot_length_for(slot, member->rank) - member->given);
	} else if (piece) {
		smd_turns_wait(member->turns, &member->turn, piece);
	}
}

void smd_slot_take_turn(struct smd_turn *turn)
{
	struct smd_member *member = (struct smd_member *)turn;
	struct smd_slot *slot = slot_next(member);

	if (slot) {
		member->answered++;
		slot_send_to(slot, member);
		smd_slot_wait(member);
	} else if (smd_piece_waiting(member)) {
		smd_piece_send(member);
	}
}

void smd_slot_send_waiting(struct smd_member *member)
{
	struct smd_slot *slot;

	smd_turns_forget(member->turns, &member->turn);
	while ((slot = slot_next(member))) {
		member->answered++;
		slot_send_to(slot, member);
	}
}

void smd_slot_drop_waiting(struct smd_server_comm *comm, struct smd_member *member)
{
	smd_turns_forget(member->turns, &member->turn);
	smd_piece_end(member);
	while (member->answered < comm->done) {
		struct smd_slot *slot = &comm->slots[member->answered++ % comm->nslots];

		if (--slot->sending == 0) {
			smd_slot_advance(slot);
		}
	}
}

/* Who is first gets its result a little earlier than the others, so that is another each time. */
void smd_slot_offer(struct smd_slot *slot)
{
	unsigned nranks = slot->comm->nranks;
	unsigned first = (unsigned)(slot->shape.ordinal % nranks);

	slot->sending++; /* it stays until all are queued */
	for (unsigned i = 0; i < nranks; i++) {
		struct smd_member *member = slot->comm->members[(first + i) % nranks];

		smd_slot_wait(member);
		smd_turns_step(member->turns);
	}
	slot->sending--;
}

static void slot_send(struct smd_slot *slot)
{
	slot->window = smd_window_grant(slot->comm, slot->shape.ordinal);
	slot->comm->done = slot->shape.ordinal + 1;
	slot->sending += slot->comm->nranks;
	smd_slot_offer(slot);
}

static void slot_free(struct smd_slot *slot)
{
	slot_give_back(slot, slot->comm->nranks);
	slot_set_state(slot, SMD_SLOT_FREE);
	slot->comm->busy_slots--;
	slot->resources->busy_slots--;
	smd_window_settle(slot->comm);
	smd_server_comm_retire_if_gone(slot->comm);
}

void smd_slot_advance(struct smd_slot *slot)
{
	enum smd_slot_state before;

	do {
		before = slot->state;
		if (slot->comm->state == SMD_SERVER_COMM_ABORTED && before != SMD_SLOT_FREE &&
			before != SMD_SLOT_DRAINING) {
			slot_set_state(slot, SMD_SLOT_DRAINING);
			continue;
		}
		switch (before) {
		case SMD_SLOT_GATHERING:
			if (slot->arrived == slot->comm->nranks) {
				slot_set_state(slot, SMD_SLOT_REDUCING);
			}
			break;
		case SMD_SLOT_REDUCING:
			slot_finish(slot);
			slot_set_state(slot, SMD_SLOT_SENDING);
			slot_send(slot);
			break;
		case SMD_SLOT_SENDING:
		case SMD_SLOT_DRAINING:
			if (slot->sending == 0 && slot->receiving == 0) {
				slot_free(slot);
			}
			break;
		case SMD_SLOT_FREE:
		case SMD_SLOT_STATE_COUNT:
			break;
		}
	} while (slot->state != before);
}
