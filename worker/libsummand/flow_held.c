/* Asks a shard whether all ranks have its results, and answers it (HELD). */
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/flow.h"

static void flow_say_held(struct smd_flow *flow, uint64_t ordinal, unsigned what)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_HELD,
		.comm = flow->epoch->receiver.number,
		.rank = flow->comm->rank,
		.window = (uint16_t)what,
		.ordinal = ordinal,
	};

	/* Without it operations of other ranks, or this one's, would wait for ever. Their lane
	 * cannot end here: they may be what this was called for. */
	smd_remote_send_frame(flow->remote, &frame, NULL, 0);
}

void smd_flow_asked_held(struct smd_flow *flow, uint64_t ordinal)
{
	/* Several may ask, for more and for less: so it hears of each until the last of them. */
	flow->tell = ordinal > flow->tell ? ordinal : flow->tell;
	if (!smd_flow_has_lane(flow) || flow->done < ordinal) {
		return;
	}
	if (flow->done >= flow->tell) {
		flow->tell = 0;
	}
	flow_say_held(flow, flow->done, SMD_HELD_ANSWERS);
}

void smd_flow_tell_held(struct smd_flow *flow)
{
	if (smd_flow_has_lane(flow) && flow->stable < flow->done) {
		flow_say_held(flow, flow->done, SMD_HELD_ANSWERS);
	}
}

void smd_flow_ask_held(struct smd_flow *flow)
{
	if (!smd_flow_has_lane(flow) || flow->hold <= flow->stable ||
		(flow->hold <= flow->asked_held && !flow->hold_alone) || flow->hold > flow->done) {
		return;
	}
	flow->asked_held = flow->hold;
	flow_say_held(flow, flow->hold, flow->hold_alone ? SMD_HELD_ASKS_ALONE : SMD_HELD_ASKS);
	flow->hold_alone = false;
}

void smd_flow_held(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_comm *comm = flow->comm;

	if (ordinal <= flow->stable) {
		return;
	}
	flow->stable = ordinal < flow->done ? ordinal : flow->done;
	smd_history_release(&comm->history);
	smd_operations_check_held(comm);
	if (comm->leaving && smd_history_is_empty(&comm->history)) {
		comm->drained(comm);
	}
}
