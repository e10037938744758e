/* Says SEALED, ASK and EPOCH, and takes them. */
#include "worker/libsummand/epoch_agreement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/chunk_search.h"
#include "worker/libsummand/epoch_carrier.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/repair.h"

/* What a rank has said last. */
struct smd_seal {
	bool said;
	uint32_t epoch;
	uint64_t dead;
	uint64_t begun;
	unsigned nstreams;
	uint64_t done[SMD_STREAMS_MAX];
	struct smd_promise promise;
};

/* Where streams are cut, against what this rank has. */
struct cut_check {
	const uint64_t *lost;
	bool wrong;
};

static void lead(struct smd_comm *comm);
static void conclude_change(struct smd_comm *comm);

/* ---- messages ---- */

static bool is_said_by_rank_0(unsigned kind)
{
	return kind == SMD_EPOCH_ASK || kind == SMD_EPOCH_RECORD || kind == SMD_EPOCH_AHEAD ||
	       kind == SMD_EPOCH_CANCEL;
}

/* Only what is about lost servers names some. */
static bool message_is_right(const struct smd_comm *comm, const struct smd_epoch_message *message)
{
	bool of_loss = message->kind == SMD_EPOCH_SEALED || message->kind == SMD_EPOCH_ASK;

	return message->kind >= SMD_EPOCH_SEALED && message->kind <= SMD_EPOCH_REACHES &&
	       message->rank < comm->nranks &&
	       (message->rank == 0) == is_said_by_rank_0(message->kind) &&
	       (comm->rank == 0) != (message->rank == 0) && (!of_loss || message->dead != 0);
}

static int message_decode(const struct smd_comm *comm, const uint8_t *payload, size_t length,
	struct smd_epoch_message *out, struct smd_error *error)
{
	int ret = smd_epoch_message_decode(payload, length, out, error);

	if (ret == 0 && !message_is_right(comm, out)) {
		ret = smd_error_set(error, EPROTO,
			"AGREE: kind %u of rank %u must not come to rank %u, or names servers that "
			"there are not",
			out->kind, out->rank, comm->rank);
	}
	return ret;
}

/* ---- a rank ---- */

static bool fits(struct smd_comm *comm, unsigned nstreams)
{
	if (nstreams > SMD_STREAMS_MAX) {
		smd_comm_fault(comm, -E2BIG,
			"too many streams of lost servers: start the job again with those that "
			"are left");
	}
	return nstreams <= SMD_STREAMS_MAX;
}

static void say_sealed(struct smd_comm *comm)
{
	const struct smd_epoch_agreement *agreement = &comm->agreement;
	uint64_t newly = agreement->closed & ~comm->now->dead;
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_SEALED,
		.epoch = comm->now->index,
		.dead = agreement->closed,
		.first = agreement->promised,
	};
	unsigned nstreams = smd_epochs_count_streams(comm, newly);

	if (comm->state != SMD_COMM_ACTIVE || !fits(comm, nstreams)) {
		return;
	}
	if (comm->rank == 0) {
		lead(comm);
		return;
	}
	message.nstreams = (uint16_t)nstreams;
	smd_epochs_count_done(comm, newly, message.streams);
	smd_epoch_say(comm, &message);
}

void smd_epoch_agreement_lose(struct smd_comm *comm, uint64_t targets)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	agreement->closed |= targets;
	if (!agreement->sealed) {
		agreement->sealed = true;
		/* What was kept back has not begun. */
		if (!agreement->ahead || comm->next_operation < agreement->promised) {
			agreement->promised = comm->next_operation;
		}
	}
	agreement->ahead = false;
	agreement->waits = false;
	agreement->changes = false; /* what is lost comes first */
	say_sealed(comm);
}

/*
 * Other ranks are without them. Where the communicator has not begun it is so for it alone: they may
 * be there again, which not all ranks know yet, and if each lost what another has not found yet,
 * none would ever have all of them.
 */
static void lose_too(struct smd_comm *comm, uint64_t targets)
{
	if (comm->state == SMD_COMM_JOINING) {
		comm->exclude(comm, targets);
	} else {
		smd_context_lose(comm->context, targets, "another rank has lost it");
	}
}

void smd_epoch_agreement_begin(struct smd_comm *comm)
{
	if (comm->agreement.sealed) {
		say_sealed(comm);
	}
	smd_drain_consider(comm);
	smd_reach_tell(comm);
}

/* Servers of the candidate that this rank has lost again since. */
static uint64_t lost_again(const struct smd_epoch *candidate)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < candidate->nserving; i++) {
		const struct smd_flow *flow = &candidate->flows[candidate->remotes[i]];

		lost |= flow->dead ? 1ull << flow->target : 0;
	}
	return lost;
}

