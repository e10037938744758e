/*
 * A job in one line: how many of its replicas are at work, for how long, what the first one says
 * that it is doing, and how to stop it.
 */
#ifndef SMD_RUNNER_STATUS_LINE_H
#define SMD_RUNNER_STATUS_LINE_H

#include <stddef.h>

#include "orchestrator/runner/job_status.h"

#define SMD_STATUS_LINE_SIZE 1024

/* Cut to that many columns of a terminal. */
void smd_status_line(
	const struct smd_job_status *status, size_t columns, char line[SMD_STATUS_LINE_SIZE]);

#endif
