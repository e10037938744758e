/* By which address the hosts of a job reach each other: a pure function of what they say. */
#ifndef SMD_RUNNER_ADDRESSES_H
#define SMD_RUNNER_ADDRESSES_H

#include "worker/agent/wire/facts.h"

/* A host's. It points into the host's facts. */
struct smd_chosen_address {
	const struct smd_host_address *address;
	const struct smd_host_interface *interface;
};

/*
 * Chooses for each host. `wanted` is an interface's name, or a network ("10.1.0.0/16"), or NULL:
 * then it is the network that all hosts are in, the fastest if there are several; where there is
 * none, each host's fastest address, but none that another host has too, and none of a bridge of
 * containers. Loopback is chosen for one host alone, or if it is wanted. 0; -EADDRNOTAVAIL with a
 * text that names the host.
 */
int smd_addresses_choose(const struct smd_host_facts *const *hosts, size_t count,
	const char *wanted, struct smd_chosen_address *out, struct smd_error *error);

#endif
