/* Joins and leaves groups, starts their operations in order, and fails them. */
#include "worker/libsummand/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/hash.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/flow.h"
#include "worker/libsummand/handle.h"
#include "worker/libsummand/operation.h"
#include "worker/libsummand/path_staged.h"

#define POLL_LANES_MAX 4 /* to ask the loop about more is cheaper */

/* ---- operations, on the owner ---- */

/* What has not begun to leave stays here. */
static void comm_stop_flow(struct smd_comm *comm, unsigned i)
{
	if (comm->flows[i].remote) {
		smd_flow_stop(&comm->flows[i]);
	}
	smd_remote_cancel(comm->context->remotes.each[i], &comm->receiver);
}

static void comm_say_leave(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;
	uint8_t why[SMD_CONTROL_MAX];
	size_t length = 0;

	if (comm->state == SMD_COMM_FAILED) {
		struct smd_abort abort = {.err = (uint32_t)-comm->err};

		if (comm->own_failure) {
			snprintf(abort.text, sizeof(abort.text),
				"group %.100s: rank %u (%.60s) cannot go on: %.300s", comm->group,
				comm->rank, context->config.replica, comm->error.text);
		} else {
			memcpy(abort.text, comm->error.text, sizeof(abort.text));
		}
		length = smd_abort_encode(&abort, why);
	}
	for (unsigned i = 0; i < context->remotes.count; i++) {
		if (comm->asked && comm->flows[i].asked) {
			smd_remote_send(context->remotes.each[i], SMD_FRAME_LEAVE,
				comm->receiver.number, comm->rank, why, length);
		}
		comm_stop_flow(comm, i);
	}
	comm->asked = false;
}

static void comm_check_operations(struct smd_comm *comm)
{
	struct smd_request *operation = TAILQ_FIRST(&comm->operations);

	while (operation) {
		struct smd_request *next = TAILQ_NEXT(operation, link);

		smd_operation_check(operation);
		operation = next;
	}
}

/* The first reason is the cause. */
static void comm_give_reason(struct smd_comm *comm, int err, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->err) {
		return;
	}
	/* Not a warning: every call on the communicator says it to its caller. */
	smd_log(SMD_LOG_INFO, "libsummand", "%s", text);
	smd_progress_lock(&context->progress);
	comm->err = err;
	smd_error_set(&comm->error, -err, "%s", text);
	smd_progress_unlock(&context->progress);
}

static void comm_fail(struct smd_comm *comm, int err, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->state == SMD_COMM_FAILED) {
		return;
	}
	comm_give_reason(comm, err, text);
	smd_progress_lock(&context->progress);
	comm->state = SMD_COMM_FAILED;
	comm->settling = smd_context_settles(context);
	smd_progress_publish(&context->progress);
	/* All of this is counted before anything is cancelled, since that may end operations. */
	comm->nopen = 1u + comm->settling;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		struct smd_flow *flow = &comm->flows[i];

		flow->open = smd_flow_is_open(flow);
		comm->nopen += flow->open;
	}
	for (unsigned i = 0; i < context->remotes.count; i++) {
		comm_stop_flow(comm, i);
	}
	/* Shards that have not noticed yet must not wait for this rank, nor may others wait there.
	 */
	comm_say_leave(comm);
	smd_path_staged_abandon(comm);
	comm->nopen--;
	comm_check_operations(comm);
}

/*
 * The shard has said ABORT, behind all results that it had: operations that need no more of it may
 * still be done by the others, as they will be on the other ranks, and no new one begins.
 */
static void comm_end_flow(struct smd_flow *flow, int err, const char *text)
{
	struct smd_comm *comm = flow->comm;
	uint64_t end = smd_flow_next_operation(flow);

	flow->over = true;
	comm_give_reason(comm, err, text);
	comm->end = end < comm->end ? end : comm->end;
	if (smd_operations_are_lost(comm)) {
		comm_fail(comm, err, text);
	}
}

/*
 * Sends what may be sent, a chunk to each shard in turn, so that all links carry something from the
 * first chunk on. Each rank begins at another shard, so that they do not all send to one server
 * first.
 */
static void comm_pump(struct smd_comm *comm)
{
	unsigned nflows = comm->context->remotes.count;
	unsigned first = (unsigned)((uint64_t)comm->rank * nflows / comm->nranks);
	bool sent = comm->state == SMD_COMM_ACTIVE;

	while (sent) {
		sent = false;
		for (unsigned i = 0; i < nflows; i++) {
			sent |= smd_flow_send(&comm->flows[(first + i) % nflows]);
		}
	}
}

/* A stage is free for whoever has waited longest (staging.h). */
static void comm_on_stage(struct smd_stage_waiter *waiter)
{
	comm_pump((struct smd_comm *)((char *)waiter - offsetof(struct smd_comm, waiter)));
}

