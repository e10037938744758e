/* What there is on this host. */
#ifndef SMD_AGENT_HOST_INSPECT_H
#define SMD_AGENT_HOST_INSPECT_H

#include "worker/agent/wire/facts.h"

/* Fills all but the folder; the caller clears them. 0 or -errno with a text. */
int smd_host_inspect(struct smd_host_facts *out, struct smd_error *error);

#endif
