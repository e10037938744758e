/* From an engine's hosts to placed replicas, and back: the part of hosts.h before and after a job
 * runs. */
#ifndef SMD_RUNNER_ALLOCATION_H
#define SMD_RUNNER_ALLOCATION_H

#include "orchestrator/runner/hosts.h"

/* Looks after agents that come too late, and places the replicas when all have come. */
void smd_allocation_turn(struct smd_hosts *hosts);

/* Frees what is known of the hosts. */
void smd_allocation_forget(struct smd_hosts *hosts);

#endif
