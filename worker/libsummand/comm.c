/* Joins and leaves groups, and keeps the order of their operations. */
#include "worker/libsummand/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define POLL_LANES_MAX 4 /* to ask the loop about more is cheaper */

/* ---- on the owner of the progress engine ---- */

static void comm_join(struct smd_task *task)
{
	struct smd_comm *comm = (struct smd_comm *)((char *)task - offsetof(struct smd_comm, join));
	struct smd_context *context = comm->context;
	struct smd_join join = {.nranks = comm->nranks, .table_hash = context->deal_hash};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	snprintf(join.group, sizeof(join.group), "%s", comm->group);
	length = smd_join_encode(&join, payload);
	context->comms[SMD_COMM_INDEX(comm->number)] = comm;
	if (context->err) {
		smd_comm_fail(comm, context->err, context->error.text);
		return;
	}
	comm->asked = true;
	for (unsigned i = 0; i < context->nremotes; i++) {
		comm->flows[i].comm = comm;
		comm->flows[i].remote = context->remotes[i];
		smd_remote_send(context->remotes[i], SMD_FRAME_JOIN, comm, payload, length);
	}
}

void smd_comm_joined(struct smd_comm *comm, struct smd_remote *remote, unsigned window)
{
	struct smd_context *context = comm->context;

	smd_flow_grant(&comm->flows[remote->index], window);
	comm->njoined++;
	if (comm->njoined < context->nremotes) {
		return;
	}
	smd_progress_lock(&context->progress);
	comm->state = SMD_COMM_ACTIVE;
	smd_progress_publish(&context->progress);
}

void smd_comm_late(struct smd_comm *comm, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->state == SMD_COMM_ACTIVE) {
		smd_log(SMD_LOG_WARN, "libsummand", "%s", text);
	}
	smd_progress_lock(&context->progress);
	snprintf(comm->waiting_for, sizeof(comm->waiting_for), "%s", text);
	smd_progress_unlock(&context->progress);
}

static void comm_say_leave(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;
	uint8_t why[SMD_CONTROL_MAX];
	size_t length = 0;

	if (comm->state == SMD_COMM_FAILED) {
		struct smd_abort abort = {.err = (uint32_t)-comm->err};

		memcpy(abort.text, comm->error.text, sizeof(abort.text));
		length = smd_abort_encode(&abort, why);
	}
	for (unsigned i = 0; i < context->nremotes; i++) {
		if (comm->asked) {
			smd_remote_send(context->remotes[i], SMD_FRAME_LEAVE, comm, why, length);
		}
		smd_remote_forget(context->remotes[i], comm);
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

void smd_comm_fail(struct smd_comm *comm, int err, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->state == SMD_COMM_FAILED) {
		return; /* the first reason is the cause */
	}
	/* Not a warning: every call on the communicator says it to its caller. */
	smd_log(SMD_LOG_INFO, "libsummand", "%s", text);
	smd_progress_lock(&context->progress);
	comm->state = SMD_COMM_FAILED;
	comm->err = err;
	smd_error_set(&comm->error, -err, "%s", text);
	smd_progress_publish(&context->progress);
	/* All of this is counted before anything is cancelled, since that may end operations. */
	comm->nexposed = 1;
	for (unsigned i = 0; i < context->nremotes; i++) {
		struct smd_flow *flow = &comm->flows[i];

		flow->exposed = smd_flow_is_open(flow);
		comm->nexposed += flow->exposed;
	}
	for (unsigned i = 0; i < context->nremotes; i++) {
		smd_remote_forget(context->remotes[i], comm);
	}
	if (comm->nexposed > 1) {
		comm_say_leave(comm);
	}
	smd_staging_abandon(comm);
	comm->nexposed--;
	comm_check_operations(comm);
}

void smd_comm_covered(struct smd_comm *comm, struct smd_flow *flow)
{
	if (flow->exposed) {
		flow->exposed = false;
		comm->nexposed--;
		comm_check_operations(comm);
	}
}

struct smd_request *smd_comm_find_operation(struct smd_comm *comm, uint64_t chunk)
{
	struct smd_request *operation;

	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (chunk - operation->first_chunk < operation->nchunks) {
			return operation;
		}
	}
	return NULL;
}

/*
 * Sends what may be sent, a chunk to each shard in turn, so that all links carry something from the
 * first chunk on. Each rank begins at another shard, so that they do not all send to one server
 * first.
 */
void smd_comm_pump(struct smd_comm *comm)
{
	unsigned nflows = comm->context->nremotes;
	unsigned first = (unsigned)((uint64_t)comm->rank * nflows / comm->nranks);
	bool sent = comm->state == SMD_COMM_ACTIVE;

	while (sent) {
		sent = false;
		for (unsigned i = 0; i < nflows; i++) {
			sent |= smd_flow_send(&comm->flows[(first + i) % nflows]);
		}
	}
}

/* The operation's buffers may be where others were before. */
static void comm_refresh(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;

	context->generation++;
	for (unsigned i = 0; i < context->nremotes; i++) {
		if (context->remotes[i]->lane) {
			smd_lane_invalidate(context->remotes[i]->lane, context->generation);
		}
	}
}

void smd_comm_start(struct smd_comm *comm, struct smd_request *operation)
{
	size_t chunk = smd_deal_chunk_elements(
		&comm->context->deal, operation->count, operation->element_bytes);

	operation->chunk_elements = chunk;
	operation->nchunks = operation->count ? (operation->count + chunk - 1) / chunk : 1;
	operation->sequence = comm->next_operation++;
	operation->first_chunk = comm->next_chunk;
	comm->next_chunk += operation->nchunks;
	TAILQ_INSERT_TAIL(&comm->operations, operation, link);
	if (operation->device) {
		smd_staging_begin(operation);
	}
	if (comm->state == SMD_COMM_FAILED) {
		smd_operation_check(operation);
		return;
	}
	comm_refresh(comm);
	smd_comm_pump(comm);
}

