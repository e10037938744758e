/* Makes communicators, tells their members, and ends them. */
#include "reduction_server/engine/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/hash.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/engine/lateness.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/piece.h"
#include "reduction_server/engine/receive_buffer.h"
#include "reduction_server/engine/resources.h"
#include "reduction_server/engine/window.h"

#define LACKS_MOST_S    5u /* as long as windows stay of one (window.c) */
#define OPTIONAL_LEAVES 3 /* of a job's memory so much is kept from streams that need not be */

/* ---- memory ---- */

static void comm_free_slots(struct smd_server_comm *comm)
{
	for (unsigned i = 0; i < comm->nslots; i++) {
		free(comm->slots[i].parts);
		free(comm->slots[i].sends);
		free(comm->slots[i].remote_buffers);
		free(comm->slots[i].whole);
		free(comm->slots[i].got);
	}
	free(comm->slots);
	free(comm->pieces);
	free(comm->rest);
	comm->nslots = 0;
	comm->slots = NULL;
	comm->pieces = NULL;
	comm->rest = NULL;
}

static int comm_create_slots(struct smd_server_comm *comm, unsigned nslots)
{
	comm->slots = calloc(nslots, sizeof(*comm->slots));
	comm->pieces = calloc(comm->nranks, sizeof(*comm->pieces));
	comm->rest = calloc(comm->nranks, sizeof(*comm->rest));
	if (!comm->slots || !comm->pieces || !comm->rest) {
		comm_free_slots(comm);
		return -ENOMEM;
	}
	comm->nslots = nslots;
	for (unsigned i = 0; i < nslots; i++) {
		struct smd_slot *slot = &comm->slots[i];

		slot->comm = comm;
		slot->resources = comm->resources;
		slot->parts = calloc(comm->nranks, sizeof(*slot->parts));
		slot->sends = calloc(comm->nranks, sizeof(*slot->sends));
		slot->remote_buffers = calloc(comm->nranks, sizeof(*slot->remote_buffers));
		slot->whole = calloc(comm->nranks, sizeof(*slot->whole));
		slot->got = calloc(comm->nranks, sizeof(*slot->got));
		if (!slot->parts || !slot->sends || !slot->remote_buffers || !slot->whole ||
			!slot->got) {
			comm_free_slots(comm);
			return -ENOMEM;
		}
	}
	return 0;
}

void smd_server_comm_free(struct smd_server_comm *comm)
{
	comm_free_slots(comm);
	free(comm->members);
	if (comm->job) {
		smd_job_give(comm->job);
	}
	free(comm->name);
	free(comm);
}

static int comm_no_memory(const char *name, struct smd_error *error)
{
	return smd_error_set(
		error, ENOMEM, "group %s: the reduction server is out of memory", name);
}

int smd_server_comm_no_slot(const char *name, unsigned nranks, const struct smd_buffer_pool *pool,
	struct smd_error *error)
{
	return smd_error_set(error, ENOSPC,
		"group %s: the reduction server's memory has no slot left for %u ranks (%zu of %zu "
		"buffers of %zu bytes are promised); give it a larger --memory-limit",
		name, nranks, pool->reserved, pool->total, pool->buffer_bytes);
}

int smd_server_comm_create(struct smd_comms *comms, const char *name, const char *job,
	const struct smd_join *join, struct smd_server_comm **out, struct smd_error *error)
{
	struct smd_server_comm *comm = calloc(1, sizeof(*comm));

	if (!comm) {
		return comm_no_memory(name, error);
	}
	comm->comms = comms;
	comm->resources = comms->resources;
	comm->nranks = join->nranks;
	comm->table_hash = join->table_hash;
	comm->id = join->id;
	comm->optional = join->optional;
	comm->since_ns = smd_clock_ns();
	comm->told_ns = comm->since_ns - SMD_FORMING_TELL_S * SMD_SECOND_NS;
	comm->job = smd_jobs_take(&comms->jobs, job);
	comm->name = strdup(name);
	comm->members = calloc(comm->nranks, sizeof(*comm->members));
	if (!comm->job || !comm->name || !comm->members) {
		smd_server_comm_free(comm);
		return comm_no_memory(name, error);
	}
	comm->group = comm->name + strlen(name) - strlen(join->group);
	TAILQ_INSERT_TAIL(&comms->list, comm, link);
	*out = comm;
	return 0;
}

