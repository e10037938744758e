/*
 * The process that a job's runner is a child of. It does nothing but hand on signals, until the
 * runner has ended; when that is not by itself, everything that the runner had started has come to
 * this process, which ends it. The other way round the runner ends the job when its guard is
 * killed. So nothing of a job is left when either of them is killed, whichever it is
 * (specs/design/runner.md).
 */
#ifndef SMD_RUNNER_GUARD_H
#define SMD_RUNNER_GUARD_H

#include "orchestrator/runner/jobdir.h"

/* What the runner gets from the kernel when its guard dies, and what tells that from a signal of a
 * user's: its parent is another one then. */
#define SMD_GUARD_DEATH_SIGNAL SIGHUP

/*
 * Returns twice, as fork() does. In the runner: 0, with *guard the id of the guard. In the guard,
 * when the runner has ended and nothing of it is left: -ECHILD, with the program's exit code in
 * *exit_code; a runner that was killed has been recorded in the directory's state.json. Another
 * -errno: there is no runner.
 */
int smd_guard_open(const struct smd_jobdir *dir, pid_t *guard, int *exit_code);

#endif
