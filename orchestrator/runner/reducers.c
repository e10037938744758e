/* Decides which hosts get reducers, with which share, and whether these are spare. */
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
	return smd_host_rails_mbps(&host->rails);
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

static void tell(struct smd_run *run, const struct smd_hybrid *hybrid)
{
	const struct smd_placement *placement = run->hosts.placement;
	char reducers[SENTENCE_MAX / 2] = ": a reducer on each of these, of equal shares";
	char text[SENTENCE_MAX];

	if (placement->spares_reducers) {
		snprintf(reducers, sizeof(reducers),
			", enough by what interfaces report: a spare reducer on each of these, used "
			"where operations gain by it");
	} else if (hybrid->servers) {
		snprintf(reducers, sizeof(reducers),
			": a reducer on each of these, with %u/%u of a server's share",
			placement->reducer_share.part, placement->reducer_share.whole);
	}
	snprintf(text, sizeof(text), "%d reduction server%s for %d workers' hosts%s",
		hybrid->servers, hybrid->servers == 1 ? "" : "s", hybrid->workers, reducers);
	smd_announce_scaling(&run->display, &run->stream, text);
}

/* More than a rank can use would fail all of them. Nobody misses spare ones. */
static int leave_out(struct smd_run *run, const struct smd_hybrid *hybrid, int is_spare,
	struct smd_error *error)
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
	if (is_spare) {
		return 0;
	}
	snprintf(text, sizeof(text),
		"%d reduction server%s for %d workers' hosts: no reducers on these, since a rank can "
		"use %d servers at most; have more reduction servers instead",
		servers, servers == 1 ? "" : "s", hybrid->workers, SMD_JOB_SERVERS_MAX);
	smd_announce_scaling(&run->display, &run->stream, text);
	return 0;
}

/* What each gets; part 0: there are to be none. Interfaces may report far more than they carry, so
 * where servers are enough by these, and too few if all links are equal, reducers are there, and
 * spare. */
static struct smd_share decide(const struct smd_hosts *hosts, const struct host_use *uses,
	const struct smd_hybrid *hybrid, int *is_spare)
{
	const struct smd_hybrid equal = add_up(hosts, uses, 0);
	struct smd_share share = smd_hybrid_share(hybrid);

	/* Alone it gets everything: a program that asks for servers finds one. */
	if (hybrid->workers == 1 && hybrid->servers == 0) {
		share = (struct smd_share){1, 1};
	}
	*is_spare = share.part == 0;
	return *is_spare ? smd_hybrid_share(&equal) : share;
}

static int add_all(struct smd_run *run, const struct host_use *uses, const struct smd_hybrid *hybrid,
	int knows_rates, struct smd_error *error)
{
	struct smd_placement *placement = run->hosts.placement;
	int is_spare;
	struct smd_share share = decide(&run->hosts, uses, hybrid, &is_spare);
	uint64_t mbps = hybrid->servers ? hybrid->servers_mbps / (unsigned)hybrid->servers
					: hybrid->worker_mbps;
	int ret = 0;

	if (share.part == 0) {
		return 0;
	}
	if (run->status.nservers + hybrid->workers > SMD_JOB_SERVERS_MAX) {
		return leave_out(run, hybrid, is_spare, error);
	}
	placement->first_reducer = run->status.nservers;
	placement->reducer_share = share;
	placement->spares_reducers = is_spare;
	for (int i = 0; i < run->hosts.nhosts && !ret; i++) {
		ret = uses[i].has_worker
			      ? add_one(run, i, knows_rates ? (unsigned)mbps : 0, error)
			      : 0;
	}
	if (!ret) {
		tell(run, hybrid);
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