static int comm_job_has_most(const struct smd_server_comm *comm, struct smd_error *error)
{
	return smd_error_set(error, ENOSPC,
		"group %s: the reduction server's memory has no slot left for %u ranks of this "
		"job, which has %zu of the %zu buffers of %zu bytes that one may have; give it a "
		"larger --memory-limit, or a larger --job-memory-limit",
		comm->name, comm->nranks, comm->job->reserved, comm->resources->job_buffers,
		comm->resources->pool.buffer_bytes);
}

static void comm_tell_abort(const struct smd_server_comm *comm, const struct smd_member *only,
	int err, const char *text);

/* What the communicator needs once it is complete: its sure slot, and a table of slots. */
static int comm_reserve(struct smd_server_comm *comm, struct smd_error *error)
{
	struct smd_buffer_pool *pool = &comm->resources->pool;
	size_t most = comm->resources->job_buffers;
	size_t buffers = smd_window_buffers(comm, 1);
	size_t spare = comm->optional ? most / OPTIONAL_LEAVES : 0;

	/* What must be done again after a loss needs memory, too. */
	if (spare && comm->job->reserved + buffers + spare > most) {
		smd_windows_yield(comm, comm->job->reserved + buffers + spare - most);
		return smd_error_set(
			error, ENOSPC, "group %s: no memory for other streams", comm->name);
	}
	if (buffers > pool->total - pool->reserved) {
		return smd_server_comm_no_slot(comm->name, comm->nranks, pool, error);
	}
	if (!smd_job_reserve(&comm->comms->jobs, comm->job, pool, buffers, most)) {
		return comm_job_has_most(comm, error);
	}
	if (comm_create_slots(comm, 2 * comm->resources->window)) {
		smd_job_release(&comm->comms->jobs, comm->job, pool, buffers, 0);
		return comm_no_memory(comm->name, error);
	}
	comm->window = 1;
	comm->reserved_window = 1;
	return 0;
}

void smd_server_comm_retire_if_gone(struct smd_server_comm *comm)
{
	if (comm->attached == 0 && comm->busy_slots == 0 && !comm->retired) {
		comm->retired = true;
		smd_job_release(&comm->comms->jobs, comm->job, &comm->resources->pool,
			smd_window_buffers(comm, comm->reserved_window), comm->lent);
		comm->comms->retire(comm->comms->owner, comm);
	}
}

/* ---- telling ---- */

void smd_server_comm_tell(struct smd_server_comm *comm, const struct smd_slot *slot,
	enum smd_log_level level, const char *text)
{
	struct smd_late late = {
		.nranks = comm->state == SMD_SERVER_COMM_FORMING ? (uint16_t)comm->nranks : 0};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	for (unsigned r = 0; r < late.nranks; r++) {
		if (comm->members[r]) {
			smd_rank_set_add(&late.there, r);
		}
	}
	snprintf(late.text, sizeof(late.text), "%s", text);
	length = smd_late_encode(&late, payload);
	smd_log_peer(level, comm->resources->name, comm->name, "%s", text);
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r] && (!slot || slot->whole[r])) {
			smd_peer_send(comm->members[r], SMD_FRAME_LATE, 0, payload, length);
		}
	}
}

/* What windows of the job have, that it needs: they give way. Where they have not so much, or too
 * long, it is in vain. What lanes have that are closed comes back in a moment. */
