/*
 * Takes secrets out of what replicas write: each occurrence of a value, or of a whole line of one that
 * has several, is replaced by the mask (job/secret.h), wherever the stream is cut into pieces.
 */
#ifndef SMD_RUNNER_REDACTION_H
#define SMD_RUNNER_REDACTION_H

#include "orchestrator/job/secrets.h"
#include "orchestrator/runner/jobdir.h"

struct smd_redaction {
	struct smd_redacted {
		const char *text; /* of the secrets */
		size_t length;
	} *list; /* the longest first */
	size_t count;
	unsigned char begins[256]; /* whether one of them begins with that byte */
};

/* Borrows the secrets. 0 or -ENOMEM. */
int smd_redaction_open(struct smd_redaction *redaction, const struct smd_secrets *secrets);
void smd_redaction_close(struct smd_redaction *redaction);

/* The text without secrets, in place of it: it is freed where it changes. NULL as redaction has none. NULL: out of memory, or it
 * was. */
char *smd_redaction_apply(const struct smd_redaction *redaction, char *text);

/* Takes secrets out of a file of the directory that a replica has written, if it is there; if it is
 * not of bounded size it is removed. */
void smd_redaction_rewrite(const struct smd_redaction *redaction, const struct smd_jobdir *dir,
	const char *name);

/* A stream, and what has come of it that may be the beginning of a secret. Zeroed at first. */
struct smd_redacted_stream {
	char *held;
	size_t length;
	size_t size;
};

typedef void smd_redaction_fn(void *arg, const char *bytes, size_t count);

/* Hands on what is known not to be a secret, with masks. Out of memory nothing is handed on. */
void smd_redaction_feed(const struct smd_redaction *redaction, struct smd_redacted_stream *stream,
	const char *bytes, size_t count, smd_redaction_fn *take, void *arg);

/* Hands on the rest, and frees what is held. */
void smd_redaction_finish(const struct smd_redaction *redaction,
	struct smd_redacted_stream *stream, smd_redaction_fn *take, void *arg);

#endif
