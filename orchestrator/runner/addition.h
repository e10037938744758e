/* A reduction server that is added to the hosts of a job that runs there: its host and its address. */
#ifndef SMD_RUNNER_ADDITION_H
#define SMD_RUNNER_ADDITION_H

#include "orchestrator/runner/hosts.h"

/*
 * Finds a place for the reduction server of that index, which is the number of those before it: the
 * host with the fewest of them among those with a free slot. 0, and it can be started once it is
 * among the replicas; -EAGAIN: a port has been asked for, call again; or -errno with a text.
 */
int smd_hosts_add_server(struct smd_hosts *hosts, int index, struct smd_error *error);

/*
 * The same for a reducer on that host, which takes no slot; --bandwidth says `mbps` there, 0: nothing.
 * The host's agent has been asked for the port before. 0, or -errno with a text.
 */
int smd_hosts_add_reducer(
	struct smd_hosts *hosts, int number, int index, unsigned mbps, struct smd_error *error);

#endif
