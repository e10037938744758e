/*
 * What the link of this machine carries, as its network interface says it, and how many shards that
 * takes.
 */
#ifndef SMD_TRANSPORT_BANDWIDTH_H
#define SMD_TRANSPORT_BANDWIDTH_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define SMD_BANDWIDTH_DEFAULT_MBPS 10000u
#define SMD_BANDWIDTH_SOURCE_MAX   128

/* What a shard carries both ways at once: specs/design/performance.md, "Shards". */
#define SMD_BANDWIDTH_SHARD_MBPS     10000u
#define SMD_BANDWIDTH_UNKNOWN_SHARDS 4u
/* And where a card moves the payloads: specs/design/fast-networks.md, "RDMA, counted". One for each
 * 10 Gbit/s up to so many shards, and then one for each 50. */
#define SMD_BANDWIDTH_CARD_SHARD_MBPS 50000u
#define SMD_BANDWIDTH_CARD_SHARDS     8u

/*
 * The speed, in Mbit/s, of the interface through which workers reach `listen` ("host:port"): the
 * one that has the address; for all addresses that of the default route, or else the fastest that
 * is up; of several addresses ("host:port+host:port") all together. 0 when no interface is known,
 * or it does not say how fast it is (loopback, many virtual ones): then SMD_BANDWIDTH_DEFAULT_MBPS
 * is the best guess. `source` is a phrase for the log that says where the figure, or the default,
 * is from.
 *
 * `root` is where /sys and /proc are: "" but in tests.
 */
uint32_t smd_bandwidth_read(
	const char *listen, const char *root, char source[SMD_BANDWIDTH_SOURCE_MAX]);

/* What an interface says that it carries, in Mbit/s; 0: nothing. `root` as above. */
uint32_t smd_bandwidth_of_interface(const char *interface, const char *root);

/* The interface of one such address ("host:port"), found in the same way. False: none is known. */
bool smd_bandwidth_interface(const char *listen, const char *root, char out[IF_NAMESIZE]);

/*
 * How many shards such a link takes, at least 1 and at most as many as there are processors: each
 * keeps one busy at SMD_BANDWIDTH_SHARD_MBPS, and more of them cost more for the same bytes.
 * `by_card`: network cards move the payloads of lanes themselves (RDMA), and of
 * SMD_BANDWIDTH_CARD_SHARDS shards or more each carries SMD_BANDWIDTH_CARD_SHARD_MBPS. mbps 0 (not
 * known): a quarter of the processors, at most SMD_BANDWIDTH_UNKNOWN_SHARDS. Of a server with
 * several addresses each has one, where there are so many processors: workers' lanes go to one
 * address each.
 */
unsigned smd_bandwidth_shards(uint32_t mbps, bool by_card, unsigned processors, unsigned addresses);

#endif
