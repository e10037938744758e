/*
 * A job's code and packages, which must be on this machine before anything is started: there is
 * nothing here to fetch packages from a bucket with, or code from elsewhere, and pip finds what is
 * missing late.
 */
#ifndef SMD_CLI_LOCAL_CODE_H
#define SMD_CLI_LOCAL_CODE_H

#include "orchestrator/cli/loaded_job.h"

/* 0, or -1 when what is missing has been printed. */
int smd_local_code_check(const struct smd_loaded_job *loaded);

#endif
