/* Goes on by the next epoch. */
#include "worker/libsummand/group_epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/epoch_change.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_memory.h"
#include "worker/libsummand/epoch_rescue.h"
#include "worker/libsummand/group_failure.h"
#include "worker/libsummand/group_gone.h"
#include "worker/libsummand/group_joining.h"
#include "worker/libsummand/group_receiver.h"
#include "worker/libsummand/group_rescue_streams.h"
#include "worker/libsummand/group_streams.h"
#include "worker/libsummand/meeting.h"
#include "worker/libsummand/repair.h"
#include "worker/libsummand/settle.h"
#include "worker/libsummand/tuning.h"
#include "worker/libsummand/tuning_exchanges.h"

/* The operation's buffers may be where others were before: what lanes have cached of those goes. */
static void comm_invalidate(struct smd_comm *comm)
{
	struct smd_context *context = comm->context;

	context->generation++;
	for (unsigned i = 0; i < context->remotes.count; i++) {
		if (context->remotes.each[i]->lane) {
			smd_lane_invalidate(context->remotes.each[i]->lane, context->generation);
		}
	}
}

/* Until the next epoch this rank keeps back what it has promised not to begin. */
bool smd_group_lay(struct smd_request *operation)
{
	const struct smd_epoch_agreement *agreement = &operation->comm->agreement;
	struct smd_error error = {""};
	int ret;

	if ((agreement->sealed || agreement->ahead) && operation->sequence >= agreement->promised) {
		return false;
	}
	ret = smd_repair_lay(operation, &error);
	if (ret) {
		smd_group_fail_lost(operation->comm, ret, error.text);
		return false;
	}
	comm_invalidate(operation->comm);
	return true;
}

/* The first epoch stays: ranks agree through its streams. */
static void comm_leave_epochs(struct smd_comm *comm, uint32_t oldest)
{
	while (comm->base.next && comm->base.next->index < oldest) {
		struct smd_epoch *over = comm->base.next;

		comm->base.next = over->next;
		smd_group_leave_epoch(over);
	}
}

/* ---- the table follows what rank 0 sees ---- */

void smd_group_stop_tuning(struct smd_comm *comm)
{
	if (comm->tuning) {
		smd_tuning_destroy(comm->tuning);
		free(comm->tuning);
		comm->tuning = NULL;
	}
}

/* What ranks agree on goes through streams of the first epoch, which stay when nothing is dealt to a
 * server any more, and through later ones, which do not. */
static bool comm_is_carried_by(const struct smd_comm *comm, unsigned i)
{
	const struct smd_epoch *first = &comm->base;

	return i < first->nremotes && comm->context->remotes.each[i]->shard == 0 &&
	       !first->flows[i].over && !first->flows[i].dead;
}

/* What is dealt to the shards that are there, and whose they are. NULL: no memory. */
static struct smd_tuning_shard *comm_list_shards(const struct smd_comm *comm, unsigned *n)
{
	const struct smd_epoch *now = comm->now;
	unsigned *remotes = NULL;
	struct smd_tuning_shard *shards;

	*n = smd_epoch_list_there(comm, now->dead, NULL);
	remotes = calloc(*n, sizeof(*remotes));
	shards = calloc(*n, sizeof(*shards));
	if (!remotes || !shards) {
		free(remotes);
		free(shards);
		return NULL;
	}
	smd_epoch_list_there(comm, now->dead, remotes);
	for (unsigned i = 0; i < *n; i++) {
		const struct smd_remote *remote = comm->context->remotes.each[remotes[i]];

		shards[i] = (struct smd_tuning_shard){.server = now->flows[remotes[i]].target,
			.weight = now->weights[remotes[i]],
			.may_leave = comm_is_carried_by(comm, remotes[i]),
			.spare = remote->welcome.spare ? smd_epoch_declared_weight(now, remote) : 0,
			.apart = strcmp(remote->rail, remote->target->remotes[0]->rail) != 0};
	}
	free(remotes);
	return shards;
}

