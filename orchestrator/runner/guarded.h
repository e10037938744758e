/*
 * A job's life between its guard and the store: the guard is taken, the job runs in its child, and
 * whatever happens, the store has an end of it.
 */
#ifndef SMD_RUNNER_GUARDED_H
#define SMD_RUNNER_GUARDED_H

#include <sys/types.h>

#include "orchestrator/runner/jobdir.h"
#include "orchestrator/store/entry.h"

/* Runs the job as the child of `guard`. The program's exit code, or -errno with a text where the
 * job could not be started at all. */
typedef int smd_guarded_fn(void *arg, pid_t guard, struct smd_error *error);

/* Runs it guarded; `entry` may be NULL, and `grace_s` is the replicas'. The program's exit code, or
 * -errno with a text. */
int smd_guarded_run(const struct smd_jobdir *dir, struct smd_entry *entry, unsigned grace_s,
	smd_guarded_fn *run, void *arg, struct smd_error *error);

#endif
