/* Takes what shards say of a communicator, and what becomes of its lanes. */
#include "worker/libsummand/group_receiver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/advertisement.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_change.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_memory.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_gone.h"
#include "worker/libsummand/group_joining.h"
#include "worker/libsummand/group_rescue_streams.h"

static struct smd_epoch *epoch_of(struct smd_receiver *receiver)
{
	return (struct smd_epoch *)receiver;
}

static struct smd_comm *comm_of(struct smd_receiver *receiver)
{
	return epoch_of(receiver)->comm;
}

/* A failed communicator only waits for LEFT. */
static bool comm_wants(const struct smd_receiver *receiver, const struct smd_frame *frame)
{
	const struct smd_comm *comm = ((const struct smd_epoch *)receiver)->comm;

	return (comm->state == SMD_COMM_FAILED) == (frame->kind == SMD_FRAME_LEFT);
}

static struct smd_flow *flow_of(struct smd_receiver *receiver, const struct smd_remote *remote)
{
	return smd_epoch_flow(epoch_of(receiver), remote);
}

/* A server that has taken the place of another knows nothing of that one's streams. */
static int flow_check(
	const struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	return flow && flow->asked && !flow->dead
		       ? 0
		       : smd_error_set(error, EPROTO,
				 "%s: must be of a group that has been joined on this lane",
				 smd_frame_kind_name(frame->kind));
}

static int comm_on_result(struct smd_receiver *receiver, struct smd_remote *remote,
	const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	int ret = flow_check(flow_of(receiver, remote), frame, error);

	return ret ? ret : smd_flow_receive(flow_of(receiver, remote), frame, payload, error);
}

/* Of several servers, which one ends. */
static void comm_name_server(const struct smd_flow *flow, struct smd_abort *abort)
{
	char said[SMD_ERROR_TEXT_MAX];
	char server[160];

	memcpy(said, abort->text, sizeof(said));
	smd_target_name(flow->remote->target, server);
	snprintf(abort->text, sizeof(abort->text), "%s: %.300s", server, said);
}

/* The table stays as it is; what else follows from it the first epoch's streams hear too. */
static void comm_lose_candidate(struct smd_flow *flow, const struct smd_abort *abort)
{
	smd_log(SMD_LOG_DEBUG, "libsummand", "group %s: no other table: %s", flow->comm->group,
		abort->text);
	flow->over = true;
	smd_epoch_change_stands(flow->comm, false);
}

/* It forms no group any more: this one goes on without it, if there is another. */
static bool comm_leaves_draining(struct smd_flow *flow, struct smd_abort *abort)
{
	struct smd_comm *comm = flow->comm;
	uint64_t bit = 1ull << flow->target;

	if (comm->state != SMD_COMM_JOINING || flow->epoch->rescues ||
		!(comm->context->drains & bit)) {
		return false;
	}
	if ((comm->agreement.closed | bit) == UINT64_MAX) {
		comm_name_server(flow, abort);
		smd_group_rescue_note(comm, -ESHUTDOWN, abort->text);
		if (!smd_group_may_rescue(comm)) {
			smd_group_fail(comm, -ESHUTDOWN, abort->text);
			return true;
		}
	}
	smd_group_exclude(comm, bit);
	return true;
}

static int comm_on_abort(struct smd_flow *flow, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	struct smd_comm *comm = flow->comm;
	struct smd_abort abort;
	char text[SMD_ERROR_TEXT_MAX];
	int ret = smd_abort_decode(payload, frame->length, &abort, error);

	if (ret) {
		return ret;
	}
	if (abort.err == ESHUTDOWN && comm_leaves_draining(flow, &abort)) {
		return 0;
	}
	if (abort.err == ESHUTDOWN && comm->context->ntargets > 1) { /* it goes; others may go on */
		comm->context->drains &= ~(1ull << flow->target); /* before it was left */
		smd_context_lose(comm->context, 1ull << flow->target, abort.text);
		return 0;
	}
	if (abort.err == ESHUTDOWN || (abort.err == ENOSPC && comm->context->ntargets > 1)) {
		comm_name_server(flow, &abort);
	}
	if (flow->epoch == comm->candidate) {
		comm_lose_candidate(flow, &abort);
		return 0;
	}
	smd_remote_explain(flow->remote, abort.text, text);
	if (flow->epoch->rescues) {
		smd_group_rescue_ended(flow, -(int)abort.err, text);
		return 0;
	}
	if (comm->state == SMD_COMM_ACTIVE) {
		smd_group_end_by(flow, -(int)abort.err, text);
	} else {
		smd_group_fail(comm, -(int)abort.err, text);
	}
	return 0;
}

