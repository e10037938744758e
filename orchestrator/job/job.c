/* Names of a job's parts, and the end of a job. */
#include "orchestrator/job/job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/study.h"
#include "reduction_server/base/parse.h"

const char *smd_role_name(enum smd_role role)
{
	static const char *const names[] = {
#define X(constant, name) [constant] = name,
		SMD_ROLES(X)
#undef X
	};

	return names[role];
}

void smd_replica_name(char name[SMD_REPLICA_NAME_MAX], int pool, int index)
{
	snprintf(name, SMD_REPLICA_NAME_MAX, "workerpool%d-%d", pool, index);
}

int smd_replica_parse(const char *name, int *pool, int *index)
{
	static const char prefix[] = "workerpool";
	const char *digit = name + sizeof(prefix) - 1;
	uint64_t number;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || *digit < '0' ||
		*digit >= '0' + SMD_JOB_POOLS_MAX || digit[1] != '-') {
		return -EINVAL;
	}
	if (smd_parse_number(digit + 2, 0, INT_MAX, &number)) {
		return -EINVAL;
	}
	*pool = *digit - '0';
	*index = (int)number;
	return 0;
}

int smd_job_replica_count(const struct smd_job *job)
{
	int count = 0;

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		count += job->pools[i].replica_count;
	}
	return count;
}

const char *smd_job_pool_word(const struct smd_job_pool *pool, size_t i)
{
	return i < pool->ncommand ? pool->command[i] : pool->args[i - pool->ncommand];
}

int smd_job_pool_has_tpus(const struct smd_job_pool *pool)
{
	return pool->accelerator_type && strncmp(pool->accelerator_type, "TPU", 3) == 0;
}

int smd_job_has_servers(const struct smd_job *job)
{
	return job->pools[2].role == SMD_ROLE_REDUCTION_SERVER &&
	       (job->pools[2].replica_count > 0 || job->hybrid != SMD_HYBRID_OFF);
}

int smd_job_has_token(const struct smd_job *job)
{
	return smd_job_has_servers(job) ||
	       (job->launch == SMD_LAUNCH_MPIRUN && job->pools[1].replica_count > 0);
}

int smd_job_processes(const struct smd_job *job, int pool)
{
	return pool > 1 || job->launch != SMD_LAUNCH_PROCESS || job->processes_per_replica < 1
		       ? 1
		       : job->processes_per_replica;
}

int smd_exit_codes_contain(const struct smd_exit_codes *codes, int code)
{
	return code >= 0 && code < 256 && (codes->bits[code / 64] >> code % 64 & 1);
}

char *smd_reference_escape(const char *text)
{
	char *result = malloc(2 * strlen(text) + 1);
	char *to = result;

	for (; result && *text; text++) {
		*to++ = *text;
		if (*text == '$' && (text[1] == '(' || text[1] == '$')) {
			*to++ = '$';
		}
	}
	if (result) {
		*to = '\0';
	}
	return result;
}

static void free_strings(char **strings, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(strings[i]);
	}
	free(strings);
}

static void free_variables(struct smd_variable *variables, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(variables[i].name);
		free(variables[i].value);
	}
	free(variables);
}

void smd_job_pool_clear(struct smd_job_pool *pool)
{
	free(pool->machine_type);
	free(pool->accelerator_type);
	free(pool->image_uri);
	free_strings(pool->package_uris, pool->npackage_uris);
	free_strings(pool->command, pool->ncommand);
	free_strings(pool->args, pool->nargs);
	free_variables(pool->env, pool->nenv);
	*pool = (struct smd_job_pool){.index = pool->index, .role = pool->role};
}

void smd_job_free(struct smd_job *job)
{
	if (!job) {
		return;
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		smd_job_pool_clear(&job->pools[i]);
	}
	free_variables(job->labels, job->nlabels);
	free(job->display_name);
	free(job->trial);
	smd_study_free(job->study);
	free(job->output_uri);
	free(job->code_dir);
	free(job->run_name);
	free_strings(job->requirements, job->nrequirements);
	free_strings(job->extra_packages, job->nextra_packages);
	json_decref(job->spec);
	json_decref(job->resolved);
	free(job);
}
