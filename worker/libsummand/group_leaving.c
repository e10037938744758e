/* Leaves when nobody can need this rank any more. */
#include "worker/libsummand/group_leaving.h"

#include <event2/event.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/epoch_memory.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_rescue_streams.h"
#include "worker/libsummand/path_staged.h"
#include "worker/libsummand/settle.h"

static void comm_leave(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;

	comm->drop(comm);
	smd_context_forgets(context, &comm->history);
	smd_epoch_memory_forget(comm);
	smd_group_say_leave(comm);
	smd_group_rescue_end(comm);
	smd_path_staged_abandon(comm);
	smd_exchanges_close(comm);
	smd_exchanges_count(comm, &context->mesh_counts);
	if (comm->leaving) {
		event_free(comm->leaving);
		comm->leaving = NULL;
	}
	smd_progress_lock(&context->progress);
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		context->comms[SMD_COMM_INDEX(epoch->receiver.number)] = NULL;
		context->uses[SMD_COMM_INDEX(epoch->receiver.number)]++;
	}
	comm->left = true;
	smd_progress_publish(&context->progress);
}

static void comm_on_leaving(evutil_socket_t fd, short what, void *arg)
{
	struct smd_comm *comm = arg;

	(void)fd;
	(void)what;
	if (comm->state == SMD_COMM_ACTIVE && !comm->err && !smd_history_is_empty(&comm->history)) {
		smd_log(SMD_LOG_INFO, "libsummand",
			"group %s: left, though some rank has not said that it has all results",
			comm->group);
	}
	comm_leave(comm);
}

/* Not inside a callback of a lane: its frames are still looked at. */
void smd_group_drained(struct smd_comm *comm)
{
	const struct timeval now = {0, 0};

	evtimer_add(comm->leaving, &now);
}

void smd_group_leave(struct smd_task *task)
{
	struct smd_comm *comm =
		(struct smd_comm *)((char *)task - offsetof(struct smd_comm, leave));
	uint64_t us = smd_context_patience_ns(comm->context) / 1000;
	const struct timeval patience = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

	if (comm->state == SMD_COMM_ACTIVE && !comm->err && !smd_history_is_empty(&comm->history)) {
		comm->leaving = evtimer_new(comm->context->progress.base, comm_on_leaving, comm);
	}
	if (!comm->leaving || evtimer_add(comm->leaving, &patience)) {
		comm_leave(comm);
		return;
	}
	smd_settle_history(comm);
}
