/*
 * Reduction servers on loopback, as processes of the one that runs the fleets. Nodes may signal
 * them.
 */
#ifndef TESTS_NCCL_PROXY_SERVERS_H
#define TESTS_NCCL_PROXY_SERVERS_H

#include <stddef.h>
#include <sys/types.h>

#include "tests/nccl_proxy/fleet.h"

#define SERVERS_MAX 4

struct servers {
	int n;
	pid_t pids[SERVERS_MAX]; /* 0: has ended */
	char addresses[SERVERS_MAX][64];
	char list[SERVERS_MAX * 64]; /* as SUMMAND_REDUCTION_SERVERS takes it */
};

/* Starts n servers of one thread each, and waits until they are ready. */
void servers_start(struct servers *servers, int n);

/* Sends a signal; by any process. */
void servers_signal(const struct servers *servers, int which, int signal_number);

/* Starts another at the address of one that was killed; as a process of the caller, with which it
 * ends. */
void servers_restart(struct servers *servers, int which);

/* Ends them, and fails when one that nobody killed or stopped does not drain: it still has
 * communicators. */
void servers_stop(struct servers *servers);

/* Runs a fleet whose nodes find n servers in their environment, and in their argument where the
 * fleet has none. */
bool servers_run(struct fleet fleet, int n);

/* An address on loopback where nobody listens, and nobody will while this process lives. */
void servers_closed_address(char *address, size_t size);

#endif
