/* Starts a group's operations in order; makes communicators, and ends them. */
#include "worker/libsummand/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/hash.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_change.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/group_epoch.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_joining.h"
#include "worker/libsummand/group_leaving.h"
#include "worker/libsummand/group_receiver.h"
#include "worker/libsummand/group_rescue.h"
#include "worker/libsummand/group_streams.h"
#include "worker/libsummand/handle.h"
#include "worker/libsummand/operation.h"
#include "worker/libsummand/segment.h"
#include "worker/libsummand/settle.h"
#include "worker/libsummand/tuning.h"
#include "worker/libsummand/tuning_exchanges.h"

/* Lanes that are made again for the group have as long as it has. When that is over they know why
 * they could not be made, so they are asked before the group gives up. */
#define VERDICT_NS 200000000u

#define POLL_LANES_MAX 4 /* to ask the loop about more is cheaper */

/* ---- operations, on the owner ---- */

/*
 * Sends what may be sent, a chunk to each shard in turn, so that all links carry something from the
 * first chunk on. Each rank begins at another shard, so that they do not all send to one server
 * first.
 */
static void comm_pump(struct smd_comm *comm)
{
	smd_exchanges_go(comm);
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		unsigned nflows = epoch->nremotes;
		unsigned first = (unsigned)((uint64_t)comm->rank * nflows / comm->nranks);
		bool sent = comm->state == SMD_COMM_ACTIVE;

		while (sent) {
			sent = false;
			for (unsigned i = 0; i < nflows; i++) {
				sent |= smd_flow_send(&epoch->flows[(first + i) % nflows]);
			}
		}
	}
}

/* A stage is free for whoever has waited longest (staging.h). */
static void comm_on_stage(struct smd_stage_waiter *waiter)
{
	comm_pump((struct smd_comm *)((char *)waiter - offsetof(struct smd_comm, waiter)));
}

static void comm_begin(struct smd_request *operation)
{
	struct smd_comm *comm = operation->comm;

	smd_group_tune(comm);
	operation->sequence = comm->next_operation++;
	if (comm->tuning) {
		operation->timed = operation->count * operation->element_bytes;
		smd_tuning_begin(comm->tuning, operation->timed, smd_clock_ns());
		operation->served = !smd_exchange_may_take(operation);
		if (operation->served) {
			smd_tuning_serves(comm->tuning);
		}
	}
	TAILQ_INSERT_TAIL(&comm->operations, operation, link);
	smd_operation_begin(operation);
	if (comm->state == SMD_COMM_FAILED) {
		smd_operation_check(operation);
		return;
	}
	if (comm->end != SMD_COMM_NO_END) {
		smd_operation_refuse(operation);
		return;
	}
	if (smd_group_lay(operation)) {
		/* Servers have nothing of an exchange, or have taken it over already. */
		if (operation->pieces && !operation->repaired) {
			smd_exchanges_go(comm);
		} else {
			comm_pump(comm);
		}
	}
	smd_epoch_change_progressed(comm);
}

/* In the order of their callers, on all ranks: what comes after a large one waits until all
 * segments of that have begun. */
static void comm_begin_waiting(struct smd_comm *comm)
{
	struct smd_request *first;

	while ((first = TAILQ_FIRST(&comm->waiting)) != NULL &&
		(first->nsegments == 0 || comm->segments < SMD_SEGMENTS_AT_ONCE)) {
		struct smd_request *next = first->nsegments ? smd_segments_next(first) : first;

		if (first->nsegments == 0 || smd_segments_have_begun(first)) {
			TAILQ_REMOVE(&comm->waiting, first, link);
		}
		comm_begin(next);
	}
}

static void comm_on_advance(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, advance));

	comm->advances = false;
	comm_begin_waiting(comm);
}

void smd_group_start(struct smd_request *request)
{
	TAILQ_INSERT_TAIL(&request->comm->waiting, request, link);
	comm_begin_waiting(request->comm);
}

/* An exchange needs nothing of them. */
static bool comm_awaits_servers(const struct smd_comm *comm)
{
	const struct smd_request *operation;

	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (operation->chunks_done != operation->nchunks) {
			return true;
		}
	}
	return false;
}

/* Results of that shard. */
static bool comm_awaits(const struct smd_comm *comm, unsigned i)
{
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		if (i < epoch->nremotes && epoch->flows[i].done != epoch->flows[i].next &&
			!epoch->flows[i].dead) {
			return true;
		}
	}
	return false;
}

bool smd_group_poll(struct smd_comm *comm)
{
	struct smd_lane *lanes[POLL_LANES_MAX];
	unsigned n = 0;
	unsigned exchanging = smd_exchanges_poll(comm);

	if (!comm_awaits_servers(comm)) {
		return exchanging > 0;
	}
	/* An operation's repairs and its other chunks are not all of one epoch. */
	for (unsigned i = 0; i < comm->context->remotes.count; i++) {
		struct smd_lane *lane = comm->context->remotes.each[i]->lane;

		if (!lane || !comm_awaits(comm, i)) {
			continue;
		}
		if (n == POLL_LANES_MAX) {
			return false;
		}
		lanes[n++] = lane;
	}
	/* A lane that is closed while another is polled keeps its memory until the loop turns.
	 */
	for (unsigned i = 0; i < n; i++) {
		if (!smd_lane_poll(lanes[i])) {
			return false;
		}
	}
	return n + exchanging > 0;
}

