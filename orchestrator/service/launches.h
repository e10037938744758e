/*
 * Runners that a service has started and that have not taken their job yet. They are in memory alone.
 */
#ifndef SMD_SERVICE_LAUNCHES_H
#define SMD_SERVICE_LAUNCHES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct smd_started_runner {
	int64_t id; /* of the job */
	pid_t pid;  /* 0: it has ended */
	unsigned attempts;
	uint64_t ended_ns;
	char *devices; /* the GPUs that it was given; or NULL */
	int is_wanted; /* the job waits still */
};

struct smd_launches {
	struct smd_started_runner *list;
	size_t count;
};

/* NULL: there is none for the job. */
struct smd_started_runner *smd_launches_find(struct smd_launches *launches, int64_t id);

/* The job's, without devices; it is made if there is none. NULL: out of memory. */
struct smd_started_runner *smd_launches_add(struct smd_launches *launches, int64_t id);

/* Forgets all others, and that these are wanted. */
void smd_launches_keep_wanted(struct smd_launches *launches);

/* Takes note of those that have ended. 1: some have. */
int smd_launches_reap(struct smd_launches *launches);

void smd_launches_clear(struct smd_launches *launches);

#endif