static void take_epoch(struct smd_comm *comm, const struct smd_epoch_record *record)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	bool changes = comm->candidate && comm->candidate->id == record->id;
	uint64_t back = comm->now->dead & ~record->dead;

	agreement->closed &= ~back;
	agreement->closed |= record->dead | (changes ? lost_again(comm->candidate) : 0);
	agreement->sealed = agreement->closed != record->dead;
	agreement->asked = 0;
	agreement->ahead = false;
	agreement->waits = false;
	agreement->changes = false;
	agreement->reach.delay_s = back ? 0 : agreement->reach.delay_s;
	comm->adopt(comm, record);
	if (agreement->sealed && comm->state == SMD_COMM_ACTIVE) {
		say_sealed(comm);
	}
	smd_drain_consider(comm);
	smd_reach_tell(comm);
}

static struct smd_epoch_record record_of(struct smd_epoch_message *message)
{
	return (struct smd_epoch_record){
		.index = message->epoch,
		.dead = message->dead,
		.id = message->id,
		.first = message->first,
		.oldest = message->oldest,
		.nlost = message->nstreams,
		.lost = message->streams,
	};
}

/* ---- a rank: other tables ---- */

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
	       asked->scale >= SMD_CHUNK_SCALE_LEAST && asked->scale <= SMD_CHUNK_SCALE_MOST;
}

/* It comes through each server, and from a slow one maybe when it is long over. */
static int take_ahead(
	struct smd_comm *comm, const struct smd_epoch_message *asked, struct smd_error *error)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	const struct smd_epoch_table table = {asked->dead, asked->weights, asked->scale};

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
	if (!smd_reach_has(comm, comm->now->dead & ~asked->dead) ||
		comm->stand(comm, asked->id, &table)) {
		const struct smd_epoch_message no = {.kind = SMD_EPOCH_PROMISED,
			.epoch = asked->epoch,
			.dead = asked->dead,
			.id = asked->id};

		smd_epoch_say(comm, &no);
	}
	return 0;
}

static void take_cancel(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	if (comm->candidate && comm->candidate->id == message->id) {
		comm->agreement.ahead = false;
		comm->agreement.waits = false;
		comm->drop(comm);
	}
}

/* One operation ahead, so that the record is there when it is due; but a server that is to leave does
 * not wait for an operation that may never come. */
static struct smd_promise promise(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	agreement->ahead = true;
	agreement->promised = comm->next_operation + !smd_drain_is(comm->candidate);
	return (struct smd_promise){
		true, comm->now->index, agreement->promised + 1, smd_epochs_oldest(comm)};
}

void smd_epoch_agreement_stands(struct smd_comm *comm, bool joined)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_promise mine = {true, comm->now->index, 0, 0};
	struct smd_epoch_message message = {.kind = SMD_EPOCH_PROMISED,
		.epoch = comm->now->index,
		.dead = comm->now->dead,
		.id = comm->candidate->id};

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
		agreement->seals[0].promise = mine;
		conclude_change(comm);
		return;
	}
	message.first = mine.first;
	message.oldest = mine.oldest;
	smd_epoch_say(comm, &message);
}

void smd_epoch_agreement_progressed(struct smd_comm *comm)
{
	if (comm->agreement.waits && comm->candidate) {
		smd_epoch_agreement_stands(comm, true);
	}
}

/* ---- rank 0 ---- */

static int make_seals(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (!agreement->seals) {
		agreement->seals = calloc(comm->nranks, sizeof(*agreement->seals));
	}
	if (!agreement->seals) {
		smd_comm_fault(comm, -ENOMEM, "out of memory for the next epoch");
	}
	return agreement->seals ? 0 : -ENOMEM;
}

/* What rank 0 would say of itself. */
static void seal_self(struct smd_comm *comm, struct smd_seal *seal)
{
	const struct smd_epoch_agreement *agreement = &comm->agreement;
	uint64_t newly = agreement->closed & ~comm->now->dead;

	seal->said = true;
	seal->epoch = comm->now->index;
	seal->dead = agreement->closed;
	seal->begun = agreement->promised;
	seal->nstreams = smd_epochs_count_streams(comm, newly);
	smd_epochs_count_done(comm, newly, seal->done);
}

static bool all_have_sealed(const struct smd_comm *comm)
{
	const struct smd_seal *first = &comm->agreement.seals[0];

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_seal *seal = &comm->agreement.seals[r];

		if (!seal->said || seal->epoch != first->epoch || seal->dead != first->dead ||
			seal->nstreams != first->nstreams) {
			return false;
		}
	}
	return true;
}

