/* Finds out which chunks of an operation all ranks have, copies the others, or asks for them. */
#include "worker/libsummand/settle.h"

#include <string.h>

#include "worker/libsummand/epoch.h"

/* What this rank contributes to chunks that it has the results of. False: that cannot be copied. */
static bool operation_contribution(const struct smd_request *operation, const uint8_t **out)
{
	*out = smd_operation_contributes_results(operation) ? operation->recv : operation->send;
	return !operation->path->contribution || operation->path->contribution(operation, out);
}

/* Where an operation's chunks that are not stable are asked about. */
struct settle {
	struct smd_request *operation;
	const uint8_t *from; /* what this rank contributes to all of its chunks */
	unsigned chunks;
	enum { COUNT, COPY, ASK } step;
	bool alone; /* others may have returned, and do not ask */
	bool failed;
};

static void settle_copy(
	struct settle *settle, struct smd_flow *flow, uint64_t ordinal, uint64_t chunk)
{
	struct smd_request *operation = settle->operation;
	struct smd_history *history = &operation->comm->history;
	struct smd_kept *kept = smd_history_entry(history, history->next);
	uint8_t *room;

	*kept = (struct smd_kept){.flow = flow, .ordinal = ordinal, .chunk = chunk};
	kept->received = (uint32_t)smd_operation_received_bytes(operation, chunk);
	kept->is_result = kept->received && smd_operation_contributes_results(operation);
	kept->length = kept->is_result ? kept->received
				       : (uint32_t)smd_operation_sent_bytes(operation, chunk);
	room = smd_history_room(history, kept->length);
	if (!room) {
		settle->failed = true;
		return;
	}
	if (kept->length) {
		memcpy(room, settle->from + smd_operation_chunk_offset(operation, chunk),
			kept->length);
	}
	smd_operation_shape(operation, chunk, &kept->shape);
	smd_history_add(history, room);
	smd_context_keeps(operation->comm->context, history);
}

static void settle_one(
	struct settle *settle, struct smd_flow *flow, uint64_t ordinal, uint64_t chunk)
{
	/* What a shard that has said ABORT knows, nobody will ask for. */
	if (smd_flow_is_stable(flow, ordinal) || (flow->over && !flow->gone)) {
		return;
	}
	switch (settle->step) {
	case COUNT:
		settle->chunks++;
		break;
	case COPY:
		if (!settle->failed) {
			settle_copy(settle, flow, ordinal, chunk);
		}
		break;
	case ASK:
		flow->hold = ordinal + 1 > flow->hold ? ordinal + 1 : flow->hold;
		flow->hold_alone |= settle->alone;
		break;
	}
}

/* All of the operation's chunks that are not stable. */
static void settle_each(struct settle *settle)
{
	struct smd_request *operation = settle->operation;
	struct smd_epoch *home = operation->home;

	for (unsigned i = 0; i < home->nremotes; i++) {
		struct smd_flow *flow = &home->flows[i];
		uint64_t first, end;

		if (!flow->serves) {
			continue;
		}
		first = smd_deal_ordinals_before(home->deal, flow->place, operation->first_chunk);
		end = smd_deal_ordinals_before(
			home->deal, flow->place, operation->first_chunk + operation->nchunks);
		for (uint64_t k = first > flow->stable ? first : flow->stable; k < end; k++) {
			if (flow->died && k >= flow->lost_from) {
				break; /* it is a repair */
			}
			settle_one(settle, flow, k, smd_deal_chunk_of(home->deal, flow->place, k));
		}
	}
	for (struct smd_epoch *epoch = home->next; operation->repaired && epoch;
		epoch = epoch->next) {
		for (uint64_t g = 0; g < epoch->nitems; g++) {
			struct smd_item *item = &epoch->items[g];
			struct smd_flow *flow = smd_epoch_flow_of(epoch, g);
			uint64_t ordinal = smd_deal_ordinal_of(epoch->deal, g);

			if (item->operation == operation &&
				!(flow->died && ordinal >= flow->lost_from)) {
				settle_one(settle, flow, ordinal, item->chunk);
			}
		}
	}
}

/* Asks the shards whether all ranks have what their flows hold for. */
static void settle_ask(struct smd_comm *comm)
{
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nserving; i++) {
			smd_flow_ask_held(&epoch->flows[epoch->remotes[i]]);
		}
	}
}

/* Nobody can be asked for memory of a device, but ranks that have other memory wait to hear of it.
 */
static void settle_tell(const struct smd_request *operation)
{
	const struct smd_epoch *home = operation->home;

	for (unsigned i = 0; i < home->nserving; i++) {
		smd_flow_tell_held(&home->flows[home->remotes[i]]);
	}
}

bool smd_settle(struct smd_request *operation)
{
	struct smd_comm *comm = operation->comm;
	struct smd_history *history = &comm->history;
	struct settle settle = {.operation = operation};
	const struct smd_history before = *history;
	bool small = operation->leaves_copies;

	if (operation->path->why_lost && operation->path->why_lost(operation)) {
		if (!small) {
			settle_tell(operation);
		}
		return true;
	}
	settle_each(&settle);
	if (settle.chunks == 0) {
		return true;
	}
	/* All ranks ask of a large one, whatever they have; else each has its own reason. */
	settle.alone = small || operation->repaired;
	if (small && !operation->repaired && operation_contribution(operation, &settle.from) &&
		history->next - history->first + settle.chunks <=
			SMD_HISTORY_ENTRIES - SMD_HISTORY_OUTSIDE) {
		settle.step = COPY;
		settle_each(&settle);
		if (!settle.failed) {
			if (operation->home != comm->now) {
				smd_settle_left(comm);
			}
			return true;
		}
		history->next = before.next; /* there was not room for all of it */
		history->at = before.at;
		history->used = before.used;
	}
	settle.step = ASK;
	settle_each(&settle);
	settle_ask(comm);
	return false;
}

static void settle_kept(struct smd_comm *comm, const struct smd_epoch *but)
{
	struct smd_history *history = &comm->history;

	for (uint64_t k = history->first; k < history->next; k++) {
		const struct smd_kept *kept = smd_history_entry(history, k);
		struct smd_flow *flow = kept->flow;

		if (flow->epoch != but && !smd_kept_is_stable(kept)) {
			flow->hold =
				kept->ordinal + 1 > flow->hold ? kept->ordinal + 1 : flow->hold;
			flow->hold_alone = true;
		}
	}
	settle_ask(comm);
}

void smd_settle_history(struct smd_comm *comm)
{
	settle_kept(comm, NULL);
}

void smd_settle_left(struct smd_comm *comm)
{
	settle_kept(comm, comm->now);
}
