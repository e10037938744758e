/* Joins and leaves groups, and keeps the order of their operations. */
#include "worker/libsummand/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

/* ---- on the progress thread ---- */

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
	pthread_mutex_lock(&context->lock);
	comm->state = SMD_COMM_ACTIVE;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

void smd_comm_late(struct smd_comm *comm, const char *text)
{
	struct smd_context *context = comm->context;

	if (comm->state == SMD_COMM_ACTIVE) {
		smd_log(SMD_LOG_WARN, "libsummand", "%s", text);
	}
	pthread_mutex_lock(&context->lock);
	snprintf(comm->waiting_for, sizeof(comm->waiting_for), "%s", text);
	pthread_mutex_unlock(&context->lock);
}

void smd_comm_fail(struct smd_comm *comm, int err, const char *text)
{
	struct smd_context *context = comm->context;
	struct smd_request *operation;

	if (comm->state == SMD_COMM_FAILED) {
		return; /* the first reason is the cause */
	}
	/* Not a warning: every call on the communicator says it to its caller. */
	smd_log(SMD_LOG_INFO, "libsummand", "%s", text);
	pthread_mutex_lock(&context->lock);
	comm->state = SMD_COMM_FAILED;
	comm->err = err;
	smd_error_set(&comm->error, -err, "%s", text);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	for (unsigned i = 0; i < context->nremotes; i++) {
		smd_remote_forget(context->remotes[i], comm);
	}
	operation = TAILQ_FIRST(&comm->operations);
	while (operation) {
		struct smd_request *next = TAILQ_NEXT(operation, link);

		smd_operation_check(operation);
		operation = next;
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

void smd_comm_start(struct smd_comm *comm, struct smd_request *operation)
{
	unsigned nflows = comm->context->nremotes;
	size_t chunk = smd_deal_chunk_elements(
		&comm->context->deal, operation->count, operation->element_bytes);

	operation->chunk_elements = chunk;
	operation->nchunks = operation->count ? (operation->count + chunk - 1) / chunk : 1;
	operation->sequence = comm->next_operation++;
	operation->first_chunk = comm->next_chunk;
	comm->next_chunk += operation->nchunks;
	TAILQ_INSERT_TAIL(&comm->operations, operation, link);
	if (comm->state == SMD_COMM_FAILED) {
		smd_operation_check(operation);
		return;
	}
	/* Each rank begins at another shard, so that they do not all send to one server first. */
	for (unsigned i = 0; i < nflows; i++) {
		smd_flow_pump(&comm->flows[(comm->rank + i) % nflows]);
	}
}

static void comm_leave(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, leave));
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
	context->comms[SMD_COMM_INDEX(comm->number)] = NULL;
	pthread_mutex_lock(&context->lock);
	context->uses[SMD_COMM_INDEX(comm->number)]++;
	comm->left = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

/* ---- on callers' threads ---- */

/* A free index, and how often it was used in the bits above it. -EMFILE when all are in use. */
static int comm_take_number(struct smd_context *context, uint32_t *out)
{
	int ret = -EMFILE;

	pthread_mutex_lock(&context->lock);
	for (uint32_t i = 0; i < SMD_COMMS_MAX; i++) {
		if (context->uses[i] % 2 == 0) {
			context->uses[i]++;
			*out = (context->uses[i] << SMD_COMM_INDEX_BITS) | i;
			ret = 0;
			break;
		}
	}
	pthread_mutex_unlock(&context->lock);
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
	TAILQ_INIT(&comm->operations);
	*out = comm;
	return 0;

free_flows:
	free(comm->flows);
free_comm:
	free(comm);
	return ret;
}

/* Until every shard has said JOINED, one has said ABORT, or the time is over. */
static int comm_wait_joined(struct smd_comm *comm, struct smd_error *error)
{
	struct smd_context *context = comm->context;
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += context->config.connect_timeout_s;
	pthread_mutex_lock(&context->lock);
	while (comm->state == SMD_COMM_JOINING && ret == 0) {
		ret = -pthread_cond_timedwait(&context->changed, &context->lock, &until);
	}
	if (comm->state == SMD_COMM_FAILED) {
		ret = comm->err;
		*error = comm->error;
	} else if (comm->state == SMD_COMM_JOINING) {
		ret = smd_error_set(error, ETIMEDOUT,
			"group %s: all %d ranks must join within %u s, but %s", comm->group,
			comm->nranks, context->config.connect_timeout_s,
			comm->waiting_for[0] ? comm->waiting_for
					     : "a reduction server has not answered");
	} else {
		ret = 0;
	}
	pthread_mutex_unlock(&context->lock);
	return ret;
}

int smd_comm_create(smd_context *context, const char *group, int nranks, int rank, smd_comm **out)
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
	smd_context_post(context, &comm->join);
	ret = comm_wait_joined(comm, &error);
	if (ret) {
		smd_comm_destroy(comm);
		return smd_error_remember(ret, &error);
	}
	*out = comm;
	return 0;
}

void smd_comm_destroy(smd_comm *comm)
{
	struct smd_context *context;

	if (!comm) {
		return;
	}
	context = comm->context;
	smd_context_post(context, &comm->leave);
	pthread_mutex_lock(&context->lock);
	while (!comm->left) {
		pthread_cond_wait(&context->changed, &context->lock);
	}
	pthread_mutex_unlock(&context->lock);
	free(comm->flows);
	free(comm);
}

int smd_comm_rank(const smd_comm *comm)
{
	return comm->rank;
}

int smd_comm_size(const smd_comm *comm)
{
	return comm->nranks;
}