/* The operation's buffers may be where others were before: what lanes have cached of those goes. */
static void comm_invalidate(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;

	context->generation++;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		if (context->remotes.each[i]->lane) {
			smd_lane_invalidate(context->remotes.each[i]->lane, context->generation);
		}
	}
}

void smd_group_start(struct smd_request *operation)
{
	struct smd_comm *comm = operation->comm;
	size_t chunk = smd_deal_chunk_elements(
		&comm->context->deal, operation->count, operation->element_bytes);

	operation->chunk_elements = chunk;
	operation->nchunks = operation->count ? (operation->count + chunk - 1) / chunk : 1;
	operation->sequence = comm->next_operation++;
	operation->first_chunk = comm->next_chunk;
	comm->next_chunk += operation->nchunks;
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
	comm_invalidate(comm);
	comm_pump(comm);
}

bool smd_group_poll(struct smd_comm *comm)
{
	struct smd_lane *lanes[POLL_LANES_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < comm->context->remotes.count; i++) {
		const struct smd_flow *flow = &comm->flows[i];

		if (flow->done == flow->next || !flow->remote->lane) {
			continue;
		}
		if (n == POLL_LANES_MAX) {
			return false;
		}
		lanes[n++] = flow->remote->lane;
	}
	/* A lane that is closed while another is polled keeps its memory until the loop turns.
	 */
	for (unsigned i = 0; i < n; i++) {
		if (!smd_lane_poll(lanes[i])) {
			return false;
		}
	}
	return n > 0;
}

/* The others need not wait until this rank's caller has noticed and left. */
static void comm_on_fault(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, fault));

	comm_fail(comm, comm->fault_err, comm->fault_error.text);
}

/* ---- what shards say ---- */

static void comm_ask(struct smd_comm *comm, struct smd_flow *flow)
{
	struct smd_context *context = comm->context;
	struct smd_join join = {
		.nranks = comm->nranks,
		.table_hash = context->deal_hash,
		.attempt = comm->attempt,
	};
	uint8_t payload[SMD_CONTROL_MAX];

	snprintf(join.group, sizeof(join.group), "%s", comm->group);
	flow->asked = true;
	smd_remote_send(flow->remote, SMD_FRAME_JOIN, comm->receiver.number, comm->rank, payload,
		smd_join_encode(&join, payload));
}

/* Lanes that rest are asked when they are there again. */
static void comm_join(struct smd_task *task)
{
	struct smd_comm *comm = (struct smd_comm *)((char *)task - offsetof(struct smd_comm, join));
	struct smd_context *context = comm->context;

	context->comms[SMD_COMM_INDEX(comm->receiver.number)] = &comm->receiver;
	if (context->err) {
		comm_fail(comm, context->err, context->error.text);
		return;
	}
	comm->asked = true;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		smd_flow_begin(&comm->flows[i], comm, context->remotes.each[i]);
	}
	smd_context_wake(context);
	for (unsigned i = 0; i < context->remotes.count; i++) {
		if (context->remotes.each[i]->welcomed) {
			comm_ask(comm, &comm->flows[i]);
		}
	}
}

/* A shard may end a lane while JOIN is on its way to it; but not the next one too. */
static bool comm_may_rest(struct smd_receiver *receiver, const struct smd_remote *remote)
{
	struct smd_comm *comm = (struct smd_comm *)receiver;
	struct smd_flow *flow = &comm->flows[remote->index];

	if (comm->state == SMD_COMM_FAILED) {
		return true;
	}
	if (comm->state == SMD_COMM_ACTIVE || flow->heard || flow->again) {
		return false;
	}
	flow->asked = false;
	flow->again = true;
	return true;
}

static void comm_on_lane_back(struct smd_receiver *receiver, struct smd_remote *remote)
{
	struct smd_comm *comm = (struct smd_comm *)receiver;

	if (comm->state == SMD_COMM_JOINING && comm->asked) {
		comm_ask(comm, &comm->flows[remote->index]);
	}
}

static void comm_joined(struct smd_comm *comm, struct smd_flow *flow, unsigned window)
{
	struct smd_context *context = comm->context;

	smd_flow_grant(flow, window);
	comm->njoined++;
	smd_progress_lock(&context->progress);
	flow->heard = true;
	flow->joined = true;
	if (comm->njoined < context->remotes.count) {
		smd_progress_unlock(&context->progress);
		return;
	}
	comm->state = SMD_COMM_ACTIVE;
	smd_progress_publish(&context->progress);
}

static void comm_late(struct smd_comm *comm, struct smd_flow *flow, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->state == SMD_COMM_ACTIVE) {
		smd_log(SMD_LOG_WARN, "libsummand", "%s", text);
	}
	smd_progress_lock(&context->progress);
	flow->heard = true;
	snprintf(comm->waiting_for, sizeof(comm->waiting_for), "%s", text);
	smd_progress_unlock(&context->progress);
}

