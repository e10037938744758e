/*
 * Pruning: jobs that ended long ago, or that take too much, are forgotten, and their directories
 * in the state directory removed (specs/design/jobs-store.md, "Pruning").
 *
 * One that runs is never touched, nor a directory that the user has named. A job whose replicas
 * have left files in its directory, such as a trained model, stays unless that is asked for.
 */
#ifndef SMD_STORE_PRUNE_H
#define SMD_STORE_PRUNE_H

#include <stddef.h>
#include <stdint.h>

#include "orchestrator/store/store.h"

#define SMD_PRUNE_NO_AGE   UINT64_MAX
#define SMD_PRUNE_NO_BYTES UINT64_MAX
#define SMD_PRUNE_NO_COUNT UINT64_MAX

struct smd_prune_limits {
	uint64_t age_s;  /* since the end of a job */
	uint64_t bytes;  /* of all that may be pruned; those that ended first go first */
	uint64_t count;  /* the same for how many there are */
	uint64_t rest_s; /* bytes and count let one be that ended in the last so many seconds */
	int with_outputs;
	int dry_run;
	unsigned budget_ms; /* the rest is left for another time; 0: no matter how long it takes */
};

struct smd_pruned {
	size_t count;
	uint64_t bytes;
	size_t spared; /* those that would have gone but for their files */
	size_t failed; /* those of which not all could be removed */
};

/* What has become of a job: -errno if not all of it could be removed. */
typedef void smd_pruned_fn(void *arg, const char *what, uint64_t bytes, int ret);

/* Calls back with each job that is pruned, or would be. It may be killed at any point: a job whose
 * directory is gone is still in the store then, and goes the next time. 0, or -errno with a text.
 */
int smd_store_prune(struct smd_store *store, const struct smd_prune_limits *limits,
	smd_pruned_fn *take, void *arg, struct smd_pruned *out, struct smd_error *error);

#endif
