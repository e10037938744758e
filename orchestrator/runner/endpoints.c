/* Chooses addresses and ports, and notes them in the placement. */
#include "orchestrator/runner/endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/addresses.h"
#include "orchestrator/runner/job_token.h"

int smd_endpoint_make(char **out, const struct smd_host_rails *rails, size_t count, unsigned port)
{
	size_t length;
	FILE *text = open_memstream(out, &length);

	if (!text) {
		*out = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < count && i < rails->count; i++) {
		const struct smd_host_address *address = rails->each[i].address;

		fprintf(text, "%s%s%s%s:%u", i > 0 ? "+" : "", address->is_v6 ? "[" : "",
			address->text, address->is_v6 ? "]" : "", port);
	}
	if (fclose(text)) {
		free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* "eth1,eth2"; NULL where there is one. */
static int make_names(char **out, const struct smd_host_rails *rails)
{
	size_t length;
	FILE *text;

	if (rails->count < 2) {
		return 0;
	}
	text = open_memstream(out, &length);
	for (size_t i = 0; text && i < rails->count; i++) {
		fprintf(text, "%s%s", i > 0 ? "," : "", rails->each[i].interface->name);
	}
	return text && fclose(text) == 0 ? 0 : -ENOMEM;
}

static int set_endpoints(struct smd_hosts *hosts, const struct smd_host_rails *chosen, size_t *used,
	struct smd_error *error)
{
	const struct smd_job *job = hosts->launcher.job;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int count = job->pools[pool].replica_count;
		size_t nrails =
			job->pools[pool].role == SMD_ROLE_REDUCTION_SERVER ? SMD_RAILS_MAX : 1;
		char **endpoints = count ? calloc((size_t)count + 1, sizeof(*endpoints)) : NULL;

		hosts->placement->endpoints[pool] = endpoints;
		for (int index = 0; index < count; index++) {
			int number = hosts->host_of[pool][index];
			const struct smd_run_host *host = &hosts->hosts[number];

			if (!endpoints ||
				(used[number] < host->nports &&
					smd_endpoint_make(&endpoints[index], &chosen[number],
						nrails, host->ports[used[number]++]))) {
				return -ENOMEM;
			}
			if (!endpoints[index]) {
				return smd_error_set(error, EADDRINUSE,
					"host %s: must have a port for each replica, got %zu",
					host->name, host->nports);
			}
		}
	}
	return 0;
}

static int count_servers(const struct smd_hosts *hosts, int number)
{
	const struct smd_job_pool *pool = &hosts->launcher.job->pools[2];
	int count = 0;

	for (int i = 0; i < pool->replica_count; i++) {
		count += pool->role == SMD_ROLE_REDUCTION_SERVER && hosts->host_of[2][i] == number;
	}
	return count;
}

/* What differs between hosts; on this machine alone nothing does. */
static int set_hosts(struct smd_hosts *hosts, const struct smd_host_rails *chosen)
{
	struct smd_placement *placement = hosts->placement;
	const struct smd_job *job = hosts->launcher.job;
	const int has_token = smd_job_has_token(job);
	int ret = 0;

	if (hosts->nhosts == 1 && hosts->hosts[0].is_local) {
		placement->interface = strdup(chosen[0].each[0].interface->name);
		return placement->interface ? 0 : -ENOMEM;
	}
	placement->hosts = calloc((size_t)hosts->nhosts, sizeof(*placement->hosts));
	if (!placement->hosts) {
		return -ENOMEM;
	}
	placement->nhosts = (size_t)hosts->nhosts;
	for (int i = 0; i < hosts->nhosts && !ret; i++) {
		struct smd_placement_host *host = &placement->hosts[i];
		int servers = count_servers(hosts, i);

		if (chosen[i].count == 0) {
			continue; /* nothing runs there */
		}
		host->interface = strdup(chosen[i].each[0].interface->name);
		/* Over RDMA other cards may carry it, which NCCL_IB_HCA may name in an image. */
		if (hosts->hosts[i].facts.nrdma == 0) {
			host->link_mbps = smd_host_rails_mbps(&chosen[i]);
		}
		if (hosts->hosts[i].facts.nrdma == 0 || hosts->interface) {
			ret = make_names(&host->rails, &chosen[i]);
		}
		host->server_bandwidth_mbps = smd_run_host_server_mbps(
			&hosts->hosts[i].facts, &chosen[i], (unsigned)servers);
		host->server_parts = smd_run_host_server_parts(
			&hosts->hosts[i].facts, &chosen[i], (unsigned)servers);
		if (has_token && asprintf(&host->token_file, "%s/" SMD_JOB_TOKEN_FILE,
					 hosts->hosts[i].facts.folder) < 0) {
			host->token_file = NULL;
		}
		if (smd_job_has_servers(job) && asprintf(&host->servers_file, "%s/" SMD_SERVER_LIST,
							hosts->hosts[i].facts.folder) < 0) {
			host->servers_file = NULL;
		}
		ret = !ret && host->interface && (!has_token || host->token_file) ? 0 : -ENOMEM;
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !ret; pool++) {
		size_t size = (size_t)job->pools[pool].replica_count * sizeof(int);

		if (size > 0) {
			placement->host_of[pool] = malloc(size);
			ret = placement->host_of[pool] ? 0 : -ENOMEM;
		}
		if (size > 0 && !ret) {
			memcpy(placement->host_of[pool], hosts->host_of[pool], size);
		}
	}
	return ret;
}

/* Of those that have come; others have none. */
static int choose_addresses(
	const struct smd_hosts *hosts, struct smd_host_rails *chosen, struct smd_error *error)
{
	size_t room = (size_t)hosts->nhosts;
	const struct smd_host_facts **facts = calloc(room, sizeof(struct smd_host_facts *));
	size_t count = 0;
	int ret = facts ? 0 : -ENOMEM;

	for (size_t i = 0; i < room && !ret; i++) {
		if (hosts->hosts[i].state == SMD_HOST_READY) {
			facts[count++] = &hosts->hosts[i].facts;
		}
	}
	ret = ret ? ret : smd_addresses_choose(facts, count, hosts->interface, chosen, error);
	for (size_t i = room; i-- > 0 && !ret;) {
		int has_come = hosts->hosts[i].state == SMD_HOST_READY;

		chosen[i] = has_come ? chosen[--count] : (struct smd_host_rails){.count = 0};
	}
	free(facts);
	return ret;
}

int smd_endpoints_fill(struct smd_hosts *hosts, struct smd_error *error)
{
	size_t count = (size_t)hosts->nhosts;
	struct smd_host_rails *chosen = calloc(count, sizeof(*chosen));
	size_t *used = calloc(count, sizeof(*used));
	int ret = chosen && used ? 0 : -ENOMEM;

	ret = ret ? ret : choose_addresses(hosts, chosen, error);
	ret = ret ? ret : set_endpoints(hosts, chosen, used, error);
	if (!ret) {
		int chief = hosts->host_of[0][0];

		if (used[chief] < hosts->hosts[chief].nports) {
			hosts->placement->master_port = hosts->hosts[chief].ports[used[chief]++];
		}
		for (size_t i = 0; i < count; i++) {
			hosts->hosts[i].nused = used[i];
			hosts->hosts[i].rails = chosen[i];
		}
		ret = set_hosts(hosts, chosen);
	}
	free(chosen);
	free(used);
	return ret;
}
