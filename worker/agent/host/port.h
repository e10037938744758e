/*
 * TCP ports on this machine, each held by one process at a time.
 *
 * A port is held by a Unix socket bound to the abstract name "summand-port-PORT". Such names belong
 * to the network namespace, as ports do, and vanish with the process, however it ends: no file can
 * be left over. A port that something is bound to is skipped.
 */
#ifndef SMD_AGENT_HOST_PORT_H
#define SMD_AGENT_HOST_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_PORT_FIRST 20000
#define SMD_PORT_LAST  29999

/* All zero: none is held. */
struct smd_ports {
	int *fds; /* the sockets that hold ports */
	size_t count;
	unsigned tried; /* how many have been tried, from the first on */
};

/* Holds one more port until smd_ports_release(). 0; -EADDRINUSE when every port has been tried, or
 * another -errno, with a text. */
int smd_ports_reserve(struct smd_ports *ports, uint16_t *port, struct smd_error *error);

void smd_ports_release(struct smd_ports *ports);

#endif
