/*
 * A command that is run in a replica, for as long as this program runs: its streams are this
 * program's, and what it ends with, too.
 */
#ifndef SMD_CLI_EXEC_H
#define SMD_CLI_EXEC_H

#include <stdint.h>

#include "orchestrator/cli/service_jobs.h"

#define SMD_EXEC_NOT_RUN 125 /* no command was run: as of env and docker */

struct smd_exec_request {
	unsigned trial;       /* of a tuning job; 0: the job is none */
	const char *replica;  /* "workerpool0-0" */
	char *const *command; /* none: a shell */
};

/* By the job's runner on this machine, or by the service whose job it is. The program's exit code;
 * what there is to say has been said. */
int smd_exec_here(const struct smd_stored_job *job, const struct smd_exec_request *request);
int smd_exec_at_service(struct smd_service_jobs *service, const struct smd_stored_job *job,
	const struct smd_exec_request *request);

/* All of it to standard output or error, however slowly that is read. 0 or -errno. */
int smd_exec_show(int fd, const uint8_t *bytes, size_t count);

#endif
