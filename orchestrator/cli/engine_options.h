/*
 * The options that say where a job runs: --engine, and what belongs to one engine alone.
 */
#ifndef SMD_CLI_ENGINE_OPTIONS_H
#define SMD_CLI_ENGINE_OPTIONS_H

#include "orchestrator/runner/local_run.h"
#include "reduction_server/base/error.h"

/* --engine: the target is an enum smd_local_run_engine. 0 or -EINVAL with a text. */
int smd_engine_option_set(void *target, const char *value, struct smd_error *error);

/* --slurm-option, a word of sbatch's command line or of the part of it that is for one pool: the
 * target is a struct smd_slurm_options, which borrows the value. 0 or -EINVAL with a text. */
int smd_engine_option_add_slurm(void *target, const char *value, struct smd_error *error);

/* Before anything is made: what an engine needs is there, and nothing of another one. Reads the file
 * of hosts, which the caller closes. 0, or -1 when the reason has been printed. */
int smd_engine_options_check(struct smd_local_run_options *options);

#endif
