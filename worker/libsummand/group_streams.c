/* Says LEAVE in streams of a communicator that goes on. */
#include "worker/libsummand/group_streams.h"

#include "worker/libsummand/epoch.h"

void smd_group_stop_flow(struct smd_epoch *epoch, unsigned i)
{
	if (epoch->flows[i].remote) {
		smd_flow_stop(&epoch->flows[i]);
	}
	smd_remote_cancel(epoch->comm->context->remotes.each[i], &epoch->receiver);
}

static void stream_leave(struct smd_epoch *epoch, unsigned i)
{
	struct smd_comm *comm = epoch->comm;
	struct smd_frame frame = {
		.kind = SMD_FRAME_LEAVE,
		.comm = epoch->receiver.number,
		.rank = comm->rank,
		.window = 1, /* the rank stays in the communicator */
	};

	if (epoch->flows[i].asked && !epoch->flows[i].dead) {
		smd_remote_send_frame(comm->context->remotes.each[i], &frame, NULL, 0);
	}
	smd_group_stop_flow(epoch, i);
}

void smd_group_leave_before(struct smd_comm *comm, uint32_t index)
{
	for (struct smd_epoch *epoch = comm->base.next; epoch && epoch->index < index;
		epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			struct smd_flow *flow = &epoch->flows[i];

			if (flow->asked && !flow->dead) {
				stream_leave(epoch, i);
				smd_flow_die(flow);
				flow->left = true;
			}
		}
	}
}

void smd_group_leave_epoch(struct smd_epoch *epoch)
{
	struct smd_context *context = epoch->comm->context;
	unsigned index = SMD_COMM_INDEX(epoch->receiver.number);

	for (unsigned i = 0; i < epoch->nremotes; i++) {
		stream_leave(epoch, i);
	}
	smd_progress_lock(&context->progress);
	context->comms[index] = NULL;
	context->uses[index]++;
	smd_progress_unlock(&context->progress);
	smd_epoch_free(epoch);
}

void smd_group_leave_servers(struct smd_comm *comm, uint64_t targets)
{
	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nremotes; i++) {
			struct smd_flow *flow = &epoch->flows[i];

			if (!(targets >> flow->target & 1) || flow->died ||
				(!flow->serves && !flow->asked)) {
				continue;
			}
			stream_leave(epoch, i);
			smd_flow_die(flow);
			flow->left = true;
			flow->died = comm->now->index;
			flow->lost_from = flow->done; /* nothing: all ranks have all of it */
		}
	}
}
