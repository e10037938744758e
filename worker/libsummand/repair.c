/* Deals what lost servers have left undone to those that are left. */
#include "worker/libsummand/repair.h"

#include <errno.h>
#include <stdlib.h>

#include "worker/libsummand/exchange.h"

_Static_assert(SMD_PIECES_AT_ONCE <= SMD_HISTORY_OUTSIDE, "the history has room for pieces");

struct cut {
	const uint64_t *lost; /* how far each has come; */
	unsigned nlost;       /* of the others, nothing has */
	unsigned epoch;
};

static void cut_stream(void *arg, struct smd_flow *flow)
{
	struct cut *cut = arg;

	flow->died = cut->epoch;
	flow->lost_from = cut->nlost ? *cut->lost : 0;
	cut->lost += cut->nlost ? 1 : 0;
	cut->nlost -= cut->nlost ? 1 : 0;
	flow->missing = flow->done > flow->lost_from ? flow->done - flow->lost_from : 0;
}

/* ---- what was lost ---- */

/* A lost chunk, before it is dealt again. */
struct lost {
	uint64_t sequence;
	unsigned epoch;  /* that it was dealt in, */
	uint64_t number; /* as this one */
	struct smd_item item;
};

struct losses {
	struct lost *each;
	size_t count;
	size_t size;
};

static int losses_add(struct losses *losses, const struct lost *one)
{
	if (losses->count == losses->size) {
		size_t size = losses->size ? 2 * losses->size : 64;
		struct lost *grown = realloc(losses->each, size * sizeof(*grown));

		if (!grown) {
			return -ENOMEM;
		}
		losses->each = grown;
		losses->size = size;
	}
	losses->each[losses->count++] = *one;
	return 0;
}

static bool flow_lost(const struct smd_flow *flow, uint64_t ordinal, unsigned epoch)
{
	return flow->died == epoch && ordinal >= flow->lost_from;
}

static int refuse(struct smd_error *error, const char *what)
{
	return smd_error_set(
		error, ECONNRESET, "what it had not done cannot be done again: %s", what);
}

static int check_operation(const struct smd_request *operation, struct smd_error *error)
{
	const char *why = operation->path->why_lost ? operation->path->why_lost(operation) : NULL;

	return why ? refuse(error, why) : 0;
}

/* What ranks have not all done of an operation that was to go from rank to rank. */
static int find_lost_pieces(
	struct smd_request *operation, const struct smd_epoch *without, struct losses *losses)
{
	const struct smd_exchange_piece *piece = operation->first_piece;
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < operation->pieces; i++) {
		if (piece->number >= without->pieces_from) {
			ret = losses_add(losses,
				&(struct lost){operation->sequence, 0, piece->chunk,
					{operation, NULL, piece->chunk, piece->has_result}});
		}
		piece = TAILQ_NEXT(piece, link);
	}
	return ret;
}

/* Those of the operation's chunks that were lost with the servers that the epoch is without, or
 * with the ranks' mesh. */
static int find_lost(struct smd_request *operation, const struct smd_epoch *without,
	struct losses *losses, struct smd_error *error)
{
	const struct smd_epoch *home = operation->home;
	size_t before = losses->count;
	int ret = 0;

	if (without->ends_exchanges) {
		return find_lost_pieces(operation, without, losses);
	}
	for (uint64_t g = operation->first_chunk;
		ret == 0 && g < operation->first_chunk + operation->nchunks; g++) {
		struct smd_flow *flow = smd_epoch_flow_of(home, g);
		uint64_t ordinal = smd_deal_ordinal_of(home->deal, g);
		bool had = ordinal < flow->done;

		if (flow_lost(flow, ordinal, without->index)) {
			flow->missing -= had;
			ret = losses_add(losses, &(struct lost){operation->sequence, home->index, g,
							 {operation, NULL, g, had}});
		}
	}
	for (const struct smd_epoch *epoch = home->next;
		ret == 0 && operation->repaired && epoch != without; epoch = epoch->next) {
		for (uint64_t g = 0; ret == 0 && g < epoch->nitems; g++) {
			struct smd_flow *flow = smd_epoch_flow_of(epoch, g);
			uint64_t ordinal = smd_deal_ordinal_of(epoch->deal, g);
			struct lost one = {operation->sequence, epoch->index, g, epoch->items[g]};

			if (one.item.operation == operation &&
				flow_lost(flow, ordinal, without->index)) {
				flow->missing -= ordinal < flow->done;
				one.item.had |= ordinal < flow->done;
				ret = losses_add(losses, &one);
			}
		}
	}
	return ret == 0 && losses->count > before ? check_operation(operation, error) : ret;
}