static bool comm_awaits_memory(struct smd_server_comm *comm)
{
	const struct smd_buffer_pool *pool = &comm->resources->pool;
	size_t most = comm->resources->job_buffers;
	size_t unreserved = pool->total - pool->reserved;
	size_t own = most > comm->job->reserved ? most - comm->job->reserved : 0;
	size_t room = own < unreserved ? own : unreserved;
	size_t needs = smd_window_buffers(comm, 1);
	uint64_t now_ns = smd_clock_ns();
	char text[SMD_ERROR_TEXT_MAX];
	bool yields;

	if (comm->lacks_ns == 0) { /* its ranks know then that all are there */
		snprintf(text, sizeof(text), "group %.100s: waits for memory", comm->name);
		smd_server_comm_tell(comm, NULL, SMD_LOG_DEBUG, text);
		comm->lacks_ns = now_ns;
	}
	if (now_ns - comm->lacks_ns > LACKS_MOST_S * SMD_SECOND_NS) {
		return false;
	}
	yields = !comm->optional && needs > room && smd_windows_yield(comm, needs - room);
	if (yields) {
		smd_windows_shrink_now(comm);
	} else if (comm->resources->parting == 0) {
		return false;
	}
	comm->comms->lacks(comm->comms->owner);
	return true;
}

static bool job_lacks_memory(const struct smd_server_comm *comm)
{
	const struct smd_server_comm *one;

	if (comm->job->yields_until_ns == 0) {
		return false;
	}
	TAILQ_FOREACH (one, &comm->comms->list, link) {
		if (one->job == comm->job && smd_server_comm_lacks_memory(one)) {
			return true;
		}
	}
	return false;
}

bool smd_server_comms_retry(struct smd_comms *comms)
{
	struct smd_server_comm *comm = TAILQ_FIRST(&comms->list);
	bool lacks = false;

	while (comm) {
		struct smd_server_comm *next = TAILQ_NEXT(comm, link);

		if (smd_server_comm_lacks_memory(comm)) {
			smd_server_comm_activate(comm); /* may end it */
			lacks |= smd_server_comm_lacks_memory(comm);
		}
		comm = next;
	}
	return lacks;
}

void smd_server_comm_activate(struct smd_server_comm *comm)
{
	struct smd_error error = {""};
	uint64_t attempts = SMD_HASH_SEED;
	int ret = comm_reserve(comm, &error);
	bool waits = ret == -ENOSPC && (!comm->optional || comm->resources->parting);

	if (waits && comm_awaits_memory(comm)) {
		return;
	}
	if (ret && comm->optional) { /* nothing is wrong: ranks go on as before */
		comm_tell_abort(comm, NULL, -ret, error.text);
		smd_server_comm_abandon(comm);
		return;
	}
	if (ret) {
		smd_server_comm_abort(comm, -ret, error.text);
		return;
	}
	comm->state = SMD_SERVER_COMM_ACTIVE;
	comm->since_ns = smd_clock_ns();
	if ((comm->optional || comm->lacks_ns) && !job_lacks_memory(comm)) {
		comm->job->yields_until_ns = 0; /* what windows gave way to is there */
	}
	comm->lacks_ns = 0;
	comm->limit = comm->window; /* the sure slot; more comes with results, to those who work */
	for (unsigned r = 0; r < comm->nranks; r++) {
		attempts = smd_hash(
			attempts, &comm->members[r]->attempt, sizeof(comm->members[r]->attempt));
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		comm->members[r]->limit = comm->window;
		if (comm->members[r]->lane->controls < SMD_LANE_CONTROLS_MAX) {
			/* They go with JOINED, and with nothing else. */
			(void)smd_member_advertise(comm->members[r], comm->window);
		}
		smd_peer_send_joined(comm->members[r], comm->window, attempts);
	}
	smd_log_peer(SMD_LOG_DEBUG, comm->resources->name, comm->name,
		"group %s: all %u ranks have joined", comm->name, comm->nranks);
}

