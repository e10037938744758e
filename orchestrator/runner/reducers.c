/* Decides which hosts get reducers, and with which share. */
#include "orchestrator/runner/reducers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/hybrid.h"
#include "orchestrator/runner/addition.h"
#include "orchestrator/runner/announce.h"

#define SERVER_POOL  2
#define ANY_MBPS     1000 /* where nobody knows the rates, all links are taken for equal */
#define SENTENCE_MAX 256

/* What runs on a host. */
struct host_use {
	int has_worker;
	int servers;
};

/* Of each host; the caller frees them. NULL: out of memory. */
static struct host_use *find_uses(const struct smd_hosts *hosts)
{
	const struct smd_job *job = hosts->launcher.job;
	struct host_use *uses = calloc((size_t)hosts->nhosts + 1, sizeof(*uses));

	for (int pool = 0; uses && pool <= SERVER_POOL; pool++) {
		for (int index = 0; index < job->pools[pool].replica_count; index++) {
			struct host_use *use = &uses[hosts->host_of[pool][index]];

			if (pool == SERVER_POOL) {
				use->servers++;
			} else {
				use->has_worker = 1;
			}
		}
	}
	return uses;
}

/* In Mbit/s; 0: unknown, or it has not come. */
static unsigned rate_of(const struct smd_run_host *host)
{
	return !host->interface || host->interface->is_loopback ? 0 : host->interface->speed_mbps;
}

static int rates_are_known(const struct smd_hosts *hosts, const struct host_use *uses)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		if ((uses[i].has_worker || uses[i].servers > 0) &&
			rate_of(&hosts->hosts[i]) == 0) {
			return 0;
		}
	}
	return 1;
}

/* Of the slowest worker's host, and of all servers' hosts. */
static struct smd_hybrid add_up(
	const struct smd_hosts *hosts, const struct host_use *uses, int knows_rates)
{
	struct smd_hybrid hybrid = {0};

	for (int i = 0; i < hosts->nhosts; i++) {
		unsigned mbps = knows_rates ? rate_of(&hosts->hosts[i]) : ANY_MBPS;

		if (uses[i].has_worker) {
			hybrid.worker_mbps = hybrid.workers++ == 0 || mbps < hybrid.worker_mbps
						     ? mbps
						     : hybrid.worker_mbps;
		}
		if (uses[i].servers > 0) {
			hybrid.servers += uses[i].servers;
			hybrid.servers_mbps += mbps;
		}
	}
	return hybrid;
}

/* A host with both, of which shares say nothing: its link is the servers' and the workers'. -1:
 * none. */
static int find_shared(const struct smd_hosts *hosts, const struct host_use *uses)
{
	for (int i = 0; i < hosts->nhosts; i++) {
		if (uses[i].has_worker && uses[i].servers > 0) {
			return i;
		}
	}
	return -1;
}

static int add_one(struct smd_run *run, int host, unsigned mbps, struct smd_error *error)
{
	struct smd_job_status *status = &run->status;
	struct smd_replica *replica = &status->replicas[status->count];
	int index = status->nservers;
	int ret = smd_replica_init(replica, &status->job->pools[SERVER_POOL], index, 0, 1);

	if (ret) {
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	ret = smd_hosts_add_reducer(&run->hosts, host, index, mbps, error);
	if (ret) {
		smd_replica_clear(replica);
		return ret;
	}
	status->count++;
	status->nservers++;
	run->hosts.placement->nreducers = ++status->nreducers;
	run->display.count = status->count;
	return 0;
}

static void tell(struct smd_run *run, const struct smd_hybrid *hybrid, struct smd_share share)
{
	char text[SENTENCE_MAX];

	snprintf(text, sizeof(text),
		"%d reduction server%s for %d workers' hosts: a reducer on each of these%s",
		hybrid->servers, hybrid->servers == 1 ? "" : "s", hybrid->workers,
		hybrid->servers ? "" : ", of equal shares");
	if (hybrid->servers) {
		size_t length = strlen(text);

		snprintf(text + length, sizeof(text) - length, ", with %u/%u of a server's share",
			share.part, share.whole);
	}
	smd_announce_scaling(&run->display, &run->stream, text);
}

/* More than a rank can use would fail all of them. */
static int leave_out(
	struct smd_run *run, const struct smd_hybrid *hybrid, struct smd_error *error)
{
	int servers = run->status.nservers;
	char text[SENTENCE_MAX];

	if (run->status.job->hybrid == SMD_HYBRID_ON) {
		return smd_error_set(error, EINVAL,
			"summand-hybrid: on: reduction servers and reducers on the workers' hosts "
			"must be at most %d together, as many as a rank can use, got %d and %d: "
			"have fewer workers' hosts, or more servers and no reducers",
			SMD_JOB_SERVERS_MAX, servers, hybrid->workers);
	}
	snprintf(text, sizeof(text),
		"%d reduction server%s for %d workers' hosts: no reducers on these, since a rank can "
		"use %d servers at most; have more reduction servers instead",
		servers, servers == 1 ? "" : "s", hybrid->workers, SMD_JOB_SERVERS_MAX);
	smd_announce_scaling(&run->display, &run->stream, text);
	return 0;
}

static int add_all(struct smd_run *run, const struct host_use *uses, const struct smd_hybrid *hybrid,
	int knows_rates, struct smd_error *error)
{
	struct smd_placement *placement = run->hosts.placement;
	struct smd_share share = smd_hybrid_share(hybrid);
	uint64_t mbps = hybrid->servers ? hybrid->servers_mbps / (unsigned)hybrid->servers
					: hybrid->worker_mbps;
	int ret = 0;

	/* Alone it gets everything: a program that asks for servers finds one. */
	if (hybrid->workers == 1 && hybrid->servers == 0) {
		share = (struct smd_share){1, 1};
	}
	if (share.part == 0) {
		return 0;
	}
	if (run->status.nservers + hybrid->workers > SMD_JOB_SERVERS_MAX) {
		return leave_out(run, hybrid, error);
	}
	placement->first_reducer = run->status.nservers;
	placement->reducer_share = share;
	for (int i = 0; i < run->hosts.nhosts && !ret; i++) {
		ret = uses[i].has_worker
			      ? add_one(run, i, knows_rates ? (unsigned)mbps : 0, error)
			      : 0;
	}
	if (!ret) {
		tell(run, hybrid, share);
	}
	return ret;
}

int smd_reducers_add(struct smd_run *run, struct smd_error *error)
{
	const struct smd_job *job = run->status.job;
	struct smd_hosts *hosts = &run->hosts;
	struct smd_hybrid hybrid;
	struct host_use *uses;
	int knows_rates, shared;
	int ret = 0;

	if (!smd_job_has_servers(job) || job->hybrid == SMD_HYBRID_OFF) {
		return 0;
	}
	uses = find_uses(hosts);
	if (!uses) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	knows_rates = rates_are_known(hosts, uses);
	hybrid = add_up(hosts, uses, knows_rates);
	shared = find_shared(hosts, uses);
	if (shared < 0) {
		ret = add_all(run, uses, &hybrid, knows_rates, error);
	} else if (job->hybrid == SMD_HYBRID_ON) {
		ret = smd_error_set(error, EINVAL,
			"summand-hybrid: on: reduction servers must have hosts without workers, "
			"got host %s with both",
			hosts->hosts[shared].name);
	}
	free(uses);
	return ret;
}
