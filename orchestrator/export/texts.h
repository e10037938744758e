/*
 * What the processes of a worker pool get, written once for all of them: texts in which the number
 * of the replica, that of the process and MASTER_PORT stand as terms.
 *
 * The contract says what each process gets, and this is derived from it by comparing processes. It
 * is then compared with what the contract says of every one of them, so it cannot be another
 * contract.
 */
#ifndef SMD_EXPORT_TEXTS_H
#define SMD_EXPORT_TEXTS_H

#include "orchestrator/contract/environment.h"
#include "reduction_server/base/error.h"

/* A literal, or the number replica_factor * index + process_factor * process + constant, to which
 * MASTER_PORT is added if has_port. */
struct smd_text_part {
	char *literal; /* NULL: the number */
	int64_t replica_factor;
	int64_t process_factor;
	int64_t constant;
	int has_port;
};

struct smd_text {
	struct smd_text_part *parts;
	size_t count;
};

struct smd_named_text {
	char *name;
	struct smd_text text;
};

struct smd_pool_texts {
	struct smd_named_text *variables;
	size_t nvariables;
	struct smd_text *words; /* the command line */
	size_t nwords;
};

/* Whether it is the same for all processes; then it has one literal, or nothing. */
int smd_text_is_literal(const struct smd_text *text);

/*
 * Those of the pool. Variables are of `placement`; a reduction server's command line is of
 * `listening`, where it listens at an address of its own host. If `port` is not 0, it is the
 * placement's master_port, and stands for the one that is known only when the job runs. -ENOTSUP
 * with a text: one of them cannot be written so.
 */
int smd_pool_texts_create(const struct smd_job *job, const struct smd_placement *placement,
	const struct smd_placement *listening, int pool, struct smd_pool_texts *out,
	struct smd_error *error);
void smd_pool_texts_free(struct smd_pool_texts *texts);

#endif