/* ---- agreement ---- */

void smd_server_comm_tell_held(struct smd_server_comm *comm)
{
	uint64_t held = UINT64_MAX;

	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_member *member = comm->members[r];

		held = member && member->held < held ? member->held : held;
	}
	for (unsigned r = 0; r < comm->nranks && comm->asking; r++) {
		struct smd_member *member = comm->members[r];

		if (member && member->asked && member->asked <= held) {
			member->asked = 0;
			comm->asking--;
			smd_peer_send_held(member, held, SMD_HELD_ASKS);
		}
	}
}

void smd_server_comm_held(struct smd_member *member, uint64_t ordinal, unsigned what)
{
	struct smd_server_comm *comm = member->comm;

	member->held = ordinal > member->held ? ordinal : member->held;
	if (what != SMD_HELD_ANSWERS) {
		comm->asking += member->asked == 0;
		member->asked = ordinal;
	}
	if (comm->asking) {
		smd_server_comm_tell_held(comm);
	}
	for (unsigned r = 0; r < comm->nranks && what == SMD_HELD_ASKS_ALONE && comm->asking; r++) {
		struct smd_member *other = comm->members[r];

		/* Once: where all ask, as when they leave, n ranks would be asked n times. */
		if (other && other != member && other->held < ordinal &&
			other->questioned < ordinal) {
			other->questioned = ordinal;
			smd_peer_send_held(other, ordinal, SMD_HELD_ASKS_ALONE);
		}
	}
}

/* ---- leaving ---- */

static void comm_detach(struct smd_member *member)
{
	struct smd_server_comm *comm = member->comm;

	comm->members[member->rank] = NULL;
	comm->attached--;
	comm->lacks_ns = 0;
	comm->asking -= member->asked != 0;
	member->asked = 0;
	if (--member->peer->in_groups == 0) {
		member->peer->idle_since_ns = smd_clock_ns();
		comm->job->lanes--;
	}
	comm->lent += smd_member_count_buffers(member);
	member->comm = NULL;
	smd_window_forget(comm, member);
	smd_slot_drop_waiting(comm, member);
}

void smd_server_comm_abandon(struct smd_server_comm *comm)
{
	comm->state = SMD_SERVER_COMM_ABORTED;
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r]) {
			comm_detach(comm->members[r]);
		}
	}
	for (unsigned i = 0; i < comm->nslots; i++) {
		smd_slot_advance(&comm->slots[i]);
	}
	smd_server_comm_retire_if_gone(comm);
}

/* To all members, or to that one. */
static void comm_tell_abort(const struct smd_server_comm *comm, const struct smd_member *only,
	int err, const char *text)
{
	struct smd_abort abort = {.err = (uint32_t)err};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	snprintf(abort.text, sizeof(abort.text), "%s", text);
	length = smd_abort_encode(&abort, payload);
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r] && (!only || comm->members[r] == only)) {
			smd_peer_send(comm->members[r], SMD_FRAME_ABORT, 0, payload, length);
		}
	}
}

void smd_server_comm_abort(struct smd_server_comm *comm, int err, const char *text)
{
	smd_log_peer(SMD_LOG_WARN, comm->resources->name, comm->name, "%s", text);
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r]) { /* ABORT takes nothing from what was reduced */
			smd_slot_send_waiting(comm->members[r]);
		}
	}
	comm_tell_abort(comm, NULL, err, text);
	smd_server_comm_abandon(comm);
}

/* That rank's lane has ended, and here nothing more can be done; whether the rank has, others know.
 */
static void comm_tell_gone(struct smd_server_comm *comm, unsigned rank, const char *text)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_abort abort = {.err = ECONNRESET};
	size_t length;

	smd_log_peer(SMD_LOG_WARN, comm->resources->name, comm->name, "%s", text);
	snprintf(abort.text, sizeof(abort.text), "%s", text);
	length = smd_abort_encode(&abort, payload);
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r]) {
			smd_slot_send_waiting(comm->members[r]);
			smd_peer_send(comm->members[r], SMD_FRAME_GONE, rank, payload, length);
		}
	}
	smd_server_comm_abandon(comm);
}

