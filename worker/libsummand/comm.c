/* Makes communicators, gives them numbers, and takes reasons to fail from wherever they are found.
 */
#include "worker/libsummand/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/dtype.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/object.h"

void smd_comm_advance(struct smd_comm *comm)
{
	if (!comm->advances && !TAILQ_EMPTY(&comm->waiting)) {
		comm->advances = true;
		smd_progress_defer(&comm->context->progress, &comm->advance);
	}
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

void smd_comm_fault_device(struct smd_comm *comm, int err, const struct smd_error *error)
{
	char text[SMD_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "group %s: rank %u (%s) cannot use its device memory: %.200s",
		comm->group, comm->rank, comm->context->config.replica, error->text);
	smd_comm_fault(comm, err, text);
}

/* ---- on callers' threads ---- */

/* A free index, and how often it was used in the bits above it. */
int smd_comm_take_number(struct smd_context *context, uint32_t *out)
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

int smd_comm_make(struct smd_context *context, const char *group, uint16_t nranks, uint16_t rank,
	struct smd_comm **out, struct smd_error *error)
{
	struct smd_comm *comm = smd_object_create(SMD_OBJECT_COMM, sizeof(*comm));
	int ret;

	if (!comm) {
		return smd_error_set(error, ENOMEM, "group %s: out of memory", group);
	}
	comm->context = context;
	if (smd_epochs_create(comm) || smd_history_create(&comm->history)) {
		ret = smd_error_set(error, ENOMEM, "group %s: out of memory", group);
		goto free_comm;
	}
	ret = smd_comm_take_number(context, &comm->base.receiver.number);
	if (ret) {
		smd_error_set(error, -ret,
			"group %s: a context must have at most %u communicators at once", group,
			SMD_COMMS_MAX);
		goto free_comm;
	}
	snprintf(comm->group, sizeof(comm->group), "%s", group);
	comm->wire_dtype = context->config.wire_dtype;
	comm->nranks = nranks;
	comm->rank = rank;
	comm->agreement.closed = comm->base.dead;
	comm->end = SMD_COMM_NO_END;
	TAILQ_INIT(&comm->operations);
	TAILQ_INIT(&comm->waiting);
	*out = comm;
	return 0;

free_comm:
	smd_history_destroy(&comm->history);
	smd_epochs_destroy(comm);
	smd_object_end(SMD_OBJECT_COMM, comm);
	return ret;
}

void smd_comm_discard(struct smd_comm *comm)
{
	smd_history_destroy(&comm->history);
	smd_epochs_destroy(comm);
	smd_object_end(SMD_OBJECT_COMM, comm);
}

int smd_comm_check(const struct smd_comm *comm)
{
	enum smd_object_state state = smd_object_state(SMD_OBJECT_COMM, comm);
	struct smd_error error = {""};

	if (state == SMD_OBJECT_LIVES) {
		return smd_context_check_process(comm->context);
	}
	smd_error_set(&error, EINVAL,
		"communicator: must be one that smd_comm_create() has made, got %s",
		smd_object_state_text(state));
	return smd_error_remember(-EINVAL, &error);
}

void smd_comm_set_stream(smd_comm *comm, void *stream)
{
	if (smd_comm_check(comm) == 0) {
		comm->stream = stream;
	}
}

int smd_comm_set_wire(smd_comm *comm, enum smd_dtype dtype)
{
	struct smd_error error = {""};
	int ret = smd_comm_check(comm);

	if (ret == 0 && !smd_wire_is(dtype)) {
		smd_error_set(&error, EINVAL, "group %s: nothing may be sent as %s", comm->group,
			smd_dtype_name(dtype));
		ret = smd_error_remember(-EINVAL, &error);
	}
	if (ret == 0) {
		comm->wire_dtype = dtype;
	}
	return ret;
}

int smd_comm_wire(smd_comm *comm)
{
	int ret = smd_comm_check(comm);

	return ret ? ret : (int)comm->wire_dtype;
}

int smd_comm_late(smd_comm *comm, char *text, size_t size)
{
	int ret = smd_comm_check(comm);

	ret = ret ? ret : smd_check_out(size ? text : NULL);
	if (ret) {
		return ret;
	}
	smd_progress_lock(&comm->context->progress);
	snprintf(text, size, "%s", comm->late);
	ret = comm->late[0] != '\0';
	smd_progress_unlock(&comm->context->progress);
	return ret;
}

/* What they are is known in a forked child too. */
int smd_comm_rank(const smd_comm *comm)
{
	int ret = smd_comm_check(comm);

	return ret == -EINVAL ? ret : comm->rank;
}

int smd_comm_size(const smd_comm *comm)
{
	int ret = smd_comm_check(comm);

	return ret == -EINVAL ? ret : comm->nranks;
}
