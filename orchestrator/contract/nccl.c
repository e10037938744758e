/* NCCL_* and GLOO_*: the interface to the other replicas, and the plugin for the reduction servers.
 */
#include "orchestrator/contract/contract.h"

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
		for (size_t i = 0; i < sizeof(plugin) / sizeof(plugin[0]) && !ret; i++) {
			ret = smd_environment_set(out, plugin[i].name, "%s", plugin[i].value);
		}
	}
	return ret;
}
