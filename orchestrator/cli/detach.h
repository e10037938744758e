/*
 * Forks a process that goes on by itself when the command returns, as a job's runner does.
 */
#ifndef SMD_CLI_DETACH_H
#define SMD_CLI_DETACH_H

#include <sys/types.h>

/*
 * Returns twice, as fork() does: in the parent the child's id, in the child 0, which then has a
 * session of its own, no terminal, nothing of the caller's open but the `kept` descriptors, and the
 * log in the place of its output. -errno: there is no child.
 */
pid_t smd_detach(int log, const int *kept, int count);

#endif
