/* Plans a job: bandwidth of the workers against that of the reduction servers. */
#include "orchestrator/plan/plan.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_POOL    2
#define EVALUATOR_POOL 3

/* Each reduction server costs every worker connections and somebody a machine. Those of the page on
 * distributed training are up to 3.2 for each worker. */
#define SERVERS_PER_WORKER_MAX 4

int smd_plan_warn(struct smd_plan *plan, const char *format, ...)
{
	va_list args;
	int length;

	if (plan->nwarnings == SMD_PLAN_WARNINGS_MAX) {
		return 0;
	}
	va_start(args, format);
	length = vasprintf(&plan->warnings[plan->nwarnings], format, args);
	va_end(args);
	if (length < 0) {
		return -ENOMEM;
	}
	plan->nwarnings++;
	return 0;
}

/* A spec's accelerators, or else those that the machine has anyway. */
static void look_up_accelerators(
	struct smd_plan *plan, const struct smd_job_pool *pool, const struct smd_machine *machine)
{
	int is_given = pool->accelerator_count > 0 && pool->accelerator_type;

	plan->accelerators[pool->index] =
		is_given ? pool->accelerator_count : machine->accelerators;
	plan->accelerator_types[pool->index] =
		is_given ? pool->accelerator_type : machine->accelerator_type;
}

/* On Azure ML a job may name a compute cluster and leave its machines to that. */
static int warn_of_unnamed_machine(struct smd_plan *plan, const struct smd_job_pool *pool)
{
	if (plan->job->platform != SMD_PLATFORM_AZUREML || pool->index > 0 || plan->workers < 2) {
		return 0;
	}
	return smd_plan_warn(plan,
		"no machine type is given (instance_type), so GPUs and bandwidth are unknown, and "
		"here all replicas see all GPUs of this machine");
}

static int look_up_machine(struct smd_plan *plan, const struct smd_job_pool *pool)
{
	struct smd_machine machine = {0};
	int ret = 0;

	if (!pool->machine_type) {
		ret = warn_of_unnamed_machine(plan, pool);
	} else if (smd_catalogue_find(plan->catalogue, pool->machine_type, pool->accelerator_type,
			   pool->accelerator_count, &machine)) {
		const char *near = smd_catalogue_suggest(plan->catalogue, pool->machine_type);

		ret = smd_plan_warn(plan,
			"worker pool %d: machine type %s is not in the catalogue, so its "
			"bandwidth is unknown, and its accelerators are not checked%s%s%s",
			pool->index, pool->machine_type, near ? "; did you mean " : "",
			near ? near : "", near ? "?" : "");
	}
	plan->egress_gbps[pool->index] = machine.egress_gbps;
	plan->rdma_gbps[pool->index] = machine.rdma_gbps;
	plan->gbps[pool->index] = fmax(machine.egress_gbps, machine.rdma_gbps);
	look_up_accelerators(plan, pool, &machine);
	return ret;
}

static int look_up_machines(struct smd_plan *plan)
{
	int ret = 0;

	for (int i = 0; i < SMD_JOB_POOLS_MAX && !ret; i++) {
		if (plan->job->pools[i].replica_count > 0) {
			ret = look_up_machine(plan, &plan->job->pools[i]);
		}
	}
	return ret;
}

/* The bandwidth of pools first to last; 0 as soon as one of them is unknown. */
static double sum_gbps(const struct smd_plan *plan, const double *gbps, int first, int last)
{
	double sum = 0;

	for (int i = first; i <= last; i++) {
		if (plan->job->pools[i].replica_count > 0 && gbps[i] <= 0) {
			return 0;
		}
		sum += plan->job->pools[i].replica_count * gbps[i];
	}
	return sum;
}

static int workers_have_rdma(const struct smd_plan *plan)
{
	return sum_gbps(plan, plan->rdma_gbps, 0, 1) > 0;
}

/* What the workers can send to servers: by InfiniBand only where both have it. */
static double reach_gbps(const struct smd_plan *plan, int servers_have_rdma)
{
	return servers_have_rdma && workers_have_rdma(plan)
		       ? plan->worker_gbps
		       : sum_gbps(plan, plan->egress_gbps, 0, 1);
}

