/* Says SEALED, ASK and EPOCH, and takes them. */
#include "worker/libsummand/epoch_agreement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/cursor.h"
#include "worker/libsummand/repair.h"

enum { SEALED = 1, ASK = 2, EPOCH = 3 };

/* What a rank has said last. */
struct smd_seal {
	bool said;
	uint32_t epoch;
	uint64_t dead;
	uint64_t begun;
	unsigned nstreams;
	uint64_t done[SMD_STREAMS_MAX];
};

struct epoch_message {
	uint8_t kind;
	uint16_t rank;
	uint32_t epoch;
	uint64_t dead;
	uint64_t id;    /* EPOCH */
	uint64_t first; /* EPOCH: F; SEALED: N */
	uint16_t nstreams;
	uint64_t streams[SMD_STREAMS_MAX]; /* EPOCH: L; SEALED: done */
};
_Static_assert(SMD_STREAMS_MAX * 8 + 64 <= SMD_CONTROL_MAX, "a message fits into a frame");

/* Where streams are cut, against what this rank has. */
struct cut_check {
	const uint64_t *lost;
	bool wrong;
};

static void lead(struct smd_comm *comm);

/* ---- messages ---- */

static size_t message_encode(const struct epoch_message *message, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};

	smd_writer_put(&writer, message->kind, 1);
	smd_writer_put(&writer, message->rank, 2);
	smd_writer_put(&writer, message->epoch, 4);
	smd_writer_put(&writer, message->dead, 8);
	smd_writer_put(&writer, message->id, 8);
	smd_writer_put(&writer, message->first, 8);
	smd_writer_put(&writer, message->nstreams, 2);
	for (unsigned i = 0; i < message->nstreams; i++) {
		smd_writer_put(&writer, message->streams[i], 8);
	}
	return writer.used;
}

static int message_decode(const struct smd_comm *comm, const uint8_t *payload, size_t length,
	struct epoch_message *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	out->kind = (uint8_t)smd_reader_get(&reader, 1);
	out->rank = (uint16_t)smd_reader_get(&reader, 2);
	out->epoch = (uint32_t)smd_reader_get(&reader, 4);
	out->dead = smd_reader_get(&reader, 8);
	out->id = smd_reader_get(&reader, 8);
	out->first = smd_reader_get(&reader, 8);
	out->nstreams = (uint16_t)smd_reader_get(&reader, 2);
	for (unsigned i = 0; i < out->nstreams && i < SMD_STREAMS_MAX; i++) {
		out->streams[i] = smd_reader_get(&reader, 8);
	}
	if (reader.failed || reader.left || out->nstreams > SMD_STREAMS_MAX ||
		out->rank >= comm->nranks || out->kind < SEALED || out->kind > EPOCH ||
		(comm->rank == 0) != (out->kind == SEALED) ||
		(comm->rank == 0) != (out->rank != 0) || out->dead == 0 ||
		out->dead & ~smd_context_targets(comm->context)) {
		return smd_error_set(error, EPROTO,
			"AGREE: payload must be as specs/design/wire.md says, got %zu bytes that "
			"are not",
			length);
	}
	return 0;
}

/* Through every server that this rank has lanes to: one of them may die on the way. */
static void say(struct smd_comm *comm, struct epoch_message *message)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	message->rank = comm->rank;
	length = message_encode(message, payload);
	for (unsigned i = 0; i < comm->context->remotes.count; i++) {
		const struct smd_flow *flow = &comm->base.flows[i];

		if (flow->joined && !flow->over && !flow->dead && flow->remote->shard == 0) {
			smd_remote_send_agree(flow->remote, comm->base.receiver.number, comm->rank,
				message->kind == EPOCH ? message->epoch : message->epoch + 1ull,
				message->kind == EPOCH, payload, length);
		}
	}
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
	struct epoch_message message = {
		.kind = SEALED,
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
	say(comm, &message);
}

void smd_epoch_agreement_lose(struct smd_comm *comm, uint64_t targets)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	agreement->closed |= targets;
	if (!agreement->sealed) {
		agreement->sealed = true;
		agreement->promised = comm->next_operation;
	}
	say_sealed(comm);
}

void smd_epoch_agreement_begin(struct smd_comm *comm)
{
	if (comm->agreement.sealed) {
		say_sealed(comm);
	}
}

static void take_epoch(struct smd_comm *comm, const struct smd_epoch_record *record)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;

	agreement->closed |= record->dead;
	if (agreement->closed == record->dead) {
		agreement->sealed = false;
	}
	comm->adopt(comm, record);
	if (agreement->sealed && comm->state == SMD_COMM_ACTIVE) {
		say_sealed(comm);
	}
}

