/* Plans a job: bandwidth of the workers against that of the reduction servers. */
#include "orchestrator/plan/plan.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define SERVER_POOL 2

static int warn(struct smd_plan *plan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int warn(struct smd_plan *plan, const char *format, ...)
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

static int look_up_machines(struct smd_plan *plan, const struct smd_catalogue *catalogue)
{
	int ret = 0;

	for (int i = 0; i < SMD_JOB_POOLS_MAX && !ret; i++) {
		const struct smd_pool *pool = &plan->job->pools[i];
		struct smd_machine machine;

		if (pool->replica_count == 0 || !pool->machine_type) {
			continue;
		}
		if (smd_catalogue_find(catalogue, pool->machine_type, pool->accelerator_type,
			    pool->accelerator_count, &machine) == 0) {
			plan->gbps[i] = machine.egress_gbps;
		} else {
			ret = warn(plan,
				"worker pool %d: machine type %s is not in the catalogue, so its "
				"bandwidth is unknown",
				i, pool->machine_type);
		}
	}
	return ret;
}

/* The bandwidth of pools first to last; 0 as soon as one of them is unknown. */
static double sum_gbps(const struct smd_plan *plan, int first, int last)
{
	double sum = 0;

	for (int i = first; i <= last; i++) {
		if (plan->job->pools[i].replica_count > 0 && plan->gbps[i] <= 0) {
			return 0;
		}
		sum += plan->job->pools[i].replica_count * plan->gbps[i];
	}
	return sum;
}

static int match_bandwidth(struct smd_plan *plan)
{
	const struct smd_pool *servers = &plan->job->pools[SERVER_POOL];
	double match = 1;

	plan->reduction_servers = servers->replica_count;
	plan->reduction_gbps = sum_gbps(plan, SERVER_POOL, SERVER_POOL);
	if (plan->worker_gbps > 0 && plan->reduction_gbps > 0) {
		plan->needed = (int)ceil(plan->worker_gbps / plan->gbps[SERVER_POOL]);
		match = fmin(1, plan->reduction_gbps / plan->worker_gbps);
	} else {
		plan->speedup_is_bound = 1;
	}
	plan->speedup = 2.0 * (plan->workers - 1) / plan->workers * match;
	if (match < 1) {
		return warn(plan,
			"worker pool %d: %d reduction servers carry %g Gbit/s, %g less than the "
			"workers' %g: %d of %s are needed",
			SERVER_POOL, plan->reduction_servers, plan->reduction_gbps,
			plan->worker_gbps - plan->reduction_gbps, plan->worker_gbps, plan->needed,
			servers->machine_type);
	}
	return 0;
}

static int judge_reduction(struct smd_plan *plan)
{
	const struct smd_pool *servers = &plan->job->pools[SERVER_POOL];
	int ret = match_bandwidth(plan);

	if (!ret && servers->accelerator_count > 0) {
		ret = warn(plan,
			"worker pool %d: reduction servers sum on CPUs and do not use their %d %s",
			SERVER_POOL, servers->accelerator_count, servers->accelerator_type);
	}
	if (!ret && plan->workers == 1) {
		ret = warn(plan, "a single worker has nothing to reduce");
	} else if (!ret && plan->workers == 2) {
		ret = warn(plan,
			"two workers gain nothing: a ring of two sends as little as reduction "
			"servers do");
	}
	return ret;
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
	plan->workers = job->pools[0].replica_count + job->pools[1].replica_count;
	ret = look_up_machines(plan, catalogue);
	plan->worker_gbps = sum_gbps(plan, 0, 1);
	if (!ret && job->pools[SERVER_POOL].replica_count > 0 &&
		job->pools[SERVER_POOL].role == SMD_ROLE_REDUCTION_SERVER) {
		ret = judge_reduction(plan);
	}
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
	free(plan);
}
