/* Sends a communicator's chunks to one shard and takes the results. */
#include "worker/libsummand/flow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/advertisement.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/lead.h"
#include "worker/libsummand/tuning.h"

#define SLICE_NS 20000000u /* of what is measured, at most, about */

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
	/* A result on its way may grant one more, and no place for it: one that is there stays. */
	uint64_t next = flow->next + (flow->buffered > flow->next);
	uint64_t limit = next > flow->done ? next : flow->done + 1;

	/* What has stages must go: they are not held while other ranks are waited for. */
	limit = flow->fetched > limit ? flow->fetched : limit;
	flow->limit = limit < flow->limit ? limit : flow->limit;
	flow->buffered = flow->limit < flow->buffered ? flow->limit : flow->buffered;
	smd_remote_send_shrunk(
		flow->remote, flow->epoch->receiver.number, flow->comm->rank, flow->limit);
}

static void flow_sent(struct smd_send *send, int err)
{
	struct smd_flow_send *sent = (struct smd_flow_send *)send;
	struct smd_request *operation = sent->operation;

	sent->operation = NULL;
	sent->leaving = false;
	if (operation && sent->fetched) {
		operation->path->sent(sent);
	}
	if (operation) {
		operation->sends_pending--;
		smd_operation_check(operation);
	}
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

/* What of this rank's needs one more chunk of it: behind what has returned, and is done again. */
static const struct smd_request *flow_needed_by(const struct smd_flow *flow)
{
	struct smd_request *operation = NULL;
	struct smd_item *item;
	uint64_t chunk;

	for (uint64_t ordinal = flow->done; flow->serves && !operation; ordinal++) {
		chunk = smd_deal_chunk_of(flow->epoch->deal, flow->place, ordinal);
		if (!smd_epoch_find(flow->epoch, chunk, &operation, &chunk, &item)) {
			return NULL;
		}
	}
	return operation;
}

uint64_t smd_flow_next_operation(const struct smd_flow *flow)
{
	struct smd_comm *comm = flow->comm;
	const struct smd_request *operation = flow_needed_by(flow);

	if (operation) {
		return operation->sequence;
	}
	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (!operation->laid) { /* it is kept back until the next epoch, or for ever */
			return operation->sequence;
		}
	}
	return comm->next_operation;
}

/* Of a chunk that was lost this rank contributes the result. */
static bool flow_has_result(const struct smd_request *operation, const struct smd_item *item)
{
	return item && item->had && smd_operation_contributes_results(operation) &&
	       smd_operation_received_bytes(operation, item->chunk) > 0;
}

/* What this rank has of a chunk that was lost: its copy, the result, or its input. */
static void flow_contribute(struct smd_flow_send *send, struct smd_request *operation,
	const struct smd_item *item, struct smd_frame *frame)
{
	const struct smd_kept *kept = item->kept;

	if (kept) {
		send->send.payload = kept->bytes;
		send->send.length = kept->length;
		frame->window = kept->is_result;
		return;
	}
	if (flow_has_result(operation, item)) {
		send->send.length = (uint32_t)smd_operation_received_bytes(operation, item->chunk);
		frame->window = 1;
		if (!send->fetched) {
			send->send.payload = operation->recv +
					     smd_operation_chunk_offset(operation, item->chunk);
			send->send.extent = smd_operation_extent(operation, operation->recv);
		}
	}
}

