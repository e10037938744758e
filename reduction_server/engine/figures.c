/* Counts up what a shard shows of itself. */
#include "reduction_server/engine/figures.h"

#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/resources.h"

static void figures_add_rank(struct smd_shard_figures *figures, const struct smd_server_comm *comm,
	unsigned rank, uint64_t waited_ns)
{
	if (figures->late++ < SMD_LATE_FIGURES_MAX) {
		struct smd_late_figure *late = &figures->late_ranks[figures->late - 1];

		snprintf(late->group, sizeof(late->group), "%s", comm->name);
		snprintf(late->replica, sizeof(late->replica), "%s",
			comm->members[rank] ? smd_peer_replica(comm->members[rank]) : "");
		late->rank = rank;
		late->waited_ns = waited_ns;
	}
}

/* Who has not joined yet, which is not known by name; or for the operation that is due. */
static void figures_add_late(
	struct smd_shard_figures *figures, const struct smd_server_comm *comm, uint64_t now_ns)
{
	bool forms = comm->state == SMD_SERVER_COMM_FORMING;
	const struct smd_slot *slot = forms ? NULL : &comm->slots[comm->done % comm->nslots];
	uint64_t since_ns = forms ? comm->since_ns : slot->opened_ns;
	unsigned late_s = forms ? comm->resources->late_s : SMD_LATE_FIGURES_S;

	if ((forms && comm->id) || (slot && slot->state != SMD_SLOT_GATHERING) ||
		now_ns - since_ns < late_s * SMD_SECOND_NS) {
		return;
	}
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (forms ? !comm->members[r] : comm->members[r] && !slot->whole[r]) {
			figures_add_rank(figures, comm, r, now_ns - since_ns);
		}
	}
}

void smd_figures_add_comms(
	struct smd_shard_figures *figures, const struct smd_comms *comms, uint64_t now_ns)
{
	const struct smd_resources *resources = comms->resources;
	const struct smd_buffer_pool *pool = &resources->pool;
	size_t stride = SMD_BUFFER_POOL_STRIDE(pool->buffer_bytes);
	const struct smd_server_comm *comm;
	const struct smd_server_job *job;

	TAILQ_FOREACH (comm, &comms->list, link) {
		figures->forming += comm->state == SMD_SERVER_COMM_FORMING;
		if (comm->state == SMD_SERVER_COMM_ACTIVE) {
			figures->active++;
			figures->window += comm->window;
			figures_add_late(figures, comm, now_ns);
		}
	}
	TAILQ_FOREACH (comm, &comms->list, link) { /* these may fill the table */
		if (comm->state == SMD_SERVER_COMM_FORMING) {
			figures_add_late(figures, comm, now_ns);
		}
	}
	LIST_FOREACH (job, &comms->jobs.list, link) {
		figures->jobs++;
	}
	figures->chunks = resources->chunks;
	figures->operations = resources->operations;
	figures->late_reports = resources->late_reports;
	figures->busy_slots = resources->busy_slots;
	figures->memory_bytes = smd_buffer_pool_bytes(pool);
	figures->reserved_bytes = pool->reserved * stride;
	figures->used_bytes = (pool->total - pool->nfree) * stride;
}

void smd_figures_open(struct smd_published_figures *published)
{
	pthread_mutex_init(&published->lock, NULL);
}

void smd_figures_close(struct smd_published_figures *published)
{
	pthread_mutex_destroy(&published->lock);
}

void smd_figures_publish(
	struct smd_published_figures *published, const struct smd_shard_figures *figures)
{
	if (pthread_mutex_trylock(&published->lock) == 0) {
		published->last = *figures;
		pthread_mutex_unlock(&published->lock);
	}
}

void smd_figures_read(struct smd_published_figures *published, struct smd_shard_figures *out)
{
	pthread_mutex_lock(&published->lock);
	*out = published->last;
	pthread_mutex_unlock(&published->lock);
}
