/*
 * What a keeper's process is made with: a replica's command line, in a container or not, its
 * variables, and what removes what it leaves.
 */
#ifndef SMD_AGENT_HOST_START_H
#define SMD_AGENT_HOST_START_H

#include "worker/agent/host/hosted.h"

struct smd_start {
	char *const *argv; /* the launch's, or */
	char **container;  /* that of a container; NULL: it has none */
	char **envp;
	char *cleanup; /* a shell command; "": nothing is left */
};

/* Makes what the launch needs on this host. 0, or -errno with a text if there is more to say. The
 * caller clears it in any case. */
int smd_start_make(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error);
void smd_start_clear(struct smd_start *start);

#endif