static int comm_take_gone(struct smd_flow *flow, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	struct smd_abort abort;
	char text[SMD_ERROR_TEXT_MAX];
	int ret = smd_abort_decode(payload, frame->length, &abort, error);

	if (ret == 0 && frame->window >= flow->comm->nranks) {
		ret = smd_error_set(error, EPROTO, "GONE: rank must be below %u, got %u",
			flow->comm->nranks, frame->window);
	}
	if (ret == 0 && flow->epoch == flow->comm->candidate) {
		flow->gone = true; /* and stays so if it is the next table all the same */
		smd_remote_explain(flow->remote, abort.text, text);
		smd_group_note_gone(flow->comm, text);
		comm_lose_candidate(flow, &abort);
	} else if (ret == 0 && flow->epoch->rescues) {
		flow->gone = true;
		smd_remote_explain(flow->remote, abort.text, text);
		smd_group_note_gone(flow->comm, text);
		smd_group_rescue_ended(flow, -ECONNRESET, text);
	} else if (ret == 0) {
		smd_remote_explain(flow->remote, abort.text, text);
		smd_group_gone(flow, frame->window, text);
		if (flow->comm->state == SMD_COMM_JOINING) {
			smd_group_check_joined(flow->comm);
		}
	}
	return ret;
}

/* What is kept of it counts, as long as the communicator does. */
static int comm_take_agree(struct smd_flow *flow, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	struct smd_comm *comm = flow->comm;
	int ret = smd_epoch_agreement_take(flow, payload, frame->length, error);

	if (comm->state == SMD_COMM_ACTIVE) {
		smd_epoch_memory_measure(comm);
	}
	return ret;
}

static int comm_take_late(struct smd_flow *flow, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	struct smd_late late;
	int ret = smd_late_decode(payload, frame->length, &late, error);

	if (ret == 0 && late.nranks && late.nranks != flow->comm->nranks) {
		ret = smd_error_set(error, EPROTO, "LATE: ranks must be %u, got %u",
			flow->comm->nranks, late.nranks);
	}
	if (ret == 0) {
		smd_group_late(flow, &late);
	}
	return ret;
}

static void comm_on_withdrawn(struct smd_flow *flow)
{
	smd_group_flow_closed(flow->comm, flow);
}

static int comm_take_frame(struct smd_flow *flow, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error)
{
	switch (frame->kind) {
	case SMD_FRAME_RESULT:
		return smd_flow_received(flow, frame, error);
	case SMD_FRAME_JOINED:
		return smd_group_joined(flow, frame, error);
	case SMD_FRAME_LEFT:
		if (flow->withdrawing) {
			return smd_error_set(error, EPROTO, "LEFT: must come once");
		}
		smd_flow_withdraw_all(flow, comm_on_withdrawn);
		return 0;
	case SMD_FRAME_SHRINK:
		smd_flow_shrink(flow);
		return 0;
	case SMD_FRAME_ABORT:
		return comm_on_abort(flow, frame, payload, error);
	case SMD_FRAME_GONE:
		return comm_take_gone(flow, frame, payload, error);
	case SMD_FRAME_AGREE:
		return comm_take_agree(flow, frame, payload, error);
	case SMD_FRAME_HELD:
		if (frame->window == SMD_HELD_ASKS_ALONE) {
			smd_flow_asked_held(flow, frame->ordinal);
		} else {
			smd_flow_held(flow, frame->ordinal);
		}
		return 0;
	default: /* LATE: the remote lets nothing else pass */
		return comm_take_late(flow, frame, payload, error);
	}
}

