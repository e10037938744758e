/*
 * How fast the ports are that lanes to a server take (port.h): so many shards it needs, and such a
 * part of the chunks it gets, until more is known. And where they are: near them its memory should be.
 */
#ifndef SMD_TRANSPORT_RDMA_RATE_H
#define SMD_TRANSPORT_RDMA_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In Mbit/s, of a server that listens at "host:port+host:port" with so many shards (0: with enough
 * for all of its ports); 0: not known, or there are none. `source` is a phrase for the log.
 * `devices` is as in SUMMAND_RDMA_DEVICE; NULL: the connection manager makes the lanes, on the port
 * that has the address. `root` is where /sys is: "" but in tests. */
uint32_t smd_rdma_rate_read(const char *addresses, const char *devices, unsigned shards,
	const char *root, char *source, size_t size);

/* The same with what the environment says. */
uint32_t smd_rdma_rate(const char *addresses, unsigned shards, char *source, size_t size);

/* The NUMA node of these ports' devices; -1: they are on several, or do not say. False: there are no
 * such ports. */
bool smd_rdma_node_read(
	const char *addresses, const char *devices, unsigned shards, const char *root, int *node);
bool smd_rdma_node(const char *addresses, unsigned shards, int *node);

#endif
