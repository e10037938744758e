/* Whether the containers of a job can be run: the program or plugin of --container-runtime. */
#ifndef SMD_CLI_CONTAINER_OPTION_H
#define SMD_CLI_CONTAINER_OPTION_H

#include "orchestrator/runner/local_run.h"

/* 0, or -1 after an error on standard error. */
int smd_container_option_check(
	const struct smd_job *job, const struct smd_local_run_options *options);

#endif
