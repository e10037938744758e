/*
 * What a job will be before it is started: its pools and machines, and whether the reduction
 * servers' bandwidth matches the workers'.
 *
 * n workers of bandwidth Bw that all-reduce in a ring each send 2(n-1)/n times their data; through
 * reduction servers they send it once. R servers of bandwidth Br keep up when R*Br >= n*Bw, so the
 * best speed-up over the ring is 2(n-1)/n * min(1, R*Br / (n*Bw)). Workers that have InfiniBand use
 * it for a ring, and to servers that have it too; other servers they reach by Ethernet.
 */
#ifndef SMD_PLAN_PLAN_H
#define SMD_PLAN_PLAN_H

#include <stdio.h>

#include "orchestrator/job/job.h"
#include "orchestrator/plan/machine.h"

#define SMD_PLAN_WARNINGS_MAX 32

struct smd_plan_choice {
	const char *machine_type; /* the catalogue's */
	double gbps;              /* of one */
	int needed;
	double speedup; /* over a ring */
	double worker_gbps; /* what the slowest worker sends to them */
};

struct smd_plan {
	const struct smd_job *job;             /* borrowed */
	const struct smd_catalogue *catalogue; /* borrowed */
	double egress_gbps[SMD_JOB_POOLS_MAX]; /* of one replica; 0: unknown */
	double rdma_gbps[SMD_JOB_POOLS_MAX];   /* of its InfiniBand; 0: none, or unknown */
	/* What one replica sends: to the others of pools 0 and 1, or to these; 0: unknown. */
	double gbps[SMD_JOB_POOLS_MAX];
	int accelerators[SMD_JOB_POOLS_MAX]; /* of one replica, given or built in */
	const char *accelerator_types[SMD_JOB_POOLS_MAX];
	int workers;        /* pools 0 and 1 */
	double worker_gbps; /* of all workers; 0: unknown */
	int reduction_servers;
	double reduction_gbps; /* of all reduction servers; 0: unknown */
	double reach_gbps;     /* what the slowest worker sends to these; 0: unknown, or none */
	int needed; /* reduction servers for the workers' bandwidth; 0: unknown, or far too many */
	double speedup;       /* over a ring; 0: the job has no reduction servers */
	int speedup_is_bound; /* bandwidths are unknown, and taken for matched */
	/* The workers have accelerators, and their NCCL is told to reduce through the servers. */
	int has_nccl_plugin;
	/* Reduction servers of a machine type that match the workers; for a job that has none and
	 * would gain, those of the type that is recommended. machine_type NULL: not chosen. */
	struct smd_plan_choice choice;
	char *advice; /* why there is no choice for a job that has no servers; or NULL */
	char *warnings[SMD_PLAN_WARNINGS_MAX];
	size_t nwarnings;
};

/* The plan borrows both. */
int smd_plan_create(
	const struct smd_job *job, const struct smd_catalogue *catalogue, struct smd_plan **out);
void smd_plan_free(struct smd_plan *plan);

/* Takes one more warning; -ENOMEM. */
int smd_plan_warn(struct smd_plan *plan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Plans for reduction servers of that machine type. -ENOENT when the catalogue does not have it,
 * -ENODATA when its bandwidth or the workers' is unknown. */
int smd_plan_choose(struct smd_plan *plan, const char *machine_type);

/* Reduction servers of one bandwidth, with and without reducers on the workers' hosts: of those that
 * were chosen, or else of the job's. */
struct smd_plan_hybrid {
	int workers;
	double worker_gbps; /* 0: unknown, or there is nothing to gain, and the rest is not set */
	double server_gbps;
	double ring_gbps; /* by which a ring sends */
	int needed;       /* from which number on reducers are of no use */
};

struct smd_plan_hybrid smd_plan_hybrid(const struct smd_plan *plan);

/* Times the speed of a ring. */
double smd_plan_hybrid_speedup(const struct smd_plan_hybrid *hybrid, int servers);
double smd_plan_servers_speedup(const struct smd_plan_hybrid *hybrid, int servers); /* alone */

/* Seconds for 10^9 bytes. */
double smd_plan_hybrid_seconds(const struct smd_plan_hybrid *hybrid, int servers);

/* For people nothing where nothing is known; NULL for programs, or when out of memory. */
void smd_plan_hybrid_print(const struct smd_plan *plan, FILE *out);
json_t *smd_plan_hybrid_to_json(const struct smd_plan *plan);

/* A short table and its conclusions, for people. */
void smd_plan_print(const struct smd_plan *plan, FILE *out);

/* The same for programs; NULL when out of memory. */
json_t *smd_plan_to_json(const struct smd_plan *plan);

#endif
