/* Puts replicas on hosts, in order. */
#include "orchestrator/runner/placing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is left of a host. */
struct room_left {
	int slots;
	int gpus;
};

int smd_placing_slots(const struct smd_job *job, int pool)
{
	/* A command that starts its processes itself has them all the same. */
	return pool <= 1 && job->processes_per_replica > 1 ? job->processes_per_replica : 1;
}

static int gpus_of(const struct smd_job_pool *pool)
{
	return pool->accelerator_type && !smd_job_pool_has_tpus(pool) &&
			       !pool->accelerators_are_built_in
		       ? pool->accelerator_count
		       : 0;
}

static int takes(const struct smd_place *place, const struct room_left *rest, int pool, int slots,
	int gpus, int may_share)
{
	return (place->pool < 0 || place->pool == pool) &&
	       (place->slots == 0 || rest->slots >= slots) && (may_share || rest->gpus >= gpus);
}

/* " and 2 free GPUs", " and 4 GPUs"; nothing for a pool that wants none. */
static void say_gpus(char *out, size_t size, int wanted, int count, const char *kind)
{
	out[0] = '\0';
	if (wanted > 0) {
		snprintf(out, size, " and %d %sGPU%s", count, kind, count == 1 ? "" : "s");
	}
}

static int refuse(const struct smd_job *job, const struct smd_place *places, size_t count, int pool,
	int index, struct smd_error *error)
{
	int needed = smd_placing_slots(job, pool);
	int gpus = gpus_of(&job->pools[pool]);
	int hosts = 0, slots = 0, all_gpus = 0;
	char name[SMD_REPLICA_NAME_MAX], wanted[32], found[32];

	for (size_t i = 0; i < count; i++) {
		if (places[i].pool < 0 || places[i].pool == pool) {
			hosts++;
			slots += places[i].slots;
			all_gpus += places[i].gpus;
		}
	}
	smd_replica_name(name, pool, index);
	say_gpus(wanted, sizeof(wanted), gpus, gpus, "free ");
	say_gpus(found, sizeof(found), gpus, all_gpus, "");
	return smd_error_set(error, ENOSPC,
		"hosts: %s must find a host with %d free slot%s%s, got none: %d host%s with %d "
		"slot%s%s in all",
		name, needed, needed == 1 ? "" : "s", wanted, hosts, hosts == 1 ? "" : "s", slots,
		slots == 1 ? "" : "s", found);
}

/* Hosts before `*at` have no more room for this pool. */
static int place_pool(const struct smd_job *job, const struct smd_place *places, size_t count,
	struct room_left *rests, int pool, int may_share, int *host_of, struct smd_error *error)
{
	int slots = smd_placing_slots(job, pool);
	int gpus = gpus_of(&job->pools[pool]);
	size_t at = 0;

	for (int index = 0; index < job->pools[pool].replica_count; index++) {
		while (at < count && !takes(&places[at], &rests[at], pool, slots, gpus, may_share)) {
			at++;
		}
		if (at == count) {
			return refuse(job, places, count, pool, index, error);
		}
		host_of[index] = (int)at;
		rests[at].slots -= slots;
		rests[at].gpus -= gpus;
	}
	return 0;
}

int smd_placing_decide(const struct smd_job *job, const struct smd_place *places, size_t count,
	int may_share, int *host_of[SMD_JOB_POOLS_MAX], struct smd_error *error)
{
	struct room_left *rests = calloc(count + 1, sizeof(*rests));
	int ret = rests ? 0 : -ENOMEM;

	memset(host_of, 0, SMD_JOB_POOLS_MAX * sizeof(*host_of));
	for (size_t i = 0; i < count && !ret; i++) {
		rests[i] = (struct room_left){.slots = places[i].slots, .gpus = places[i].gpus};
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !ret; pool++) {
		if (job->pools[pool].replica_count == 0) {
			continue;
		}
		host_of[pool] = calloc(
			(size_t)job->pools[pool].replica_count, sizeof(*host_of[pool]));
		ret = host_of[pool] ? place_pool(job, places, count, rests, pool, may_share,
					      host_of[pool], error)
				    : -ENOMEM;
	}
	free(rests);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && ret; pool++) {
		free(host_of[pool]);
		host_of[pool] = NULL;
	}
	return ret ? smd_error_set(error, -ret, "hosts: %s", strerror(-ret)) : 0;
}
