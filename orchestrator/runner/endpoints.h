/* Where the replicas of a placed job are reached: their addresses and ports, and what else differs
 * between their hosts. */
#ifndef SMD_RUNNER_ENDPOINTS_H
#define SMD_RUNNER_ENDPOINTS_H

#include "orchestrator/runner/hosts.h"

/* "HOST:PORT+HOST:PORT", one for each of the first `count` rails, which the caller frees. 0 or
 * -ENOMEM. */
int smd_endpoint_make(char **out, const struct smd_host_rails *rails, size_t count, unsigned port);

/* Fills in the placement. The hosts are there, and it is known which replica each of them has. 0,
 * or -errno with a text that names the host. */
int smd_endpoints_fill(struct smd_hosts *hosts, struct smd_error *error);

#endif
