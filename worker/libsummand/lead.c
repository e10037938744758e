/* Keeps an epoch's chunks near the oldest one that has not come back. */
#include "worker/libsummand/lead.h"

#include "worker/libsummand/epoch.h"

void smd_lead_begin(struct smd_lead *lead)
{
	lead->oldest = 0;
	lead->asked = 0;
	TAILQ_INIT(&lead->held);
}

/* It has come back, or never will here. */
static bool chunk_is_done(const struct smd_epoch *epoch, uint64_t chunk)
{
	const struct smd_flow *flow = smd_epoch_flow_of(epoch, chunk);

	return flow->dead || smd_deal_ordinal_of(epoch->deal, chunk) < flow->done;
}

static void find_oldest(struct smd_epoch *epoch)
{
	uint64_t *oldest = &epoch->lead.oldest;

	while (*oldest < epoch->next_chunk && chunk_is_done(epoch, *oldest)) {
		++*oldest;
	}
}

bool smd_lead_holds(struct smd_flow *flow, uint64_t chunk, unsigned most)
{
	struct smd_lead *lead = &flow->epoch->lead;

	if (chunk < lead->oldest + most) {
		return false;
	}
	find_oldest(flow->epoch);
	if (chunk < lead->oldest + most) {
		return false;
	}
	if (!flow->held) {
		flow->held = true;
		TAILQ_INSERT_TAIL(&lead->held, flow, link);
	}
	return true;
}

void smd_lead_advance(struct smd_epoch *epoch, void (*go)(struct smd_flow *flow))
{
	struct smd_lead *lead = &epoch->lead;
	struct smd_flow *last;

	find_oldest(epoch);
	last = lead->oldest == lead->asked ? NULL : TAILQ_LAST(&lead->held, smd_flow_list);
	lead->asked = lead->oldest;
	while (last) {
		struct smd_flow *flow = TAILQ_FIRST(&lead->held);

		TAILQ_REMOVE(&lead->held, flow, link);
		flow->held = false;
		go(flow);
		last = flow == last ? NULL : last;
	}
}