/* The same of operations that have returned. */
static int find_lost_history(
	struct smd_comm *comm, const struct smd_epoch *without, struct losses *losses)
{
	struct smd_history *history = &comm->history;
	int ret = 0;

	for (uint64_t k = history->first; ret == 0 && k < history->next; k++) {
		struct smd_kept *kept = smd_history_entry(history, k);
		struct smd_flow *flow = kept->flow;

		if (flow_lost(flow, kept->ordinal, without->index)) {
			flow->missing -= kept->ordinal < flow->done;
			ret = losses_add(
				losses, &(struct lost){kept->shape.operation, flow->epoch->index,
						smd_deal_chunk_of(flow->epoch->deal, flow->place,
							kept->ordinal),
						{NULL, kept, kept->chunk, true}});
		}
	}
	return ret;
}

static int compare_lost(const void *left, const void *right)
{
	const struct lost *a = left;
	const struct lost *b = right;

	if (a->sequence != b->sequence) {
		return a->sequence < b->sequence ? -1 : 1;
	}
	if (a->epoch != b->epoch) {
		return a->epoch < b->epoch ? -1 : 1;
	}
	return a->number < b->number ? -1 : a->number > b->number;
}

/* Deals them again, in the order that all ranks have. */
static int deal_losses(struct smd_epoch *epoch, struct losses *losses)
{
	struct smd_item *grown;

	if (losses->count == 0) {
		return 0;
	}
	qsort(losses->each, losses->count, sizeof(*losses->each), compare_lost);
	grown = realloc(epoch->items, (epoch->nitems + losses->count) * sizeof(*grown));
	if (!grown) {
		return -ENOMEM;
	}
	epoch->items = grown;
	for (size_t i = 0; i < losses->count; i++) {
		struct smd_item *item = &epoch->items[epoch->nitems];

		*item = losses->each[i].item;
		if (item->kept) {
			item->kept->flow = smd_epoch_flow_of(epoch, epoch->nitems);
			item->kept->ordinal = smd_deal_ordinal_of(epoch->deal, epoch->nitems);
		} else {
			item->operation->repaired = true;
		}
		epoch->nitems++;
		epoch->next_chunk++;
	}
	return 0;
}

/* This rank has had results of streams that were lost now, and has none of them any more. */
static bool is_missing(const struct smd_epoch *without)
{
	bool missing = false;

	for (const struct smd_epoch *epoch = &without->comm->base; epoch; epoch = epoch->next) {
		for (unsigned i = 0; i < epoch->nserving; i++) {
			const struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

			missing |= flow->died == without->index && flow->missing > 0;
		}
	}
	return missing;
}

static int epoch_repair(struct smd_epoch *epoch, struct smd_error *error)
{
	struct smd_comm *comm = epoch->comm;
	struct losses losses = {NULL, 0, 0};
	struct smd_request *operation;
	int ret = find_lost_history(comm, epoch, &losses);

	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (ret == 0 && operation->laid && operation->sequence < epoch->first) {
			ret = find_lost(operation, epoch, &losses, error);
		}
	}
	if (ret == 0 && is_missing(epoch)) {
		ret = refuse(error, "an operation on memory of a device that network cards use has returned");
	}
	if (ret == 0) {
		ret = deal_losses(epoch, &losses);
	}
	free(losses.each);
	return ret;
}

int smd_repair_add(struct smd_comm *comm, const struct smd_epoch_record *record,
	struct smd_epoch **out, struct smd_error *error)
{
	const struct smd_epoch_table same = {.dead = record->dead, .scale = comm->now->scale};
	struct cut cut = {
		.lost = record->lost, .nlost = record->nlost, .epoch = record->index};
	uint64_t newly_dead = ~comm->now->dead & (*out ? UINT64_MAX : record->dead);
	struct smd_epoch *epoch = *out ? *out : smd_epoch_create(comm, record->id, &same);
	int ret;

