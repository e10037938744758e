/*
 * Which waiting jobs begin now: a pure function of what the machine has, what runs and what waits.
 *
 * Jobs are taken by priority, and first come first served among equals. One that does not fit gets
 * the earliest time at which it will, as far as the time limits of those that run say; one behind
 * it begins before it only where that moves no such time of those ahead (conservative backfill).
 */
#ifndef SMD_SERVICE_ADMISSION_H
#define SMD_SERVICE_ADMISSION_H

#include "orchestrator/store/queue.h"

#define SMD_ADMISSION_LOOKED_AT 256 /* of those that wait: the ones ahead */

struct smd_at_work {
	struct smd_demand demand;
	int64_t ends_s; /* by when it has ended */
	/* For preemption (preemption.h): */
	int priority;
	int64_t began_s;
	int may_be_preempted; /* its job allows it, and it has been asked not yet */
	int is_leaving;       /* it has been asked */
	int is_preempted;     /* the result */
};

struct smd_in_line {
	struct smd_demand demand;
	int priority;
	int64_t lasts_s; /* at most */
	int begins;      /* the result */
};

/* Takes the demand out of the room; with -1 as sign it is given back. */
void smd_admission_take(struct smd_demand *room, const struct smd_demand *demand, int sign);

/* Whether the demand can ever be met. */
int smd_admission_fits(const struct smd_demand *capacity, const struct smd_demand *demand);

/* `waiting` is in the order in which they are served. 0 or -ENOMEM. */
int smd_admission_choose(const struct smd_demand *capacity, const struct smd_at_work *running,
	size_t nrunning, struct smd_in_line *waiting, size_t nwaiting, int64_t now_s);

#endif
