/* Leaves streams at servers outside the table. */
#include "worker/libsummand/group_rescue_streams.h"

#include <event2/event.h>

#include "worker/libsummand/context.h"
#include "worker/libsummand/epoch_rescue.h"
#include "worker/libsummand/group_streams.h"

bool smd_group_may_rescue(const struct smd_comm *comm)
{
	uint64_t known = smd_context_first(comm->context->ntargets);

	return comm->state != SMD_COMM_FAILED && comm->asked && comm->agreement.closed & known &&
	       comm->end == SMD_COMM_NO_END && !comm->err;
}

void smd_group_rescue_note(struct smd_comm *comm, int err, const char *text)
{
	comm->rescue_err = err;
	smd_error_set(&comm->rescue_why, -err, "%s", text);
}

void smd_group_rescue_leave(struct smd_comm *comm, uint64_t targets)
{
	struct smd_epoch **at = &comm->rescues;

	while (*at) {
		struct smd_epoch *rescue = *at;

		if (~rescue->dead & targets) {
			*at = rescue->next;
			smd_group_leave_epoch(rescue);
		} else {
			at = &rescue->next;
		}
	}
}

void smd_group_rescue_say_lost(const struct smd_flow *flow)
{
	const struct smd_comm *comm = flow->comm;
	struct smd_frame frame = {
		.kind = SMD_FRAME_LOST,
		.comm = flow->epoch->receiver.number,
		.rank = comm->rank,
		.operation = smd_rescue_lost_table(comm),
		.ordinal = comm->now->index,
	};

	if (frame.operation && flow->asked && !flow->joined && !flow->dead && !flow->over) {
		smd_remote_send_frame(flow->remote, &frame, NULL, 0);
	}
}

void smd_group_rescue_stop(struct smd_comm *comm)
{
	if (comm->rescue_late) {
		event_free(comm->rescue_late);
		comm->rescue_late = NULL;
	}
	comm->rescue_until_ns = 0;
	comm->rescue_gone = false;
	comm->rescue_told = false;
	comm->rescue_whole = false;
	comm->rescue_why.text[0] = '\0';
}

void smd_group_rescue_rests(struct smd_comm *comm, uint64_t serving)
{
	smd_group_rescue_leave(comm, serving | smd_rescue_over(comm) | comm->context->drains);
	smd_group_rescue_stop(comm);
}

void smd_group_rescue_drains(struct smd_comm *comm)
{
	if (!comm->rescue_late) {
		smd_group_rescue_leave(comm, comm->context->drains);
	}
}

void smd_group_rescue_end(struct smd_comm *comm)
{
	smd_group_rescue_rests(comm, UINT64_MAX);
}

void smd_group_rescue_ended(struct smd_flow *flow, int err, const char *text)
{
	struct smd_comm *comm = flow->comm;

	flow->over = true;
	if (comm->rescue_late) {
		smd_group_rescue_note(comm, err, text);
	}
	comm->rescue_changed(comm);
}
