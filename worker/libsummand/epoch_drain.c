/* Asks for tables without servers that are being drained, and tells when they are needed no more.
 */
#include "worker/libsummand/epoch_drain.h"

#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/epoch.h"

#define RETRY_NS (SMD_SECOND_NS / 2)

static bool is_of(uint64_t targets, const struct smd_flow *flow)
{
	return targets >> flow->target & 1;
}

/* The table without `dead`, that deals nothing to `drains`, and to servers that operations were
 * faster without (server_choice.h) only where no other one stays. */
static void ask_for(struct smd_comm *comm, uint64_t dead, uint64_t drains)
{
	const struct smd_epoch *now = comm->now;
	struct smd_epoch_table table = {
		.dead = dead, .scale = now->scale, .exchanged = now->exchanged, .soon = true};
	unsigned n = smd_epoch_list_there(comm, dead, NULL);
	unsigned *remotes = calloc(n, sizeof(*remotes));
	uint32_t *weights = calloc(n, sizeof(*weights));

	bool none = (smd_epoch_serving(now) & ~drains) == 0;

	if (remotes && weights) {
		smd_epoch_list_there(comm, dead, remotes);
		for (unsigned k = 0; k < n; k++) {
			struct smd_remote *remote = comm->context->remotes.each[remotes[k]];
			const struct smd_flow *flow = smd_epoch_flow(now, remote);

			if (!flow || is_of(drains, flow)) {
				weights[k] = 0;
			} else if (none) {
				weights[k] = smd_epoch_declared_weight(now, remote);
			} else {
				weights[k] = flow->serves ? now->weights[remotes[k]] : 0;
			}
		}
		table.weights = weights;
		(void)comm->change(comm, &table);
	}
	free(remotes);
	free(weights);
}

/* Those that nothing is dealt to are among them. */
static uint64_t servers_there(const struct smd_comm *comm)
{
	const struct smd_epoch *now = comm->now;
	uint64_t there = 0;

	for (unsigned i = 0; i < now->nremotes; i++) {
		there |= 1ull << now->flows[i].target;
	}
	return there & ~now->dead;
}

void smd_drain_consider(struct smd_comm *comm)
{
	uint64_t drains = comm->context->drains & ~comm->now->dead;
	uint64_t serving;

	if (drains == 0 || comm->rank != 0 || smd_clock_ns() < comm->agreement.drain_ns) {
		return;
	}
	serving = smd_epoch_serving(comm->now);
	if ((servers_there(comm) & ~drains) == 0) {
		return; /* they serve until others are there, or their time is over */
	}
	if (serving & drains) {
		ask_for(comm, comm->now->dead, drains);
	} else {
		ask_for(comm, comm->now->dead | drains, drains);
	}
}

void smd_drain_wait(struct smd_comm *comm)
{
	comm->agreement.drain_ns = smd_clock_ns() + RETRY_NS;
}

/* Of one epoch, which is not the last one. */
static bool epoch_needs(const struct smd_epoch *epoch, uint64_t targets)
{
	bool has = false;

	for (unsigned k = 0; k < epoch->nserving; k++) {
		const struct smd_flow *flow = &epoch->flows[epoch->remotes[k]];

		if (!is_of(targets, flow) || flow->died) {
			continue;
		}
		has = true;
		if ((flow->dead && !flow->left) ||
			smd_deal_ordinals_before(epoch->deal, flow->place, epoch->next_chunk) >
				flow->done) {
			return true;
		}
	}
	return has && epoch->next->first > epoch->comm->next_operation;
}

bool smd_drain_needs(const struct smd_comm *comm, uint64_t targets)
{
	for (const struct smd_epoch *epoch = &comm->base; epoch != comm->now; epoch = epoch->next) {
		if (epoch_needs(epoch, targets)) {
			return true;
		}
	}
	return (smd_epoch_serving(comm->now) & targets) != 0;
}
