/* Fails communicators, and says so to their shards. */
#include "worker/libsummand/group_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/advertisement.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/group_rescue_streams.h"
#include "worker/libsummand/group_streams.h"
#include "worker/libsummand/path_staged.h"

/* Why it has failed, if it has. */
static size_t comm_encode_reason(const struct smd_comm *comm, uint8_t why[SMD_CONTROL_MAX])
{
	struct smd_abort abort = {.err = (uint32_t)-comm->err};

	if (comm->state != SMD_COMM_FAILED) {
		return 0;
	}
	if (comm->own_failure) {
		snprintf(abort.text, sizeof(abort.text),
			"group %.100s: rank %u (%.60s) cannot go on: %.300s", comm->group,
			comm->rank, comm->context->config.replica, comm->error.text);
	} else {
		memcpy(abort.text, comm->error.text, sizeof(abort.text));
	}
	return smd_abort_encode(&abort, why);
}

static void epoch_say_why(const struct smd_epoch *epoch, const uint8_t *why, size_t length)
{
	for (unsigned i = 0; i < epoch->nremotes; i++) {
		struct smd_flow *flow = &epoch->flows[i];

		if (flow->asked && !flow->dead) {
			smd_remote_send(epoch->comm->context->remotes.each[i], SMD_FRAME_LEAVE,
				epoch->receiver.number, epoch->comm->rank, why, length);
			flow->asked = false;
		}
	}
}

/* Others may have the next table already, and reach this rank through nothing else; or wait for it.
 */
static void comm_fail_candidate(struct smd_comm *comm)
{
	uint8_t why[SMD_CONTROL_MAX];
	size_t length = comm_encode_reason(comm, why);

	if (comm->candidate) {
		epoch_say_why(comm->candidate, why, length);
	}
	for (const struct smd_epoch *epoch = comm->rescues; epoch; epoch = epoch->next) {
		epoch_say_why(epoch, why, length);
	}
	comm->drop(comm);
	smd_group_rescue_end(comm);
}

void smd_group_say_leave(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;
	uint8_t why[SMD_CONTROL_MAX];
	size_t length = comm_encode_reason(comm, why);

	for (const struct smd_epoch *epoch = comm->rescues; epoch; epoch = epoch->next) {
		epoch_say_why(epoch, why, length);
	}
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			if (comm->asked && epoch->flows[i].asked && !epoch->flows[i].dead) {
				smd_remote_send(context->remotes.each[i], SMD_FRAME_LEAVE,
					epoch->receiver.number, comm->rank, why, length);
			}
			smd_group_stop_flow(epoch, i);
		}
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
	if (comm->leaving) {
		comm->drained(comm);
	}
}

void smd_group_fail(struct smd_comm *comm, int err, const char *text)
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
	comm_fail_candidate(comm);
	/* All of this is counted before anything is cancelled, since that may end operations. */
	comm->nopen = 1u + comm->settling;
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			struct smd_flow *flow = &epoch->flows[i];

			flow->open = smd_flow_is_open(flow);
			comm->nopen += flow->open;
		}
	}
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			smd_group_stop_flow(epoch, i);
		}
	}
	/* Shards that have not noticed yet must not wait for this rank, nor may others wait there.
	 */
	smd_group_say_leave(comm);
	smd_path_staged_abandon(comm);
	smd_exchanges_close(comm);
	comm->nopen--;
	comm_check_operations(comm);
}

/* No operation that needs more of it can be done. */
void smd_group_end_flow(struct smd_flow *flow, int err, const char *text)
{
	struct smd_comm *comm = flow->comm;
	uint64_t end = smd_flow_next_operation(flow);
	uint64_t lost = smd_exchanges_lost(comm);

	flow->over = true;
	flow->gone = false;
	comm_give_reason(comm, err, text);
	end = lost < end ? lost : end;
	comm->end = end < comm->end ? end : comm->end;
	if (smd_operations_are_lost(comm)) {
		smd_group_fail(comm, err, text);
	}
}

void smd_group_end_by(struct smd_flow *by, int err, const char *text)
{
	struct smd_comm *comm = by->comm;

	smd_group_end_flow(by, err, text);
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			struct smd_flow *flow = &epoch->flows[i];

			if (comm->state == SMD_COMM_ACTIVE && (flow->gone || flow->dead)) {
				smd_group_end_flow(flow, err, text);
			}
		}
	}
	smd_group_end_forming(comm);
	smd_operations_check_held(comm);
}

/* Whether streams in which lost chunks are done again wait for ranks to join. */
static bool comm_forms(const struct smd_comm *comm)
{
	for (const struct smd_epoch *epoch = comm->base.next; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			const struct smd_flow *flow = &epoch->flows[i];

			if (flow->asked && !flow->joined && !flow->dead) {
				return true;
			}
		}
	}
	return false;
}

void smd_group_end_forming(struct smd_comm *comm)
{
	if (comm->state == SMD_COMM_ACTIVE && comm->end != SMD_COMM_NO_END && comm_forms(comm)) {
		smd_group_fail(comm, comm->err, comm->error.text);
	}
}

void smd_group_flow_closed(struct smd_comm *comm, struct smd_flow *flow)
{
	if (flow->open) {
		flow->open = false;
		comm->nopen--;
		comm_check_operations(comm);
	}
}

void smd_group_settled(struct smd_comm *comm)
{
	if (comm->settling) {
		smd_progress_lock(&comm->context->progress);
		comm->settling = false;
		smd_progress_publish(&comm->context->progress);
		comm->nopen--;
		comm_check_operations(comm);
	}
}

void smd_group_fail_lost(struct smd_comm *comm, int err, const char *why)
{
	const char *lost = comm->context->lost_why.text;
	char text[SMD_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.300s%s%.200s", lost, *lost ? ", and " : "", why);
	comm->own_failure = comm->err == 0;
	smd_group_fail(comm, err, text);
}

void smd_group_fail_alone(struct smd_comm *comm)
{
	const struct smd_context *context = comm->context;
	char why[SMD_ERROR_TEXT_MAX] = "none is left of those that the group had taken in";

	if ((smd_context_first(context->ntargets) & ~context->lost) == 0) {
		comm->own_failure = comm->err == 0;
		smd_group_fail(comm, context->lost_err, context->lost_why.text);
		return;
	}
	for (unsigned t = 0; t < context->ntargets; t++) {
		if (comm->now->dead & ~context->lost & ~context->drains & 1ull << t) {
			snprintf(why, sizeof(why),
				"none is left of those that the group had taken in: %.120s is "
				"there, and was not yet",
				context->targets[t].address);
			break;
		}
	}
	smd_group_fail_lost(comm, -ECONNRESET, why);
}

/* The others need not wait until this rank's caller has noticed and left. */
void smd_group_on_fault(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, fault));

	smd_group_fail(comm, comm->fault_err, comm->fault_error.text);
}
