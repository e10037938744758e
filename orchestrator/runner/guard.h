/*
 * The guard: the parent process of a job's runner. It forwards signals until the runner ends. When
 * the runner is killed, the guard inherits everything that the runner had started, and ends it;
 * when the guard is killed, the runner ends the job. So nothing of a job is left, whichever of the
 * two is killed (specs/design/runner.md).
 */
#ifndef SMD_RUNNER_GUARD_H
#define SMD_RUNNER_GUARD_H

#include "orchestrator/runner/jobdir.h"
#include "orchestrator/store/entry.h"

/* The kernel sends it to the runner when the guard dies. The runner tells it from a user's signal
 * by its parent, which is another process then. */
#define SMD_GUARD_DEATH_SIGNAL SIGHUP

/*
 * Returns twice, as fork() does. In the runner: 0, with *guard the id of the guard. In the guard,
 * when the runner has ended and nothing of it is left: -ECHILD, with the program's exit code in
 * *exit_code; a runner that was killed has been recorded in the directory's state.json and in the
 * entry, if there is one. Another -errno: there is no runner. `grace_s` is what agents on other
 * hosts give replicas when the runner was killed.
 */
int smd_guard_open(const struct smd_jobdir *dir, struct smd_entry *entry, unsigned grace_s, pid_t *guard,
	int *exit_code);

#endif