void smd_group_begin_tuning(struct smd_comm *comm)
{
	struct smd_tuning_shard *shards;
	unsigned n;

	if (comm->rank != 0 || comm->nranks < 2 || comm->context->config.declared_rates) {
		return;
	}
	shards = comm_list_shards(comm, &n);
	comm->tuning = calloc(1, sizeof(*comm->tuning));
	if (!shards || !comm->tuning ||
		smd_tuning_create(
			comm->tuning, comm->nranks, shards, n, comm->now->scale, smd_clock_ns())) {
		free(comm->tuning);
		comm->tuning = NULL;
	}
	if (comm->tuning) {
		enum smd_exchange_mode mode = comm->context->config.exchange;

		smd_exchange_choice_begin(&comm->tuning->exchange, mode != SMD_EXCHANGE_OFF,
			mode == SMD_EXCHANGE_ON, comm->now->exchanged);
	}
	if (comm->tuning && comm->now != &comm->base) {
		smd_tuning_go_on(comm->tuning, smd_clock_ns());
	}
	free(shards);
}

/* While a server is being drained its shards have no weight, and must not get one. */
static bool comm_may_tune(const struct smd_comm *comm)
{
	return (comm->context->drains & ~comm->now->dead) == 0 && smd_epoch_change_may_begin(comm);
}

/* By the operations of late. Where links decide, one that leaves a server without a chunk is
 * slower. */
static void comm_bound_chunks(struct smd_comm *comm)
{
	int least = SMD_CHUNK_SCALE_LEAST;
	int most = SMD_CHUNK_SCALE_MOST;
	uint64_t by = 2 * comm->tuning->usual + comm->tuning->rate.links_decide;

	if (comm->tuning->usual && by != comm->tuning->bounded) {
		comm->tuning->bounded = by;
		smd_deal_bound_scales(comm->now->deal, comm->tuning->usual,
			comm->tuning->rate.links_decide, &least, &most);
		smd_tuning_bound_chunks(comm->tuning, least, most);
	}
}

/* Has the ranks meet when exchanges are to be tried. */
static void comm_meet(struct smd_comm *comm)
{
	struct smd_tuning *tuning = comm->tuning;
	bool due = smd_tuning_should_meet(tuning, smd_clock_ns());

	tuning->met = smd_meeting_is_ready(comm);
	if (tuning->exchange.possible &&
		(smd_meeting_has_failed(comm) ||
			(due && !tuning->met && !smd_meeting_begin(comm)))) {
		smd_exchange_choice_stop(&tuning->exchange);
		tuning->fresh = true;
	}
}

void smd_group_tune(struct smd_comm *comm)
{
	struct smd_tuning *tuning = comm->tuning;
	struct smd_epoch_table table = {.dead = comm->now->dead};

	if (comm->context->drains) {
		smd_drain_consider(comm);
	}
	if (comm->agreement.reach.hopes) {
		smd_reach_consider(comm);
	}
	if (tuning) {
		comm_meet(comm);
	}
	if (tuning && smd_tuning_searches(tuning, smd_clock_ns())) {
		comm_bound_chunks(comm);
	}
	if (tuning && comm_may_tune(comm) && smd_tuning_want(tuning, smd_clock_ns())) {
		table.weights = tuning->weights;
		table.scale = tuning->scale;
		table.exchanged = smd_tuning_exchange_bytes(tuning);
		(void)smd_epoch_change_begin(comm, &table);
	}
}

/* Whoever wonders why a server does nothing finds it in the log. */
static void comm_tell_servers(const struct smd_comm *comm, uint64_t before)
{
	const struct smd_server_choice *choice = &comm->tuning->servers;
	char server[160];

	for (unsigned t = 0; t < comm->context->ntargets; t++) {
		bool spare = choice->spare >> t & 1;

		if ((choice->without ^ before) >> t & 1) {
			smd_target_name(&comm->context->targets[t], server);
			smd_log(SMD_LOG_INFO, "libsummand", "group %s: %s %s", comm->group, server,
				!(choice->without >> t & 1) ? "is tried with a share"
				: spare ? "is spare, and gets no share: no gain was seen"
					: "answers late whatever it gets, and is tried without a "
					  "share");
		}
	}
}

