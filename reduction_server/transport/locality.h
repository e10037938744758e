/*
 * Which NUMA node of this machine its network card belongs to, and how memory and threads are kept
 * there: from the other node each byte of the link crosses between the two.
 *
 * For a process that begins: what is set here holds for the calling thread, and for those that it
 * makes afterwards.
 */
#ifndef SMD_TRANSPORT_LOCALITY_H
#define SMD_TRANSPORT_LOCALITY_H

#include <stdbool.h>
#include <stddef.h>

struct smd_transport_ops;

/*
 * The node of the interface through which workers reach `listen`, as bandwidth.h finds it; of
 * several addresses the one that they share. -1: not known, as where there is only one node. `root`
 * is where /sys and /proc are: "" but in tests.
 */
int smd_locality_node(const char *listen, const char *root);

/* The same for the interface by which this machine reaches that server. */
int smd_locality_towards(const char *server, const char *root);

/* Ways to the network: those that come first are tried first. */
struct smd_locality_ways {
	const struct smd_transport_ops *const *transports;
	unsigned ntransports;
	const char *root; /* as above; NULL: "" */
};

/* The node of the cards that lanes to so many shards (0: to enough for all cards) take at these
 * addresses: as the first transport says that finds cards of its own for them, which may be others
 * than the addresses', else their interfaces'. */
int smd_locality_of(const struct smd_locality_ways *ways, const char *addresses, unsigned shards);

/* Threads run on that node's processors, as far as they may be used. 0 or -errno; -ENODEV: none of
 * them may. */
int smd_locality_pin(int node, const char *root);

/* The calling thread runs near the card through which it reaches that server (of several addresses, the
 * first), and its memory is there;
 * what was done, and what cannot be, is logged. */
void smd_locality_settle_towards(const struct smd_locality_ways *ways, const char *server);

/* Memory near the card through which workers reach `listen` with so many shards, as above, where
 * that is known, and threads too if these are to be pinned; what was done, and what cannot be, is
 * logged. */
void smd_locality_settle(
	const struct smd_locality_ways *ways, const char *listen, unsigned shards, bool pins);

#endif
