/* Finds out which servers have all ranks, where none of the table is left. */
#include "worker/libsummand/epoch_rescue.h"

#include "reduction_server/base/hash.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/repair.h"

static bool has_all(const struct smd_epoch *rescue)
{
	for (unsigned i = 0; i < rescue->nserving; i++) {
		const struct smd_flow *flow = &rescue->flows[rescue->remotes[i]];

		if (!flow->joined || flow->over || flow->gone || flow->dead) {
			return false;
		}
	}
	return true;
}

uint64_t smd_rescue_id(const struct smd_comm *comm, unsigned target)
{
	uint64_t id = smd_hash(SMD_HASH_SEED, &comm->attempts, sizeof(comm->attempts));

	return smd_hash(id, &target, sizeof(target)) | 1;
}

bool smd_rescue_made(const struct smd_epoch *epoch)
{
	uint64_t serving = ~epoch->dead & smd_context_first(epoch->comm->context->ntargets);

	return serving &&
	       epoch->id == smd_rescue_id(epoch->comm, (unsigned)__builtin_ctzll(serving));
}

uint64_t smd_rescue_asked(const struct smd_comm *comm)
{
	uint64_t asked = 0;

	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		asked |= ~rescue->dead;
	}
	return asked;
}

uint64_t smd_rescue_lost_table(const struct smd_comm *comm)
{
	uint64_t table = ~comm->now->dead & smd_context_first(comm->context->ntargets);

	return comm->rescue_gone || !(table & ~comm->agreement.closed) ? table : 0;
}

const struct smd_epoch *smd_rescue_whole(const struct smd_comm *comm)
{
	const struct smd_epoch *first = NULL;

	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		if (has_all(rescue) && (!first || ~rescue->dead < ~first->dead)) {
			first = rescue;
		}
	}
	return first;
}

uint64_t smd_rescue_lost(const struct smd_comm *comm)
{
	uint64_t lost = 0;

	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		for (unsigned i = 0; i < rescue->nserving; i++) {
			lost |= rescue->flows[rescue->remotes[i]].dead ? ~rescue->dead : 0;
		}
	}
	return lost;
}

uint64_t smd_rescue_lost_early(const struct smd_comm *comm)
{
	uint64_t lost = smd_rescue_lost(comm);
	uint64_t joined = 0;

	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		bool all = true;

		for (unsigned i = 0; i < rescue->nserving; i++) {
			all &= rescue->flows[rescue->remotes[i]].joined;
		}
		joined |= all ? ~rescue->dead : 0;
	}
	return lost & ~joined;
}

uint64_t smd_rescue_over(const struct smd_comm *comm)
{
	uint64_t over = smd_rescue_lost(comm);

	for (const struct smd_epoch *rescue = comm->rescues; rescue; rescue = rescue->next) {
		for (unsigned i = 0; i < rescue->nserving; i++) {
			over |= rescue->flows[rescue->remotes[i]].over ? ~rescue->dead : 0;
		}
	}
	return over;
}

const struct smd_epoch *smd_rescue_find(const struct smd_comm *comm, uint64_t id)
{
	const struct smd_epoch *rescue = comm->rescues;

	while (rescue && rescue->id != id) {
		rescue = rescue->next;
	}
	return rescue;
}

uint64_t smd_rescue_newly_lost(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	return ~comm->now->dead & (smd_rescue_find(comm, record->id) ? UINT64_MAX : record->dead);
}

uint64_t smd_rescue_back(const struct smd_comm *comm, const struct smd_epoch_record *record)
{
	return ~record->dead & (smd_rescue_find(comm, record->id) ? UINT64_MAX : comm->now->dead);
}

struct smd_epoch *smd_rescue_take(struct smd_comm *comm, uint64_t id)
{
	for (struct smd_epoch **at = &comm->rescues; *at; at = &(*at)->next) {
		struct smd_epoch *rescue = *at;

		if (rescue->id == id) {
			*at = rescue->next;
			rescue->next = NULL;
			rescue->rescues = false;
			rescue->index = comm->now->index + 1;
			rescue->scale = comm->now->scale;
			rescue->own_deal.scale = rescue->scale;
			rescue->hash = 0; /* it has been joined without one */
			return rescue;
		}
	}
	return NULL;
}
