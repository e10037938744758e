/* Joins groups, and goes on without servers that are lost. */
#include "worker/libsummand/group_joining.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/context_connecting.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_change.h"
#include "worker/libsummand/epoch_memory.h"
#include "worker/libsummand/epoch_rescue.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_gone.h"
#include "worker/libsummand/group_rescue_streams.h"
#include "worker/libsummand/path_staged.h"

/* Each shard compares its own place too: where ranks have servers in another order, it has another
 * one. */
static uint64_t table_hash_at(const struct smd_flow *flow)
{
	uint64_t hash = flow->epoch->hash;
	unsigned index = (unsigned)(flow - flow->epoch->flows);
	unsigned place = flow->serves ? flow->place : flow->epoch->nserving + index;

	/* Of a rescue it is not known yet which chunks it will have. */
	return hash && !flow->epoch->rescues ? smd_deal_hash_add(hash, place) : 0;
}

void smd_group_ask(struct smd_flow *flow)
{
	const struct smd_comm *comm = flow->comm;
	struct smd_join join = {
		.nranks = comm->nranks,
		.table_hash = table_hash_at(flow),
		.attempt = comm->attempt,
		.id = flow->epoch->id,
	};
	struct smd_frame frame = {
		.kind = SMD_FRAME_JOIN,
		.comm = flow->epoch->receiver.number,
		.rank = comm->rank,
	};
	uint8_t payload[SMD_CONTROL_MAX];

	/* Ranks go on without it where a shard refuses it; but not without what they must do again.
	 */
	frame.window = (flow->epoch == comm->candidate && !flow->epoch->ends_exchanges) ||
		       (comm->spare && flow->epoch == &comm->base);
	snprintf(join.group, sizeof(join.group), "%s", comm->group);
	flow->asked = true;
	smd_remote_send_frame(flow->remote, &frame, payload, smd_join_encode(&join, payload));
	if (flow->epoch->rescues) {
		smd_group_rescue_say_lost(flow);
	}
}

/* All shards that are left, and have all ranks, have said JOINED. */
void smd_group_check_joined(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;
	unsigned njoined = 0;
	char table[SMD_EPOCH_TEXT_MAX];

	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		const struct smd_flow *flow = &comm->base.flows[i];

		if (!flow->joined && !flow->dead && !flow->gone) {
			return;
		}
		njoined += flow->joined && !flow->dead && !flow->gone;
	}
	if (njoined == 0 && !smd_rescue_whole(comm)) {
		return;
	}
	smd_progress_lock(&context->progress);
	comm->state = SMD_COMM_ACTIVE;
	smd_progress_publish(&context->progress);
	smd_epoch_describe(comm->now, table);
	smd_log(SMD_LOG_INFO, "libsummand",
		"group %s: %u ranks, %u shards; %s; at most %u KiB are kept in case a server is "
		"lost",
		comm->group, comm->nranks, njoined, table, SMD_HISTORY_BYTES >> 10);
	smd_epoch_agreement_begin(comm);
}

static void candidate_check_joined(const struct smd_epoch *candidate)
{
	for (unsigned i = 0; i < candidate->nserving; i++) {
		if (!candidate->flows[candidate->remotes[i]].joined) {
			return;
		}
	}
	smd_epoch_change_stands(candidate->comm, true);
}

static void comm_joined(struct smd_comm *comm, struct smd_flow *flow, unsigned window)
{
	struct smd_context *context = comm->context;

	smd_flow_grant(flow, window);
	smd_progress_lock(&context->progress);
	flow->heard = true;
	flow->joined = true;
	smd_progress_unlock(&context->progress);
	if (flow->epoch->rescues) {
		comm->rescue_changed(comm);
	} else if (flow->epoch == comm->candidate) {
		candidate_check_joined(flow->epoch);
	} else if (comm->state == SMD_COMM_JOINING) {
		smd_group_check_joined(comm);
		if (comm->state == SMD_COMM_JOINING) {
			smd_group_weigh_gone(comm);
			smd_epoch_agreement_joined(comm);
		}
	} else {
		comm->pump(comm);
	}
}