/* The slowest one's part of it; 0: unknown. */
static double slowest_reach(const struct smd_plan *plan, int servers_have_rdma)
{
	const double *gbps = servers_have_rdma && workers_have_rdma(plan) ? plan->gbps
									  : plan->egress_gbps;
	double least = gbps[0];

	if (plan->job->pools[1].replica_count > 0) {
		least = fmin(least, gbps[1]);
	}
	return least;
}

/* What a server can take of that. */
static double server_gbps(const struct smd_plan *plan, double egress_gbps, double rdma_gbps)
{
	return rdma_gbps > 0 && workers_have_rdma(plan) ? fmax(egress_gbps, rdma_gbps)
							: egress_gbps;
}

/* How much more each worker sends in a ring than once. */
static double ring_share(const struct smd_plan *plan)
{
	return 2.0 * (plan->workers - 1) / plan->workers;
}

static int servers_needed(double worker_gbps, double gbps)
{
	return (int)fmin(INT_MAX, ceil(worker_gbps / gbps));
}

static int are_too_many(const struct smd_plan *plan, int servers)
{
	return servers > SERVERS_PER_WORKER_MAX * (int64_t)plan->workers;
}

int smd_plan_choose(struct smd_plan *plan, const char *machine_type)
{
	struct smd_machine machine;
	double reach;
	double gbps;

	if (smd_catalogue_find(plan->catalogue, machine_type, NULL, 0, &machine)) {
		return -ENOENT;
	}
	reach = reach_gbps(plan, machine.rdma_gbps > 0);
	gbps = server_gbps(plan, machine.egress_gbps, machine.rdma_gbps);
	if (plan->worker_gbps <= 0 || reach <= 0 || gbps <= 0) {
		return -ENODATA;
	}
	plan->choice = (struct smd_plan_choice){.machine_type = machine.name,
		.gbps = gbps,
		.needed = servers_needed(reach, gbps),
		.speedup = ring_share(plan) * reach / plan->worker_gbps,
		.worker_gbps = slowest_reach(plan, machine.rdma_gbps > 0)};
	return 0;
}

/* Chooses the first recommended type that pays. If none does, nothing is chosen, and the last that
 * was looked at comes back. */
static struct smd_plan_choice recommend(struct smd_plan *plan)
{
	const char *worker_type = plan->job->pools[0].machine_type;
	struct smd_plan_choice last = {0};
	const char *machine_type;

	for (size_t rank = 0; (machine_type = smd_catalogue_reduction_server(plan->catalogue,
				       worker_type, workers_have_rdma(plan), rank));
		rank++) {
		if (smd_plan_choose(plan, machine_type)) {
			continue;
		}
		last = plan->choice;
		if (!are_too_many(plan, plan->choice.needed)) {
			break;
		}
		plan->choice = (struct smd_plan_choice){0};
	}
	return last;
}

/* NULL when out of memory. */
static char *why_none_pay(const struct smd_plan *plan, const struct smd_plan_choice *last)
{
	char *text;

	if (asprintf(&text,
		    "reduction servers do not pay here: %d workers send %g Gbit/s, and %d of %s "
		    "would be needed, %d for each worker; they pay up to %d for each",
		    plan->workers, plan->worker_gbps, last->needed, last->machine_type,
		    (last->needed + plan->workers - 1) / plan->workers,
		    SERVERS_PER_WORKER_MAX) < 0) {
		return NULL;
	}
	return text;
}

/* A ring is faster than the servers of the job, and no number of their type that pays makes up for
 * it: so how many would be needed is no advice. */
static int warn_of_no_gain(struct smd_plan *plan, const struct smd_job_pool *servers)
{
	struct smd_plan_choice last = recommend(plan);
	struct smd_plan_choice better = plan->choice;
	char *why;
	int ret;

	plan->choice = (struct smd_plan_choice){0};
	plan->needed = 0;
	if (better.machine_type && better.speedup > 1) {
		return smd_plan_warn(plan,
			"worker pool %d: an all-reduce with these is slower than a ring, and more "
			"than %d of %s for each worker do not pay; have %d of %s, or leave worker "
			"pool %d out",
			SERVER_POOL, SERVERS_PER_WORKER_MAX, servers->machine_type, better.needed,
			better.machine_type, SERVER_POOL);
	}
	if (better.machine_type || !last.machine_type) {
		return smd_plan_warn(plan,
			"worker pool %d: an all-reduce with these is slower than a ring, and more "
			"than %d of %s for each worker do not pay; leave worker pool %d out",
			SERVER_POOL, SERVERS_PER_WORKER_MAX, servers->machine_type, SERVER_POOL);
	}
	why = why_none_pay(plan, &last);
	ret = why ? smd_plan_warn(plan,
			    "worker pool %d: an all-reduce with these is slower than a ring, and "
			    "%s; leave worker pool %d out",
			    SERVER_POOL, why, SERVER_POOL)
		  : -ENOMEM;
	free(why);
	return ret;
}

