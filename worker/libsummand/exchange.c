/* Begins exchanges, sums at the hub, and takes what other ranks send. */
#include "worker/libsummand/exchange.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/base/log.h"
#include "reduction_server/kernels/kernels.h"
#include "worker/libsummand/exchange_watch.h"

#define OPERATIONS_PER_HUB 16u
#define BLOCK_BYTES        4096u

static struct smd_mesh_peer *peer_of(const struct smd_exchanges *exchanges, unsigned rank)
{
	return &exchanges->mesh->peers[rank];
}

/*
 * Ranks take turns, so that all links and processors have their part: with the pieces of an
 * operation, and with every few operations. One operation after another has the same hub for a
 * while, because then its times are of one kind. Rank 0, which measures, is not the first.
 */
static unsigned hub_of(const struct smd_comm *comm, uint64_t sequence, uint64_t piece)
{
	return comm->nranks - 1u -
	       (unsigned)((sequence / OPERATIONS_PER_HUB + piece) % comm->nranks);
}

/* Two at least, where that does not make them small: so two ranks sum at a time. Each is a chunk
 * that servers take, which may have to do it. */
static uint64_t piece_elements(const struct smd_comm *comm, uint64_t count, size_t element_bytes)
{
	uint32_t chunk = comm->context->deal.chunk_bytes;
	uint64_t half = (count + 1) / 2;
	uint64_t least = SMD_PIECE_BYTES_MIN / element_bytes;
	uint64_t most = (chunk < SMD_PIECE_BYTES_MAX ? chunk : SMD_PIECE_BYTES_MAX) / element_bytes;
	uint64_t wanted = half < least ? least : half;

	return wanted < most ? wanted : most;
}

/* ---- operations ---- */

bool smd_exchange_may_take(const struct smd_request *operation)
{
	return operation->count && !operation->whole &&
	       operation->collective == SMD_COLLECTIVE_ALLREDUCE && operation->path->host;
}

bool smd_exchange_takes(const struct smd_request *operation, const struct smd_epoch *home)
{
	return smd_exchange_may_take(operation) &&
	       operation->count * operation->element_bytes <= home->exchanged &&
	       operation->comm->exchanges && operation->comm->exchanges->mesh;
}

int smd_exchange_lay(struct smd_request *operation)
{
	struct smd_exchanges *exchanges = operation->comm->exchanges;
	uint64_t most = piece_elements(operation->comm, operation->count, operation->element_bytes);

	operation->chunk_elements = most;
	for (uint64_t first = 0; first < operation->count; first += most) {
		struct smd_exchange_piece *piece = smd_exchange_piece_add(exchanges);
		uint64_t left = operation->count - first;

		if (!piece) {
			return -ENOMEM;
		}
		operation->first_piece = operation->pieces ? operation->first_piece : piece;
		piece->operation = operation;
		piece->chunk = operation->first_chunk + operation->pieces;
		piece->first = first;
		piece->count = left < most ? left : most;
		piece->hub = hub_of(operation->comm, operation->sequence, operation->pieces);
		piece->bytes = piece->count * operation->element_bytes;
		operation->pieces++;
	}
	return 0;
}

void smd_exchange_end(struct smd_request *operation)
{
	struct smd_exchanges *exchanges = operation->comm->exchanges;
	struct smd_exchange_piece *piece = operation->first_piece;

	for (unsigned i = 0; i < operation->pieces; i++) {
		struct smd_exchange_piece *next = TAILQ_NEXT(piece, link);

		smd_exchange_piece_end(exchanges, piece);
		piece = next;
	}
}

/* ---- ranks that ask for different things ---- */

static bool asks_for_the_same(const struct smd_frame *theirs, const struct smd_request *ours)
{
	return theirs->collective == ours->collective && theirs->dtype == ours->dtype &&
	       theirs->op == ours->op && theirs->count == ours->count;
}

void smd_exchange_refuse(const struct smd_request *operation)
{
	struct smd_exchanges *exchanges = operation->comm->exchanges;
	const struct smd_exchange_input *input;

	if (!exchanges) {
		return;
	}
	TAILQ_FOREACH (input, &exchanges->waiting, link) {
		if (input->shape.operation == operation->sequence) {
			smd_exchange_disagrees(operation->comm,
				peer_of(exchanges, input->shape.rank), &input->shape, operation);
			return;
		}
	}
}