	if (!epoch) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	epoch->first = record->first;
	smd_epochs_each_stream(comm, newly_dead, cut_stream, &cut);
	smd_epochs_append(epoch);
	*out = epoch;
	ret = epoch_repair(epoch, error);
	smd_history_release(&comm->history);
	return ret == -ENOMEM ? smd_error_set(error, ENOMEM, "out of memory") : ret;
}

/* ---- what ranks have begun among themselves ---- */

/* Pieces of operations that have returned. */
static int find_kept_pieces(
	struct smd_comm *comm, const struct smd_epoch *without, struct losses *losses)
{
	struct smd_history *history = &comm->history;
	struct smd_exchanges *exchanges = comm->exchanges;
	const struct smd_exchange_piece *piece;
	int ret = 0;

	TAILQ_FOREACH (piece, &exchanges->kept, link) {
		struct smd_kept *kept = smd_history_entry(history, history->next);

		if (ret || piece->number < without->pieces_from) {
			continue; /* of the others, SMD_PIECES_AT_ONCE at most, there is room */
		}
		*kept = (struct smd_kept){.chunk = piece->chunk,
			.shape = piece->shape,
			.bytes = piece->result ? piece->result : exchanges->nothing,
			.length = (uint32_t)piece->bytes,
			.received = (uint32_t)piece->bytes,
			.is_result = piece->result != NULL};
		smd_history_add_outside(history);
		ret = losses_add(losses, &(struct lost){piece->shape.operation, 0, piece->chunk,
						 {NULL, kept, piece->chunk, true}});
	}
	return ret;
}

int smd_repair_exchanges(struct smd_epoch *epoch, uint64_t from, struct smd_error *error)
{
	struct smd_comm *comm = epoch->comm;
	struct smd_exchanges *exchanges = comm->exchanges;
	struct losses losses = {NULL, 0, 0};
	struct smd_request *operation;
	uint64_t kept = comm->history.next;
	int ret = 0;

	epoch->pieces_from = from;
	if (!exchanges || exchanges->handed_on) {
		return 0;
	}
	exchanges->handed_on = true;
	exchanges->nothing = calloc(1, SMD_PIECE_BYTES_MAX);
	ret = exchanges->nothing ? find_kept_pieces(comm, epoch, &losses) : -ENOMEM;
	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (ret == 0 && operation->laid && operation->sequence < epoch->first) {
			ret = find_lost(operation, epoch, &losses, error);
		}
	}
	ret = ret ? ret : deal_losses(epoch, &losses);
	free(losses.each);
	if (ret) {
		comm->history.next = kept; /* they have no stream */
	}
	return ret ? smd_error_set(error, -ret, "out of memory") : 0;
}

static struct smd_epoch *epoch_of(struct smd_comm *comm, uint64_t sequence)
{
	struct smd_epoch *found = &comm->base;

	for (struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		if (epoch->first <= sequence) {
			found = epoch;
		}
	}
	return found;
}

/* ---- operations ---- */

int smd_repair_lay(struct smd_request *operation, struct smd_error *error)
{
	struct smd_comm *comm = operation->comm;
	struct smd_epoch *home = epoch_of(comm, operation->sequence);
	size_t chunk =
		smd_deal_chunk_elements(home->deal, operation->count, operation->element_bytes);
	int ret = 0;

	operation->home = home;
	operation->chunk_elements = chunk;
	operation->window =
		smd_deal_window(home->deal, comm->nranks, chunk * operation->element_bytes);
	operation->lead = smd_deal_lead(home->deal, operation->window);
	operation->nchunks = operation->count ? (operation->count + chunk - 1) / chunk : 1;
	operation->leaves_copies = smd_history_takes(
		home->deal, comm->nranks, operation->count * operation->element_bytes);
	operation->first_chunk = home->next_chunk;
	if (smd_exchange_takes(operation, home)) {
		operation->nchunks = 0; /* in its home; its pieces may be dealt to later epochs */
		ret = smd_exchange_lay(operation);
	} else {
		smd_exchange_refuse(operation);
	}
	home->next_chunk += operation->nchunks;
	operation->laid = ret == 0;
	for (struct smd_epoch *epoch = home->next; ret == 0 && epoch; epoch = epoch->next) {
		struct losses losses = {NULL, 0, 0};

		ret = find_lost(operation, epoch, &losses, error);
		ret = ret ? ret : deal_losses(epoch, &losses);
		free(losses.each);
	}
	return ret == -ENOMEM ? smd_error_set(error, ENOMEM, "out of memory") : ret;
}