static bool comm_gathers(const struct smd_server_comm *comm)
{
	for (unsigned i = 0; i < comm->nslots; i++) {
		if (comm->slots[i].state == SMD_SLOT_GATHERING) {
			return true;
		}
	}
	return false;
}

/* Nobody would answer those who ask how to go on without a server. */
static void comm_end_agreement(struct smd_server_comm *comm, unsigned rank)
{
	char text[SMD_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text),
		"group %.200s: rank %u has left, so the others cannot go on without a lost "
		"reduction server",
		comm->name, rank);
	smd_server_comm_abort(comm, ECONNRESET, text);
}

/* Between the begin of an agreement and its end a rank that leaves would be waited for. */
static void comm_note_agreement(struct smd_server_comm *comm, const struct smd_frame *frame)
{
	if (frame->window == SMD_AGREE_BEGINS && frame->ordinal > comm->sought) {
		comm->sought = frame->ordinal;
	} else if (frame->window == SMD_AGREE_CONCLUDES && frame->ordinal > comm->agreed) {
		comm->agreed = frame->ordinal;
	}
}

void smd_server_comm_relay(
	struct smd_member *member, const struct smd_frame *frame, const void *payload)
{
	struct smd_server_comm *comm = member->comm;
	unsigned first = member->rank == 0 ? 1 : 0;
	unsigned end = member->rank == 0 && comm ? comm->nranks : 1;

	if (!comm) {
		return;
	}
	for (unsigned r = first; r < end && frame->window == SMD_AGREE_BEGINS; r++) {
		if (!comm->members[r] && comm->state == SMD_SERVER_COMM_ACTIVE && !comm->retires) {
			comm_end_agreement(comm, r);
			return;
		}
	}
	comm_note_agreement(comm, frame);
	for (unsigned r = first; r < end; r++) {
		if (comm->members[r]) {
			smd_peer_send(comm->members[r], SMD_FRAME_AGREE, 0, payload, frame->length);
		}
	}
}

/* The rank has left `left`, streams of the same group, and would be waited for: here, where these form;
 * or for its word on them, where they have formed for a table that is not agreed yet. */
static bool comm_is_in_vain(
	const struct smd_server_comm *comm, const struct smd_server_comm *left, unsigned rank)
{
	if (comm->state == SMD_SERVER_COMM_FORMING) {
		return left->id == 0 && (comm->optional || (comm->id && !comm->members[rank]));
	}
	return comm->optional && comm->state == SMD_SERVER_COMM_ACTIVE && comm->done == 0 &&
	       comm->busy_slots == 0;
}

static void comm_refuse_in_vain(
	struct smd_server_comm *comm, unsigned rank, int err, const char *text)
{
	struct smd_server_comm *other;
	struct smd_server_comm *next;

	for (other = TAILQ_FIRST(&comm->comms->list); other; other = next) {
		next = TAILQ_NEXT(other, link);
		if (other != comm && comm_is_in_vain(other, comm, rank) &&
			other->job == comm->job && strcmp(other->group, comm->group) == 0) {
			comm_tell_abort(other, NULL, err, text);
			smd_server_comm_abandon(other);
		}
	}
}

