/* Says AHEAD, PROMISED and CANCEL, and takes them. */
#include "worker/libsummand/epoch_change.h"

#include <errno.h>
#include <stdlib.h>

#include "worker/libsummand/chunk_search.h"
#include "worker/libsummand/epoch_carrier.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/exchange.h"
#include "worker/libsummand/meeting.h"
#include "worker/libsummand/repair.h"

/* What a rank has promised of the candidate. */
struct smd_promise {
	bool said;
	uint64_t first;  /* and one more; 0: it cannot join the candidate's streams */
	uint64_t piece;  /* the first that it has not (exchange.h), where exchanges end */
	uint32_t oldest; /* epoch that it needs, or an earlier one: of any candidate */
};

const size_t smd_epoch_promise_bytes = sizeof(struct smd_promise);

static void conclude(struct smd_comm *comm);

/* ---- a rank ---- */

/* It has no part in the candidate of that id, but says what it needs of earlier epochs. */
static void say_no(struct smd_comm *comm, uint64_t id)
{
	struct smd_epoch_message no = {
		.kind = SMD_EPOCH_PROMISED,
		.epoch = comm->now->index,
		.dead = comm->now->dead,
		.id = id,
		.oldest = smd_epochs_oldest(comm),
	};

	smd_epoch_say(comm, &no);
}

/* Nothing is dealt any more to those that it is without and this one is not. */
static bool leavers_are_right(const struct smd_comm *comm, const struct smd_epoch_message *asked)
{
	const struct smd_epoch *now = comm->now;

	for (unsigned k = 0; k < now->nserving; k++) {
		if (asked->dead >> now->flows[now->remotes[k]].target & 1) {
			return false;
		}
	}
	return true;
}

static bool table_is_right(const struct smd_comm *comm, const struct smd_epoch_message *asked)
{
	bool serves = false;

	for (unsigned i = 0; i < asked->nweights; i++) {
		if (asked->weights[i] > INT32_MAX) {
			return false;
		}
		serves |= asked->weights[i] != 0;
	}
	return serves && asked->nweights == smd_epoch_list_there(comm, asked->dead, NULL) &&
	       leavers_are_right(comm, asked) && asked->id != 0 &&
	       (asked->exchanged <= SMD_EXCHANGE_BYTES_MAX ||
		       asked->exchanged == SMD_EPOCH_ENDS_EXCHANGES) &&
	       asked->scale >= SMD_CHUNK_SCALE_LEAST && asked->scale <= SMD_CHUNK_SCALE_MOST;
}

/* It comes through each server, and from a slow one maybe when it is long over. */
int smd_epoch_change_take_ahead(
	struct smd_comm *comm, const struct smd_epoch_message *asked, struct smd_error *error)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	bool ends = asked->exchanged == SMD_EPOCH_ENDS_EXCHANGES;
	const struct smd_epoch_table table = {.dead = asked->dead,
		.weights = asked->weights,
		.scale = asked->scale,
		.exchanged = ends ? 0 : asked->exchanged,
		.ends_exchanges = ends,
		.soon = asked->soon};

	if (asked->first <= agreement->asks) {
		return 0;
	}
	agreement->asks = asked->first;
	if (agreement->sealed || comm->candidate || asked->epoch != comm->now->index) {
		return 0;
	}
	if (!table_is_right(comm, asked)) {
		return smd_error_set(error, EPROTO,
			"AGREE: weights must be of the %u shards that will serve, got %u or bad "
			"ones",
			smd_epoch_list_there(comm, asked->dead, NULL), asked->nweights);
	}
	agreement->soon = table.soon;
	if (ends) {
		smd_exchanges_end(comm);
	}
	if (!smd_reach_has(comm, comm->now->dead & ~asked->dead) ||
		(table.exchanged && !smd_meeting_holds(comm)) ||
		comm->stand(comm, asked->id, &table)) {
		say_no(comm, asked->id);
	}
	return 0;
}

/* A shard may have lacked the memory that streams of epochs before the last one hold. */
void smd_epoch_change_take_cancel(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	uint32_t oldest = smd_epochs_oldest(comm);

	if (comm->candidate && comm->candidate->id == message->id) {
		if (!comm->agreement.ahead) {
			say_no(comm, message->id);
		}
		comm->agreement.ahead = false;
		comm->agreement.waits = false;
		comm->drop(comm);
	}
	comm->leave_before(comm, message->oldest < oldest ? message->oldest : oldest);
}