/* Of new streams; not 0. */
static int draw_id(struct smd_comm *comm, uint64_t *out)
{
	uint8_t nonce[SMD_NONCE_SIZE];

	if (smd_nonce_draw(nonce)) {
		smd_comm_fault(comm, -ENOMEM, "no random number for the next epoch");
		return -ENOMEM;
	}
	memcpy(out, nonce, sizeof(*out));
	*out |= 1;
	return 0;
}

/* To all, this rank too. */
static void say_record(struct smd_comm *comm, struct smd_epoch_message *message)
{
	struct smd_epoch_record record = record_of(message);

	smd_epoch_say(comm, message);
	take_epoch(comm, &record);
}

static void say_epoch(struct smd_comm *comm)
{
	const struct smd_seal *seals = comm->agreement.seals;
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_RECORD,
		.epoch = comm->now->index + 1,
		.dead = seals[0].dead,
		.nstreams = (uint16_t)seals[0].nstreams,
	};

	memcpy(message.streams, seals[0].done, seals[0].nstreams * sizeof(*seals[0].done));
	for (unsigned r = 0; r < comm->nranks; r++) {
		message.first = seals[r].begun > message.first ? seals[r].begun : message.first;
		for (unsigned i = 0; i < message.nstreams; i++) {
			if (seals[r].done[i] < message.streams[i]) {
				message.streams[i] = seals[r].done[i];
			}
		}
	}
	if (draw_id(comm, &message.id) == 0) {
		say_record(comm, &message);
	}
}

/* Asks those that have not sealed what others have; says EPOCH when all have sealed the same. */
static void lead(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	uint64_t dead = agreement->closed;

	if (make_seals(comm)) {
		return;
	}
	for (unsigned r = 1; r < comm->nranks; r++) {
		if (agreement->seals[r].epoch == comm->now->index) {
			dead |= agreement->seals[r].dead;
		}
	}
	if (dead != agreement->closed) {
		/* Its communicators seal, this one too, and come back here. */
		lose_too(comm, dead & ~agreement->closed);
		return;
	}
	if (comm->state != SMD_COMM_ACTIVE || dead == comm->now->dead) {
		return;
	}
	if (agreement->asked != dead) {
		struct smd_epoch_message message = {
			.kind = SMD_EPOCH_ASK, .epoch = comm->now->index, .dead = dead};

		agreement->asked = dead;
		smd_epoch_say(comm, &message);
	}
	if (!fits(comm, smd_epochs_count_streams(comm, dead & ~comm->now->dead))) {
		return;
	}
	seal_self(comm, &agreement->seals[0]);
	if (all_have_sealed(comm)) {
		say_epoch(comm);
	}
}

static void take_sealed(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_seal *seal;

	/* A server that is lost in an earlier epoch may serve in this one. */
	if (message->epoch < comm->now->index || make_seals(comm)) {
		return;
	}
	seal = &agreement->seals[message->rank];
	seal->said = true;
	seal->epoch = message->epoch;
	seal->dead = message->dead;
	seal->begun = message->first;
	seal->nstreams = message->nstreams;
	memcpy(seal->done, message->streams, message->nstreams * sizeof(*seal->done));
	lead(comm);
}

/* ---- rank 0: other tables ---- */

bool smd_epoch_agreement_may_change(const struct smd_comm *comm)
{
	const struct smd_epoch_agreement *agreement = &comm->agreement;
	const struct smd_epoch *now = comm->now;

	if (comm->rank != 0 || comm->state != SMD_COMM_ACTIVE || comm->err || comm->leaving ||
		agreement->sealed || agreement->ahead || comm->candidate ||
		now->first > comm->next_operation) {
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

bool smd_epoch_agreement_change(struct smd_comm *comm, const struct smd_epoch_table *table)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	unsigned nweights = smd_epoch_list_there(comm, table->dead, NULL);
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_AHEAD,
		.epoch = comm->now->index,
		.dead = table->dead,
		.first = agreement->asks + 1,
		.scale = (int8_t)table->scale,
		.nweights = (uint16_t)nweights,
	};

	if (nweights > SMD_EPOCH_WEIGHTS_MAX || !smd_epoch_agreement_may_change(comm) ||
		make_seals(comm) || draw_id(comm, &message.id)) {
		return false;
	}
	memcpy(message.weights, table->weights, nweights * sizeof(*table->weights));
	for (unsigned r = 0; r < comm->nranks; r++) {
		agreement->seals[r].promise.said = false;
	}
	agreement->asks++;
	agreement->changes = true;
	if (comm->stand(comm, message.id, table)) {
		agreement->changes = false;
		return false;
	}
	smd_epoch_say(comm, &message);
	return true;
}