/* What was measured is of other servers; without memory for it this table stays as it is. */
static void comm_tuned(struct smd_comm *comm, bool same_servers)
{
	struct smd_request *operation;

	if (!comm->tuning) {
		return;
	}
	if (same_servers) {
		uint64_t without = comm->tuning->servers.without;

		smd_tuning_applied(comm->tuning, smd_clock_ns());
		comm_tell_servers(comm, without);
		return;
	}
	smd_group_stop_tuning(comm);
	smd_group_begin_tuning(comm);
	TAILQ_FOREACH (operation, &comm->operations, link) {
		if (comm->tuning) {
			operation->timed = 0;
			smd_tuning_begin(comm->tuning, operation->timed, smd_clock_ns());
		}
	}
}

/* Of a record that was agreed before this process lost them too: another process there, when it has
 * lanes to one, knows nothing of these streams. */
static bool is_closed(const struct smd_epoch *epoch, const struct smd_flow *flow)
{
	const struct smd_comm *comm = epoch->comm;

	return epoch != comm->candidate && !epoch->rescues &&
	       comm->agreement.closed >> flow->target & 1;
}

/* Gets a number, and asks its shards. */
static int epoch_join(struct smd_epoch *epoch)
{
	struct smd_context *context = epoch->comm->context;

	if (smd_comm_take_number(context, &epoch->receiver.number)) {
		return -EMFILE;
	}
	epoch->receiver.ops = &smd_group_epoch_receiver;
	context->comms[SMD_COMM_INDEX(epoch->receiver.number)] = &epoch->receiver;
	for (unsigned i = 0; i < epoch->nserving; i++) {
		struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

		smd_flow_begin(flow, context->remotes.each[epoch->remotes[i]]);
		if (is_closed(epoch, flow)) {
			smd_flow_die(flow);
		} else {
			smd_group_ask(flow);
		}
	}
	return 0;
}

/* Operations that were kept back begin. */
static void comm_resume(struct smd_comm *comm)
{
	struct smd_request *operation;

	for (operation = TAILQ_FIRST(&comm->operations);
		operation && comm->state == SMD_COMM_ACTIVE;
		operation = TAILQ_NEXT(operation, link)) {
		if (!operation->laid && !smd_group_lay(operation)) {
			break;
		}
	}
	comm->pump(comm);
}

/* Makes an epoch that is not agreed on, of the communicator's `candidate` or `rescues`, and joins
 * its streams. 0 or -errno. */
static int comm_join_streams(struct smd_comm *comm, uint64_t id,
	const struct smd_epoch_table *table, struct smd_epoch **place)
{
	struct smd_epoch *epoch = smd_epoch_create(comm, id, table);

	if (!epoch) {
		return -ENOMEM;
	}
	epoch->next = *place;
	*place = epoch;
	smd_epoch_memory_measure(comm);
	if (epoch_join(epoch)) {
		*place = epoch->next;
		smd_epoch_free(epoch);
		return -EMFILE;
	}
	return 0;
}

int smd_group_stand(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table)
{
	return comm_join_streams(comm, id, table, &comm->candidate);
}

int smd_group_join_rescue(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table)
{
	return comm_join_streams(comm, id, table, &comm->rescues);
}

static bool comm_leave_candidate(struct smd_comm *comm)
{
	struct smd_epoch *candidate = comm->candidate;

	comm->candidate = NULL;
	if (candidate) {
		smd_group_leave_epoch(candidate);
	}
	return candidate != NULL;
}

void smd_group_drop(struct smd_comm *comm)
{
	if (comm->tuning) {
		smd_tuning_refused(comm->tuning, smd_clock_ns());
	}
	if (comm_leave_candidate(comm) && comm->state == SMD_COMM_ACTIVE) {
		comm_resume(comm);
	}
}

/* A shard has ended it after this rank had said that it has joined. */
static bool epoch_has_ended(const struct smd_epoch *epoch)
{
	for (unsigned i = 0; i < epoch->nserving; i++) {
		const struct smd_flow *flow = &epoch->flows[epoch->remotes[i]];

		if (flow->over && !flow->gone && !flow->dead) {
			return true;
		}
	}
	return false;
}

/* The next epoch, which has its streams; NULL: the communicator has failed. */
static struct smd_epoch *comm_take_candidate(
	struct smd_comm *comm, const struct smd_epoch_record *record)
{
	struct smd_epoch *epoch = comm->candidate;
	struct smd_error error = {""};
	int ret = 0;

