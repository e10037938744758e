/* Sends a communicator's chunks to one shard and takes the results. */
#include "worker/libsummand/flow.h"

#include <assert.h>
#include <errno.h>

bool smd_flow_sends_directly(const struct smd_flow *flow, const struct smd_request *operation,
	uint64_t chunk, uint64_t ordinal)
{
	size_t bytes = smd_operation_chunk_bytes(operation, chunk);

	return bytes <= smd_flow_remote_buffer(flow, ordinal).length &&
	       smd_lane_can_dma(flow->remote->lane,
		       operation->send + smd_operation_chunk_offset(operation, chunk),
		       (uint32_t)bytes);
}

void smd_flow_grant(struct smd_flow *flow, unsigned window)
{
	uint64_t limit;

	if (window > SMD_FLOW_WINDOW_MAX) {
		window = SMD_FLOW_WINDOW_MAX;
	}
	limit = flow->done + window;
	if (limit > flow->limit) {
		flow->limit = limit;
	}
}

void smd_flow_shrink(struct smd_flow *flow)
{
	uint64_t limit = flow->next > flow->done ? flow->next : flow->done + 1;

	flow->limit = limit < flow->limit ? limit : flow->limit;
	flow->buffered = flow->limit < flow->buffered ? flow->limit : flow->buffered;
	smd_remote_send_shrunk(
		flow->remote, flow->comm->receiver.number, flow->comm->rank, flow->limit);
}

static void flow_sent(struct smd_send *send, int err)
{
	struct smd_flow_send *sent = (struct smd_flow_send *)send;
	struct smd_request *operation = sent->operation;

	sent->operation = NULL;
	if (sent->fetched) {
		operation->path->sent(sent);
	}
	operation->sends_pending--;
	smd_operation_check(operation);
	smd_turns_sent(send->turns, send, err); /* a lane that ends fails the communicator */
}

int smd_flow_take_remote_buffers(struct smd_flow *flow, struct smd_error *error)
{
	const struct smd_lane *lane = flow->remote->lane;

	for (unsigned i = 0; i < lane->nremote_buffers; i++) {
		if (flow->buffered - flow->done >= SMD_FLOW_WINDOW_MAX) {
			return smd_error_set(error, EPROTO,
				"remote buffers: there must be at most %d for chunks that are not "
				"done",
				SMD_FLOW_WINDOW_MAX);
		}
		flow->remote_buffers[flow->buffered++ % SMD_FLOW_WINDOW_MAX] =
			lane->remote_buffers[i];
	}
	return 0;
}

static struct smd_extent flow_extent(const struct smd_request *operation, const void *buffer)
{
	return (struct smd_extent){(void *)buffer, operation->count * operation->element_bytes};
}

static bool flow_advertises(const struct smd_flow *flow, const struct smd_request *operation,
	const void *memory, size_t bytes)
{
	return operation->path->advertises
		       ? operation->path->advertises(flow, operation, memory, bytes)
		       : bytes > SMD_DIRECT_ABOVE;
}

/* Advertises the memory that the chunk's result is for, if the lane can have it written to. */
static void flow_advertise(
	struct smd_flow *flow, const struct smd_request *operation, uint64_t chunk)
{
	struct smd_lane *lane = flow->remote->lane;
	size_t bytes = smd_operation_received_bytes(operation, chunk);
	uint8_t *memory = operation->recv + smd_operation_chunk_offset(operation, chunk);

	if (smd_lane_can_advertise(lane) && flow_advertises(flow, operation, memory, bytes)) {
		flow->advertisements[flow->next % SMD_FLOW_WINDOW_MAX] = smd_lane_advertise(
			lane, memory, (uint32_t)bytes, flow_extent(operation, operation->recv));
	}
}

static void flow_revoke(struct smd_flow *flow, uint64_t ordinal)
{
	struct smd_advertisement **advertisement =
		&flow->advertisements[ordinal % SMD_FLOW_WINDOW_MAX];

	if (*advertisement) {
		smd_lane_revoke(flow->remote->lane, *advertisement);
		*advertisement = NULL;
	}
}

