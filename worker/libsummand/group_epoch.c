/* Goes on by the next epoch. */
#include "worker/libsummand/group_epoch.h"

#include <errno.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_joining.h"
#include "worker/libsummand/group_receiver.h"
#include "worker/libsummand/repair.h"
#include "worker/libsummand/settle.h"

/* While this rank is sealed, it keeps back what it has promised not to begin. */
bool smd_group_lay(struct smd_request *operation)
{
	const struct smd_epoch_agreement *agreement = &operation->comm->agreement;
	struct smd_error error = {""};
	int ret;

	if (agreement->sealed && operation->sequence >= agreement->promised) {
		return false;
	}
	ret = smd_repair_lay(operation, &error);
	if (ret) {
		smd_group_fail_lost(operation->comm, ret, error.text);
	}
	return ret == 0;
}

void smd_group_adopt(struct smd_comm *comm, const struct smd_epoch_record *record)
{
	struct smd_context *context = comm->context;
	struct smd_error error = {""};
	struct smd_epoch *epoch = NULL;
	struct smd_request *operation;
	int ret = smd_repair_add(comm, record, &epoch, &error);

	if (epoch && smd_comm_take_number(context, &epoch->receiver.number)) {
		ret = smd_error_set(&error, EMFILE, "no number is free for new streams");
	} else if (epoch) {
		epoch->receiver.ops = &smd_group_epoch_receiver;
		context->comms[SMD_COMM_INDEX(epoch->receiver.number)] = &epoch->receiver;
	}
	if (ret) {
		smd_group_fail_lost(comm, ret, error.text);
		return;
	}
	smd_log(SMD_LOG_INFO, "libsummand",
		"group %s: epoch %u, from operation %llu on, with %u shards; %llu chunks are done "
		"again",
		comm->group, epoch->index, (unsigned long long)epoch->first, epoch->nserving,
		(unsigned long long)epoch->nitems);
	for (unsigned i = 0; i < epoch->nserving; i++) {
		struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

		smd_flow_begin(flow, context->remotes.each[epoch->remotes[i]]);
		smd_group_ask(flow);
	}
	for (operation = TAILQ_FIRST(&comm->operations);
		operation && comm->state == SMD_COMM_ACTIVE;
		operation = TAILQ_NEXT(operation, link)) {
		if (!operation->laid && !smd_group_lay(operation)) {
			break;
		}
	}
	smd_operations_check_held(comm);
	if (comm->leaving) {
		smd_settle_history(comm);
	}
	comm->pump(comm);
}
