/* From an engine's hosts to placed replicas, and back: the part of hosts.h before and after a job
 * runs. */
#ifndef SMD_RUNNER_ALLOCATION_H
#define SMD_RUNNER_ALLOCATION_H

#include "orchestrator/runner/hosts.h"

/* Looks after agents that come too late, and places the replicas when all have come. */
void smd_allocation_turn(struct smd_hosts *hosts);

/* "HOST:PORT", which the caller frees. 0 or -ENOMEM. */
int smd_allocation_endpoint(char **out, const struct smd_host_address *address, unsigned port);

/* Frees what is known of the hosts. */
void smd_allocation_forget(struct smd_hosts *hosts);

#endif
