/* Keeps the pieces of exchanges, and says who is waited for. */
#include "worker/libsummand/exchange_piece.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/wire/request_text.h"

#define SMALLEST_LOG2 12u /* bytes as a power of two */
#define FREE_BYTES    (4u << 20)

/* ---- memory that is used again ---- */

static unsigned log2_of(size_t bytes)
{
	unsigned log2 = SMALLEST_LOG2;

	while ((size_t)1 << log2 < bytes) {
		log2++;
	}
	return log2;
}

struct smd_exchange_input *smd_exchange_input_take(struct smd_exchanges *exchanges, size_t bytes)
{
	unsigned log2 = log2_of(bytes);
	struct smd_exchange_input *input = TAILQ_FIRST(&exchanges->free[log2]);

	if (input) {
		TAILQ_REMOVE(&exchanges->free[log2], input, link);
		exchanges->nfree[log2]--;
		input->whole = false;
		return input;
	}
	input = calloc(1, sizeof(*input));
	if (input && !(input->bytes = aligned_alloc(4096, (size_t)1 << log2))) {
		free(input);
		input = NULL;
	}
	if (input) {
		input->log2 = log2;
	}
	return input;
}

/* As many as all others may have under way, or 4 MiB. */
static bool is_enough(const struct smd_exchanges *exchanges, unsigned log2)
{
	unsigned have = exchanges->nfree[log2];

	return have >= SMD_PIECES_AT_ONCE &&
	       (have >= SMD_PIECES_AT_ONCE * (exchanges->comm->nranks - 1u) ||
		       (uint64_t)have << log2 >= FREE_BYTES);
}

static void input_give_back(struct smd_exchanges *exchanges, struct smd_exchange_input *input)
{
	if (input && !is_enough(exchanges, input->log2)) {
		TAILQ_INSERT_HEAD(&exchanges->free[input->log2], input, link);
		exchanges->nfree[input->log2]++;
	} else if (input) {
		free(input->bytes);
		free(input);
	}
}

struct smd_exchange_piece *smd_exchange_piece_add(struct smd_exchanges *exchanges)
{
	struct smd_exchange_piece *piece = TAILQ_FIRST(&exchanges->spare);

	if (piece) {
		TAILQ_REMOVE(&exchanges->spare, piece, link);
	} else {
		piece = malloc(sizeof(*piece));
	}
	if (piece) {
		*piece = (struct smd_exchange_piece){.number = exchanges->next_number++};
		TAILQ_INSERT_TAIL(&exchanges->list, piece, link);
		exchanges->next = exchanges->next ? exchanges->next : piece;
	}
	return piece;
}

void smd_exchange_inputs_give_back(
	struct smd_exchanges *exchanges, struct smd_exchange_piece *piece)
{
	for (unsigned r = 0; r < exchanges->comm->nranks; r++) {
		if (piece->inputs[r] && piece->inputs[r]->bytes != piece->result) {
			input_give_back(exchanges, piece->inputs[r]);
			piece->inputs[r] = NULL;
		}
	}
}

static void piece_free(struct smd_exchanges *exchanges, struct smd_exchange_piece *piece)
{
	piece->result = NULL;
	smd_exchange_inputs_give_back(exchanges, piece);
	TAILQ_INSERT_HEAD(&exchanges->spare, piece, link);
}

/* ---- what is kept ---- */

static void piece_keep(struct smd_exchanges *exchanges, struct smd_exchange_piece *piece)
{
	smd_operation_shape(piece->operation, piece->chunk, &piece->shape);
	smd_exchange_inputs_give_back(exchanges, piece);
	piece->operation = NULL;
	TAILQ_INSERT_TAIL(&exchanges->kept, piece, link);
}

/* Its memory is soon needed again: that which is used most is in the caches. */
void smd_exchanges_heard(struct smd_exchanges *exchanges, unsigned rank, uint64_t lacks)
{
	const struct smd_comm *comm = exchanges->comm;
	struct smd_exchange_piece *piece;
	uint64_t least = UINT64_MAX;

	exchanges->lacks[rank] = lacks;
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (r != comm->rank && exchanges->lacks[r] < least) {
			least = exchanges->lacks[r];
		}
	}
	TAILQ_FOREACH (piece, &exchanges->kept, link) {
		if (piece->number >= least) {
			return;
		}
		if (piece->result) {
			piece->result = NULL;
			smd_exchange_inputs_give_back(exchanges, piece);
		}
	}
}

/* A rank begins none before it has those that were so many before: all ranks have begun whatever
 * has a result. */
static void forget_kept(struct smd_exchanges *exchanges)
{
	struct smd_exchange_piece *piece;

	while ((piece = TAILQ_FIRST(&exchanges->kept)) != NULL &&
		piece->number + SMD_PIECES_AT_ONCE < exchanges->done) {
		TAILQ_REMOVE(&exchanges->kept, piece, link);
		piece_free(exchanges, piece);
	}
}

void smd_exchange_piece_end(struct smd_exchanges *exchanges, struct smd_exchange_piece *piece)
{
	if (exchanges->next == piece) {
		exchanges->next = TAILQ_NEXT(piece, link);
	}
	TAILQ_REMOVE(&exchanges->list, piece, link);
	for (unsigned r = 0; r < exchanges->comm->nranks; r++) {
		if (exchanges->rx_result[r] == piece) {
			exchanges->rx_result[r] = NULL;
		}
	}
	if (piece->begun && !piece->has_result) {
		exchanges->begun--;
		exchanges->begun_bytes -= piece->bytes;
	}
	if (piece->has_result && !exchanges->handed_on) {
		piece_keep(exchanges, piece);
		forget_kept(exchanges);
	} else {
		piece_free(exchanges, piece);
	}
}