/* ---- sending ---- */

static void piece_sent(struct smd_send *send, int err)
{
	struct smd_request *operation = send->owner;

	(void)err; /* a lane that ends is told by itself */
	operation->sends_pending--;
	smd_operation_check(operation);
}

static void send_to(struct smd_exchange_piece *piece, unsigned rank, enum smd_frame_kind kind,
	const uint8_t *elements)
{
	struct smd_request *operation = piece->operation;
	struct smd_mesh_peer *peer = peer_of(operation->comm->exchanges, rank);
	struct smd_send *send = &piece->sends[rank];
	struct smd_frame frame;

	if (!peer->lane) {
		return;
	}
	smd_operation_shape(operation, piece->chunk, &frame);
	frame.kind = (uint8_t)kind;
	frame.ordinal = smd_exchanges_missing(operation->comm->exchanges);
	*send = (struct smd_send){.payload = elements + piece->first * operation->element_bytes,
		.length = (uint32_t)piece->bytes,
		.elements = true,
		.done = piece_sent,
		.owner = operation};
	operation->sends_pending++;
	smd_lane_send(peer->lane, &frame, send);
}

/* Its result is here: the next piece may begin. */
static void piece_done(struct smd_exchange_piece *piece)
{
	struct smd_exchanges *exchanges = piece->operation->comm->exchanges;

	piece->has_result = true;
	piece->operation->pieces_done++;
	exchanges->done = piece->number < exchanges->done ? exchanges->done : piece->number + 1;
	exchanges->begun--;
	exchanges->begun_bytes -= piece->bytes;
}

/* Into the memory of another rank's input, where it is kept (exchange_piece.h), and from there to
 * the caller: by blocks, of which all is in the first cache. */
static void sum_to(struct smd_exchange_piece *piece, uint8_t *recv, const void **inputs)
{
	const struct smd_request *operation = piece->operation;
	smd_kernel *kernel = smd_kernel_find(operation->dtype, operation->op);
	size_t size = operation->element_bytes;
	uint64_t most = BLOCK_BYTES / size;

	for (uint64_t done = 0; done < piece->count; done += most) {
		uint64_t n = piece->count - done < most ? piece->count - done : most;

		kernel(piece->result + done * size, inputs, operation->comm->nranks, n);
		memcpy(recv + done * size, piece->result + done * size, n * size);
		for (unsigned r = 0; r < operation->comm->nranks; r++) {
			inputs[r] = (const uint8_t *)inputs[r] + n * size;
		}
	}
}

/* At the hub, which has all inputs. */
static void piece_sum(struct smd_exchange_piece *piece)
{
	struct smd_request *operation = piece->operation;
	struct smd_comm *comm = operation->comm;
	size_t offset = piece->first * operation->element_bytes;
	const void *inputs[SMD_MESH_RANKS_MAX];

	for (unsigned r = 0; r < comm->nranks; r++) {
		inputs[r] = r == comm->rank ? operation->send + offset : piece->inputs[r]->bytes;
	}
	piece->result = piece->inputs[comm->rank == 0]->bytes;
	sum_to(piece, operation->recv + offset, inputs);
	piece_done(piece);
	smd_exchange_inputs_give_back(comm->exchanges, piece);
	for (unsigned k = 1; k < comm->nranks; k++) {
		send_to(piece, (comm->rank + k) % comm->nranks, SMD_FRAME_RESULT, operation->recv);
	}
}

/* The hub has this input now. */
static void piece_has(struct smd_exchange_piece *piece, struct smd_exchange_input *input)
{
	struct smd_request *operation = piece->operation;

	if (!asks_for_the_same(&input->shape, operation)) {
		smd_exchange_disagrees(operation->comm,
			peer_of(operation->comm->exchanges, input->shape.rank), &input->shape,
			operation);
	} else if (--piece->missing == 0) {
		piece_sum(piece);
	}
}

/* It has waited for this rank. */
static struct smd_exchange_input *take_waiting(
	struct smd_exchanges *exchanges, const struct smd_exchange_piece *piece, unsigned rank)
{
	struct smd_exchange_input *input;