static uint64_t missing_piece(const struct smd_comm *comm)
{
	return comm->exchanges ? smd_exchanges_missing(comm->exchanges) : 0;
}

/* One operation ahead, so that the record is there when it is due, if that may be. */
static struct smd_promise promise(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	agreement->ahead = true;
	agreement->promised = comm->next_operation + !agreement->soon;
	return (struct smd_promise){.said = true,
		.first = agreement->promised + 1,
		.piece = missing_piece(comm),
		.oldest = smd_epochs_oldest(comm)};
}

void smd_epoch_change_stands(struct smd_comm *comm, bool joined)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_promise mine = {.said = true, .oldest = smd_epochs_oldest(comm)};
	struct smd_epoch_message message = {.kind = SMD_EPOCH_PROMISED,
		.epoch = comm->now->index,
		.dead = comm->now->dead,
		.id = comm->candidate->id};

	if (!joined && comm->rank == 0 && agreement->ahead && agreement->changes) {
		agreement->promises[0] = mine; /* a rank has left: it may never promise */
		conclude(comm);
		return;
	}
	if (agreement->sealed || agreement->ahead) { /* what is lost comes first; or it is said */
		return;
	}
	agreement->waits =
		joined && smd_drain_needs(comm, comm->candidate->dead & ~comm->now->dead);
	if (agreement->waits) {
		return;
	}
	if (joined) {
		mine = promise(comm);
	}
	if (comm->rank == 0) {
		agreement->promises[0] = mine;
		conclude(comm);
		return;
	}
	message.first = mine.first;
	message.oldest = mine.oldest;
	message.nstreams = comm->candidate->ends_exchanges;
	message.streams[0] = mine.piece;
	smd_epoch_say(comm, &message);
}

void smd_epoch_change_progressed(struct smd_comm *comm)
{
	if (comm->agreement.waits && comm->candidate) {
		smd_epoch_change_stands(comm, true);
	}
}

/* ---- rank 0 ---- */

/* Operations of so many epochs are not over that another table waits for some of them. */
static bool has_many_epochs(const struct smd_comm *comm)
{
	uint32_t first = comm->base.next ? comm->base.next->index : 0;

	return comm->now->index - first >= SMD_EPOCHS_NEEDED_MAX &&
	       comm->now->index - smd_epochs_oldest(comm) >= SMD_EPOCHS_NEEDED_MAX;
}

static bool may_ask(const struct smd_comm *comm)
{
	const struct smd_epoch_agreement *agreement = &comm->agreement;
	const struct smd_epoch *now = comm->now;

	if (comm->rank != 0 || comm->state != SMD_COMM_ACTIVE || comm->err || agreement->sealed ||
		agreement->ahead || comm->candidate) {
		return false;
	}
	for (unsigned i = 0; i < now->nserving; i++) {
		const struct smd_flow *flow = &now->flows[now->remotes[i]];

		if (!flow->joined || flow->over || flow->dead) {
			return false;
		}
	}
	return true;
}

bool smd_epoch_change_may_begin(const struct smd_comm *comm)
{
	return may_ask(comm) && !comm->leaving && comm->now->first <= comm->next_operation &&
	       !has_many_epochs(comm);
}

/* Where exchanges end, operations that are under way wait for that. */
static bool may_begin(const struct smd_comm *comm, const struct smd_epoch_table *table)
{
	return table->ends_exchanges ? may_ask(comm) : smd_epoch_change_may_begin(comm);
}

static int make_promises(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (!agreement->promises) {
		agreement->promises = calloc(comm->nranks, sizeof(*agreement->promises));
	}
	if (!agreement->promises) {
		smd_comm_fault(comm, -ENOMEM, "out of memory for the next epoch");
	}
	return agreement->promises ? 0 : -ENOMEM;
}

/* Of the shards that the table has. */
static void list_weights(const struct smd_comm *comm, const struct smd_epoch_table *table,
	uint32_t weights[SMD_EPOCH_WEIGHTS_MAX])
{
	unsigned remotes[SMD_EPOCH_WEIGHTS_MAX];
	unsigned n = smd_epoch_list_there(comm, table->dead, remotes);

	for (unsigned k = 0; k < n; k++) {
		weights[k] = table->weights ? table->weights[k] : comm->now->weights[remotes[k]];
	}
}