bool smd_comm_poll(struct smd_comm *comm)
{
	struct smd_lane *lanes[POLL_LANES_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < comm->context->nremotes; i++) {
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

	smd_comm_fail(comm, comm->fault_err, comm->fault_error.text);
	comm_say_leave(comm);
}

void smd_comm_fault(struct smd_comm *comm, int err, const char *text)
{
	struct smd_progress *progress = &comm->context->progress;
	bool first;

	smd_progress_lock(progress);
	first = comm->fault_err == 0;
	if (first) {
		comm->fault_err = err;
		smd_error_set(&comm->fault_error, -err, "%s", text);
	}
	smd_progress_unlock(progress);
	if (first) {
		smd_progress_defer(progress, &comm->fault);
	}
}

static void comm_leave(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, leave));
	struct smd_context *context = comm->context;

	comm_say_leave(comm);
	smd_staging_abandon(comm);
	context->comms[SMD_COMM_INDEX(comm->number)] = NULL;
	smd_progress_lock(&context->progress);
	context->uses[SMD_COMM_INDEX(comm->number)]++;
	comm->left = true;
	smd_progress_publish(&context->progress);
}

/* ---- on callers' threads ---- */

/* A free index, and how often it was used in the bits above it. -EMFILE when all are in use. */
static int comm_take_number(struct smd_context *context, uint32_t *out)
{
	int ret = -EMFILE;

	smd_progress_lock(&context->progress);
	for (uint32_t i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->uses[i] % 2 == 0) {
			context->uses[i]++;
			*out = (context->uses[i] << SMD_COMM_INDEX_BITS) | i;
			ret = 0;
			break;
		}
	}
	smd_progress_unlock(&context->progress);
	return ret;
}

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

static int comm_create(struct smd_context *context, const char *group, int nranks, int rank,
	struct smd_comm **out, struct smd_error *error)
{
	struct smd_comm *comm = calloc(1, sizeof(*comm));
	int ret;

	if (!comm) {
		return smd_error_set(error, ENOMEM, "group %s: out of memory", group);
	}
	comm->flows = calloc(context->nremotes, sizeof(*comm->flows));
	if (!comm->flows) {
		ret = smd_error_set(error, ENOMEM, "group %s: out of memory", group);
		goto free_comm;
	}
	ret = comm_take_number(context, &comm->number);
	if (ret) {
		smd_error_set(error, -ret,
			"group %s: a context must have at most %u communicators at once", group,
			SMD_COMMS_MAX);
		goto free_flows;
	}
	comm->context = context;
	snprintf(comm->group, sizeof(comm->group), "%s", group);
	comm->nranks = (uint16_t)nranks;
	comm->rank = (uint16_t)rank;
	comm->join.run = comm_join;
	comm->leave.run = comm_leave;
	comm->fault.run = comm_on_fault;
	TAILQ_INIT(&comm->operations);
	*out = comm;
	return 0;

free_flows:
	free(comm->flows);
free_comm:
	free(comm);
	return ret;
}

static bool comm_settled(const void *arg)
{
	return ((const struct smd_comm *)arg)->state != SMD_COMM_JOINING;
}

/* Joins, until every shard has said JOINED, one has said ABORT, or the time is over. */
static int comm_join_all(struct smd_comm *comm, unsigned timeout_s, struct smd_error *error)
{
	static const struct smd_goal goal = {.done = comm_settled};
	struct smd_context *context = comm->context;
	uint64_t deadline_ns = smd_clock_ns() + timeout_s * SMD_SECOND_NS;
	int ret = smd_progress_await(&context->progress, &comm->join, &goal, comm, deadline_ns);

	smd_progress_lock(&context->progress);
	if (comm->state == SMD_COMM_FAILED) {
		ret = comm->err;
		*error = comm->error;
	} else if (ret) {
		smd_error_set(error, ETIMEDOUT,
			"group %s: all %d ranks must join within %u s, but %s", comm->group,
			comm->nranks, timeout_s,
			comm->waiting_for[0] ? comm->waiting_for
					     : "a reduction server has not answered");
	}
	smd_progress_unlock(&context->progress);
	return ret;
}

int smd_comm_create_within(struct smd_context *context, unsigned timeout_s, const char *group,
	int nranks, int rank, struct smd_comm **out)
{
	struct smd_error error = {""};
	struct smd_comm *comm;
	int ret = comm_check_arguments(group, nranks, rank, &error);

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
	return smd_comm_create_within(
		context, context->config.connect_timeout_s, group, nranks, rank, out);
}

static bool comm_left(const void *arg)
{
	return ((const struct smd_comm *)arg)->left;
}

void smd_comm_destroy(smd_comm *comm)
{
	static const struct smd_goal goal = {.done = comm_left};
	struct smd_context *context;

	if (!comm) {
		return;
	}
	context = comm->context;
	smd_progress_await(&context->progress, &comm->leave, &goal, comm, 0);
	free(comm->flows);
	free(comm);
}

void smd_comm_set_stream(smd_comm *comm, void *stream)
{
	comm->stream = stream;
}

int smd_comm_rank(const smd_comm *comm)
{
	return comm->rank;
}

int smd_comm_size(const smd_comm *comm)
{
	return comm->nranks;
}