static int warn_of_too_few(struct smd_plan *plan, const struct smd_job_pool *servers, double reach)
{
	int cannot = are_too_many(plan, plan->needed);

	return smd_plan_warn(plan,
		"worker pool %d: %d reduction server%s %g Gbit/s, %g less than the workers' %g: "
		"%d of %s %s%s",
		SERVER_POOL, plan->reduction_servers,
		plan->reduction_servers == 1 ? " carries" : "s carry", plan->reduction_gbps,
		reach - plan->reduction_gbps, reach, plan->needed, servers->machine_type,
		cannot ? "would be needed, and so many do not pay" : "are needed",
		plan->speedup < 1 ? "; with these alone an all-reduce is slower than a ring" : "");
}

static int warn_of_ethernet(struct smd_plan *plan, const struct smd_job_pool *servers, double reach)
{
	return smd_plan_warn(plan,
		"worker pool %d: %s has no InfiniBand, so the workers send %g Gbit/s to it, and %g "
		"to each other: a ring is faster",
		SERVER_POOL, servers->machine_type, reach, plan->worker_gbps);
}

static int match_bandwidth(struct smd_plan *plan)
{
	const struct smd_job_pool *servers = &plan->job->pools[SERVER_POOL];
	double reach = reach_gbps(plan, plan->rdma_gbps[SERVER_POOL] > 0);
	double match = 1;

	plan->gbps[SERVER_POOL] =
		server_gbps(plan, plan->egress_gbps[SERVER_POOL], plan->rdma_gbps[SERVER_POOL]);
	plan->reduction_servers = servers->replica_count;
	plan->reduction_gbps = sum_gbps(plan, plan->gbps, SERVER_POOL, SERVER_POOL);
	plan->reach_gbps = slowest_reach(plan, plan->rdma_gbps[SERVER_POOL] > 0);
	if (reach > 0 && plan->reduction_gbps > 0) {
		plan->needed = servers_needed(reach, plan->gbps[SERVER_POOL]);
		match = fmin(reach, plan->reduction_gbps) / plan->worker_gbps;
	} else {
		plan->speedup_is_bound = 1;
	}
	plan->speedup = ring_share(plan) * match;
	if (plan->needed > 0 && reach < plan->worker_gbps && plan->speedup < 1) {
		return warn_of_ethernet(plan, servers, reach);
	}
	if (plan->needed > 0 && plan->reduction_servers > plan->needed) {
		return smd_plan_warn(plan,
			"worker pool %d: %d reduction servers carry %g Gbit/s, %g more than the "
			"workers' %g: %d of %s %s enough, and each costs every worker connections",
			SERVER_POOL, plan->reduction_servers, plan->reduction_gbps,
			plan->reduction_gbps - reach, reach, plan->needed, servers->machine_type,
			plan->needed == 1 ? "is" : "are");
	}
	if (match < 1 && plan->speedup < 1 && are_too_many(plan, plan->needed)) {
		return warn_of_no_gain(plan, servers);
	}
	return match < 1 ? warn_of_too_few(plan, servers, reach) : 0;
}

static int judge_reduction(struct smd_plan *plan)
{
	int ret = match_bandwidth(plan);

	if (!ret && plan->accelerators[SERVER_POOL] > 0) {
		ret = smd_plan_warn(plan,
			"worker pool %d: reduction servers sum on CPUs and do not use their %d %s",
			SERVER_POOL, plan->accelerators[SERVER_POOL],
			plan->accelerator_types[SERVER_POOL]);
	}
	if (!ret && plan->workers == 1) {
		ret = smd_plan_warn(plan, "a single worker has nothing to reduce");
	} else if (!ret && plan->workers == 2) {
		ret = smd_plan_warn(plan,
			"two workers gain nothing: a ring of two sends as little as reduction "
			"servers do");
	}
	return ret;
}