static int comm_on_frame(struct smd_receiver *receiver, struct smd_remote *remote,
	const struct smd_frame *frame, const uint8_t *payload, struct smd_error *error)
{
	struct smd_comm *comm = comm_of(receiver);
	struct smd_flow *flow = flow_of(receiver, remote);
	int ret;

	if (flow && flow->left) {
		return 0; /* said before the shard knew that we had */
	}
	ret = flow_check(flow, frame, error);
	if (ret) {
		return ret;
	}
	ret = comm_take_frame(flow, frame, payload, error);
	if (ret == 0) {
		smd_epoch_change_progressed(comm);
		/* Streams that were left may have been the last whole ones. */
		smd_group_check_gone(comm, 0);
	}
	return ret;
}

static bool comm_is_owed(const struct smd_receiver *receiver, const struct smd_remote *remote)
{
	const struct smd_epoch *epoch = (const struct smd_epoch *)receiver;
	const struct smd_comm *comm = epoch->comm;
	const struct smd_flow *flow = smd_epoch_flow(epoch, remote);

	if (!flow || flow->dead) {
		return false;
	}
	switch (comm->state) {
	case SMD_COMM_JOINING:
		return comm->asked && (flow->asked || epoch == &comm->base) && !flow->joined &&
		       !flow->over;
	case SMD_COMM_ACTIVE:
		return !flow->over && ((flow->asked && !flow->joined) || smd_flow_is_owed(flow));
	case SMD_COMM_FAILED:
		break;
	}
	return flow->open; /* LEFT */
}

/* A shard has said so of some rank: no operation can follow. */
static bool comm_has_been_left(const struct smd_comm *comm)
{
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			if (epoch->flows[i].over && !epoch->flows[i].gone) {
				return true;
			}
		}
	}
	return false;
}

/* Streams that have been asked for are not left yet. Those of a candidate can be done without, and
 * all of them where a rank has left. */
static bool comm_uses(const struct smd_receiver *receiver, const struct smd_remote *remote)
{
	const struct smd_epoch *epoch = (const struct smd_epoch *)receiver;
	const struct smd_flow *flow = smd_epoch_flow(epoch, remote);

	return flow && flow->asked && !flow->dead && epoch != epoch->comm->candidate &&
	       epoch->comm->state != SMD_COMM_FAILED && !comm_has_been_left(epoch->comm);
}

static void comm_on_lane_closed(struct smd_receiver *receiver, struct smd_remote *remote)
{
	struct smd_flow *flow = flow_of(receiver, remote);

	if (flow) {
		flow->left = false;
		smd_flow_forget_advertisements(flow);
		smd_group_flow_closed(comm_of(receiver), flow);
	}
}

static void comm_on_failed(struct smd_receiver *receiver, int err, const char *text)
{
	struct smd_comm *comm = comm_of(receiver);

	if (comm->settling) {
		smd_progress_lock(&comm->context->progress);
		if (!strstr(comm->error.text, text)) {
			smd_error_add(&comm->error, text);
		}
		smd_progress_unlock(&comm->context->progress);
		return;
	}
	comm->own_failure = comm->err == 0;
	smd_group_fail(comm, err, text);
}

static void comm_on_lost(struct smd_receiver *receiver, uint64_t targets)
{
	smd_group_lose(comm_of(receiver), targets);
}

static void comm_on_returned(struct smd_receiver *receiver)
{
	smd_reach_tell(comm_of(receiver));
	comm_of(receiver)->rescue_changed(comm_of(receiver));
}

static void comm_on_drains(struct smd_receiver *receiver)
{
	smd_drain_consider(comm_of(receiver));
	smd_group_rescue_drains(comm_of(receiver));
}