uint64_t smd_flow_next_operation(const struct smd_flow *flow)
{
	struct smd_comm *comm = flow->comm;
	uint64_t chunk = smd_deal_chunk_of(&comm->context->deal, flow->remote->index, flow->done);
	const struct smd_request *operation = smd_operation_find(comm, chunk);

	return operation ? operation->sequence : comm->next_operation;
}

bool smd_flow_is_open(const struct smd_flow *flow)
{
	for (unsigned k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		if (flow->advertisements[k]) {
			return true;
		}
	}
	return false;
}

void smd_flow_revoke_all(struct smd_flow *flow)
{
	for (uint64_t k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		flow_revoke(flow, k);
	}
}

void smd_flow_forget_advertisements(struct smd_flow *flow)
{
	for (unsigned k = 0; k < SMD_FLOW_WINDOW_MAX; k++) {
		flow->advertisements[k] = NULL;
	}
}

static void flow_send_chunk(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	struct smd_flow_send *send = &flow->sends[flow->next % SMD_FLOW_WINDOW_MAX];
	size_t offset = smd_operation_chunk_offset(operation, chunk);
	struct smd_frame frame = {
		.kind = SMD_FRAME_INPUT,
		.dtype = (uint8_t)operation->dtype,
		.op = (uint8_t)operation->op,
		.collective = (uint8_t)operation->collective,
		.root = (uint16_t)operation->root,
		.comm = flow->comm->receiver.number,
		.rank = flow->comm->rank,
		.chunk = chunk,
		.operation = operation->sequence,
		.count = operation->count,
		.offset = offset / operation->element_bytes,
		.ordinal = flow->next,
	};

	/* Its former chunk has come back as a result, which smd_flow_receive() takes only of a
	 * chunk that has left. */
	assert(!send->operation);
	send->operation = operation;
	send->send.payload = send->fetched ? send->fetched : operation->send + offset;
	send->send.length = (uint32_t)smd_operation_sent_bytes(operation, chunk);
	send->send.done = flow_sent;
	send->send.owner = &flow->comm->receiver;
	send->send.turns = &flow->remote->turns;
	send->send.remote_buffer = smd_flow_remote_buffer(flow, flow->next);
	send->send.extent = send->fetched ? (struct smd_extent){.length = 0}
					  : flow_extent(operation, operation->send);
	flow_advertise(flow, operation, chunk);
	operation->sends_pending++;
	flow->next++;
	smd_turns_send(&flow->remote->turns, &frame, &send->send);
}

/* The operation that the next chunk is of; NULL: it is not there, or may not go. */
static struct smd_request *flow_next(struct smd_flow *flow, uint64_t *chunk)
{
	struct smd_request *operation;

	if (flow->next == flow->limit) {
		return NULL;
	}
	*chunk = smd_deal_chunk_of(&flow->comm->context->deal, flow->remote->index, flow->next);
	operation = smd_operation_find(flow->comm, *chunk);
	if (!operation) {
		return NULL;
	}
	if (operation->path->may_send && !operation->path->may_send(flow, operation, *chunk)) {
		return NULL;
	}
	return operation;
}

static void flow_wait(struct smd_flow *flow)
{
	uint64_t chunk;
	const struct smd_request *operation = flow->turn.waits ? NULL : flow_next(flow, &chunk);

	if (operation) {
		smd_turns_wait(&flow->remote->turns, &flow->turn,
			(uint32_t)smd_operation_sent_bytes(operation, chunk));
	}
}

static void flow_take_turn(struct smd_turn *turn)
{
	struct smd_flow *flow = (struct smd_flow *)turn;
	uint64_t chunk;
	struct smd_request *operation = flow_next(flow, &chunk);

	if (operation) {
		flow_send_chunk(flow, operation, chunk);
		flow_wait(flow);
	}
}

void smd_flow_begin(struct smd_flow *flow, struct smd_comm *comm, struct smd_remote *remote)
{
	flow->turn.take = flow_take_turn;
	flow->comm = comm;
	flow->remote = remote;
}