/* The shard writes no more results of the communicator: it has said so, or its lane is closed. */
static void comm_flow_closed(struct smd_comm *comm, struct smd_flow *flow)
{
	if (flow->open) {
		flow->open = false;
		comm->nopen--;
		comm_check_operations(comm);
	}
}

static struct smd_comm *comm_of(struct smd_receiver *receiver)
{
	return (struct smd_comm *)receiver;
}

/* A failed communicator only waits for LEFT. */
static bool comm_wants(const struct smd_receiver *receiver, const struct smd_frame *frame)
{
	const struct smd_comm *comm = (const struct smd_comm *)receiver;

	return (comm->state == SMD_COMM_FAILED) == (frame->kind == SMD_FRAME_LEFT);
}

static int comm_on_result(struct smd_receiver *receiver, struct smd_remote *remote,
	const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	return smd_flow_receive(&comm_of(receiver)->flows[remote->index], frame, payload, error);
}

/*
 * Where a rank has given up, one shard may have had all ranks by then and another not: that one then
 * takes its next attempt for the one that the others still make.
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
	comm_fail(comm, -ESTALE, text);
	return true;
}

static int comm_on_joined(struct smd_comm *comm, struct smd_remote *remote,
	const struct smd_frame *frame, struct smd_error *error)
{
	int ret = smd_flow_take_remote_buffers(&comm->flows[remote->index], error);

	if (ret == 0 && !comm_is_mixed(comm, remote, frame)) {
		comm_joined(comm, &comm->flows[remote->index], frame->window);
	}
	return ret;
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
	if (abort.err == ESHUTDOWN) {
		comm_name_server(flow, &abort);
	}
	smd_remote_explain(flow->remote, abort.text, text);
	if (comm->state == SMD_COMM_ACTIVE) {
		comm_end_flow(flow, -(int)abort.err, text);
	} else {
		comm_fail(comm, -(int)abort.err, text);
	}
	return 0;
}

static int comm_on_frame(struct smd_receiver *receiver, struct smd_remote *remote,
	const struct smd_frame *frame, const uint8_t *payload, struct smd_error *error)
{
	struct smd_comm *comm = comm_of(receiver);
	struct smd_flow *flow = &comm->flows[remote->index];
	char text[SMD_ERROR_TEXT_MAX];

	switch (frame->kind) {
	case SMD_FRAME_RESULT:
		return smd_flow_received(flow, frame, error);
	case SMD_FRAME_JOINED:
		return comm_on_joined(comm, remote, frame, error);
	case SMD_FRAME_LEFT:
		smd_flow_revoke_all(flow);
		comm_flow_closed(comm, flow);
		return 0;
	case SMD_FRAME_SHRINK:
		smd_flow_shrink(flow);
		return 0;
	case SMD_FRAME_ABORT:
		return comm_on_abort(flow, frame, payload, error);
	default: /* LATE: the remote lets nothing else pass */
		smd_text_decode(payload, frame->length, text);
		comm_late(comm, flow, text);
		return 0;
	}
}

static bool comm_is_owed(const struct smd_receiver *receiver, const struct smd_remote *remote)
{
	const struct smd_comm *comm = (const struct smd_comm *)receiver;
	const struct smd_flow *flow = &comm->flows[remote->index];

	switch (comm->state) {
	case SMD_COMM_JOINING:
		return comm->asked && !flow->joined;
	case SMD_COMM_ACTIVE:
		return !flow->over && smd_flow_is_owed(flow);
	case SMD_COMM_FAILED:
		break;
	}
	return flow->open; /* LEFT */
}

static void comm_on_lane_closed(struct smd_receiver *receiver, struct smd_remote *remote)
{
	struct smd_flow *flow = &comm_of(receiver)->flows[remote->index];

	smd_flow_forget_advertisements(flow);
	comm_flow_closed(comm_of(receiver), flow);
}

static void comm_on_failed(struct smd_receiver *receiver, int err, const char *text)
{
	struct smd_comm *comm = comm_of(receiver);

	if (comm->settling) {
		smd_progress_lock(&comm->context->progress);
		smd_error_add(&comm->error, text);
		smd_progress_unlock(&comm->context->progress);
		return;
	}
	comm->own_failure = comm->err == 0;
	comm_fail(comm, err, text);
}

static void comm_on_settled(struct smd_receiver *receiver)
{
	struct smd_comm *comm = comm_of(receiver);

	if (comm->settling) {
		smd_progress_lock(&comm->context->progress);
		comm->settling = false;
		smd_progress_publish(&comm->context->progress);
		comm->nopen--;
		comm_check_operations(comm);
	}
}