/* What the contract sets, unless the spec says otherwise. */
static int has_plugin(const struct smd_plan *plan, const struct smd_job_pool *pool)
{
	for (size_t i = 0; i < pool->nenv; i++) {
		const struct smd_variable *variable = &pool->env[i];

		if ((strcmp(variable->name, "NCCL_NET_PLUGIN") == 0 &&
			    strcmp(variable->value, "summand") != 0) ||
			(strcmp(variable->name, "NCCL_COLLNET_ENABLE") == 0 &&
				strcmp(variable->value, "1") != 0)) {
			return 0;
		}
	}
	return pool->replica_count == 0 || plan->accelerators[pool->index] > 0;
}

/* A framework that is named, and whose ranks use one GPU each. */
static int has_rank_per_accelerator(const struct smd_job *job)
{
	return job->distribution == SMD_DISTRIBUTION_PYTORCH ||
	       job->distribution == SMD_DISTRIBUTION_MPI;
}

static int judge_processes(struct smd_plan *plan)
{
	const struct smd_job *job = plan->job;
	int processes = job->processes_per_replica;
	int ret = 0;

	for (int i = 0; i <= 1 && !ret && has_rank_per_accelerator(job); i++) {
		if (job->pools[i].replica_count == 0 || plan->accelerators[i] <= processes) {
			continue;
		}
		ret = smd_plan_warn(plan,
			"worker pool %d: %d process%s per replica use%s %d of %d %s; "
			"%s says how many there are%s",
			i, processes, processes == 1 ? "" : "es", processes == 1 ? "s" : "",
			processes, plan->accelerators[i], plan->accelerator_types[i],
			job->platform == SMD_PLATFORM_AZUREML
				? "process_count_per_instance (summand-processes-per-replica)"
				: "summand-processes-per-replica",
			job->launch != SMD_LAUNCH_PROCESS
				? ""
				: ", and summand-launch: node that the command starts them");
	}
	return ret;
}

static int judge_evaluators(struct smd_plan *plan)
{
	const struct smd_job *job = plan->job;
	int count = job->pools[EVALUATOR_POOL].replica_count;

	if (count < 2 || job->distribution == SMD_DISTRIBUTION_PYTORCH ||
		job->distribution == SMD_DISTRIBUTION_MPI) {
		return 0;
	}
	return smd_plan_warn(plan, "worker pool %d: TensorFlow expects one evaluator, got %d",
		EVALUATOR_POOL, count);
}

/* Servers of one of the recommended types that pay; else why there are none. */
static int advise(struct smd_plan *plan)
{
	struct smd_plan_choice last = recommend(plan);

	if (plan->choice.machine_type || !last.machine_type) {
		return 0;
	}
	plan->advice = why_none_pay(plan, &last);
	return plan->advice ? 0 : -ENOMEM;
}

/* Three or more that reduce on accelerators, and have an empty place for servers. */
static int would_gain(const struct smd_plan *plan)
{
	return plan->workers > 2 && plan->accelerators[0] > 0 && plan->worker_gbps > 0 &&
	       plan->job->pools[SERVER_POOL].replica_count == 0;
}

int smd_plan_create(
	const struct smd_job *job, const struct smd_catalogue *catalogue, struct smd_plan **out)
{
	struct smd_plan *plan = calloc(1, sizeof(*plan));
	int ret;

	if (!plan) {
		return -ENOMEM;
	}
	plan->job = job;
	plan->catalogue = catalogue;
	plan->workers = job->pools[0].replica_count + job->pools[1].replica_count;
	ret = look_up_machines(plan);
	plan->worker_gbps = sum_gbps(plan, plan->gbps, 0, 1);
	if (!ret && job->pools[SERVER_POOL].replica_count > 0 &&
		job->pools[SERVER_POOL].role == SMD_ROLE_REDUCTION_SERVER) {
		ret = judge_reduction(plan);
		plan->has_nccl_plugin =
			has_plugin(plan, &job->pools[0]) && has_plugin(plan, &job->pools[1]);
	}
	ret = ret ? ret : judge_processes(plan);
	ret = ret ? ret : judge_evaluators(plan);
	ret = !ret && would_gain(plan) ? advise(plan) : ret;
	if (ret) {
		smd_plan_free(plan);
		return ret;
	}
	*out = plan;
	return 0;
}

void smd_plan_free(struct smd_plan *plan)
{
	if (!plan) {
		return;
	}
	for (size_t i = 0; i < plan->nwarnings; i++) {
		free(plan->warnings[i]);
	}
	free(plan->advice);
	free(plan);
}
