/* Counts what each job has. */
#include "reduction_server/engine/job.h"

#include <stdlib.h>
#include <string.h>

struct smd_server_job *smd_jobs_find(const struct smd_jobs *jobs, const char *name)
{
	struct smd_server_job *job;

	LIST_FOREACH (job, &jobs->list, link) {
		if (strcmp(job->name, name) == 0) {
			return job;
		}
	}
	return NULL;
}

struct smd_server_job *smd_jobs_take(struct smd_jobs *jobs, const char *name)
{
	struct smd_server_job *job = smd_jobs_find(jobs, name);
	size_t size = strlen(name) + 1;

	if (!job) {
		job = calloc(1, sizeof(*job) + size);
		if (!job) {
			return NULL;
		}
		memcpy(job->name, name, size);
		job->number = ++jobs->taken;
		LIST_INSERT_HEAD(&jobs->list, job, link);
	}
	job->comms++;
	return job;
}

void smd_job_give(struct smd_server_job *job)
{
	if (--job->comms == 0) {
		LIST_REMOVE(job, link);
		free(job);
	}
}

bool smd_job_reserve(struct smd_jobs *jobs, struct smd_server_job *job,
	struct smd_buffer_pool *pool, size_t n, size_t most)
{
	if ((job->reserved && job->reserved + n > most) || !smd_buffer_pool_reserve(pool, n)) {
		return false;
	}
	jobs->working += job->reserved == 0;
	job->reserved += n;
	return true;
}

void smd_job_release(struct smd_jobs *jobs, struct smd_server_job *job,
	struct smd_buffer_pool *pool, size_t n, size_t kept)
{
	smd_buffer_pool_release(pool, n - kept);
	job->reserved -= n;
	jobs->working -= job->reserved == 0 && n > 0;
}