/* What a rank has to wait for before it promises may itself wait for the end of exchanges. */
static void give_way(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (agreement->changes && comm->candidate && !comm->candidate->ends_exchanges) {
		agreement->promises[0] =
			(struct smd_promise){.said = true, .oldest = smd_epochs_oldest(comm)};
		conclude(comm);
	}
}

bool smd_epoch_change_begin(struct smd_comm *comm, const struct smd_epoch_table *table)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	unsigned nweights = smd_epoch_list_there(comm, table->dead, NULL);
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_AHEAD,
		.epoch = comm->now->index,
		.dead = table->dead,
		.first = agreement->asks + 1,
		.scale = (int8_t)table->scale,
		.exchanged = table->ends_exchanges ? SMD_EPOCH_ENDS_EXCHANGES : table->exchanged,
		.soon = table->soon,
		.nweights = (uint16_t)nweights,
	};

	if (table->ends_exchanges) {
		give_way(comm);
	}
	if (!may_begin(comm, table) || make_promises(comm) ||
		smd_epoch_draw_id(comm, &message.id)) {
		return false;
	}
	list_weights(comm, table, message.weights);
	for (unsigned r = 0; r < comm->nranks; r++) {
		agreement->promises[r].said = false;
	}
	agreement->asks++;
	agreement->soon = table->soon;
	agreement->changes = true;
	if (table->ends_exchanges) {
		smd_exchanges_end(comm);
	}
	if (comm->stand(comm, message.id, table)) {
		agreement->changes = false;
		return false;
	}
	smd_epoch_say(comm, &message);
	return true;
}

/* It is the next epoch when all have joined its streams, and is dropped when one cannot. */
static void conclude(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_RECORD,
		.epoch = comm->now->index + 1,
		.dead = comm->candidate->dead,
		.id = comm->candidate->id,
		.oldest = UINT32_MAX,
		.nstreams = comm->candidate->ends_exchanges,
		.streams = {UINT64_MAX},
	};
	bool all = true;
	bool refused = false;

	agreement->promises[0].oldest = smd_epochs_oldest(comm);
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_promise *one = &agreement->promises[r];

		all &= one->said;
		refused |= one->said && one->first == 0;
		message.first = one->first > message.first ? one->first : message.first;
		message.oldest = one->oldest < message.oldest ? one->oldest : message.oldest;
		message.streams[0] =
			one->piece < message.streams[0] ? one->piece : message.streams[0];
	}
	message.first--;
	if (!refused) {
		if (all) {
			comm->record(comm, &message);
		}
		return;
	}
	message.kind = SMD_EPOCH_CANCEL;
	message.nstreams = 0;
	message.epoch = comm->now->index;
	smd_epoch_say(comm, &message);
	comm->leave_before(comm, message.oldest);
	agreement->changes = false;
	agreement->ahead = false;
	agreement->waits = false;
	if (comm->now->dead & ~comm->candidate->dead) {
		smd_reach_wait(comm);
	}
	if (agreement->soon && !comm->candidate->ends_exchanges) {
		smd_drain_wait(comm);
	}
	comm->drop(comm);
}

void smd_epoch_change_take_promise(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (agreement->promises && agreement->promises[message->rank].oldest < message->oldest) {
		agreement->promises[message->rank].oldest = message->oldest;
	}
	if (!agreement->changes || agreement->sealed || !comm->candidate ||
		message->id != comm->candidate->id) {
		return;
	}
	agreement->promises[message->rank].said = true;
	agreement->promises[message->rank].first = message->first;
	agreement->promises[message->rank].piece = message->nstreams ? message->streams[0] : 0;
	conclude(comm);
}

/* ---- records ---- */

bool smd_epoch_change_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	unsigned ends = comm->candidate->ends_exchanges;

	return record->dead == comm->candidate->dead && record->nlost == ends &&
	       (!ends || record->lost[0] <= missing_piece(comm)) &&
	       record->first >= comm->agreement.promised &&
	       record->oldest <= smd_epochs_oldest(comm);
}