static void comm_on_told_lost(struct smd_receiver *receiver, const struct smd_remote *remote,
	const struct smd_frame *frame)
{
	struct smd_comm *comm = comm_of(receiver);

	comm->rescue_from_told(comm, (unsigned)(remote->target - comm->context->targets), frame);
}

static void comm_count(const struct smd_receiver *receiver, struct smd_lane_counts *sum)
{
	smd_exchanges_count(((const struct smd_epoch *)receiver)->comm, sum);
}

static void comm_on_settled(struct smd_receiver *receiver)
{
	smd_group_settled(comm_of(receiver));
}

static bool comm_may_rest(struct smd_receiver *receiver, const struct smd_remote *remote)
{
	struct smd_flow *flow = flow_of(receiver, remote);

	return !flow || smd_group_may_rest(flow);
}

static void comm_on_lane_back(struct smd_receiver *receiver, struct smd_remote *remote)
{
	struct smd_flow *flow = flow_of(receiver, remote);

	if (flow) {
		smd_group_lane_back(flow);
	}
}

/* Of a later epoch: the first one's receiver cares for the communicator. */
static bool epoch_may_rest(struct smd_receiver *receiver, const struct smd_remote *remote)
{
	struct smd_flow *flow = flow_of(receiver, remote);
	bool may;

	if (comm_of(receiver)->state == SMD_COMM_FAILED || !flow || !flow->asked || flow->dead ||
		flow->over) {
		return true;
	}
	may = !flow->joined && !flow->again;
	flow->again = true; /* JOIN is on its way to it, and is said once more */
	return may;
}

static void epoch_on_lane_back(struct smd_receiver *receiver, struct smd_remote *remote)
{
	struct smd_flow *flow = flow_of(receiver, remote);

	if (flow && flow->asked && !flow->joined && !flow->dead && !flow->over) {
		smd_group_ask(flow);
	}
}

static void epoch_ignore(struct smd_receiver *receiver)
{
	(void)receiver;
}

static void epoch_ignore_failure(struct smd_receiver *receiver, int err, const char *text)
{
	(void)receiver;
	(void)err;
	(void)text;
}

static void epoch_ignore_loss(struct smd_receiver *receiver, uint64_t targets)
{
	(void)receiver;
	(void)targets;
}

static void epoch_ignore_told(struct smd_receiver *receiver, const struct smd_remote *remote,
	const struct smd_frame *frame)
{
	(void)receiver;
	(void)remote;
	(void)frame;
}

static void comm_end(struct smd_receiver *receiver)
{
	struct smd_comm *comm = comm_of(receiver);

	comm->destroy(comm);
}

const struct smd_receiver_ops smd_group_receiver = {
	.wants = comm_wants,
	.on_result = comm_on_result,
	.on_frame = comm_on_frame,
	.is_owed = comm_is_owed,
	.may_rest = comm_may_rest,
	.on_lane_back = comm_on_lane_back,
	.on_lane_closed = comm_on_lane_closed,
	.on_failed = comm_on_failed,
	.on_lost = comm_on_lost,
	.on_returned = comm_on_returned,
	.on_drains = comm_on_drains,
	.on_told_lost = comm_on_told_lost,
	.uses = comm_uses,
	.count = comm_count,
	.on_settled = comm_on_settled,
	.end = comm_end,
};

const struct smd_receiver_ops smd_group_epoch_receiver = {
	.wants = comm_wants,
	.on_result = comm_on_result,
	.on_frame = comm_on_frame,
	.is_owed = comm_is_owed,
	.may_rest = epoch_may_rest,
	.on_lane_back = epoch_on_lane_back,
	.on_lane_closed = comm_on_lane_closed,
	.on_failed = epoch_ignore_failure,
	.on_lost = epoch_ignore_loss,
	.on_returned = epoch_ignore,
	.on_drains = epoch_ignore,
	.on_told_lost = epoch_ignore_told,
	.uses = comm_uses,
	.on_settled = epoch_ignore,
	.end = comm_end,
};
