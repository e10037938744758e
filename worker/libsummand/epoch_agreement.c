/* Says SEALED, ASK and EPOCH, and takes them. */
#include "worker/libsummand/epoch_agreement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/epoch_carrier.h"
#include "worker/libsummand/epoch_change.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/epoch_rescue.h"
#include "worker/libsummand/meeting.h"
#include "worker/libsummand/repair.h"

/* What a rank has said last. */
struct smd_seal {
	bool said;
	uint32_t epoch;
	uint64_t dead;
	uint64_t begun;
	uint32_t oldest;
	unsigned nstreams;
	uint64_t done[SMD_STREAMS_MAX];
};

/* Where streams are cut, against what this rank has. */
struct cut_check {
	const uint64_t *lost;
	bool wrong;
};

static void lead(struct smd_comm *comm);

/* ---- messages ---- */

static bool is_said_by_rank_0(unsigned kind)
{
	return kind == SMD_EPOCH_ASK || kind == SMD_EPOCH_RECORD || kind == SMD_EPOCH_AHEAD ||
	       kind == SMD_EPOCH_CANCEL || kind == SMD_EPOCH_MEET;
}

/* Only what is about lost servers names some. */
static bool message_is_right(const struct smd_comm *comm, const struct smd_epoch_message *message)
{
	bool of_loss = message->kind == SMD_EPOCH_SEALED || message->kind == SMD_EPOCH_ASK;

	return message->kind >= SMD_EPOCH_SEALED && message->kind <= SMD_EPOCH_MEETS &&
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

/* Of servers that a rank has never reached it does not know how many shards they have. The first
 * epoch is then over before anything is begun in it, so no stream of it has brought a result, which
 * a message without streams says. */
static bool knows_streams(const struct smd_comm *comm, uint64_t targets)
{
	return comm->now->index > 0 || !(targets & comm->context->absent);
}

static unsigned count_streams(const struct smd_comm *comm, uint64_t targets)
{
	return knows_streams(comm, targets) ? smd_epochs_count_streams(comm, targets) : 0;
}

/* All ranks have joined all of its streams that live, so what is said in them comes to all. */
static bool carries(const struct smd_epoch *epoch)
{
	for (unsigned i = 0; i < epoch->nserving; i++) {
		const struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

		if (!flow->dead && !flow->joined) {
			return false;
		}
	}
	return true;
}

/* The oldest epoch that this rank needs with the record of the next one: in one it must be able to
 * say what follows, and the new one's streams still form then. */
static uint32_t oldest_to_stay(const struct smd_comm *comm)
{
	uint32_t oldest = smd_epochs_oldest(comm);
	uint32_t stays = 0;

	for (const struct smd_epoch *epoch = comm->base.next; epoch && epoch->index <= oldest;
		epoch = epoch->next) {
		stays = carries(epoch) ? epoch->index : stays;
	}
	return stays;
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
		.oldest = comm->state == SMD_COMM_JOINING ? SMD_EPOCH_FORMS : oldest_to_stay(comm),
	};
	unsigned nstreams = count_streams(comm, newly);

	if (comm->state == SMD_COMM_FAILED || !fits(comm, nstreams)) {
		return;
	}
	if (comm->rank == 0) {
		lead(comm);
		return;
	}
	message.nstreams = (uint16_t)nstreams;
	if (nstreams) {
		smd_epochs_count_done(comm, newly, message.streams);
	}
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

void smd_epoch_agreement_joined(struct smd_comm *comm)
{
	if (comm->agreement.sealed && comm->rank != 0) {
		say_sealed(comm);
	}
}

void smd_epoch_agreement_rescued(struct smd_comm *comm)
{
	if (comm->agreement.last) {
		smd_epoch_say(comm, comm->agreement.last);
	}
	say_sealed(comm);
}

/*
 * Other ranks are without them. Where the communicator has not begun it is so for it alone: they
 * may be there again, which not all ranks know yet, and if each lost what another has not found
 * yet, none would ever have all of them.
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
	uint64_t back = smd_rescue_back(comm, record);
	bool rescued = smd_rescue_find(comm, record->id) != NULL;

	agreement->closed &= ~back;
	agreement->closed |= record->dead;
	agreement->closed |= changes ? lost_again(comm->candidate) : smd_rescue_lost(comm);
	agreement->sealed = agreement->closed != record->dead;
	agreement->asked = 0;
	agreement->answered = 0;
	agreement->ahead = false;
	agreement->waits = false;
	agreement->changes = false;
	if (back) {
		smd_refusals_end(&agreement->reach.refusals);
	}
	comm->adopt(comm, record);
	if (agreement->sealed && comm->state == SMD_COMM_ACTIVE) {
		say_sealed(comm);
	}
	smd_drain_consider(comm);
	if (rescued) {
		smd_reach_forget(comm);
	}
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
	seal->oldest = oldest_to_stay(comm);
	seal->nstreams = count_streams(comm, newly);
	if (seal->nstreams) {
		smd_epochs_count_done(comm, newly, seal->done);
	}
}

/* Of which a rank may know none. */
static unsigned most_streams(const struct smd_comm *comm)
{
	unsigned most = 0;

	for (unsigned r = 0; r < comm->nranks; r++) {
		unsigned nstreams = comm->agreement.seals[r].nstreams;

		most = nstreams > most ? nstreams : most;
	}
	return most;
}

static bool all_have_sealed(const struct smd_comm *comm)
{
	const struct smd_seal *first = &comm->agreement.seals[0];
	unsigned nstreams = most_streams(comm);

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_seal *seal = &comm->agreement.seals[r];

		if (!seal->said || seal->epoch != first->epoch || seal->dead != first->dead ||
			(seal->nstreams != nstreams && (seal->nstreams || comm->now->index))) {
			return false;
		}
	}
	return true;
}

