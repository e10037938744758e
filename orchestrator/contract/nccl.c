/* NCCL_* and GLOO_*: the interface to the other replicas, and the plugin for the reduction servers.
 */
#include "orchestrator/contract/contract.h"

#include <limits.h>
#include <string.h>

#define SERVER_POOL 2

static const struct {
	const char *name;
	const char *value;
} plugin[] = {
	{"NCCL_NET_PLUGIN", "summand"}, /* libnccl-net-summand.so, and for RCCL librccl-net-summand.so */
	/* By the file's name, since it is no libnccl-tuner-NAME.so, nor RCCL's. NCCL asks the network plugin for a
	 * tuner only where it finds no libnccl-tuner.so. */
	{"NCCL_TUNER_PLUGIN", "libnccl-net-summand.so"},
	{"NCCL_COLLNET_ENABLE", "1"}, /* off by default, and without it no plugin may reduce */
};

static int pool_sets(const struct smd_job_pool *pool, const char *variable)
{
	for (size_t i = 0; i < pool->nenv; i++) {
		if (strcmp(pool->env[i].name, variable) == 0) {
			return 1;
		}
	}
	return 0;
}

/* It has said which cards. */
static int pool_chooses_cards(const struct smd_job_pool *pool)
{
	return pool_sets(pool, "NCCL_IB_HCA") || pool_sets(pool, "NCCL_SOCKET_IFNAME");
}

/* Of a replica's cards, together. 0: not known, also where its pool may have chosen some of
 * several. */
static unsigned replica_link(const struct smd_contract *contract, int pool, int index)
{
	const struct smd_job_pool *chooser = &contract->job->pools[pool];
	const char *rails = smd_placement_rails(contract->placement, pool, index);

	if (rails && strchr(rails, ',') &&
		(pool_chooses_cards(chooser) || pool_sets(chooser, "SUMMAND_NCCL_IFNAME"))) {
		return 0;
	}
	return smd_placement_link(contract->placement, pool, index);
}

/* The slowest link of those of pools 0 and 1. 0: of one it is not known. */
static unsigned slowest_link(const struct smd_contract *contract)
{
	unsigned least = UINT_MAX;

	for (int pool = 0; pool <= 1; pool++) {
		for (int i = 0; i < contract->job->pools[pool].replica_count; i++) {
			unsigned mbps = replica_link(contract, pool, i);

			least = mbps < least ? mbps : least;
		}
	}
	return least;
}

/* What servers would have to carry that are as fast as these with a reducer on each of n workers' hosts, whose links are `node`
 * (specs/design/hybrid.md: the time is 2n(n-1) / (n^2 B + (n-2) S) of what is reduced; of servers alone it is n / S). */
static unsigned long servers_with_reducers(unsigned long servers, unsigned long node, unsigned long n)
{
	return n < 2 ? 0 : (n * n * node + (n - 2) * servers) / (2 * (n - 1));
}

/* Whether it is known what the reduction servers carry together, reducers aside. */
static int servers_together(const struct smd_contract *contract, unsigned long *out)
{
	const struct smd_placement *placement = contract->placement;

	*out = 0;
	for (int i = 0; i < contract->job->pools[SERVER_POOL].replica_count; i++) {
		unsigned mbps = smd_placement_server_bandwidth(placement, SERVER_POOL, i);

		if (smd_placement_is_reducer(placement, i) || !smd_placement_has_server(placement, i)) {
			continue;
		}
		if (mbps == 0) {
			return 0;
		}
		*out += mbps;
	}
	return 1;
}

/* Spare ones carry nothing while servers do. */
static int reducers_carry(const struct smd_placement *placement, unsigned long servers)
{
	return placement->nreducers > 0 && (!placement->spares_reducers || servers == 0);
}

/* How much the servers carry for each node, so that the plugin's tuner knows where they pay. The same for all replicas. */
static int add_links(const struct smd_contract *contract, struct smd_environment *out)
{
	unsigned long node = slowest_link(contract), servers;

	if (!servers_together(contract, &servers)) {
		return 0;
	}
	if (reducers_carry(contract->placement, servers)) {
		servers = servers_with_reducers(servers, node, (unsigned long)contract->placement->nreducers);
	}
	while (servers > SMD_SHARE_TERM_MAX || node > SMD_SHARE_TERM_MAX) {
		servers /= 2;
		node /= 2;
	}
	return servers > 0 && node > 0
		       ? smd_environment_set(out, "SUMMAND_NCCL_SERVER_LINKS", "%lu/%lu", servers, node)
		       : 0;
}

int smd_nccl_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	const char *interface;
	int ret = 0;

	if (!smd_world_has(position)) {
		return 0;
	}
	interface = smd_placement_interface(contract->placement, position->pool, position->index);
	if (interface) {
		ret = smd_environment_set(out, "NCCL_SOCKET_IFNAME", "%s", interface);
		ret = ret ? ret : smd_environment_set(out, "GLOO_SOCKET_IFNAME", "%s", interface);
	}
	if (contract->reduction_servers) {
		const char *rails =
			smd_placement_rails(contract->placement, position->pool, position->index);

		if (!ret && rails && !pool_chooses_cards(&contract->job->pools[position->pool])) {
			ret = smd_environment_set(out, "SUMMAND_NCCL_IFNAME", "=%s", rails);
		}
		for (size_t i = 0; i < sizeof(plugin) / sizeof(plugin[0]) && !ret; i++) {
			ret = smd_environment_set(out, plugin[i].name, "%s", plugin[i].value);
		}
		ret = ret ? ret : add_links(contract, out);
	}
	return ret;
}