static void comm_end(struct smd_receiver *receiver)
{
	smd_comm_destroy(comm_of(receiver));
}

static const struct smd_receiver_ops comm_receiver_ops = {
	.wants = comm_wants,
	.on_result = comm_on_result,
	.on_frame = comm_on_frame,
	.is_owed = comm_is_owed,
	.may_rest = comm_may_rest,
	.on_lane_back = comm_on_lane_back,
	.on_lane_closed = comm_on_lane_closed,
	.on_failed = comm_on_failed,
	.on_settled = comm_on_settled,
	.end = comm_end,
};

static void comm_leave(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, leave));
	struct smd_context *context = comm->context;

	comm_say_leave(comm);
	smd_path_staged_abandon(comm);
	context->comms[SMD_COMM_INDEX(comm->receiver.number)] = NULL;
	smd_progress_lock(&context->progress);
	context->uses[SMD_COMM_INDEX(comm->receiver.number)]++;
	comm->left = true;
	smd_progress_publish(&context->progress);
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
	const uint64_t now[] = {smd_clock_ns(), (uint64_t)(uintptr_t)comm, comm->receiver.number};
	uint64_t attempt;

	return getrandom(&attempt, sizeof(attempt), 0) == sizeof(attempt)
		       ? attempt
		       : smd_hash(SMD_HASH_SEED, now, sizeof(now));
}

static int comm_create(struct smd_context *context, const char *group, int nranks, int rank,
	struct smd_comm **out, struct smd_error *error)
{
	struct smd_comm *comm;
	int ret = smd_comm_make(context, group, (uint16_t)nranks, (uint16_t)rank,
		sizeof(struct smd_flow), &comm, error);

	if (ret) {
		return ret;
	}
	comm->attempt = draw_attempt(comm);
	comm->receiver.ops = &comm_receiver_ops;
	comm->pump = comm_pump;
	comm->waiter.resume = comm_on_stage;
	comm->join.run = comm_join;
	comm->leave.run = comm_leave;
	comm->fault.run = comm_on_fault;
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
	unsigned mute = remotes->count;
	char name[160];

	for (unsigned i = 0; i < remotes->count; i++) {
		const struct smd_flow *flow = &comm->flows[i];

		told |= flow->heard && !flow->joined;
		mute = !flow->heard && mute == remotes->count ? i : mute;
	}
	if (told || mute == remotes->count) {
		snprintf(text, size, "%s", comm->waiting_for);
		return;
	}
	smd_target_name(remotes->each[mute]->target, name);
	snprintf(text, size, "%s has said nothing about it", name);
}

/* Joins, until every shard has said JOINED, one has said ABORT, or the time is over. */
static int comm_join_all(struct smd_comm *comm, unsigned timeout_s, struct smd_error *error)
{
	static const struct smd_goal goal = {.done = comm_settled};
	struct smd_context *context = comm->context;
	uint64_t deadline_ns = smd_clock_ns() + timeout_s * SMD_SECOND_NS;
	char waiting_for[SMD_ERROR_TEXT_MAX];
	int ret = smd_progress_await(&context->progress, &comm->join, &goal, comm, deadline_ns);

	smd_progress_lock(&context->progress);
	if (comm->state == SMD_COMM_FAILED) {
		ret = comm->err;
		*error = comm->error;
	} else if (ret) {
		comm_tell_waiting_for(comm, waiting_for, sizeof(waiting_for));
		smd_error_set(error, ETIMEDOUT,
			"group %s: all %d ranks must join within %u s, but %s", comm->group,
			comm->nranks, timeout_s, waiting_for);
	}
	smd_progress_unlock(&context->progress);
	return ret;
}

int smd_comm_create_within(struct smd_context *context, unsigned timeout_s, const char *group,
	int nranks, int rank, struct smd_comm **out)
{
	struct smd_error error = {""};
	struct smd_comm *comm;
	int ret = smd_context_check(context);

	ret = ret ? ret : smd_check_out(out);
	if (ret) {
		return ret;
	}
	ret = comm_check_arguments(group, nranks, rank, &error);
	if (ret == 0) {
		ret = comm_create(context, group, nranks, rank, &comm, &error);
	}
	if (ret) {
		return smd_error_remember(ret, &error);
	}
	ret = comm_join_all(comm, timeout_s, &error);
	if (ret) {
		smd_comm_destroy(comm);
		return smd_error_remember(ret, &error);
	}
	*out = comm;
	return 0;
}

int smd_comm_create(smd_context *context, const char *group, int nranks, int rank, smd_comm **out)
{
	int ret = smd_context_check(context);

	return ret ? ret
		   : smd_comm_create_within(
			     context, context->config.connect_timeout_s, group, nranks, rank, out);
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
	smd_comm_discard(comm);
}
