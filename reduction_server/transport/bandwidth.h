/*
 * What the link of this machine carries, as its network interface says it.
 */
#ifndef SMD_TRANSPORT_BANDWIDTH_H
#define SMD_TRANSPORT_BANDWIDTH_H

#include <stdint.h>

#define SMD_BANDWIDTH_DEFAULT_MBPS 10000u
#define SMD_BANDWIDTH_SOURCE_MAX   128

/*
 * The speed, in Mbit/s, of the interface through which workers reach `listen` ("host:port"): the
 * one that has the address; for all addresses that of the default route, or else the fastest that
 * is up. An interface that does not say how fast it is (loopback, many virtual ones) counts as the
 * default. `source` is a phrase for the log that says where the figure is from.
 *
 * `root` is where /sys and /proc are: "" but in tests.
 */
uint32_t smd_bandwidth_read(
	const char *listen, const char *root, char source[SMD_BANDWIDTH_SOURCE_MAX]);

#endif
