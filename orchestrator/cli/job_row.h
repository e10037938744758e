/*
 * A stored job as a row of a list: the keys that the store has by themselves, without the spec.
 */
#ifndef SMD_CLI_JOB_ROW_H
#define SMD_CLI_JOB_ROW_H

#include "orchestrator/store/store.h"

#define SMD_JOB_ROW_KEYS                                                                           \
	"name, displayName, state, createTime, startTime, endTime, updateTime, error"

/* "name", ..., "labels", and NULL. */
extern const char *const smd_job_row_keys[];

int smd_job_row_is_key(const char *key);

/* Whether smd_job_row_text() has all of it, and a list reads it fast. */
int smd_job_row_is_text(const char *key);

/* The text of a key but labels, error's being the message; the buffer may hold it. NULL: the job
 * has none. */
const char *smd_job_row_text(
	const struct smd_stored_job *job, const char *key, char buffer[SMD_STORE_NAME_SIZE]);

/* As the CustomJob has them; the caller owns a reference. NULL: out of memory. */
json_t *smd_job_row_json(const struct smd_stored_job *job);

#endif