/* ---- on callers' threads ---- */

static int comm_check_arguments(const char *group, int nranks, int rank, struct smd_error *error)
{
	if (!group || group[0] == '\0' || strlen(group) > SMD_STRING_MAX) {
		return smd_error_set(
			error, EINVAL, "group: its name must have 1 to %d bytes", SMD_STRING_MAX);
	}
	for (const char *c = group; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			return smd_error_set(
				error, EINVAL, "group: its name must have no control characters");
		}
	}
	if (nranks < 1 || nranks > SMD_NRANKS_MAX) {
		return smd_error_set(error, EINVAL, "group %s: ranks must be 1 to %d, got %d",
			group, SMD_NRANKS_MAX, nranks);
	}
	if (rank < 0 || rank >= nranks) {
		return smd_error_set(error, EINVAL, "group %s: rank must be 0 to %d, got %d", group,
			nranks - 1, rank);
	}
	return 0;
}

/* Not the same as any other rank's, nor as another time. */
static uint64_t draw_attempt(const struct smd_comm *comm)
{
	const uint64_t now[] = {
		smd_clock_ns(), (uint64_t)(uintptr_t)comm, comm->base.receiver.number};
	uint64_t attempt;

	return getrandom(&attempt, sizeof(attempt), 0) == sizeof(attempt)
		       ? attempt
		       : smd_hash(SMD_HASH_SEED, now, sizeof(now));
}

static int comm_create(struct smd_context *context, bool spare, const char *group, int nranks,
	int rank, struct smd_comm **out, struct smd_error *error)
{
	struct smd_comm *comm;
	int ret = smd_comm_make(context, group, (uint16_t)nranks, (uint16_t)rank, &comm, error);

	if (ret) {
		return ret;
	}
	comm->attempt = draw_attempt(comm);
	comm->spare = spare;
	comm->base.receiver.ops = &smd_group_receiver;
	comm->settle = smd_settle;
	comm->end_pieces = smd_exchange_end;
	comm->pump = comm_pump;
	comm->drained = smd_group_drained;
	comm->destroy = smd_comm_destroy;
	comm->change = smd_epoch_change_begin;
	comm->record = smd_epoch_agreement_record;
	comm->stand = smd_group_stand;
	comm->adopt = smd_group_adopt;
	comm->drop = smd_group_drop;
	comm->leave_before = smd_group_leave_before;
	comm->exclude = smd_group_exclude;
	comm->rescue = smd_group_rescue;
	comm->rescue_from_gone = smd_group_rescue_gone;
	comm->rescue_changed = smd_group_rescue_changed;
	comm->rescue_all_there = smd_group_rescue_all_there;
	comm->rescue_from_told = smd_group_rescue_told;
	comm->waiter.resume = comm_on_stage;
	comm->advance.run = comm_on_advance;
	comm->join.run = smd_group_join;
	comm->leave.run = smd_group_leave;
	comm->fault.run = smd_group_on_fault;
	smd_group_begin_tuning(comm);
	*out = comm;
	return 0;
}

static bool comm_settled(const void *arg)
{
	const struct smd_comm *comm = arg;

	return comm->state != SMD_COMM_JOINING && !comm->settling;
}

/* Under the progress's lock: who is waited for, or which server does not say. */
static void comm_tell_waiting_for(const struct smd_comm *comm, char *text, size_t size)
{
	const struct smd_remotes *remotes = &comm->context->remotes;
	bool told = false; /* by a shard that still waits for a rank */
	unsigned nremotes = comm->base.nremotes;
	unsigned mute = nremotes;
	char name[160];

	for (unsigned i = 0; i < nremotes; i++) {
		const struct smd_flow *flow = &comm->base.flows[i];

		told |= flow->heard && !flow->joined;
		mute = !flow->heard && mute == nremotes ? i : mute;
	}
	if (told || mute == nremotes) {
		snprintf(text, size, "%s", comm->waiting_for);
		return;
	}
	smd_target_name(remotes->each[mute]->target, name);
	snprintf(text, size, "%s has said nothing about it", name);
}

/* A rank that a shard has lost, and that no other one says has joined, may be late to them: for a
 * while. */
static bool comm_has_lost_rank(struct smd_comm *comm)
{
	uint64_t now = smd_clock_ns();
	bool lost;

	smd_progress_lock(&comm->context->progress);
	lost = comm->gone_ns && !comm->gone_may_live &&
	       now - comm->gone_ns > smd_context_patience_ns(comm->context);
	smd_progress_unlock(&comm->context->progress);
	return lost;
}

/* Waits until it has joined or failed, a rank is lost (-ECONNRESET), or the time is over
 * (-ETIMEDOUT). */
