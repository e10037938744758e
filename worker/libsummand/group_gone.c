/* Takes GONE, and finds out whether the rank is lost or only its lanes to that shard. */
#include "worker/libsummand/group_gone.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/exchange_piece.h"
#include "worker/libsummand/group_failure.h"

/* Some shard that this rank has a stream to has not said anything of the kind. One that has come
 * back is not in the first epoch; where it has lost a rank, some of its streams say so. */
static bool comm_has_whole_shard(const struct smd_comm *comm)
{
	for (unsigned i = 0; i < comm->context->remotes.count; i++) {
		const struct smd_remote *remote = comm->context->remotes.each[i];
		const struct smd_flow *first = smd_epoch_flow(&comm->base, remote);
		bool later = !first || first->dead;
		bool lives = !later;
		bool over = !later && first->over;

		for (const struct smd_epoch *epoch = comm->base.next; later && epoch;
			epoch = epoch->next) {
			const struct smd_flow *flow = smd_epoch_flow(epoch, remote);

			lives |= flow && flow->joined && !flow->dead;
			over |= flow && flow->joined && !flow->dead && flow->over;
		}
		if (lives && !over) {
			return true;
		}
	}
	return false;
}

/* What ranks have begun among themselves may need nothing more of the one that is lost. */
static bool comm_exchanges(struct smd_comm *comm)
{
	if (!comm->exchanges || !comm->exchanges->begun) {
		return false;
	}
	for (unsigned i = 0; comm->end == SMD_COMM_NO_END && i < comm->base.nremotes; i++) {
		if (comm->base.flows[i].gone) {
			smd_group_end_by(&comm->base.flows[i], -ECONNRESET, comm->gone.text);
		}
	}
	return comm->end != SMD_COMM_NO_END;
}

void smd_group_check_gone(struct smd_comm *comm, uint64_t last)
{
	if (!comm->gone.text[0] || comm_has_whole_shard(comm) ||
		comm->rescue_from_gone(comm, last) || comm_exchanges(comm)) {
		return;
	}
	smd_group_fail(comm, -ECONNRESET, comm->gone.text);
}

/* All ranks have joined the last epoch's streams since. */
void smd_group_forget_gone(struct smd_comm *comm)
{
	for (unsigned i = 0; i < comm->now->nserving; i++) {
		if (comm->now->flows[comm->now->remotes[i]].gone) {
			return;
		}
	}
	smd_progress_lock(&comm->context->progress);
	comm->gone = (struct smd_error){""};
	comm->gone_ranks = (struct smd_rank_set){{0}};
	smd_progress_unlock(&comm->context->progress);
}

/* Ranks that a shard has lost may live, and have joined another one: of one that still waits for
 * others it is known who is there when it has said LATE since; one that has said JOINED has all. */
static bool comm_gone_may_live(const struct smd_comm *comm)
{
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		const struct smd_flow *flow = &comm->base.flows[i];

		if (flow->asked && !flow->dead && !flow->over &&
			(flow->joined || !flow->told_there || flow->holds_gone)) {
			return true;
		}
	}
	return false;
}

void smd_group_weigh_gone(struct smd_comm *comm)
{
	if (comm->state == SMD_COMM_JOINING && comm->gone.text[0]) {
		bool may_live = comm_gone_may_live(comm);

		smd_progress_lock(&comm->context->progress);
		if (comm->gone_may_live &&
			!may_live) { /* they may only be late, as if they had gone now */
			comm->gone_ns = smd_clock_ns();
		}
		comm->gone_may_live = may_live;
		smd_progress_unlock(&comm->context->progress);
	}
}

void smd_group_note_there(struct smd_flow *flow, const struct smd_rank_set *there)
{
	flow->told_there = true;
	flow->holds_gone = smd_rank_set_holds(there, &flow->comm->gone_ranks);
	smd_group_weigh_gone(flow->comm);
}

/* What others have said before is not about this rank. */
static void comm_add_gone(struct smd_comm *comm, unsigned rank)
{
	smd_rank_set_add(&comm->gone_ranks, rank);
	for (unsigned i = 0; i < comm->base.nremotes; i++) {
		comm->base.flows[i].told_there = false;
	}
}

/* One server may have lost a rank that lives, and all another one that died: both are named, each
 * once. */
void smd_group_note_gone(struct smd_comm *comm, const char *text)
{
	const char *reason = strstr(text, " was lost: ");
	char who[SMD_ERROR_TEXT_MAX];

	snprintf(who, sizeof(who), "%.*s", reason ? (int)(reason - text) : -1, text);
	smd_progress_lock(&comm->context->progress);
	if (!comm->gone.text[0]) {
		smd_error_set(&comm->gone, ECONNRESET, "%s", text);
		comm->gone_ns = smd_clock_ns();
	} else if (!strstr(comm->gone.text, who)) {
		smd_error_add(&comm->gone, text);
	}
	smd_progress_unlock(&comm->context->progress);
}

void smd_group_gone(struct smd_flow *flow, unsigned rank, const char *text)
{
	struct smd_comm *comm = flow->comm;

	if (comm->end != SMD_COMM_NO_END) {
		smd_group_end_flow(flow, -ECONNRESET, text);
		smd_operations_check_held(comm); /* nobody answers them there any more */
		return;
	}
	flow->over = true;
	flow->gone = true;
	comm_add_gone(comm, rank);
	smd_group_note_gone(comm, text);
	smd_group_check_gone(comm, 0);
	smd_group_weigh_gone(comm);
}
