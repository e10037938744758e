/*
 * gcloud's `custom-jobs local-run`: one program of a local directory, as a job of one replica.
 */
#ifndef SMD_FRONTEND_GCLOUD_PACKAGE_FLAGS_H
#define SMD_FRONTEND_GCLOUD_PACKAGE_FLAGS_H

#include <sys/stat.h>

#include "orchestrator/frontend/job_edit.h"

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

/* Refuses a directory that is not there, and the script or module, if one is given, that is not in
 * it. */
void smd_edit_check_program(struct smd_job_edit *edit, const struct smd_package_flags *flags);

/* Refuses items that are not files (S_IFREG) or directories (S_IFDIR) of the directory. */
void smd_edit_check_items(struct smd_job_edit *edit, const struct smd_package_flags *flags,
	const struct smd_flag_value *flag, const struct smd_flag_items *items, mode_t kind);

/* Gives the job the one worker pool that the flags describe. */
void smd_edit_package(struct smd_job_edit *edit, const struct smd_package_flags *flags);

/* What starts a script, as gcloud has it: python3 for .py, else bash. */
char *smd_script_interpreter(const char *script);

#endif