static int comm_await_joined(struct smd_comm *comm, uint64_t end_ns)
{
	static const struct smd_goal goal = {.done = comm_settled};
	struct smd_task *task = &comm->join;
	int ret;

	do {
		uint64_t look_ns = smd_clock_ns() + SMD_SECOND_NS;

		ret = smd_progress_await(&comm->context->progress, task, &goal, comm,
			look_ns < end_ns ? look_ns : end_ns);
		task = NULL;
		if (ret == -ETIMEDOUT && comm_has_lost_rank(comm)) {
			return -ECONNRESET;
		}
	} while (ret == -ETIMEDOUT && smd_clock_ns() < end_ns);
	return ret;
}

/* Joins, until every shard has said JOINED, one has said ABORT, or the time is over. */
static int comm_join_all(struct smd_comm *comm, unsigned timeout_s, uint64_t end_ns, bool *again,
	struct smd_error *error)
{
	struct smd_context *context = comm->context;
	char waiting_for[SMD_ERROR_TEXT_MAX];
	int ret = comm_await_joined(comm, end_ns);

	smd_progress_lock(&context->progress);
	*again = comm->begins_again;
	if (comm->state == SMD_COMM_FAILED) {
		ret = comm->err;
		*error = comm->error;
	} else if (ret == -ECONNRESET || (ret && comm->gone_ns && !comm->gone_may_live)) {
		ret = -ECONNRESET;
		*error = comm->gone;
		if (comm->waiting_for[0]) { /* by another shard: that may be who has died */
			smd_error_add(error, comm->waiting_for);
		}
	} else if (ret) {
		comm_tell_waiting_for(comm, waiting_for, sizeof(waiting_for));
		smd_error_set(error, ETIMEDOUT,
			"group %s: all %d ranks must join within %u s, but %s", comm->group,
			comm->nranks, timeout_s, waiting_for);
		if (comm->gone.text[0]) {
			smd_error_add(error, comm->gone.text);
		}
	}
	smd_progress_unlock(&context->progress);
	return ret;
}

int smd_comm_create_within(struct smd_context *context, unsigned timeout_s, bool spare,
	const char *group, int nranks, int rank, struct smd_comm **out)
{
	struct smd_error error = {""};
	uint64_t end_ns = smd_clock_ns() + timeout_s * SMD_SECOND_NS + VERDICT_NS;
	int ret = smd_context_check(context);
	bool again = true;

	ret = ret ? ret : smd_check_out(out);
	if (ret) {
		return ret;
	}
	ret = comm_check_arguments(group, nranks, rank, &error);
	while (ret == 0 && again) {
		struct smd_comm *comm;

		ret = comm_create(context, spare, group, nranks, rank, &comm, &error);
		if (ret) {
			break;
		}
		ret = comm_join_all(comm, timeout_s, end_ns, &again, &error);
		if (ret == 0) {
			*out = comm;
			return 0;
		}
		again = again && smd_clock_ns() < end_ns;
		ret = again ? 0 : ret;
		smd_comm_destroy(comm);
	}
	return smd_error_remember(ret, &error);
}

int smd_comm_create(smd_context *context, const char *group, int nranks, int rank, smd_comm **out)
{
	int ret = smd_context_check(context);

	return ret ? ret
		   : smd_comm_create_within(
			     context, context->config.connect_timeout_s, false, group, nranks,
			     rank, out);
}

static bool comm_left(const void *arg)
{
	return ((const struct smd_comm *)arg)->left;
}

static bool comm_is_idle(const void *arg)
{
	return ((const struct smd_comm *)arg)->in_flight == 0;
}

/* What its caller has not waited for uses the caller's buffers: it fails, on all ranks, until it
 * does not. */
static void comm_give_up(struct smd_comm *comm)
{
	static const struct smd_goal goal = {.done = comm_is_idle};
	struct smd_progress *progress = &comm->context->progress;
	char text[SMD_ERROR_TEXT_MAX];
	bool idle;

	smd_progress_lock(progress);
	idle = comm->in_flight == 0;
	smd_progress_unlock(progress);
	if (!idle) {
		snprintf(text, sizeof(text),
			"group %s: rank %u (%s) has destroyed its communicator with operations in "
			"flight",
			comm->group, comm->rank, comm->context->config.replica);
		smd_comm_fault(comm, -ECANCELED, text);
		smd_progress_await(progress, NULL, &goal, comm, 0);
	}
}

void smd_comm_destroy(smd_comm *comm)
{
	static const struct smd_goal goal = {.done = comm_left};
	struct smd_context *context;

	if (!comm || smd_comm_check(comm)) {
		return;
	}
	context = comm->context;
	comm_give_up(comm);
	smd_progress_await(&context->progress, &comm->leave, &goal, comm, 0);
	if (comm->unwaited) {
		smd_handles_drop(comm);
	}
	smd_exchanges_free(comm);
	smd_epoch_agreement_destroy(&comm->agreement);
	smd_group_stop_tuning(comm);
	smd_comm_discard(comm);
}