static void flow_send_chunk(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk,
	const struct smd_item *item)
{
	struct smd_flow_send *send = &flow->sends[flow->next % SMD_FLOW_WINDOW_MAX];
	struct smd_frame frame;
	size_t offset;

	/* Its former chunk has come back as a result, which smd_flow_receive() takes only of a
	 * chunk that has left. */
	assert(!send->leaving);
	if (operation) {
		smd_operation_shape(operation, chunk, &frame);
		offset = smd_operation_chunk_offset(operation, chunk);
		send->send.payload = send->fetched ? send->fetched : operation->send + offset;
		send->send.length = (uint32_t)smd_operation_sent_bytes(operation, chunk);
		send->send.extent = send->fetched
					    ? (struct smd_extent){.length = 0}
					    : smd_operation_extent(operation, operation->send);
		operation->sends_pending++;
		if (!item || !item->had) {
			smd_flow_advertise(flow, operation, chunk);
		}
	} else {
		frame = item->kept->shape;
		send->send.extent = (struct smd_extent){.length = 0};
	}
	if (item) {
		flow_contribute(send, operation, item, &frame);
	}
	frame.comm = flow->epoch->receiver.number;
	frame.chunk = smd_deal_chunk_of(flow->epoch->deal, flow->place, flow->next);
	frame.ordinal = flow->next;
	frame.lag = (uint8_t)(flow->next - flow->done);
	frame.open = smd_operations_open(flow->comm, frame.operation);
	send->operation = operation;
	send->leaving = true;
	send->send.done = flow_sent;
	send->send.owner = &flow->epoch->receiver;
	send->send.turns = &flow->remote->turns;
	send->send.elements = true;
	send->send.remote_buffer = smd_flow_remote_buffer(flow, flow->next);
	if (flow->comm->tuning && flow->done == flow->next && flow->busy_ns == 0) {
		flow->busy_ns = smd_clock_ns();
	}
	flow->next++;
	/* The next place that the shard advertises is not of what has gone without. */
	if (flow->buffered < flow->next) {
		flow->buffered = flow->next;
	}
	smd_turns_send(&flow->remote->turns, &frame, &send->send);
}

/* As many of the operation's chunks are under way as may be before the one of that ordinal. */
static bool flow_is_full(
	const struct smd_flow *flow, const struct smd_request *operation, uint64_t ordinal)
{
	return operation && ordinal - flow->done >= operation->window;
}

/* The chunk of that ordinal waits until older ones, of other shards, are done. */
static bool flow_is_held(
	struct smd_flow *flow, const struct smd_request *operation, uint64_t ordinal)
{
	return operation &&
	       smd_lead_holds(flow, smd_deal_chunk_of(flow->epoch->deal, flow->place, ordinal),
		       operation->lead);
}

static bool flow_may_send(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk)
{
	const struct smd_path *path = operation->path;

	if (path->prepare) {
		path->prepare(operation, chunk);
	}
	return !path->may_send || path->may_send(flow, operation, chunk);
}

/* What the next chunk is of; false: it is not there, or may not go. */
static bool flow_next(struct smd_flow *flow, struct smd_request **operation, uint64_t *chunk,
	struct smd_item **item)
{
	if (!flow->serves || flow->next >= flow->limit || !smd_flow_has_lane(flow)) {
		return false;
	}
	*chunk = smd_deal_chunk_of(flow->epoch->deal, flow->place, flow->next);
	if (!smd_epoch_find(flow->epoch, *chunk, operation, chunk, item)) {
		return false;
	}
	if (flow_is_full(flow, *operation, flow->next)) {
		return false;
	}
	return !*operation || flow_may_send(flow, *operation, *chunk);
}

static void flow_wait(struct smd_flow *flow)
{
	struct smd_request *operation;
	struct smd_item *item;
	uint64_t chunk;

	if (!flow->turn.waits && flow_next(flow, &operation, &chunk, &item) &&
		!flow_is_held(flow, operation, flow->next)) {
		smd_turns_wait(&flow->remote->turns, &flow->turn,
			operation ? (uint32_t)smd_operation_sent_bytes(operation, chunk)
				  : item->kept->length);
	}
}

static void flow_take_turn(struct smd_turn *turn)
{
	struct smd_flow *flow = (struct smd_flow *)turn;
	struct smd_request *operation;
	struct smd_item *item;
	uint64_t chunk;

	if (flow_next(flow, &operation, &chunk, &item)) {
		flow_send_chunk(flow, operation, chunk, item);
		flow_wait(flow);
	}
}

void smd_flow_begin(struct smd_flow *flow, struct smd_remote *remote)
{
	flow->turn.take = flow_take_turn;
	flow->remote = remote;
}

