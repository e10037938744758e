/* Makes and removes the job's token. */
#include "orchestrator/runner/job_token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TOKEN_BYTES 32 /* as many as HMAC-SHA256 has */

int smd_job_token_create(const struct smd_job *job, char **out, struct smd_error *error)
{
	unsigned char bytes[TOKEN_BYTES];
	char *text;

	*out = NULL;
	if (!smd_job_has_token(job)) {
		return 0;
	}
	text = calloc(1, 2 * sizeof(bytes) + 2);
	if (!text || getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		free(text);
		return smd_error_set(error, EIO, "the job's token: no random numbers are there");
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	}
	text[2 * sizeof(bytes)] = '\n';
	explicit_bzero(bytes, sizeof(bytes));
	*out = text;
	return 0;
}

int smd_job_token_make(const struct smd_jobdir *dir, const struct smd_job *job, char **path,
	struct smd_error *error)
{
	char *text;
	int ret = smd_job_token_create(job, &text, error);

	*path = NULL;
	if (ret || !text) {
		return ret;
	}
	ret = smd_jobdir_write(dir, SMD_JOB_TOKEN_FILE, text, strlen(text));
	explicit_bzero(text, strlen(text));
	free(text);
	if (ret) {
		return smd_error_set(error, -ret,
			"%s/" SMD_JOB_TOKEN_FILE ": cannot be written: %s", dir->path,
			strerror(-ret));
	}
	*path = smd_jobdir_path(dir, SMD_JOB_TOKEN_FILE);
	return *path ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

void smd_job_token_remove(const struct smd_jobdir *dir)
{
	smd_jobdir_remove(dir, SMD_JOB_TOKEN_FILE);
}
