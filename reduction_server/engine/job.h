/*
 * A job as one shard sees it: what its communicators have of what all jobs share.
 *
 * One job may have at most the limits below, so that something is left for the others. Where
 * several have communicators, each may have an equal part of the memory that windows grow by. A job
 * is what its workers call it, so this keeps jobs that mean well out of each other's way.
 */
#ifndef SMD_ENGINE_JOB_H
#define SMD_ENGINE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/engine/buffer_pool.h"

/* What a job may have of buffers, lanes, and groups that form, where nobody says. */
#define SMD_JOB_MOST(all) ((all) - (all) / 8)

struct smd_server_job {
	uint64_t number;          /* from 1 on; none is used twice */
	unsigned comms;           /* that are not freed; the last one takes the job along */
	unsigned lanes;           /* that are in groups */
	size_t reserved;          /* buffers that its communicators have been promised */
	uint64_t yields_until_ns; /* other streams lacked memory: until then windows are of one */
	LIST_ENTRY(smd_server_job) link;
	char name[];
};

struct smd_jobs {
	LIST_HEAD(, smd_server_job) list;
	unsigned working; /* jobs that have been promised buffers */
	uint64_t taken;   /* jobs that there ever were */
};

struct smd_server_job *smd_jobs_find(const struct smd_jobs *jobs, const char *name);

/* For one more communicator. NULL: out of memory. */
struct smd_server_job *smd_jobs_take(struct smd_jobs *jobs, const char *name);
/* One less. */
void smd_job_give(struct smd_server_job *job);

/* Promises the job n more buffers of the pool; false when there are not so many, or it has some and
 * would have more than `most`. */
bool smd_job_reserve(struct smd_jobs *jobs, struct smd_server_job *job,
	struct smd_buffer_pool *pool, size_t n, size_t most);
/* Takes n back. Of these `kept` stay promised in the pool, and are no longer the job's: workers
 * that have left may still write into them. */
void smd_job_release(struct smd_jobs *jobs, struct smd_server_job *job,
	struct smd_buffer_pool *pool, size_t n, size_t kept);

/* The part of the pool that each job may let its windows grow to: a quarter stays for whoever
 * comes. */
static inline size_t smd_jobs_share(const struct smd_jobs *jobs, const struct smd_buffer_pool *pool)
{
	size_t all = pool->total - pool->total / 4;

	return jobs->working > 1 ? all / jobs->working : all;
}

#endif
