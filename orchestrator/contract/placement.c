/* Where replicas are: Vertex AI's names for them, and an engine's answer as JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define VERTEX_PORT 2222

static int place_pool(const struct smd_job *job, int pool, struct smd_placement *placement)
{
	int count = job->pools[pool].replica_count;
	char **endpoints;

	if (count == 0) {
		return 0;
	}
	endpoints = calloc((size_t)count + 1, sizeof(*endpoints));
	if (!endpoints) {
		return -ENOMEM;
	}
	placement->endpoints[pool] = endpoints;
	for (int i = 0; i < count; i++) {
		if (asprintf(&endpoints[i], "cmle-training-workerpool%d-%s-%d:%d", pool, job->id, i,
			    VERTEX_PORT) < 0) {
			endpoints[i] = NULL;
			return -ENOMEM;
		}
	}
	return 0;
}

int smd_placement_vertex(const struct smd_job *job, struct smd_placement *out)
{
	struct smd_placement placement = {0};

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int ret = place_pool(job, pool, &placement);

		if (ret) {
			smd_placement_free(&placement);
			return ret;
		}
	}
	*out = placement;
	return 0;
}

int smd_placement_is_reducer(const struct smd_placement *placement, int index)
{
	return index >= placement->first_reducer &&
	       index < placement->first_reducer + placement->nreducers;
}

int smd_placement_has_server(const struct smd_placement *placement, int index)
{
	return index >= placement->first_reducer ||
	       index < placement->first_reducer - placement->nabsent;
}

void smd_placement_forget_hosts(struct smd_placement *placement)
{
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		char **endpoints = placement->endpoints[pool];

		for (size_t i = 0; endpoints && endpoints[i]; i++) {
			free(endpoints[i]);
		}
		free(endpoints);
		free(placement->host_of[pool]);
		placement->endpoints[pool] = NULL;
		placement->host_of[pool] = NULL;
	}
	free(placement->interface);
	placement->interface = NULL;
	placement->master_port = 0;
	placement->first_reducer = 0;
	placement->nreducers = 0;
	placement->nabsent = 0;
	placement->reducer_share = (struct smd_share){0, 0};
	placement->spares_reducers = 0;
	for (size_t i = 0; i < placement->nhosts; i++) {
		free(placement->hosts[i].interface);
		free(placement->hosts[i].rails);
		free(placement->hosts[i].token_file);
		free(placement->hosts[i].servers_file);
	}
	free(placement->hosts);
	placement->hosts = NULL;
	placement->nhosts = 0;
}

void smd_placement_free(struct smd_placement *placement)
{
	smd_placement_forget_hosts(placement);
	free(placement->job_id);
	free(placement->metrics_dir);
	free(placement->output_dir);
	free(placement->token_file);
	free(placement->servers_file);
	*placement = (struct smd_placement){0};
}

static const struct smd_placement_host *host_of(
	const struct smd_placement *placement, int pool, int index)
{
	return placement->host_of[pool] ? &placement->hosts[placement->host_of[pool][index]] : NULL;
}

const char *smd_placement_interface(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->interface : placement->interface;
}

const char *smd_placement_rails(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->rails : NULL;
}

const char *smd_placement_token_file(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->token_file : placement->token_file;
}

const char *smd_placement_servers_file(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->servers_file : placement->servers_file;
}

unsigned smd_placement_link(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->link_mbps : 0;
}

unsigned smd_placement_server_bandwidth(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->server_bandwidth_mbps : 0;
}

unsigned smd_placement_server_parts(const struct smd_placement *placement, int pool, int index)
{
	const struct smd_placement_host *host = host_of(placement, pool, index);

	return host ? host->server_parts : 0;
}

int smd_placement_append_pool(
	const struct smd_job *job, const struct smd_placement *placement, int pool, json_t *list)
{
	for (int i = 0; i < job->pools[pool].replica_count; i++) {
		const char *endpoint = placement->endpoints[pool][i];

		/* The first alone: others who read it know of no more. */
		if (json_array_append_new(list, json_stringn(endpoint, strcspn(endpoint, "+")))) {
			return -ENOMEM;
		}
	}
	return 0;
}

char *smd_endpoint_host(const char *endpoint)
{
	const char *colon = strrchr(endpoint, ':');
	size_t length = colon ? (size_t)(colon - endpoint) : strlen(endpoint);

	if (length > 2 && endpoint[0] == '[' && endpoint[length - 1] == ']') {
		endpoint++;
		length -= 2;
	}
	return strndup(endpoint, length);
}