/* ---- rank 0 ---- */

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

static void say_epoch(struct smd_comm *comm)
{
	const struct smd_seal *seals = comm->agreement.seals;
	struct epoch_message message = {
		.kind = EPOCH,
		.epoch = comm->now->index + 1,
		.dead = seals[0].dead,
		.nstreams = (uint16_t)seals[0].nstreams,
	};
	uint8_t nonce[SMD_NONCE_SIZE];
	struct smd_epoch_record record;

	if (smd_nonce_draw(nonce)) {
		smd_comm_fault(comm, -ENOMEM, "no random number for the next epoch");
		return;
	}
	memcpy(&message.id, nonce, sizeof(message.id));
	message.id |= 1; /* not 0 */
	memcpy(message.streams, seals[0].done, seals[0].nstreams * sizeof(*seals[0].done));
	for (unsigned r = 0; r < comm->nranks; r++) {
		message.first = seals[r].begun > message.first ? seals[r].begun : message.first;
		for (unsigned i = 0; i < message.nstreams; i++) {
			if (seals[r].done[i] < message.streams[i]) {
				message.streams[i] = seals[r].done[i];
			}
		}
	}
	say(comm, &message);
	record = (struct smd_epoch_record){message.epoch, message.dead, message.id, message.first,
		message.nstreams, message.streams};
	take_epoch(comm, &record);
}

/* Asks those that have not sealed what others have; says EPOCH when all have sealed the same. */
static void lead(struct smd_comm *comm)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	uint64_t dead = agreement->closed;

	if (!agreement->seals) {
		agreement->seals = calloc(comm->nranks, sizeof(*agreement->seals));
	}
	if (!agreement->seals) {
		smd_comm_fault(comm, -ENOMEM, "out of memory when a reduction server was lost");
		return;
	}
	for (unsigned r = 1; r < comm->nranks; r++) {
		dead |= agreement->seals[r].dead;
	}
	if (dead != agreement->closed) {
		/* Its communicators seal, this one too, and come back here. */
		smd_context_lose(
			comm->context, dead & ~agreement->closed, "another rank has lost it");
		return;
	}
	if (comm->state != SMD_COMM_ACTIVE || dead == comm->now->dead) {
		return;
	}
	if (agreement->asked != dead) {
		struct epoch_message message = {
			.kind = ASK, .epoch = comm->now->index, .dead = dead};

		agreement->asked = dead;
		say(comm, &message);
	}
	if (!fits(comm, smd_epochs_count_streams(comm, dead & ~comm->now->dead))) {
		return;
	}
	seal_self(comm, &agreement->seals[0]);
	if (all_have_sealed(comm)) {
		say_epoch(comm);
	}
}

static void take_sealed(struct smd_comm *comm, const struct epoch_message *message)
{
	struct smd_epoch_agreement *agreement = &comm->agreement;
	struct smd_seal *seal;

	if (!agreement->seals) {
		agreement->seals = calloc(comm->nranks, sizeof(*agreement->seals));
	}
	if (!agreement->seals) {
		smd_comm_fault(comm, -ENOMEM, "out of memory when a reduction server was lost");
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

static void check_cut(void *arg, struct smd_flow *flow)
{
	struct cut_check *check = arg;

	check->wrong |= *check->lost++ > flow->done;
}

/* It is the next one, and says of this rank what that has said. Later ones of an index are the same
 * again. */
static bool record_is_right(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	uint64_t newly = record->dead & ~comm->now->dead;
	struct cut_check check = {.lost = record->lost};

	if ((record->dead & comm->now->dead) != comm->now->dead || newly == 0 ||
		record->dead & ~comm->agreement.closed ||
		record->dead == smd_context_targets(comm->context) ||
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
	struct epoch_message message;
	int ret = message_decode(comm, payload, length, &message, error);

	if (ret) {
		return ret;
	}
	switch (message.kind) {
	case SEALED:
		take_sealed(comm, &message);
		break;
	case ASK:
		if (message.dead & ~agreement->closed) {
			smd_context_lose(comm->context, message.dead & ~agreement->closed,
				"another rank has lost it");
		} else if (message.epoch == comm->now->index &&
			   agreement->closed != comm->now->dead) {
			say_sealed(comm);
		}
		break;
	default:
		record = (struct smd_epoch_record){message.epoch, message.dead, message.id,
			message.first, message.nstreams, message.streams};
		return take_record(comm, &record, error);
	}
	return 0;
}

void smd_epoch_agreement_destroy(struct smd_epoch_agreement *agreement)
{
	free(agreement->seals);
}
