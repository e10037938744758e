/* Keeps what the servers of each list carry, for the process. */
#include "worker/nccl_plugin/collnet/capacity.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "reduction_server/base/hash.h"
#include "worker/nccl_plugin/collnet/tuner.h"

struct smd_capacity {
	LIST_ENTRY(smd_capacity) link;
	uint64_t servers;
	unsigned users;
	bool settled;
	uint32_t mbps; /* then */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, smd_capacity) capacities = LIST_HEAD_INITIALIZER(capacities);

uint64_t smd_capacity_servers(const struct smd_config *config)
{
	uint64_t hash = smd_hash(SMD_HASH_SEED, config->job, strlen(config->job) + 1);

	for (unsigned i = 0; i < config->nservers; i++) {
		hash = smd_hash(hash, config->servers[i], strlen(config->servers[i]) + 1);
	}
	return hash;
}

/* With the lock held. */
static struct smd_capacity *capacity_find(uint64_t servers)
{
	struct smd_capacity *capacity;

	LIST_FOREACH (capacity, &capacities, link) {
		if (capacity->servers == servers) {
			return capacity;
		}
	}
	capacity = calloc(1, sizeof(*capacity));
	if (capacity) {
		capacity->servers = servers;
		LIST_INSERT_HEAD(&capacities, capacity, link);
	}
	return capacity;
}

struct smd_capacity *smd_capacity_get(uint64_t servers)
{
	struct smd_capacity *capacity;

	pthread_mutex_lock(&lock);
	capacity = capacity_find(servers);
	if (capacity) {
		capacity->users++;
	}
	pthread_mutex_unlock(&lock);
	return capacity;
}

void smd_capacity_put(struct smd_capacity *capacity)
{
	pthread_mutex_lock(&lock);
	if (capacity && --capacity->users == 0) {
		LIST_REMOVE(capacity, link);
		free(capacity);
	}
	pthread_mutex_unlock(&lock);
}

uint32_t smd_capacity_mbps(struct smd_capacity *capacity)
{
	uint32_t mbps;

	pthread_mutex_lock(&lock);
	mbps = capacity->mbps;
	pthread_mutex_unlock(&lock);
	return mbps;
}

uint32_t smd_capacity_vote(struct smd_capacity *capacity, uint32_t declared)
{
	uint32_t mbps;

	pthread_mutex_lock(&lock);
	mbps = !capacity->settled ? declared : capacity->mbps ? capacity->mbps : SMD_CAPACITY_NONE;
	pthread_mutex_unlock(&lock);
	return mbps;
}

int smd_capacity_settle(struct smd_capacity *capacity, uint32_t mbps, struct smd_error *error)
{
	uint32_t settled;

	mbps = mbps == SMD_CAPACITY_NONE ? 0 : mbps;
	pthread_mutex_lock(&lock);
	if (!capacity->settled) {
		capacity->settled = true;
		capacity->mbps = mbps;
	}
	settled = capacity->mbps;
	pthread_mutex_unlock(&lock);
	return settled == mbps
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "its reduction servers must carry what they did for its other "
				 "communicators, %u Mbit/s, got %u; " SMD_TUNER_LINKS
				 " may say it instead",
				 settled, mbps);
}
