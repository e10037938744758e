/*
 * Whether a directory may become a job's: an empty one, or that of an earlier job.
 */
#ifndef SMD_RUNNER_JOBDIR_CLAIM_H
#define SMD_RUNNER_JOBDIR_CLAIM_H

#include "reduction_server/base/error.h"

/* Of the directory that is open as fd. 0, or -EEXIST with a text that names something foreign in
 * it; -errno. */
int smd_jobdir_claim(int fd, const char *path, struct smd_error *error);

#endif
