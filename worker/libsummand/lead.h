/*
 * How far a rank's chunks of an epoch are ahead of the oldest one: the first, in the order of the
 * deal, whose result has not come back.
 *
 *     0 ............ oldest ............... oldest + lead
 *     results here  | on their way, some back | wait for the oldest
 *
 * All shards of a rank share its link. Without this bound each would fill its own windows, those
 * with little would be done early, and what the others then have left nothing overlaps with. It has
 * them progress together, as the deal has laid them, and keeps what waits in the link's queue short
 * (specs/design/performance.md).
 *
 * On the owner.
 */
#ifndef SMD_LIBSUMMAND_LEAD_H
#define SMD_LIBSUMMAND_LEAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct smd_epoch;
struct smd_flow;

TAILQ_HEAD(smd_flow_list, smd_flow);

struct smd_lead {
	uint64_t oldest;             /* of the epoch's chunks */
	struct smd_flow_list held; /* whose next chunks are too far ahead of it, */
	uint64_t asked;            /* and it when they were last asked to send */
};

void smd_lead_begin(struct smd_lead *lead);

/* Whether that chunk of the flow's waits, because others are to be done first: `most` ahead of the
 * oldest may go. The flow is then asked again when these are done. */
bool smd_lead_holds(struct smd_flow *flow, uint64_t chunk, unsigned most);

/* One of the epoch's flows has a result, or is dead: calls `go` with each that was held, if the
 * oldest is another one now. */
void smd_lead_advance(struct smd_epoch *epoch, void (*go)(struct smd_flow *flow));

#endif
