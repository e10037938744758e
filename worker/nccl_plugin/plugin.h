/*
 * Whether the plugin takes part in this process. Its net says no, for itself and for CollNet,
 * unless NCCL_COLLNET_ENABLE is 1 and there are reduction servers; NCCL then goes on with its own
 * networks.
 */
#ifndef SMD_NCCL_PLUGIN_H
#define SMD_NCCL_PLUGIN_H

#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/collnet/tuner.h"

#define SMD_NCCL_NAME "Summand"

/*
 * First of all in every init(): takes the logger, and says once, and again when it has changed,
 * what the plugin is and whether it is on. NCCL_SUCCESS, or NCCL_INTERNAL_ERROR to decline.
 */
int smd_plugin_begin(nccl_logger *log);

/* The reduction servers that the last smd_plugin_begin() has found; none: the plugin is off. */
struct smd_tuner_servers smd_plugin_servers(void);

#endif
