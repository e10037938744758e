/* Says which lost servers a rank reaches again, and has those that all reach taken in. */
#include "worker/libsummand/epoch_reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_carrier.h"
#include "worker/libsummand/epoch_message.h"

#define SPARE_PART 4u /* of what a spare server declares; balance.h finds what is right */

static uint64_t server_of(const struct smd_context *context, unsigned target)
{
	return context->targets[target].remotes[0]->welcome.server_id;
}

bool smd_reach_has(const struct smd_comm *comm, uint64_t targets)
{
	return (targets & ~smd_context_reach(comm->context)) == 0;
}

/* Of those that are not in the table. */
static void look(const struct smd_comm *comm, struct smd_reach *out)
{
	out->targets = comm->now->dead & smd_context_reach(comm->context);
	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		out->servers[t] = out->targets >> t & 1 ? server_of(comm->context, t) : 0;
	}
}

static void say(struct smd_comm *comm, const struct smd_reach *reach)
{
	struct smd_epoch_message message = {
		.kind = SMD_EPOCH_REACHES,
		.epoch = comm->now->index,
		.dead = reach->targets,
		.first = reach->order,
	};

	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		if (reach->targets >> t & 1) {
			message.streams[message.nstreams++] = reach->servers[t];
		}
	}
	smd_epoch_say(comm, &message);
}

void smd_reach_tell(struct smd_comm *comm)
{
	struct smd_reach_told *told = &comm->agreement.reach;
	struct smd_reach now = {0};

	if (comm->state != SMD_COMM_ACTIVE || comm->err) {
		return;
	}
	look(comm, &now);
	if (comm->rank == 0) {
		told->hopes |= now.targets != 0;
		smd_reach_consider(comm);
	} else if (now.targets != told->last.targets ||
		   memcmp(now.servers, told->last.servers, sizeof(now.servers)) != 0) {
		now.order = told->last.order + 1;
		told->last = now;
		say(comm, &now);
	}
}

int smd_reach_take(
	struct smd_comm *comm, const struct smd_epoch_message *message, struct smd_error *error)
{
	struct smd_reach_told *told = &comm->agreement.reach;
	struct smd_reach *reach;
	unsigned n = 0;

	if (message->nstreams != (unsigned)__builtin_popcountll(message->dead)) {
		return smd_error_set(error, EPROTO, "AGREE: REACHES must name %d servers, got %u",
			__builtin_popcountll(message->dead), message->nstreams);
	}
	if (!told->ranks) {
		told->ranks = calloc(comm->nranks, sizeof(*told->ranks));
	}
	if (!told->ranks) {
		return 0; /* the table stays as it is */
	}
	reach = &told->ranks[message->rank];
	if (message->first <= reach->order) {
		return 0; /* through another server it was here before, or a later one was */
	}
	*reach = (struct smd_reach){.order = message->first, .targets = message->dead};
	for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
		if (reach->targets >> t & 1) {
			reach->servers[t] = message->streams[n++];
		}
	}
	told->hopes |= reach->targets != 0;
	smd_reach_consider(comm);
	return 0;
}

/* Those that every rank reaches, as the same server. */
static uint64_t find_common(const struct smd_comm *comm)
{
	const struct smd_reach *ranks = comm->agreement.reach.ranks;
	struct smd_reach own = {0};

	look(comm, &own);
	for (unsigned r = 1; r < comm->nranks && own.targets; r++) {
		for (unsigned t = 0; t < SMD_SERVERS_MAX; t++) {
			if (!ranks || !(ranks[r].targets >> t & 1) ||
				ranks[r].servers[t] != own.servers[t]) {
				own.targets &= ~(1ull << t);
			}
		}
	}
	return own.targets;
}

/* Those that are there keep theirs; others get what they declare. Spare ones get some of it: they have
 * no streams of the first epoch any more, so without a share nothing could be said through them. */
static uint32_t weight_of(const struct smd_comm *comm, unsigned i)
{
	const struct smd_epoch *now = comm->now;
	uint32_t declared;

	if (i < now->nremotes && !(now->dead >> now->flows[i].target & 1)) {
		return now->weights[i]; /* none, of one that is being drained, or spared */
	}
	declared = smd_epoch_declared_weight(now, comm->context->remotes.each[i]);
	return comm->context->remotes.each[i]->welcome.spare && declared >= SPARE_PART
		       ? declared / SPARE_PART
		       : declared;
}

static void take_in(struct smd_comm *comm, uint64_t targets)
{
	/* Where ranks rest the next operation but one may never come, nor then a drain's table. */
	bool rests = TAILQ_EMPTY(&comm->operations) && TAILQ_EMPTY(&comm->waiting);
	struct smd_epoch_table table = {.dead = comm->now->dead & ~targets,
		.scale = comm->now->scale,
		.exchanged = comm->now->exchanged,
		.soon = rests};
	unsigned n = smd_epoch_list_there(comm, table.dead, NULL);
	unsigned *remotes = calloc(n, sizeof(*remotes));
	uint32_t *weights = calloc(n, sizeof(*weights));

	if (remotes && weights) {
		smd_epoch_list_there(comm, table.dead, remotes);
		for (unsigned k = 0; k < n; k++) {
			weights[k] = weight_of(comm, remotes[k]);
		}
		table.weights = weights;
		(void)comm->change(comm, &table);
	}
	free(remotes);
	free(weights);
}

void smd_reach_consider(struct smd_comm *comm)
{
	struct smd_reach_told *told = &comm->agreement.reach;
	uint64_t common;

	if (comm->rank != 0 || !told->hopes || comm->candidate || comm->agreement.sealed ||
		smd_clock_ns() < told->refusals.next_ns) {
		return;
	}
	common = find_common(comm);
	told->hopes = common != 0;
	if (common) {
		take_in(comm, common);
	}
}

void smd_reach_wait(struct smd_comm *comm)
{
	smd_refusals_add(&comm->agreement.reach.refusals, smd_clock_ns());
}

void smd_reach_forget(struct smd_comm *comm)
{
	struct smd_reach_told *told = &comm->agreement.reach;

	told->last = (struct smd_reach){.order = told->last.order};
}

void smd_reach_destroy(struct smd_reach_told *told)
{
	free(told->ranks);
}
