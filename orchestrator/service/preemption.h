/*
 * Which running jobs make room for one that waits: a pure function.
 *
 * Those of a lower priority that allow it: of the lowest priority first, and of equals those that
 * began last, so that the least work is lost; as few as will do, and none where all of them would
 * not. What has been asked to leave before counts as gone.
 */
#ifndef SMD_SERVICE_PREEMPTION_H
#define SMD_SERVICE_PREEMPTION_H

#include "orchestrator/service/admission.h"

/* `capacity` is without what is about to begin. Sets is_preempted. How many there are, or -ENOMEM. */
int smd_preemption_choose(const struct smd_demand *capacity, struct smd_at_work *running,
	size_t nrunning, const struct smd_in_line *job);

#endif
