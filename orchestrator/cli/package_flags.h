/*
 * gcloud's `custom-jobs local-run`: one program of a local directory, as a job of one replica.
 */
#ifndef SMD_CLI_PACKAGE_FLAGS_H
#define SMD_CLI_PACKAGE_FLAGS_H

#include "orchestrator/cli/job_edit.h"

/* Values of the flags; one that was not given has a NULL value. */
struct smd_package_flags {
	struct smd_flag_value executor_image;
	struct smd_flag_value output_image;
	struct smd_flag_value script;
	struct smd_flag_value module;
	struct smd_flag_value directory;
	struct smd_flag_value requirements;
	struct smd_flag_value extra_packages;
	struct smd_flag_value extra_dirs;
};

/* Gives the job the one worker pool that the flags describe. */
void smd_edit_package(struct smd_job_edit *edit, const struct smd_package_flags *flags);

#endif
