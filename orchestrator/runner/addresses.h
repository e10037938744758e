/* By which addresses the hosts of a job reach each other: a pure function of what they say. */
#ifndef SMD_RUNNER_ADDRESSES_H
#define SMD_RUNNER_ADDRESSES_H

#include "worker/agent/wire/facts.h"

#define SMD_RAILS_MAX 8

/* An address of a host on a network that all hosts are in. It points into the host's facts. */
struct smd_rail {
	const struct smd_host_address *address;
	const struct smd_host_interface *interface;
};

/* A host's, on the same networks in the same order as the other hosts'. Everything goes by the
 * first one; gradients to the reduction servers, and NCCL's, go by all. None: the host has not
 * come. */
struct smd_host_rails {
	struct smd_rail each[SMD_RAILS_MAX];
	size_t count;
};

/*
 * Chooses for each host. `wanted` has names of interfaces or networks, one for each rail ("eth1",
 * "10.1.0.0/16,10.2.0.0/16"), or is NULL. Then the first is the network that all hosts are in, the
 * fastest if there are several, and others of which all say that they have at least half of its
 * speed are rails, too. Where all hosts are in none, it is each host's fastest address alone, but
 * none that another host has too, and none of a bridge of containers. Loopback is chosen for one
 * host alone, or if it is wanted. 0; -EADDRNOTAVAIL or -EINVAL with a text.
 */
int smd_addresses_choose(const struct smd_host_facts *const *hosts, size_t count,
	const char *wanted, struct smd_host_rails *out, struct smd_error *error);

/* What they carry together, in Mbit/s. 0: of one it is not known, or it is loopback. */
unsigned smd_host_rails_mbps(const struct smd_host_rails *rails);

#endif
