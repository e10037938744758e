/*
 * The directory of one job below the state directory: what it takes, whether the job's replicas
 * have left files in it, and its removal.
 */
#ifndef SMD_STORE_JOB_FOLDER_H
#define SMD_STORE_JOB_FOLDER_H

#include <stdint.h>

#define SMD_JOB_FOLDERS "jobs" /* in the state directory */

struct smd_job_folder_content {
	uint64_t bytes;  /* on the disk */
	int has_outputs; /* files that neither the runner nor the job's own code is */
};

/* Whether it was made in the state directory: one that --job-dir names is its user's own, and
 * there may be more in it. */
int smd_job_folder_is_own(const char *state_dir, const char *directory);

/* One that is not there has nothing. 0 or -errno. */
int smd_job_folder_measure(const char *directory, struct smd_job_folder_content *out);

/* Keeps runners from it until the descriptor is closed. -ENOENT: it is not there; -EBUSY: a runner
 * has it. */
int smd_job_folder_lock(const char *directory);

/* Removes it with all that is in it; not what is mounted there. 0, also when it is not there, or
 * -errno of the first file that stays. */
int smd_job_folder_remove(const char *directory);

#endif
