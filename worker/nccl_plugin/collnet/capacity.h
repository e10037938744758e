/*
 * What the reduction servers of a list carry together, as they say themselves in their WELCOME,
 * once the nodes of a communicator have agreed on it.
 *
 * The tuner goes by it, and NCCL asks that for each operation; so it is found once in a process,
 * and stays as long as anybody has it: the tuners and the CollNet communicators of these servers.
 * Others join a communicator only with the same number, so all nodes have it, whichever
 * communicator it came by.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_CAPACITY_H
#define SMD_NCCL_PLUGIN_COLLNET_CAPACITY_H

#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/libsummand/config.h"

struct smd_capacity;

#define SMD_CAPACITY_NONE UINT32_MAX

/* The servers of a job, as a number. */
uint64_t smd_capacity_servers(const struct smd_config *config);

/* One more user of theirs; NULL: no memory. Any thread, as all of these. */
struct smd_capacity *smd_capacity_get(uint64_t servers);
void smd_capacity_put(struct smd_capacity *capacity);

/* Mbit/s; 0: it is not known, now or for as long as anybody has it. */
uint32_t smd_capacity_mbps(struct smd_capacity *capacity);

/* What this node is to vote, whose servers say `declared` (0: it has not reached them all): that,
 * unless it is settled. SMD_CAPACITY_NONE: it is settled that nobody knows, which the others take.
 */
uint32_t smd_capacity_vote(struct smd_capacity *capacity, uint32_t declared);

/* The nodes of a communicator have agreed on it, 0 or NONE where none knows or may. 0, or -EINVAL
 * with a text: something else is settled here. */
int smd_capacity_settle(struct smd_capacity *capacity, uint32_t mbps, struct smd_error *error);

#endif