void smd_flow_stop(struct smd_flow *flow)
{
	smd_turns_forget(&flow->remote->turns, &flow->turn);
}

/* Begins to fetch the next chunk that is not yet fetched and may be; whether it did. */
static bool flow_fetch_next(struct smd_flow *flow)
{
	const struct smd_deal *deal = flow->epoch->deal;

	flow->fetched = flow->fetched < flow->next ? flow->next : flow->fetched;
	for (; flow->fetched < flow->limit; flow->fetched++) {
		uint64_t chunk = smd_deal_chunk_of(deal, flow->place, flow->fetched);
		struct smd_request *operation;
		struct smd_item *item;
		enum smd_fetch fetch;

		/* What may not go yet would keep a stage from what another shard waits for. */
		if (!smd_epoch_find(flow->epoch, chunk, &operation, &chunk, &item) ||
			flow_is_full(flow, operation, flow->fetched) ||
			flow_is_held(flow, operation, flow->fetched)) {
			return false;
		}
		if (!operation || !operation->path->fetch) {
			continue;
		}
		fetch = operation->path->fetch(
			flow, operation, chunk, flow_has_result(operation, item));
		if (fetch != SMD_FETCH_NONE) {
			flow->fetched += fetch == SMD_FETCH_BEGUN;
			return fetch == SMD_FETCH_BEGUN;
		}
	}
	return false;
}

bool smd_flow_send(struct smd_flow *flow)
{
	bool fetches;

	/* A result may fail its communicator, which abandons stages that chunks were fetched to. */
	if (!flow->serves || !smd_flow_has_lane(flow) || flow->comm->state != SMD_COMM_ACTIVE) {
		return false;
	}
	fetches = flow->comm->fetching && flow_fetch_next(flow);
	flow_wait(flow);
	return smd_turns_step(&flow->remote->turns) || fetches;
}

static void flow_send_all(struct smd_flow *flow)
{
	while (smd_flow_send(flow)) {
	}
}

/* A result may come in pieces (wire.md): this one begins where the one before has ended. */
static int flow_check_piece(const struct smd_flow *flow, const struct smd_frame *frame,
	uint64_t first_element, size_t element_bytes, struct smd_error *error)
{
	uint32_t missing = flow->rx_bytes - flow->rx_got;
	bool more = frame->window == 0;

	if (!more && frame->length != missing) {
		return smd_error_set(
			error, EPROTO, "RESULT: length must be %u, got %u", missing, frame->length);
	}
	if (more && (frame->length == 0 || frame->length >= missing ||
			    frame->length % element_bytes || flow->remote->lane->direct)) {
		return smd_error_set(error, EPROTO,
			"RESULT: a piece must be whole elements and less than %u bytes, got %u",
			missing, frame->length);
	}
	if (flow->rx_got && frame->offset != first_element + flow->rx_got / element_bytes) {
		return smd_error_set(error, EPROTO,
			"RESULT: a piece must begin at element %llu, got %llu",
			(unsigned long long)(first_element + flow->rx_got / element_bytes),
			(unsigned long long)frame->offset);
	}
	if (flow->rx_got && flow->rx_beside && flow->remote->beside_of != flow) {
		return smd_error_set(error, EPROTO,
			"RESULT: pieces of two groups' results must not mix on a lane");
	}
	return 0;
}

/* What the result is of: the operation's chunk, or (no operation) one that is kept. */
static int flow_find_result(
	struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	uint64_t number = smd_deal_chunk_of(flow->epoch->deal, flow->place, frame->ordinal);
	struct smd_request *operation;
	struct smd_item *item;
	uint64_t chunk;

	if (!flow->serves) {
		return smd_error_set(error, EPROTO,
			"RESULT: must be of a shard that something is dealt to, and is of a spare one");
	}
	if (!smd_epoch_find(flow->epoch, number, &operation, &chunk, &item) ||
		frame->chunk != number) {
		return smd_error_set(error, EPROTO, "RESULT: chunk must be %llu, got %llu",
			(unsigned long long)number, (unsigned long long)frame->chunk);
	}
	flow->rx_operation = operation;
	flow->rx_repairs = item != NULL;
	flow->rx_number = number;
	flow->rx_chunk = chunk;
	if (!operation) {
		flow->rx_bytes = item->kept->received;
		return flow_check_piece(flow, frame, item->kept->shape.offset,
			smd_dtype_bytes(item->kept->shape.dtype), error);
	}
	flow->rx_bytes = (uint32_t)smd_operation_received_bytes(operation, chunk);
	return flow_check_piece(flow, frame,
		smd_operation_chunk_offset(operation, chunk) / operation->element_bytes,
		operation->element_bytes, error);
}