/* All its shards say each second who is missing: one of them is enough, and not so often. */
static bool joins_for_long(struct smd_comm *comm)
{
	uint64_t now_ns = smd_clock_ns();

	if (comm->state != SMD_COMM_JOINING ||
		now_ns - comm->joins_ns < SMD_LATE_MOST_S * SMD_SECOND_NS) {
		return false;
	}
	comm->joins_ns = now_ns;
	return true;
}

static bool all_are_there(const struct smd_late *late)
{
	struct smd_rank_set all = {{0}};

	for (unsigned r = 0; r < late->nranks; r++) {
		smd_rank_set_add(&all, r);
	}
	return smd_rank_set_holds(&late->there, &all);
}

void smd_group_late(struct smd_flow *flow, const struct smd_late *late)
{
	struct smd_comm *comm = flow->comm;
	struct smd_context *context = comm->context;
	bool for_operation = comm->state == SMD_COMM_ACTIVE && flow->epoch != comm->candidate &&
			     !flow->epoch->rescues;

	if (for_operation || joins_for_long(comm)) {
		smd_log(SMD_LOG_WARN, "libsummand", "%s", late->text);
	}
	smd_progress_lock(&context->progress);
	flow->heard = true;
	snprintf(comm->waiting_for, sizeof(comm->waiting_for), "%s", late->text);
	if (for_operation && comm->in_flight) {
		snprintf(comm->late, sizeof(comm->late), "%s", late->text);
	}
	smd_progress_unlock(&context->progress);
	if (late->nranks && flow->epoch->rescues && all_are_there(late)) {
		comm->rescue_all_there(comm);
	} else if (late->nranks && !flow->epoch->rescues) {
		smd_group_note_there(flow, &late->there);
	}
}

/* ---- servers that are lost ---- */

static void epoch_lose(struct smd_epoch *epoch, uint64_t targets)
{
	for (unsigned i = 0; i < epoch->nremotes; i++) {
		struct smd_flow *flow = &epoch->flows[i];

		if (flow->remote && !flow->dead && targets >> flow->target & 1) {
			smd_flow_die(flow);
			smd_path_staged_abandon_flow(flow);
		}
	}
}

static void comm_lose_rescues(struct smd_comm *comm, uint64_t targets)
{
	for (struct smd_epoch *epoch = comm->rescues; epoch; epoch = epoch->next) {
		epoch_lose(epoch, targets);
	}
}

/* They were there again, and are lost once more before they are in the table. */
static void comm_lose_again(struct smd_comm *comm, uint64_t targets)
{
	if (comm->candidate && targets & ~comm->candidate->dead) {
		epoch_lose(comm->candidate, targets);
		smd_epoch_change_stands(comm, false);
	}
	comm_lose_rescues(comm, targets);
	if (comm->rescue_late) {
		comm->rescue(comm, targets);
	}
	smd_reach_tell(comm);
}

static void check_joining(struct smd_comm *comm)
{
	if (comm->state == SMD_COMM_JOINING) {
		smd_group_check_joined(comm);
	}
}

void smd_group_lose(struct smd_comm *comm, uint64_t targets)
{
	uint64_t closed = comm->agreement.closed | targets;

	if (comm->state == SMD_COMM_FAILED) {
		return;
	}
	if ((targets & ~comm->now->dead) == 0) {
		comm_lose_again(comm, targets);
		check_joining(comm); /* it was drained before all of its shards had said JOINED */
		return;
	}
	if (closed == UINT64_MAX && !smd_group_may_rescue(comm)) {
		smd_group_fail_alone(comm);
		return;
	}
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		epoch_lose(epoch, targets);
	}
	if (comm->candidate) {
		epoch_lose(comm->candidate, targets);
	}
	comm_lose_rescues(comm, targets);
	if (comm->end != SMD_COMM_NO_END) {
		smd_group_fail(comm, comm->err, comm->error.text);
		return;
	}
	comm->pump(comm); /* what waited for their chunks (lead.h) */
	smd_epoch_agreement_lose(comm, targets);
	if (comm->agreement.closed == UINT64_MAX) { /* and no table has come of it */
		comm->rescue(comm, targets);
		return;
	}
	check_joining(comm);
	smd_group_check_gone(comm, targets);
	smd_group_weigh_gone(comm);
}

