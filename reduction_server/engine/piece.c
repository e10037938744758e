/* Reduces and sends what has come of a chunk, before all of it is there. */
#include "reduction_server/engine/piece.h"

#include "reduction_server/base/dtype.h"
#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/resources.h"
#include "reduction_server/engine/slot.h"

#define PIECES_MOST 16u /* of a chunk, about */
#define ALIGNMENT   64u

/* What has come of all parts; and whose is the shortest. */
static uint32_t piece_arrived(struct smd_slot *slot)
{
	uint32_t least = slot->length;

	for (unsigned r = 0; r < slot->comm->nranks; r++) {
		if (slot->parts[r] && slot->got[r] < least) {
			least = slot->got[r];
			slot->slowest = r;
		}
	}
	return least;
}

/* Of a repair that all ranks have announced it is known whether it is one. */
static bool piece_may_leave(const struct smd_slot *slot)
{
	return slot->state == SMD_SLOT_GATHERING && slot->begun == slot->comm->nranks &&
	       !slot->repaired && slot->shape.ordinal == slot->comm->done &&
	       slot->comm->attached == slot->comm->nranks;
}

void smd_piece_grow(struct smd_slot *slot, unsigned rank, uint32_t bytes)
{
	uint32_t least = slot->resources->piece_bytes;
	uint32_t arrived;

	slot->got[rank] = bytes;
	if (!piece_may_leave(slot) || slot->length < 2 * least ||
		(slot->slowest < slot->comm->nranks && slot->slowest != rank)) {
		return;
	}
	arrived = piece_arrived(slot);
	if (arrived == slot->length) {
		return; /* all of it goes at once */
	}
	least = slot->length / PIECES_MOST > least ? slot->length / PIECES_MOST : least;
	arrived -= arrived % ALIGNMENT;
	if (arrived - slot->ready >= least) {
		smd_slot_reduce(slot, arrived);
		smd_slot_offer(slot);
	}
}

uint32_t smd_piece_waiting(const struct smd_member *member)
{
	const struct smd_server_comm *comm = member->comm;
	const struct smd_slot *slot = &comm->slots[comm->done % comm->nslots];

	if (member->answered != comm->done || slot->state != SMD_SLOT_GATHERING ||
		slot->ready <= member->given || comm->pieces[member->rank].slot ||
		(member->turns->in_pieces && member->turns->in_pieces != member) ||
		smd_lane_can_advertise(member->lane)) {
		return 0;
	}
	return smd_slot_length_for(slot, member->rank) ? slot->ready - member->given : 0;
}

static void piece_sent(struct smd_send *send, int err)
{
	struct smd_piece *piece = (struct smd_piece *)send;
	struct smd_slot *slot = piece->slot;
	struct smd_member *member = slot->comm->members[piece - slot->comm->pieces];

	piece->slot = NULL;
	if (err == 0 && member) { /* there may be more by now */
		smd_slot_wait(member);
	}
	if (--slot->sending == 0) {
		smd_slot_advance(slot);
	}
	smd_turns_sent(send->turns, send, err);
}

void smd_piece_send(struct smd_member *member)
{
	struct smd_server_comm *comm = member->comm;
	struct smd_slot *slot = &comm->slots[comm->done % comm->nslots];
	struct smd_piece *piece = &comm->pieces[member->rank];
	struct smd_frame frame = slot->shape;
	uint32_t bytes = smd_piece_waiting(member);

	*piece = (struct smd_piece){
		.send = {.payload = (const uint8_t *)smd_slot_result(slot) + member->given,
			.length = bytes,
			.done = piece_sent,
			.owner = slot,
			.turns = member->turns,
			.elements = true},
		.slot = slot,
	};
	frame.kind = SMD_FRAME_RESULT;
	frame.comm = member->number;
	frame.rank = member->rank;
	frame.window = 0;
	frame.lag = 0;
	frame.open = 0;
	frame.offset += member->given / smd_dtype_bytes(frame.dtype);
	member->given = slot->ready;
	member->turns->in_pieces = member;
	slot->sending++;
	slot->resources->pieces++;
	smd_turns_send(member->turns, &frame, &piece->send);
}

void smd_piece_end(struct smd_member *member)
{
	member->given = 0;
	if (member->turns->in_pieces == member) {
		member->turns->in_pieces = NULL;
	}
}
