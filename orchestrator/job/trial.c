/* Puts the parameters of a trial into a job's arguments. */
#include "orchestrator/job/trial.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/study.h"

static char *argument_of(const struct smd_parameter *parameter, double value)
{
	char *text = smd_parameter_text(parameter, value);
	char *argument = NULL;

	if (text && asprintf(&argument, "--%s=%s", parameter->id, text) < 0) {
		argument = NULL;
	}
	free(text);
	return argument;
}

static void remove_arguments(struct smd_job_pool *pool, size_t count)
{
	for (; count > 0; count--) {
		free(pool->args[--pool->nargs]);
	}
}

static int add_arguments(
	struct smd_job_pool *pool, const struct smd_study *study, const double *point)
{
	char **args = realloc(pool->args, (pool->nargs + study->nparameters) * sizeof(*args));

	if (!args) {
		return -ENOMEM;
	}
	pool->args = args;
	for (size_t i = 0; i < study->nparameters; i++) {
		if (isnan(point[i])) {
			continue;
		}
		args[pool->nargs] = argument_of(&study->parameters[i], point[i]);
		if (!args[pool->nargs]) {
			return -ENOMEM;
		}
		pool->nargs++;
	}
	return 0;
}

static size_t count_active(const struct smd_study *study, const double *point)
{
	size_t count = 0;

	for (size_t i = 0; i < study->nparameters; i++) {
		count += !isnan(point[i]);
	}
	return count;
}

int smd_job_set_trial(struct smd_job *job, const char *name, const double *point)
{
	char *trial = strdup(name);
	int ret = trial ? 0 : -ENOMEM;

	free(job->trial);
	job->trial = trial;
	for (int i = 0; i < SMD_JOB_POOLS_MAX && !ret; i++) {
		struct smd_job_pool *pool = &job->pools[i];

		if (pool->replica_count > 0 && pool->role != SMD_ROLE_REDUCTION_SERVER) {
			remove_arguments(pool, job->ntrial_args);
			ret = add_arguments(pool, job->study, point);
		}
	}
	job->ntrial_args = count_active(job->study, point);
	return ret;
}
