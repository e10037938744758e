/*
 * A job as a command line names it, by a SPEC, or describes it, by flags: read, changed, decoded
 * and, if need be, complained of.
 */
#ifndef SMD_CLI_LOADED_JOB_H
#define SMD_CLI_LOADED_JOB_H

#include "orchestrator/document/source.h"
#include "orchestrator/frontend/flags_file.h"
#include "orchestrator/job/job.h"
#include "orchestrator/plan/plan.h"
#include "reduction_server/base/options.h"

/* What the job is loaded for. */
enum smd_use {
	SMD_USE_VALIDATE, /* to tell all that there is to tell of it */
	SMD_USE_SHOW,
	SMD_USE_SHOW_IMAGES, /* as it would be run in containers */
	SMD_USE_RUN,         /* its commands as processes: images alone do not do */
	SMD_USE_RUN_IMAGES
};

struct smd_loaded_job {
	enum smd_use use;
	struct smd_source source;   /* the spec; of a job from flags alone, what it would be */
	struct smd_flags_file line; /* the command line, into which options may point */
	struct smd_job *job;
	struct smd_catalogue *catalogue; /* the one beside the program */
};

/*
 * Parses a command line of the command's options, those that describe jobs, and at most one SPEC,
 * and loads the job for *use, which an option may have set. Returns 0; else the command is
 * over, everything has been said, and *exit_code is the program's.
 */
int smd_loaded_job_open(const struct smd_command *command, const enum smd_use *use, int argc,
	char **argv, struct smd_loaded_job *out, int *exit_code);
void smd_loaded_job_close(struct smd_loaded_job *loaded);

/* Plans the job with the catalogue beside the program; the plan borrows from the loaded job.
 * NULL: the reason has been printed. */
struct smd_plan *smd_loaded_job_plan(struct smd_loaded_job *loaded);

#endif