/* NULL: it is no repair. Until the result is whole more items may be added, which moves them. */
static struct smd_item *flow_item(const struct smd_flow *flow)
{
	return flow->rx_repairs ? &flow->epoch->items[flow->rx_number] : NULL;
}

/* Where the result, or its next piece, goes. Between pieces other groups' results may come. */
static void *flow_place_result(struct smd_flow *flow, bool in_pieces)
{
	struct smd_request *operation = flow->rx_operation;
	const struct smd_item *item = flow_item(flow);
	uint8_t *memory;

	if (!operation || (item && item->had)) {
		return flow->remote->sink; /* the same bits */
	}
	memory = operation->recv + smd_operation_chunk_offset(operation, flow->rx_chunk);
	if (flow->remote->lane->direct) {
		return memory;
	}
	if (!flow->rx_beside && operation->path->receive) {
		memory = operation->path->receive(flow, operation, memory);
	}
	/* The input stays until the result is whole: if the server dies it is needed again. */
	if (!flow->rx_beside && (!memory || smd_operation_overwrites(operation))) {
		flow->rx_beside = in_pieces ? flow->remote->beside : flow->remote->sink;
		flow->remote->beside_of = in_pieces ? flow : flow->remote->beside_of;
	}
	return (flow->rx_beside ? flow->rx_beside : memory) + flow->rx_got;
}

/* What the result is made of. A piece needs no more of the chunk than it has itself. */
static bool flow_has_left(const struct smd_flow *flow, const struct smd_frame *frame)
{
	const struct smd_flow_send *send = &flow->sends[frame->ordinal % SMD_FLOW_WINDOW_MAX];
	uint64_t needed = (uint64_t)flow->rx_got + frame->length;

	needed = needed < send->send.length ? needed : send->send.length;
	return !send->leaving || (frame->window == 0 && send->send.sent >= SMD_FRAME_SIZE + needed);
}

int smd_flow_receive(struct smd_flow *flow, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	int ret;

	if (frame->ordinal != flow->done || frame->ordinal >= flow->next) {
		return smd_error_set(error, EPROTO,
			"RESULT: ordinal must be %llu of %llu sent, got %llu",
			(unsigned long long)flow->done, (unsigned long long)flow->next,
			(unsigned long long)frame->ordinal);
	}
	if (!flow_has_left(flow, frame)) {
		return smd_error_set(error, EPROTO,
			"RESULT: must not come before the chunk has left, got ordinal %llu",
			(unsigned long long)frame->ordinal);
	}
	if (frame->lag > frame->ordinal) {
		return smd_error_set(error, EPROTO, "RESULT: lag must be at most %llu, got %u",
			(unsigned long long)frame->ordinal, frame->lag);
	}
	if (frame->open > frame->operation + 1) {
		return smd_error_set(error, EPROTO,
			"RESULT: open must be at most the operation's number and 1, got %u",
			frame->open);
	}
	if (flow->rx_got == 0) {
		flow->rx_beside = NULL;
	}
	ret = flow_find_result(flow, frame, error);
	if (ret == 0) {
		ret = smd_flow_check_place(flow, frame->ordinal, flow->remote->lane->direct, error);
	}
	if (ret) {
		return ret;
	}
	if (frame->length) {
		*payload = flow_place_result(flow, frame->window == 0);
	}
	return 0;
}