	TAILQ_FOREACH (input, &exchanges->waiting, link) {
		if (input->shape.operation == piece->operation->sequence &&
			input->shape.offset == piece->first && input->shape.rank == rank) {
			TAILQ_REMOVE(&exchanges->waiting, input, link);
			exchanges->nwaiting[rank]--;
			exchanges->waiting_bytes[rank] -= input->shape.length;
			return input;
		}
	}
	return NULL;
}

static void piece_begin(struct smd_exchange_piece *piece)
{
	struct smd_request *operation = piece->operation;
	struct smd_comm *comm = operation->comm;
	struct smd_exchanges *exchanges = comm->exchanges;

	piece->begun = true;
	exchanges->next = TAILQ_NEXT(piece, link);
	piece->begun_ns = smd_clock_ns();
	exchanges->begun++;
	exchanges->begun_bytes += piece->bytes;
	smd_exchange_watch_begin(exchanges);
	operation->sends_pending++; /* it does not end in here */
	if (operation->path->prepare) {
		operation->path->prepare(operation, piece->chunk);
	}
	if (piece->hub != comm->rank) {
		send_to(piece, piece->hub, SMD_FRAME_INPUT, operation->send);
	} else {
		piece->missing = comm->nranks - 1u;
		for (unsigned r = 0; r < comm->nranks; r++) {
			struct smd_exchange_input *input = take_waiting(exchanges, piece, r);

			piece->inputs[r] = input;
			if (input && input->whole) {
				piece_has(piece, input);
			}
		}
	}
	operation->sends_pending--;
	smd_operation_check(operation);
}

static bool may_begin(const struct smd_exchanges *exchanges, const struct smd_exchange_piece *next)
{
	return exchanges->begun == 0 ||
	       (next->number - smd_exchanges_missing(exchanges) < SMD_PIECES_AT_ONCE &&
		       exchanges->begun_bytes + next->bytes <= SMD_PIECE_BYTES_AT_ONCE);
}

void smd_exchanges_go(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;

	while (exchanges && comm->state == SMD_COMM_ACTIVE && exchanges->next && !exchanges->over &&
		may_begin(exchanges, exchanges->next)) {
		piece_begin(exchanges->next);
	}
}

/* ---- receiving ---- */

/* It is of a piece of an operation, which has that hub. */
static int check_frame(const struct smd_mesh_peer *peer, const struct smd_frame *frame,
	unsigned hub, struct smd_error *error)
{
	const struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	size_t size = smd_dtype_bytes(frame->dtype);
	uint64_t most = size ? piece_elements(exchanges->comm, frame->count, size) : 0;
	uint64_t left = frame->offset < frame->count ? frame->count - frame->offset : 0;

	if (frame->collective != SMD_COLLECTIVE_ALLREDUCE || left == 0 || size == 0 ||
		frame->count > SMD_EXCHANGE_BYTES_MAX / size || frame->offset % most ||
		frame->length != (left < most ? left : most) * size ||
		!smd_kernel_find(frame->dtype, frame->op)) {
		return smd_error_set(error, EPROTO,
			"%s: must be a piece of a reduction of at most %u bytes, got %u bytes at "
			"%llu of %llu elements",
			smd_frame_kind_name(frame->kind), SMD_EXCHANGE_BYTES_MAX, frame->length,
			(unsigned long long)frame->offset, (unsigned long long)frame->count);
	}
	if (frame->rank != peer->rank ||
		hub_of(exchanges->comm, frame->operation, frame->offset / most) != hub) {
		return smd_error_set(error, EPROTO,
			"%s: must be of rank %u, and of a piece with another hub, got rank %u",
			smd_frame_kind_name(frame->kind), peer->rank, frame->rank);
	}
	return 0;
}

/* The hub has it already, or more of the rank than that may have under way. */
static int check_input(const struct smd_mesh_peer *peer, const struct smd_frame *frame,
	const struct smd_exchange_piece *piece, struct smd_error *error)
{
	const struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	const struct smd_exchange_input *input;
	unsigned rank = peer->rank;
	bool again = piece && (piece->inputs[rank] || piece->has_result);

	TAILQ_FOREACH (input, &exchanges->waiting, link) {
		again |= input->shape.rank == rank && input->shape.operation == frame->operation &&
			 input->shape.offset == frame->offset;
	}
	if (again || (!piece && (exchanges->nwaiting[rank] >= SMD_PIECES_AT_ONCE ||
					exchanges->waiting_bytes[rank] + frame->length >
						SMD_PIECE_BYTES_AT_ONCE))) {
		return smd_error_set(error, EPROTO,
			"INPUT: rank %u must have at most %u pieces under way, each once", rank,
			SMD_PIECES_AT_ONCE);
	}
	return 0;
}

