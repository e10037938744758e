/*
 * TCP ports on this machine, each held by one process at a time.
 *
 * A port is held by a lock on the byte with its number in /tmp/summand-ports-UID; the kernel drops
 * the lock with the process, however it ends. A port on which something listens already is passed
 * over.
 */
#ifndef SMD_ENGINE_PORT_H
#define SMD_ENGINE_PORT_H

#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_PORT_FIRST 20000
#define SMD_PORT_LAST  29999

struct smd_ports {
	int lock_fd;
	uint16_t next; /* where the search goes on */
};

/* 0, or -errno with a text. */
int smd_ports_open(struct smd_ports *ports, struct smd_error *error);

/* Holds one more port until smd_ports_close(). 0; -EADDRINUSE when every port has been tried, or
 * another -errno, with a text. */
int smd_ports_reserve(struct smd_ports *ports, uint16_t *port, struct smd_error *error);

void smd_ports_close(struct smd_ports *ports);

#endif