void smd_server_comm_leave(struct smd_member *member, const struct smd_abort *why, bool retires)
{
	struct smd_server_comm *comm = member->comm;
	char text[SMD_ERROR_TEXT_MAX];
	char left[SMD_ERROR_TEXT_MAX];

	if (!comm) {
		return;
	}
	snprintf(left, sizeof(left), "group %s: rank %u (%s) left", comm->name, member->rank,
		smd_peer_replica(member));
	snprintf(text, sizeof(text), "%.480s in the middle of an operation", left);
	comm_detach(member);
	comm->retires |= retires;
	comm->deserted |= !retires;
	if (!retires) { /* the first table's streams may be those of servers that are lost */
		comm_refuse_in_vain(comm, member->rank, why ? (int)why->err : ECONNRESET,
			why ? why->text : left);
	}
	if (why && comm->attached) {
		smd_server_comm_abort(comm, (int)why->err, why->text);
	} else if (comm->state == SMD_SERVER_COMM_ACTIVE && comm_gathers(comm)) {
		smd_server_comm_abort(comm, ECONNRESET, text);
	} else if (comm->state == SMD_SERVER_COMM_FORMING && comm->id && !retires && comm->attached) {
		smd_server_comm_abort(comm, ECONNRESET, text); /* it will not come again */
	} else if (comm->state == SMD_SERVER_COMM_ACTIVE && comm->sought > comm->agreed &&
		   comm->attached && !comm->retires) {
		comm_end_agreement(comm, member->rank);
	} else {
		if (comm->asking) { /* it has said nothing of what it has, and asks for nothing more */
			smd_server_comm_tell_held(comm);
		}
		smd_server_comm_retire_if_gone(comm);
	}
}

void smd_server_comm_lost(struct smd_member *member, const char *reason, bool told)
{
	struct smd_server_comm *comm = member->comm;
	char text[SMD_ERROR_TEXT_MAX];

	if (!comm) {
		return;
	}
	snprintf(text, sizeof(text), "group %.200s: rank %u (%s) was lost: %s", comm->name,
		member->rank, smd_peer_replica(member), reason);
	if (told) {
		comm_tell_abort(comm, member, ECONNABORTED, text);
	}
	comm_detach(member);
	if (comm->state != SMD_SERVER_COMM_ABORTED) {
		comm_tell_gone(comm, member->rank, text);
	} else {
		smd_server_comm_retire_if_gone(comm);
	}
}

/* Ends those in that state. */
static void comms_abort(
	struct smd_comms *comms, enum smd_server_comm_state state, const char *reason)
{
	struct smd_server_comm *comm = TAILQ_FIRST(&comms->list);
	char text[SMD_ERROR_TEXT_MAX];

	while (comm) {
		struct smd_server_comm *next = TAILQ_NEXT(comm, link);

		if (comm->state == state) {
			snprintf(text, sizeof(text), "group %.200s: %s", comm->name, reason);
			smd_server_comm_abort(comm, ESHUTDOWN, text);
		}
		comm = next;
	}
}

/* Streams of later epochs form still: those who join them are there, and leave them in time. */
void smd_server_comms_drain(struct smd_comms *comms)
{
	struct smd_server_comm *comm = TAILQ_FIRST(&comms->list);
	char text[SMD_ERROR_TEXT_MAX];

	comms->draining = true;
	while (comm) {
		struct smd_server_comm *next = TAILQ_NEXT(comm, link);

		if (comm->state == SMD_SERVER_COMM_FORMING && comm->id == 0) {
			snprintf(text, sizeof(text),
				"group %.200s: the reduction server is being drained", comm->name);
			smd_server_comm_abort(comm, ESHUTDOWN, text);
		}
		comm = next;
	}
}

void smd_server_comms_stop(struct smd_comms *comms)
{
	static const char reason[] = "the reduction server was stopped";

	comms_abort(comms, SMD_SERVER_COMM_FORMING, reason);
	comms_abort(comms, SMD_SERVER_COMM_ACTIVE, reason);
}

void smd_server_comms_end(struct smd_comms *comms, unsigned after_s)
{
	char reason[160];

	snprintf(reason, sizeof(reason),
		"the reduction server was asked to end, and the group did not within %u s "
		"(--drain-timeout)",
		after_s);
	comms_abort(comms, SMD_SERVER_COMM_ACTIVE, reason);
}