static int take_input(struct smd_mesh_peer *peer, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	struct smd_exchange_piece *piece =
		smd_exchange_find(exchanges, frame->operation, frame->offset);
	const struct smd_request *other = smd_exchange_operation(exchanges->comm, frame->operation);
	struct smd_exchange_input *input;
	int ret = check_frame(peer, frame, exchanges->comm->rank, error);

	ret = ret ? ret : check_input(peer, frame, piece, error);
	if (ret) {
		return ret;
	}
	smd_exchanges_heard(exchanges, peer->rank, frame->ordinal);
	input = smd_exchange_input_take(exchanges, frame->length);
	if (!input) {
		return smd_error_set(error, ENOMEM, "INPUT: out of memory");
	}
	input->shape = *frame;
	exchanges->rx[peer->rank] = input;
	if (piece && asks_for_the_same(frame, piece->operation)) {
		piece->inputs[peer->rank] = input;
	} else {
		TAILQ_INSERT_TAIL(&exchanges->waiting, input, link);
		exchanges->nwaiting[peer->rank]++;
		exchanges->waiting_bytes[peer->rank] += frame->length;
	}
	if (other && other->laid && (!other->pieces || !asks_for_the_same(frame, other))) {
		smd_exchange_disagrees(exchanges->comm, peer, frame, other);
	}
	*payload = input->bytes;
	return 0;
}

static int take_result(struct smd_mesh_peer *peer, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	struct smd_exchange_piece *piece =
		smd_exchange_find(exchanges, frame->operation, frame->offset);
	int ret = check_frame(peer, frame, peer->rank, error);

	if (ret) {
		return ret;
	}
	if (!piece || piece->has_result || piece->receives ||
		!asks_for_the_same(frame, piece->operation)) {
		return smd_error_set(error, EPROTO,
			"RESULT: must be of an operation that has been begun so, got %llu",
			(unsigned long long)frame->operation);
	}
	piece->receives = true;
	exchanges->rx_result[peer->rank] = piece;
	*payload = piece->operation->recv + piece->first * piece->operation->element_bytes;
	return 0;
}

static int on_header(struct smd_mesh_peer *peer, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	switch (frame->kind) {
	case SMD_FRAME_INPUT:
		return take_input(peer, frame, payload, error);
	case SMD_FRAME_RESULT:
		return take_result(peer, frame, payload, error);
	case SMD_FRAME_MESH:
		return 0; /* to peer->control */
	default:
		return smd_error_set(error, EPROTO, "%s: must not be said between ranks",
			smd_frame_kind_name(frame->kind));
	}
}

static void has_input(struct smd_exchanges *exchanges, unsigned rank)
{
	struct smd_exchange_input *input = exchanges->rx[rank];
	struct smd_exchange_piece *piece =
		smd_exchange_find(exchanges, input->shape.operation, input->shape.offset);
	struct smd_request *operation = piece ? piece->operation : NULL;

	exchanges->rx[rank] = NULL;
	input->whole = true;
	if (!piece || piece->inputs[rank] != input) {
		return;
	}
	operation->sends_pending++; /* it does not end in here */
	piece_has(piece, input);
	operation->sends_pending--;
	smd_operation_check(operation);
}

static void has_result(struct smd_exchanges *exchanges, unsigned rank)
{
	struct smd_exchange_piece *piece = exchanges->rx_result[rank];

	exchanges->rx_result[rank] = NULL;
	piece_done(piece);
	smd_operation_check(piece->operation);
}

static int on_frame(struct smd_mesh_peer *peer, const struct smd_frame *frame, void *payload,
	struct smd_error *error)
{
	struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	struct smd_comm *comm = exchanges->comm;