/* Where the last server is lost meanwhile, some ranks have not heard it. Pages that hold no streams
 * are not touched. */
static void keep_record(
	struct smd_epoch_agreement *agreement, const struct smd_epoch_message *message)
{
	if (!agreement->last) {
		agreement->last = calloc(1, sizeof(*agreement->last));
	}
	if (agreement->last) {
		memcpy(agreement->last, message, offsetof(struct smd_epoch_message, streams));
		memcpy(agreement->last->streams, message->streams,
			message->nstreams * sizeof(*message->streams));
	}
}

void smd_epoch_agreement_record(struct smd_comm *comm, struct smd_epoch_message *message)
{
	struct smd_epoch_record record = record_of(message);

	keep_record(&comm->agreement, message);
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
		.oldest = seals[0].oldest,
		.nstreams = (uint16_t)most_streams(comm),
	};

	if (message.dead == UINT64_MAX) {
		const struct smd_epoch *rescue = smd_rescue_whole(comm);

		if (!rescue) {
			return; /* until a server has all ranks */
		}
		message.dead = rescue->dead;
		message.id = rescue->id;
	}
	memset(message.streams, 0xff, sizeof(message.streams));
	for (unsigned r = 0; r < comm->nranks; r++) {
		message.first = seals[r].begun > message.first ? seals[r].begun : message.first;
		message.oldest =
			seals[r].oldest < message.oldest ? seals[r].oldest : message.oldest;
		for (unsigned i = 0; i < message.nstreams; i++) {
			uint64_t done = i < seals[r].nstreams ? seals[r].done[i] : 0;

			message.streams[i] = done < message.streams[i] ? done : message.streams[i];
		}
	}
	if (message.id || smd_epoch_draw_id(comm, &message.id) == 0) {
		smd_epoch_agreement_record(comm, &message);
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

/* It comes through every server. */
static bool is_said_again(const struct smd_seal *seal, const struct smd_epoch_message *message)
{
	return seal->said && seal->oldest == message->oldest && seal->epoch == message->epoch &&
	       seal->dead == message->dead && seal->begun == message->first &&
	       seal->nstreams == message->nstreams &&
	       memcmp(seal->done, message->streams, message->nstreams * sizeof(*seal->done)) == 0;
}

/* A server that is lost in an earlier epoch may serve in this one. But a rank that had lost all
 * before it has heard of this one can hear of it only where it waits. Where this rank waits, too,
 * it says it when all have come; and of a rescue each rank has lost all before. */
static void tell_again(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	if (message->dead == UINT64_MAX && comm->agreement.last && !comm->rescue_late &&
		!smd_rescue_made(comm->now)) {
		smd_epoch_say(comm, comm->agreement.last);
	}
}

static void take_sealed(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_seal *seal;

	if (message->epoch < comm->now->index) {
		tell_again(comm, message);
		return;
	}
	if (make_seals(comm)) {
		return;
	}
	seal = &agreement->seals[message->rank];
	if (is_said_again(seal, message)) {
		return;
	}
	seal->said = message->oldest != SMD_EPOCH_FORMS; /* else it can take no record yet */
	seal->oldest = message->oldest;
	seal->epoch = message->epoch;
	seal->dead = message->dead;
	seal->begun = message->first;
	seal->nstreams = message->nstreams;
	memcpy(seal->done, message->streams, message->nstreams * sizeof(*seal->done));
	lead(comm);
}

/* ---- records ---- */

static void check_cut(void *arg, struct smd_flow *flow)
{
	struct cut_check *check = arg;

	check->wrong |= *check->lost++ > flow->done;
}

/* No stream has brought anything. */
static bool is_nothing(const struct smd_epoch_record *record)
{
	for (unsigned i = 0; i < record->nlost; i++) {
		if (record->lost[i]) {
			return false;
		}
	}
	return record->first == 0;
}

/* It is the next one, and says of this rank what that has said. Later ones of an index are the same
 * again. */
static bool record_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	const struct smd_epoch *rescue = smd_rescue_find(comm, record->id);
	uint64_t newly = smd_rescue_newly_lost(comm, record);
	uint64_t dead = rescue ? rescue->dead : comm->now->dead | newly;
	struct cut_check check = {.lost = record->lost};

	if (comm->candidate && comm->candidate->id == record->id) {
		return smd_epoch_change_is_right(comm, record);
	}
	if (record->dead != dead || newly == 0 || record->dead & ~comm->agreement.closed ||
		record->dead == UINT64_MAX || record->first < comm->agreement.promised ||
		record->oldest > smd_epochs_oldest(comm)) {
		return false;
	}
	if (comm->now->index == 0 && (record->nlost == 0 || !knows_streams(comm, newly))) {
		return is_nothing(record);
	}
	if (record->nlost != smd_epochs_count_streams(comm, newly)) {
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

static void take_ask(struct smd_comm *comm, const struct smd_epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	if (message->epoch != comm->now->index || (message->dead & ~agreement->answered) == 0) {
		return; /* what was lost in an earlier epoch may serve again */
	}
	agreement->answered |= message->dead;
	if (message->dead & ~agreement->closed) {
		lose_too(comm, message->dead & ~agreement->closed);
	} else if (agreement->closed != comm->now->dead) {
		say_sealed(comm);
	}
}

int smd_epoch_agreement_take(
	struct smd_flow *flow, const uint8_t *payload, size_t length, struct smd_error *error)
{
	struct smd_comm *comm = flow->comm;
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_epoch_record record;
	struct smd_epoch_message message;
	int ret = message_decode(comm, payload, length, &message, error);
	int whole;

	if (ret) {
		return ret;
	}
	whole = smd_epoch_parts_complete(&agreement->parts, flow, &message);
	if (whole < 0) {
		smd_comm_fault(comm, whole, "out of memory for what another rank says");
	}
	if (whole <= 0) {
		return 0;
	}
	switch (message.kind) {
	case SMD_EPOCH_SEALED:
		take_sealed(comm, &message);
		break;
	case SMD_EPOCH_ASK:
		take_ask(comm, &message);
		break;
	case SMD_EPOCH_AHEAD:
		return smd_epoch_change_take_ahead(comm, &message, error);
	case SMD_EPOCH_CANCEL:
		smd_epoch_change_take_cancel(comm, &message);
		break;
	case SMD_EPOCH_PROMISED:
		smd_epoch_change_take_promise(comm, &message);
		break;
	case SMD_EPOCH_REACHES:
		return smd_reach_take(comm, &message, error);
	case SMD_EPOCH_MEET:
	case SMD_EPOCH_MEETS:
		return smd_meeting_take(comm, &message, error);
	default:
		record = record_of(&message);
		return take_record(comm, &record, error);
	}
	return 0;
}

void smd_epoch_agreement_forget_seals(struct smd_comm *comm)
{
	free(comm->agreement.seals);
	comm->agreement.seals = NULL;
}

size_t smd_epoch_agreement_bytes(const struct smd_comm *comm)
{
	const struct smd_epoch_agreement *agreement = &comm->agreement;
	size_t each = (agreement->seals ? sizeof(*agreement->seals) : 0) +
		      (agreement->reach.ranks ? sizeof(*agreement->reach.ranks) : 0) +
		      (agreement->promises ? smd_epoch_promise_bytes : 0);
	size_t last = agreement->last ? sizeof(*agreement->last) : 0;

	return last + comm->nranks * each + smd_epoch_parts_bytes(&agreement->parts);
}

void smd_epoch_agreement_destroy(struct smd_epoch_agreement *agreement)
{
	free(agreement->last);
	free(agreement->seals);
	free(agreement->promises);
	smd_reach_destroy(&agreement->reach);
	smd_epoch_parts_free(&agreement->parts);
}
