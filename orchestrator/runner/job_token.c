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

void smd_job_token_forget(char *token)
{
	if (token) {
		explicit_bzero(token, strlen(token));
	}
	free(token);
}

int smd_job_token_renew(
	const struct smd_jobdir *dir, const struct smd_job *job, struct smd_error *error)
{
	char *token;
	int ret = smd_job_token_create(job, &token, error);

	if (ret || !token) {
		return ret;
	}
	smd_job_token_remove(dir); /* first, so that a full disk has room for the new one */
	ret = smd_jobdir_write(dir, SMD_JOB_TOKEN_FILE, token, strlen(token));
	smd_job_token_forget(token);
	return ret ? smd_error_set(error, -ret, "%s/" SMD_JOB_TOKEN_FILE ": cannot be written: %s",
			     dir->path, strerror(-ret))
		   : 0;
}

void smd_job_token_remove(const struct smd_jobdir *dir)
{
	smd_jobdir_remove(dir, SMD_JOB_TOKEN_FILE);
}