	if (frame->kind == SMD_FRAME_MESH) {
		return smd_exchange_watch_take(peer, frame, payload, error);
	}
	comm->context->progress.arrivals++;
	if (frame->kind == SMD_FRAME_INPUT) {
		has_input(exchanges, peer->rank);
	} else {
		has_result(exchanges, peer->rank);
	}
	smd_exchanges_go(comm);
	return 0;
}

/* ---- the end of lanes ---- */

static void on_lost(struct smd_mesh_peer *peer)
{
	struct smd_exchanges *exchanges = smd_exchanges_of(peer);
	struct smd_comm *comm = exchanges->comm;
	struct smd_exchange_input *input = exchanges->rx[peer->rank];

	if (input) { /* never whole */
		exchanges->rx[peer->rank] = NULL;
	}
	exchanges->rx_result[peer->rank] = NULL;
	smd_log(SMD_LOG_DEBUG, "libsummand", "group %s: the connection with rank %u has ended: %s",
		comm->group, peer->rank, peer->why);
	exchanges->lost(comm);
	/* A server's word of the rank's end says more, and comes to all: it is waited for
	 * (exchange_watch.h), if it is not here already. */
	if (comm->state == SMD_COMM_ACTIVE && comm->end != SMD_COMM_NO_END) {
		uint64_t lost = smd_exchanges_lost(comm);

		comm->end = lost < comm->end ? lost : comm->end;
		if (smd_operations_are_lost(comm)) {
			smd_comm_fault(comm, comm->err, comm->error.text);
		}
	}
}

static void on_made(struct smd_mesh *mesh, bool all)
{
	struct smd_exchanges *exchanges = mesh->owner;

	exchanges->made(exchanges->comm, all);
}

const struct smd_mesh_user smd_exchange_mesh_user = {
	.on_made = on_made,
	.on_header = on_header,
	.on_frame = on_frame,
	.on_lost = on_lost,
	.largest = SMD_PIECE_BYTES_MAX,
};

/* Whether something that has been begun needs more of the rank. */
static bool awaits(const struct smd_exchanges *exchanges, unsigned rank)
{
	const struct smd_exchange_piece *piece;

	for (piece = TAILQ_FIRST(&exchanges->list); piece && piece->begun;
		piece = TAILQ_NEXT(piece, link)) {
		if (smd_exchange_needs(piece, rank)) {
			return true;
		}
	}
	return false;
}

unsigned smd_exchanges_poll(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;
	unsigned polled = 0;

	if (!exchanges || exchanges->begun == 0 || exchanges->over) {
		return 0;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		struct smd_lane *lane = r == comm->rank ? NULL : peer_of(exchanges, r)->lane;

		if (lane && awaits(exchanges, r)) {
			polled += smd_lane_poll(lane);
		}
	}
	return polled;
}

static void close_lanes(struct smd_exchanges *exchanges)
{
	smd_seat_clear(&exchanges->comm->seat);
	exchanges->over = true;
	exchanges->meeting.failed = true;
	if (exchanges->mesh) {
		smd_exchanges_close_mesh(exchanges);
		memset(exchanges->rx, 0, sizeof(exchanges->rx));
		memset(exchanges->rx_result, 0, sizeof(exchanges->rx_result));
	}
}

void smd_exchanges_end(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;

	if (exchanges && !exchanges->over) {
		close_lanes(exchanges);
		smd_exchange_watch_needed(exchanges);
	}
}

/* Who waits for this rank's bytes need not wait for servers. */
static void say_leaves(const struct smd_exchanges *exchanges)
{
	const struct smd_comm *comm = exchanges->comm;

	for (unsigned r = 0; r < comm->nranks; r++) {
		struct smd_frame frame = {
			.kind = SMD_FRAME_MESH, .window = SMD_MESH_LEAVES, .rank = comm->rank};

		if (r != comm->rank && exchanges->has_lanes && exchanges->mesh->peers[r].lane &&
			exchanges->mesh->peers[r].made) {
			(void)smd_lane_send_control(
				exchanges->mesh->peers[r].lane, &frame, NULL, 0);
		}
	}
}

void smd_exchanges_close(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;

	if (exchanges && comm->state == SMD_COMM_ACTIVE && !comm->err) {
		say_leaves(exchanges);
	}
	if (exchanges) {
		close_lanes(exchanges);
	}
	if (exchanges && exchanges->watch) {
		event_free(exchanges->watch);
		exchanges->watch = NULL;
	}
}
