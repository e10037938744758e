/* Gives an additional reduction server a host, a port and an address. */
#include "orchestrator/runner/addition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/endpoints.h"
#include "orchestrator/runner/placing.h"

#define SERVER_POOL 2

/* Servers there are `servers` of by now. */
static int slots_used(const struct smd_hosts *hosts, int number, int servers)
{
	const struct smd_job *job = hosts->launcher.job;
	int used = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int count = pool == SERVER_POOL ? servers : job->pools[pool].replica_count;

		for (int index = 0; index < count; index++) {
			used += hosts->host_of[pool][index] == number
					? smd_placing_slots(job, pool)
					: 0;
		}
	}
	return used;
}

static int servers_on(const struct smd_hosts *hosts, int number, int servers)
{
	int count = 0;

	for (int index = 0; index < servers; index++) {
		count += hosts->host_of[SERVER_POOL][index] == number;
	}
	return count;
}

static int takes(const struct smd_hosts *hosts, const struct smd_run_host *host, int servers)
{
	return host->state == SMD_HOST_READY && host->link && !host->leaving[0] &&
	       (host->pool < 0 || host->pool == SERVER_POOL) &&
	       (host->slots == 0 || slots_used(hosts, host->number, servers) < host->slots);
}

static struct smd_run_host *choose(struct smd_hosts *hosts, int servers)
{
	struct smd_run_host *best = NULL;

	for (int i = 0; i < hosts->nhosts; i++) {
		struct smd_run_host *host = &hosts->hosts[i];

		if (takes(hosts, host, servers) &&
			(!best || servers_on(hosts, i, servers) <
					  servers_on(hosts, best->number, servers))) {
			best = host;
		}
	}
	return best;
}

/* Grows an array of numbers by one. */
static int append(int **array, int count, int number)
{
	int *grown = realloc(*array, ((size_t)count + 1) * sizeof(*grown));

	if (!grown) {
		return -ENOMEM;
	}
	grown[count] = number;
	*array = grown;
	return 0;
}

/* The list ends with NULL. */
static int append_endpoint(char ***list, int count, const struct smd_run_host *host)
{
	char **grown = realloc(*list, ((size_t)count + 2) * sizeof(*grown));

	if (!grown) {
		return -ENOMEM;
	}
	*list = grown;
	grown[count + 1] = NULL;
	return smd_endpoint_make(
		&grown[count], &host->rails, SMD_RAILS_MAX, host->ports[host->nused]);
}

static int place_on(struct smd_hosts *hosts, struct smd_run_host *host, int index)
{
	struct smd_placement *placement = hosts->placement;
	int ret = append(&hosts->host_of[SERVER_POOL], index, host->number);

	if (!ret && placement->nhosts > 0) {
		unsigned servers = (unsigned)servers_on(hosts, host->number, index + 1);

		ret = append(&placement->host_of[SERVER_POOL], index, host->number);
		placement->hosts[host->number].server_bandwidth_mbps =
			smd_run_host_server_mbps(&host->facts, &host->rails, servers);
		placement->hosts[host->number].server_parts =
			smd_run_host_server_parts(&host->facts, &host->rails, servers);
	}
	ret = ret ? ret : append_endpoint(&placement->endpoints[SERVER_POOL], index, host);
	if (!ret) {
		host->nused++;
	}
	return ret;
}

/* 0; -EAGAIN while it is asked for one. */
static int need_port(struct smd_run_host *host, struct smd_error *error)
{
	if (host->nused < host->nports) {
		return 0;
	}
	if (host->no_port[0]) {
		smd_error_set(error, EADDRINUSE, "host %s: %s", host->name, host->no_port);
		host->no_port[0] = '\0';
		return -EADDRINUSE;
	}
	if (!host->is_asked) {
		host->is_asked = 1;
		smd_agent_link_send_json(
			host->link, SMD_AGENT_RESERVE, json_pack("{s:i}", "ports", 1));
	}
	return -EAGAIN;
}

int smd_hosts_add_server(struct smd_hosts *hosts, int index, struct smd_error *error)
{
	struct smd_run_host *host = choose(hosts, index);
	int ret;

	if (!host) {
		return smd_error_set(error, ENOSPC,
			"workerpool%d-%d: must find a host with a free slot, got none: %d host%s",
			SERVER_POOL, index, hosts->nhosts, hosts->nhosts == 1 ? "" : "s");
	}
	ret = need_port(host, error);
	ret = ret ? ret : place_on(hosts, host, index);
	if (!ret) {
		hosts->count++;
	} else if (ret != -EAGAIN) {
		smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	return ret;
}

int smd_hosts_add_reducer(
	struct smd_hosts *hosts, int number, int index, unsigned mbps, struct smd_error *error)
{
	struct smd_run_host *host = &hosts->hosts[number];
	int ret;

	if (host->nused == host->nports) {
		return smd_error_set(error, EADDRINUSE,
			"host %s: must have a port for a reducer, got %zu in all", host->name,
			host->nports);
	}
	ret = place_on(hosts, host, index);
	if (ret) {
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	if (hosts->placement->nhosts > 0) {
		hosts->placement->hosts[number].server_bandwidth_mbps = mbps;
	}
	hosts->count++;
	return 0;
}