	comm->candidate = NULL;
	epoch->first = record->first;
	smd_epochs_append(epoch);
	if (epoch_has_ended(epoch)) {
		smd_group_fail(comm, -ECONNRESET,
			"a reduction server has ended the streams of the next epoch");
		return NULL;
	}
	if (epoch->ends_exchanges) {
		ret = smd_repair_exchanges(epoch, record->lost[0], &error);
	}
	if (ret) {
		smd_group_fail_lost(comm, ret, error.text);
	}
	return ret ? NULL : epoch;
}

/* The same, after a loss. */
static struct smd_epoch *comm_take_repair(
	struct smd_comm *comm, const struct smd_epoch_record *record)
{
	struct smd_error error = {""};
	struct smd_epoch *epoch = smd_rescue_take(comm, record->id);
	bool joined = epoch != NULL;
	int ret;

	comm_leave_candidate(comm);
	ret = smd_repair_add(comm, record, &epoch, &error);
	if (ret == 0 && joined && epoch_has_ended(epoch)) {
		ret = smd_error_set(&error, ECONNRESET,
			"a reduction server has ended the streams of the next epoch");
	} else if (ret == 0 && !joined && epoch_join(epoch)) {
		ret = smd_error_set(&error, EMFILE, "no number is free for new streams");
	}
	if (ret) {
		smd_group_fail_lost(comm, ret, error.text);
	}
	return ret ? NULL : epoch;
}

void smd_group_adopt(struct smd_comm *comm, const struct smd_epoch_record *record)
{
	bool changes = comm->candidate && comm->candidate->id == record->id;
	uint64_t back = smd_rescue_back(comm, record);
	uint64_t leavers = record->dead & ~comm->now->dead;
	bool ends = changes && comm->candidate->ends_exchanges;
	bool drains = changes && comm->agreement.soon && !ends;
	char table[SMD_EPOCH_TEXT_MAX];
	const struct smd_epoch *epoch;
	bool rescued = smd_rescue_find(comm, record->id) != NULL;

	smd_epoch_memory_measure(comm);
	smd_epoch_agreement_forget_seals(comm);
	epoch = changes ? comm_take_candidate(comm, record) : comm_take_repair(comm, record);
	if (!epoch) {
		return;
	}
	if (comm->agreement.closed != UINT64_MAX) {
		smd_group_rescue_rests(comm, ~record->dead);
	}
	if (rescued) {
		smd_group_forget_gone(comm);
	}
	comm->context->epochs++;
	comm->exchanged = epoch->exchanged;
	smd_epoch_memory_measure(comm);
	smd_epoch_describe(epoch, table);
	if (changes && leavers) {
		smd_group_leave_servers(comm, leavers);
		smd_history_release(&comm->history);
	}
	smd_log(SMD_LOG_INFO, "libsummand",
		"group %s: epoch %u, from operation %llu on, with %u shards%s; %llu chunks are "
		"done again; %s",
		comm->group, epoch->index, (unsigned long long)epoch->first, epoch->nserving,
		back      ? ", of servers that are there again too"
		: drains  ? " of servers that stay"
		: ends    ? ", and no operations from rank to rank"
		: changes ? " of other weights or chunks"
			  : "",
		(unsigned long long)epoch->nitems, table);
	smd_reconnection_tell(comm->context, back);
	if (comm->agreement.closed == UINT64_MAX) { /* those that stay have been lost meanwhile */
		if (!smd_group_may_rescue(comm)) {
			smd_group_fail_alone(comm);
			return;
		}
		smd_group_rescue_stop(comm);
		comm->rescue(comm, 0);
	}
	if (comm->state != SMD_COMM_ACTIVE) {
		return;
	}
	comm_leave_epochs(comm, record->oldest);
	smd_epoch_memory_measure(comm);
	comm_tuned(comm, changes && !back && !drains && !ends);
	smd_group_end_forming(comm);
	/* Who was needed may have left with the servers that leave. */
	smd_group_check_gone(comm, 0);
	smd_operations_check_held(comm);
	if (comm->leaving && smd_history_is_empty(&comm->history)) {
		comm->drained(comm); /* all ranks had what was lost */
	} else if (comm->leaving) {
		smd_settle_history(comm);
	} else {
		smd_settle_left(comm);
	}
	comm_resume(comm);
}
