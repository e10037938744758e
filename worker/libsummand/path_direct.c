/* Lets network cards read and write registered device memory, or fails the communicator. */
#include "worker/libsummand/path_direct.h"

#include <errno.h>

#include "reduction_server/wire/collective.h"
#include "worker/libsummand/flow.h"

static void direct_refuse(struct smd_request *operation, const char *what)
{
	struct smd_error error = {""};

	smd_error_set(&error, ENOTSUP, "%s", what);
	smd_comm_fault_device(operation->comm, -ENOTSUP, &error);
}

static bool direct_may_send(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	size_t bytes = smd_operation_received_bytes(operation, chunk);

	if (operation->writes_device && bytes &&
		!smd_lane_can_dma(flow->remote->lane,
			operation->recv + smd_operation_chunk_offset(operation, chunk),
			(uint32_t)bytes)) {
		direct_refuse(operation, "the network card does not write there");
		return false;
	}
	if (!operation->reads_device ||
		smd_flow_sends_directly(flow, operation, chunk, flow->next)) {
		return true;
	}
	if (flow->next < flow->buffered) { /* else a buffer may still be advertised */
		direct_refuse(operation, "the reduction server has no buffer for a chunk");
	}
	return false;
}

static void *direct_place(
	struct smd_flow *flow, struct smd_request *operation, void *memory, size_t bytes)
{
	bool may = operation->writes_device
			   ? bytes && smd_lane_can_dma(flow->remote->lane, memory, (uint32_t)bytes)
			   : bytes > SMD_DIRECT_ABOVE;

	return may ? memory : NULL;
}

static void *direct_receive(struct smd_flow *flow, struct smd_request *operation, void *memory)
{
	(void)flow;
	return operation->writes_device ? NULL : memory;
}

static bool direct_received(struct smd_flow *flow, struct smd_request *operation, bool direct)
{
	(void)flow;
	if (!operation->writes_device || direct) {
		return true;
	}
	direct_refuse(operation, "a result came otherwise than into its buffer");
	return false;
}

static const char *direct_why_lost(const struct smd_request *operation)
{
	(void)operation;
	return "network cards use its memory of a device themselves";
}

static const struct smd_path path_direct = {
	.name = "direct",
	.may_send = direct_may_send,
	.place = direct_place,
	.receive = direct_receive,
	.received = direct_received,
	.why_lost = direct_why_lost,
};

bool smd_path_direct_takes(struct smd_request *operation)
{
	struct smd_registrations *registrations = &operation->comm->context->registrations;
	size_t bytes = operation->count * operation->element_bytes;
	unsigned rank = operation->comm->rank;

	if (bytes) {
		operation->reads_device =
			smd_collective_sends(operation->collective, operation->root, rank) &&
			smd_registrations_cover_device(registrations, operation->send, bytes);
		operation->writes_device =
			smd_collective_receives(operation->collective, operation->root, rank) &&
			smd_registrations_cover_device(registrations, operation->recv, bytes);
	}
	if (operation->reads_device || operation->writes_device) {
		operation->path = &path_direct;
	}
	return operation->path != NULL;
}
