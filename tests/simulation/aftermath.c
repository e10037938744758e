/* Looks into communicators for what shall have mended. */
#include "tests/simulation/aftermath.h"

#include <stdbool.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "tests/simulation/virtual_time.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/epoch.h"

#define MORE     10 /* operations when all is as it shall be */
#define TABLE_NS (60 * SMD_SECOND_NS) /* windows give way for five of these, and grow with a result of their shard: some operations have none */

static char sentence[256];

static bool has_all(const struct smd_comm *comm, uint64_t living)
{
	uint64_t missing = comm->now->dead & living;

	if (missing) {
		snprintf(sentence, sizeof(sentence),
			"%s: servers 0x%llx are there, and not in the table of epoch %u",
			comm->group, (unsigned long long)missing, comm->now->index);
	}
	return missing == 0;
}

/* Where nothing has been dealt to a shard, nothing more has been granted either. */
static bool has_windows(const struct smd_comm *comm, unsigned window)
{
	for (unsigned i = 0; i < comm->now->nserving; i++) {
		const struct smd_flow *flow = &comm->now->flows[comm->now->remotes[i]];

		if (flow->done > 0 && flow->limit < flow->done + window) {
			snprintf(sentence, sizeof(sentence),
				"%s: shard %u grants %llu instead of %u in epoch %u", comm->group,
				comm->now->remotes[i],
				(unsigned long long)(flow->limit - flow->done), window,
				comm->now->index);
			return false;
		}
	}
	return true;
}

static void note_tables(struct aftermath *aftermath, smd_comm *const *comms, unsigned ncomms)
{
	unsigned tables = 0;

	for (unsigned i = 0; i < ncomms; i++) {
		tables += comms[i]->now->index;
	}
	if (tables != aftermath->tables) {
		aftermath->tables = tables;
		aftermath->table_ns = virtual_now_ns();
	}
}

const char *aftermath_look(struct aftermath *aftermath, smd_comm *const *comms, unsigned ncomms,
	uint64_t living, unsigned window, uint64_t limit_ns)
{
	uint64_t now = virtual_now_ns();
	uint64_t end_ns;
	bool mended = true;
	bool there = true;

	if (aftermath->last) {
		return NULL;
	}
	if (aftermath->since_ns == 0) {
		aftermath->since_ns = now;
	}
	note_tables(aftermath, comms, ncomms);
	for (unsigned i = 0; i < ncomms && mended; i++) {
		there = has_all(comms[i], living);
		mended = there && has_windows(comms[i], window);
	}
	end_ns = aftermath->since_ns + limit_ns;
	if (there && end_ns < aftermath->table_ns + TABLE_NS) {
		end_ns = aftermath->table_ns + TABLE_NS;
	}
	if (mended) {
		aftermath->last = aftermath->decided + MORE;
		aftermath->took_ns = now - aftermath->since_ns;
	}
	return mended || now < end_ns ? NULL : sentence;
}

void aftermath_poll(smd_comm *comm)
{
	smd_progress_poll(&comm->context->progress);
}