void smd_flow_stop(struct smd_flow *flow)
{
	smd_turns_forget(&flow->remote->turns, &flow->turn);
}

/* Begins to fetch the next chunk that is not yet fetched and may be; whether it did. */
static bool flow_fetch_next(struct smd_flow *flow)
{
	const struct smd_deal *deal = &flow->comm->context->deal;

	flow->fetched = flow->fetched < flow->next ? flow->next : flow->fetched;
	for (; flow->fetched < flow->limit; flow->fetched++) {
		uint64_t chunk = smd_deal_chunk_of(deal, flow->remote->index, flow->fetched);
		struct smd_request *operation = smd_operation_find(flow->comm, chunk);
		enum smd_fetch fetch;

		if (!operation) {
			return false;
		}
		if (!operation->path->fetch) {
			continue;
		}
		fetch = operation->path->fetch(flow, operation, chunk);
		if (fetch != SMD_FETCH_NONE) {
			flow->fetched += fetch == SMD_FETCH_BEGUN;
			return fetch == SMD_FETCH_BEGUN;
		}
	}
	return false;
}

bool smd_flow_send(struct smd_flow *flow)
{
	bool fetches = flow->comm->fetching && flow_fetch_next(flow);

	flow_wait(flow);
	return smd_turns_step(&flow->remote->turns) || fetches;
}

int smd_flow_receive(struct smd_flow *flow, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	const struct smd_deal *deal = &flow->comm->context->deal;
	struct smd_request *operation;
	size_t bytes;
	uint64_t chunk;

	if (frame->ordinal != flow->done || frame->ordinal >= flow->next) {
		return smd_error_set(error, EPROTO,
			"RESULT: ordinal must be %llu of %llu sent, got %llu",
			(unsigned long long)flow->done, (unsigned long long)flow->next,
			(unsigned long long)frame->ordinal);
	}
	if (flow->sends[frame->ordinal % SMD_FLOW_WINDOW_MAX].operation) {
		return smd_error_set(error, EPROTO,
			"RESULT: must not come before the chunk has left, got ordinal %llu",
			(unsigned long long)frame->ordinal);
	}
	chunk = smd_deal_chunk_of(deal, flow->remote->index, frame->ordinal);
	operation = smd_operation_find(flow->comm, chunk);
	if (!operation || frame->chunk != chunk) {
		return smd_error_set(error, EPROTO, "RESULT: chunk must be %llu, got %llu",
			(unsigned long long)chunk, (unsigned long long)frame->chunk);
	}
	bytes = smd_operation_received_bytes(operation, chunk);
	if (frame->length != bytes) {
		return smd_error_set(
			error, EPROTO, "RESULT: length must be %zu, got %u", bytes, frame->length);
	}
	if (flow->remote->lane->direct &&
		!flow->advertisements[frame->ordinal % SMD_FLOW_WINDOW_MAX]) {
		return smd_error_set(error, EPROTO,
			"RESULT: must not be written to a buffer that was not advertised, got "
			"ordinal "
			"%llu",
			(unsigned long long)frame->ordinal);
	}
	flow->rx_operation = operation;
	if (bytes == 0) {
		return 0;
	}
	*payload = operation->recv + smd_operation_chunk_offset(operation, chunk);
	if (operation->path->receive && !flow->remote->lane->direct) {
		*payload = operation->path->receive(flow, operation, *payload);
	}
	return 0;
}

int smd_flow_received(struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_request *operation = flow->rx_operation;
	bool direct = flow->remote->lane->direct;
	bool done = true;
	int ret;

	flow->rx_operation = NULL;
	flow_revoke(flow, flow->done);
	flow->done++;
	ret = smd_flow_take_remote_buffers(flow, error);
	if (ret) {
		return ret;
	}
	smd_flow_grant(flow, frame->window);
	if (operation->path->received) {
		done = operation->path->received(flow, operation, frame, direct);
	}
	while (smd_flow_send(flow)) {
	}
	operation->chunks_done += done;
	smd_operation_check(operation);
	return 0;
}
