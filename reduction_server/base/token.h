/*
 * The secrets by which workers and servers of a job know each other, as files hold them.
 *
 * A token is 1 to 255 bytes without spaces and control characters. A worker's file holds one. A
 * server's holds one, which is every job's, or a line "JOB TOKEN" for each job. What memory held a
 * token is wiped here before it is given back.
 */
#ifndef SMD_BASE_TOKEN_H
#define SMD_BASE_TOKEN_H

#include <stddef.h>

#include "reduction_server/base/error.h"

#define SMD_TOKEN_MAX     255 /* bytes */
#define SMD_TOKEN_JOB_MAX 255 /* bytes of a job's name */
#define SMD_TOKEN_ATTEMPT "#" /* JOB#1 is the job's second attempt, which has the job's token */

struct smd_job_token {
	char job[SMD_TOKEN_JOB_MAX + 1];
	char token[SMD_TOKEN_MAX + 1];
	unsigned line; /* of the file */
};

struct smd_tokens {
	char *every; /* the token of every job; NULL: each has its own, or none is needed */
	size_t njobs;
	struct smd_job_token *jobs;
	struct smd_job_token **by_name; /* the same, in the order of their names */
};

/*
 * Reads a worker's token. `what` named the file: "SUMMAND_TOKEN_FILE". -errno with a text: of
 * opening the file, -EACCES for one that others may use, or -EINVAL for what is no token.
 */
int smd_token_read(
	const char *what, const char *path, char token[SMD_TOKEN_MAX + 1], struct smd_error *error);

/* Reads a server's tokens, to be freed. Errors as above; *out is then empty. */
int smd_tokens_read(
	const char *what, const char *path, struct smd_tokens *out, struct smd_error *error);

/* What the job's workers must have; NULL: nothing that they have is right. A line of its own comes
 * before that of the job whose attempt it is. */
const char *smd_tokens_find(const struct smd_tokens *tokens, const char *job);

/* Wipes them. The struct is empty afterwards. */
void smd_tokens_free(struct smd_tokens *tokens);

#endif
