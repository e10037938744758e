/*
 * Which job a process is of, where SUMMAND_JOB_ID does not say: what launchers give all of a job's
 * processes alike, and no two jobs.
 */
#ifndef SMD_LIBSUMMAND_JOB_ID_H
#define SMD_LIBSUMMAND_JOB_ID_H

#include <stddef.h>

/* Takes it from the environment: `out` is empty where there is nothing, and may be cut off at
 * `size`. Returns where it is from, for messages: "MASTER_ADDR and MASTER_PORT", or NULL. */
const char *smd_job_id_find(char *out, size_t size);

#endif