/* A shard with little has nothing under way for a part of the time, because its next chunk waits
 * for those of others (lead.h): that is no sign that it is fast. */
static bool flow_rests(const struct smd_flow *flow, const struct smd_request *operation)
{
	const struct smd_deal *deal = flow->epoch->deal;

	return flow->held && operation &&
	       (uint64_t)operation->lead * deal->share[flow->place] < deal->length;
}

/* Zeros that the lane did not carry since the result before. */
static void flow_count_skipped(struct smd_flow *flow)
{
	uint64_t all = flow->remote->lane->counts.bytes_skipped;

	flow->busy_skipped += all - flow->skipped;
	smd_tuning_skipped(flow->comm->tuning, all - flow->skipped);
	flow->skipped = all;
}

/* A slice ends when nothing is under way any more, or after some time. */
static void flow_measure(struct smd_flow *flow, const struct smd_request *operation, uint32_t bytes)
{
	struct smd_tuning *tuning = flow->comm->tuning;
	uint64_t now = smd_clock_ns();
	bool idle = flow->done == flow->next && !flow_rests(flow, operation);

	flow->busy_chunks++;
	flow->busy_bytes += bytes;
	if (!idle && now - flow->busy_ns < SLICE_NS) {
		return;
	}
	if (tuning && flow->epoch == flow->comm->now &&
		smd_tuning_counts(flow->busy_bytes, flow->busy_skipped)) {
		smd_tuning_slice(tuning, flow->place, flow->busy_chunks, flow->busy_bytes,
			now - flow->busy_ns);
	}
	flow->busy_ns = idle ? 0 : now;
	flow->busy_chunks = 0;
	flow->busy_bytes = 0;
	flow->busy_skipped = 0;
}

/* It is whole, with this frame. */
static int flow_finish_result(
	struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_request *operation = flow->rx_operation;
	bool direct = flow->remote->lane->direct;
	struct smd_item *item = flow_item(flow);
	bool dropped = !operation || (item && item->had);
	bool done = !dropped;
	int ret;

	flow->rx_operation = NULL;
	flow->rx_got = 0;
	smd_flow_claim(flow, flow->done, direct && !dropped ? frame->length : 0);
	if (!dropped && flow->rx_beside && operation->path->host) {
		memcpy(operation->recv + smd_operation_chunk_offset(operation, flow->rx_chunk),
			flow->rx_beside, flow->rx_bytes);
	}
	if (item) {
		item->had = true;
	}
	flow->done++;
	smd_operations_heard_open(flow->comm, frame);
	ret = smd_flow_take_remote_buffers(flow, error);
	if (ret) {
		return ret;
	}
	smd_flow_grant(flow, frame->window);
	if (!dropped && operation->path->received) {
		done = operation->path->received(flow, operation, direct);
	}
	flow_send_all(flow);
	smd_lead_advance(flow->epoch, flow_send_all);
	if (flow->comm->tuning) {
		flow_count_skipped(flow);
	}
	if (flow->busy_ns) {
		flow_measure(flow, operation, flow->rx_bytes);
	}
	if (operation && operation->pieces) { /* which ranks have not done (exchange.h) */
		operation->pieces_done += done;
	} else if (operation) {
		operation->chunks_done += done;
	}
	if (operation) { /* it may end here, or ask what it could not before this result */
		smd_operation_check(operation);
	}
	smd_flow_held(flow, frame->ordinal - frame->lag);
	smd_flow_ask_held(flow); /* what it holds for may be here now, and be of no operation */
	if (flow->tell) {
		smd_flow_asked_held(flow, flow->done);
	}
	return 0;
}

int smd_flow_received(struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error)
{
	if (frame->length < flow->rx_bytes - flow->rx_got) {
		flow->rx_got += frame->length;
		flow->rx_operation = NULL;
		return 0;
	}
	return flow_finish_result(flow, frame, error);
}

void smd_flow_die(struct smd_flow *flow)
{
	flow->dead = true;
	flow->rx_got = 0;
	flow->rx_operation = NULL;
	flow->rx_repairs = false;
}