uint64_t smd_exchanges_missing(const struct smd_exchanges *exchanges)
{
	const struct smd_exchange_piece *piece;

	TAILQ_FOREACH (piece, &exchanges->list, link) {
		if (!piece->has_result) {
			return piece->number;
		}
	}
	return exchanges->next_number;
}

/* ---- what is asked for ---- */

void smd_exchange_disagrees(struct smd_comm *comm, const struct smd_mesh_peer *peer,
	const struct smd_frame *theirs, const struct smd_request *ours)
{
	struct smd_frame own;
	char text[SMD_ERROR_TEXT_MAX];
	char their_request[SMD_REQUEST_TEXT_MAX];
	char own_request[SMD_REQUEST_TEXT_MAX];

	smd_operation_shape(ours, ours->first_chunk, &own);
	smd_request_text(theirs, their_request);
	smd_request_text(&own, own_request);
	snprintf(text, sizeof(text),
		"group %.80s: all ranks must ask for the same, but rank %u (%.60s) asks for %s, "
		"rank %u (%.60s) for %s%s",
		comm->group, comm->rank, comm->context->config.replica, own_request, peer->rank,
		peer->name, their_request,
		smd_requests_may_differ_in_wire(theirs, &own)
			? " (one may have another SUMMAND_WIRE)"
			: "");
	smd_comm_fault(comm, -EINVAL, text);
}

/* ---- who is waited for ---- */

const struct smd_request *smd_exchange_operation(const struct smd_comm *comm, uint64_t sequence)
{
	const struct smd_request *operation;

	if (sequence >= comm->next_operation) {
		return NULL;
	}
	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (operation->sequence >= sequence) {
			return operation->sequence == sequence ? operation : NULL;
		}
	}
	return NULL;
}

struct smd_exchange_piece *smd_exchange_find(
	const struct smd_exchanges *exchanges, uint64_t sequence, uint64_t first)
{
	struct smd_exchange_piece *piece;

	for (piece = TAILQ_FIRST(&exchanges->list); piece && piece->begun;
		piece = TAILQ_NEXT(piece, link)) {
		if (piece->operation->sequence == sequence && piece->first == first) {
			return piece;
		}
	}
	return NULL;
}

bool smd_exchange_needs(const struct smd_exchange_piece *piece, unsigned rank)
{
	const struct smd_comm *comm = piece->operation->comm;

	if (rank == comm->rank || piece->has_result) {
		return false;
	}
	if (piece->hub != comm->rank) {
		return rank == piece->hub;
	}
	return piece->begun ? !piece->inputs[rank] || !piece->inputs[rank]->whole : true;
}

uint64_t smd_exchanges_lost(const struct smd_comm *comm)
{
	const struct smd_exchanges *exchanges = comm->exchanges;
	const struct smd_exchange_piece *piece;

	if (!exchanges || !exchanges->mesh || exchanges->handed_on) {
		return SMD_COMM_NO_END;
	}
	TAILQ_FOREACH (piece, &exchanges->list, link) {
		for (unsigned r = 0; r < comm->nranks; r++) {
			if (smd_exchange_needs(piece, r) && !exchanges->mesh->peers[r].lane) {
				return piece->operation->sequence;
			}
		}
	}
	return SMD_COMM_NO_END;
}

/* ---- their life ---- */

struct smd_exchanges *smd_exchanges_get(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;

	if (exchanges) {
		return exchanges;
	}
	exchanges = calloc(1, sizeof(*exchanges));
	if (!exchanges) {
		return NULL;
	}
	exchanges->comm = comm;
	TAILQ_INIT(&exchanges->list);
	TAILQ_INIT(&exchanges->kept);
	TAILQ_INIT(&exchanges->spare);
	TAILQ_INIT(&exchanges->waiting);
	for (unsigned c = 0; c < SMD_EXCHANGE_LOG2S; c++) {
		TAILQ_INIT(&exchanges->free[c]);
	}
	comm->exchanges = exchanges;
	return exchanges;
}

void smd_exchanges_close_mesh(struct smd_exchanges *exchanges)
{
	if (exchanges->has_lanes) {
		exchanges->has_lanes = false;
		exchanges->comm->context->mesh_lanes -= exchanges->comm->nranks - 1u;
		smd_mesh_close(exchanges->mesh);
	}
}

void smd_exchanges_count(const struct smd_comm *comm, struct smd_lane_counts *sum)
{
	if (comm->exchanges && comm->exchanges->mesh) {
		smd_mesh_count(comm->exchanges->mesh, sum);
	}
}

static void free_inputs(struct smd_exchange_inputs *inputs)
{
	struct smd_exchange_input *input;

	while ((input = TAILQ_FIRST(inputs)) != NULL) {
		TAILQ_REMOVE(inputs, input, link);
		free(input->bytes);
		free(input);
	}
}

void smd_exchanges_free(struct smd_comm *comm)
{
	struct smd_exchanges *exchanges = comm->exchanges;
	struct smd_exchange_piece *piece;

	if (!exchanges) {
		return;
	}
	while ((piece = TAILQ_FIRST(&exchanges->kept)) != NULL) {
		TAILQ_REMOVE(&exchanges->kept, piece, link);
		piece_free(exchanges, piece);
	}
	while ((piece = TAILQ_FIRST(&exchanges->spare)) != NULL) {
		TAILQ_REMOVE(&exchanges->spare, piece, link);
		free(piece);
	}
	free_inputs(&exchanges->waiting);
	for (unsigned c = 0; c < SMD_EXCHANGE_LOG2S; c++) {
		free_inputs(&exchanges->free[c]);
	}
	if (exchanges->mesh) {
		smd_mesh_free(exchanges->mesh);
	}
	comm->exchanges = NULL;
	free(exchanges->nothing);
	free(exchanges);
}