/* Nothing but JOIN has been said, so there is nothing to be waited for. */
void smd_group_exclude(struct smd_comm *comm, uint64_t targets)
{
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		struct smd_flow *flow = &comm->base.flows[i];
		struct smd_frame leave = {
			.kind = SMD_FRAME_LEAVE,
			.comm = comm->base.receiver.number,
			.rank = comm->rank,
			.window = 1, /* the rank stays in the communicator */
		};

		if (flow->asked && !flow->dead && targets >> flow->target & 1) {
			smd_remote_send_frame(flow->remote, &leave, NULL, 0);
			flow->left = true;
		}
	}
	smd_group_lose(comm, targets);
}

/* ---- lanes ---- */

/* What a group begins without. Of servers that are there again some ranks may not know yet that
 * they are: then the others leave them out, too (smd_group_exclude()). */
static uint64_t context_without(const struct smd_context *context)
{
	uint64_t initial = smd_context_initial(context);
	uint64_t lost = context->lost | context->absent;
	uint64_t useless = lost | context->drains;

	return initial & (initial & ~useless ? useless : lost);
}

/* Lanes that rest are asked when they are there again. */
void smd_group_join(struct smd_task *task)
{
	struct smd_comm *comm = (struct smd_comm *)((char *)task - offsetof(struct smd_comm, join));
	struct smd_context *context = comm->context;

	context->comms[SMD_COMM_INDEX(comm->base.receiver.number)] = &comm->base.receiver;
	comm->base.hash = smd_context_deal_hash(context);
	if (context->err) {
		smd_group_fail(comm, context->err, context->error.text);
		return;
	}
	comm->asked = true;
	comm->joins_ns = smd_clock_ns();
	smd_epoch_memory_measure(comm);
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		smd_flow_begin(&comm->base.flows[i], context->remotes.each[i]);
	}
	if (context_without(context)) {
		smd_group_lose(comm, context_without(context));
	}
	smd_context_wake(context);
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		if (context->remotes.each[i]->welcomed && !comm->base.flows[i].dead) {
			smd_group_ask(&comm->base.flows[i]);
		}
	}
}

/* A shard may end a lane while JOIN is on its way to it; but not the next one too. */
bool smd_group_may_rest(struct smd_flow *flow)
{
	const struct smd_comm *comm = flow->comm;

	if (comm->state == SMD_COMM_FAILED || flow->dead) {
		return true;
	}
	if (comm->state == SMD_COMM_JOINING && flow->over) {
		return true; /* the shard has lost a rank, and has no group any more */
	}
	if (comm->state == SMD_COMM_ACTIVE || flow->heard || flow->again) {
		return false;
	}
	flow->asked = false;
	flow->again = true;
	return true;
}

void smd_group_lane_back(struct smd_flow *flow)
{
	const struct smd_comm *comm = flow->comm;

	if (comm->state == SMD_COMM_JOINING && comm->asked && !flow->dead && !flow->over) {
		smd_group_ask(flow);
	}
}

/* ---- JOINED ---- */

/*
 * Where a rank has given up, one shard may have had all ranks by then and another not: that one
 * then takes its next attempt for the one that the others still make.
 */
static bool comm_is_mixed(
	struct smd_comm *comm, struct smd_remote *remote, const struct smd_frame *frame)
{
	char text[SMD_ERROR_TEXT_MAX];
	char first[160];
	char second[160];

	if (!comm->joined_first) {
		comm->joined_first = remote;
		comm->attempts = frame->operation;
	}
	if (frame->operation == comm->attempts) {
		return false;
	}
	smd_target_name(comm->joined_first->target, first);
	smd_target_name(remote->target, second);
	snprintf(text, sizeof(text),
		"group %.100s: %.100s and %.100s have ranks of two attempts to form it, because "
		"one ended at one of them only: all ranks must join again",
		comm->group, first, second);
	comm->own_failure = comm->err == 0;
	smd_group_fail(comm, -ESTALE, text);
	return true;
}

int smd_group_joined(struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	int ret = smd_flow_take_remote_buffers(flow, error);

	if (ret == 0 && (flow->epoch->index || !comm_is_mixed(flow->comm, flow->remote, frame))) {
		comm_joined(flow->comm, flow, frame->window);
	}
	return ret;
}