/* It is the next epoch when all have joined its streams, and is dropped when one cannot. */
static void conclude_change(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_RECORD,
		.epoch = comm->now->index + 1,
		.dead = comm->candidate->dead,
		.id = comm->candidate->id,
		.oldest = UINT32_MAX,
	};
	bool all = true;
	bool refused = false;

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_promise *one = &agreement->seals[r].promise;

		all &= one->said;
		refused |= one->said && one->first == 0;
		message.first = one->first > message.first ? one->first : message.first;
		message.oldest = one->oldest < message.oldest ? one->oldest : message.oldest;
	}
	message.first--;
	if (!refused) {
		if (all) {
			say_record(comm, &message);
		}
		return;
	}
	message.kind = SMD_EPOCH_CANCEL;
	message.epoch = comm->now->index;
	smd_epoch_say(comm, &message);
	agreement->changes = false;
	agreement->ahead = false;
	agreement->waits = false;
	if (comm->now->dead & ~comm->candidate->dead) {
		smd_reach_wait(comm);
	}
	if (smd_drain_is(comm->candidate)) {
		smd_drain_wait(comm);
	}
	comm->drop(comm);
}

static void take_promise(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (!agreement->changes || agreement->sealed || !comm->candidate ||
		message->id != comm->candidate->id) {
		return;
	}
	agreement->seals[message->rank].promise =
		(struct smd_promise){true, message->epoch, message->first, message->oldest};
	conclude_change(comm);
}

/* ---- records ---- */

static void check_cut(void *arg, struct smd_flow *flow)
{
	struct cut_check *check = arg;

	check->wrong |= *check->lost++ > flow->done;
}

static bool change_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	return record->dead == comm->candidate->dead && record->nlost == 0 &&
	       record->first >= comm->agreement.promised &&
	       record->oldest <= smd_epochs_oldest(comm);
}

/* It is the next one, and says of this rank what that has said. Later ones of an index are the same
 * again. */
static bool record_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	uint64_t newly = record->dead & ~comm->now->dead;
	struct cut_check check = {.lost = record->lost};

	if (comm->candidate && comm->candidate->id == record->id) {
		return change_is_right(comm, record);
	}
	if ((record->dead & comm->now->dead) != comm->now->dead || newly == 0 ||
		record->dead & ~comm->agreement.closed || record->dead == UINT64_MAX ||
		record->first < comm->agreement.promised ||
		record->nlost != smd_epochs_count_streams(comm, newly)) {
		return false;
	}
	smd_epochs_each_stream(comm, newly, check_cut, &check);
	return !check.wrong;
}

static int take_record(
	struct smd_comm *comm, const struct smd_epoch_record *record, struct smd_error *error)
{
	if (record->index != comm->now->index + 1) {
		return 0;
	}
	if (!record_is_right(comm, record)) {
		return smd_error_set(error, EPROTO,
			"AGREE: epoch %u must be of what this rank has sealed, and is not",
			record->index);
	}
	take_epoch(comm, record);
	return 0;
}

int smd_epoch_agreement_take(
	struct smd_comm *comm, const uint8_t *payload, size_t length, struct smd_error *error)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_epoch_record record;
	struct smd_epoch_message message;
	int ret = message_decode(comm, payload, length, &message, error);

	if (ret) {
		return ret;
	}
	switch (message.kind) {
	case SMD_EPOCH_SEALED:
		take_sealed(comm, &message);
		break;
	case SMD_EPOCH_ASK:
		if (message.epoch != comm->now->index) {
			break; /* what was lost then may serve again */
		}
		if (message.dead & ~agreement->closed) {
			lose_too(comm, message.dead & ~agreement->closed);
		} else if (agreement->closed != comm->now->dead) {
			say_sealed(comm);
		}
		break;
	case SMD_EPOCH_AHEAD:
		return take_ahead(comm, &message, error);
	case SMD_EPOCH_CANCEL:
		take_cancel(comm, &message);
		break;
	case SMD_EPOCH_PROMISED:
		take_promise(comm, &message);
		break;
	case SMD_EPOCH_REACHES:
		return smd_reach_take(comm, &message, error);
	default:
		record = record_of(&message);
		return take_record(comm, &record, error);
	}
	return 0;
}

void smd_epoch_agreement_destroy(struct smd_epoch_agreement *agreement)
{
	free(agreement->seals);
	smd_reach_destroy(&agreement->reach);
}
