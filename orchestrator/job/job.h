/*
 * The job model: what every front end produces and everything downstream reads.
 *
 * A job is up to four worker pools; a pool is `replica_count` replicas of the same configuration.
 * Position decides the role: pool 0 the chief (exactly one replica), pool 1 workers, pool 2
 * parameter servers or, by its image, reduction servers, pool 3 evaluators. An unused pool keeps
 * its number and has replica_count 0. (Vertex AI, CustomJobSpec.workerPoolSpecs.)
 *
 * Ownership: a job owns everything it points to; smd_job_free() frees it. A finished job is never
 * changed, so any number of readers may share it.
 */
#ifndef SMD_JOB_JOB_H
#define SMD_JOB_JOB_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_JOB_POOLS_MAX    4
#define SMD_JOB_ID_SIZE      11 /* ten hexadecimal digits and the end */
#define SMD_REPLICA_NAME_MAX 32 /* "workerpool1-2" */

/* X(constant, name) */
#define SMD_ROLES(X)                                                                               \
	X(SMD_ROLE_CHIEF, "chief")                                                                 \
	X(SMD_ROLE_WORKER, "worker")                                                               \
	X(SMD_ROLE_PARAMETER_SERVER, "parameter server")                                           \
	X(SMD_ROLE_REDUCTION_SERVER, "reduction server")                                           \
	X(SMD_ROLE_EVALUATOR, "evaluator")

enum smd_role {
#define X(constant, name) constant,
	SMD_ROLES(X) SMD_ROLE_COUNT
#undef X
};

struct smd_variable {
	char *name;
	char *value;
};

struct smd_pool {
	int index;
	enum smd_role role;
	int replica_count;      /* 0: the pool is not used, and nothing below is set */
	char *machine_type;     /* "n1-highcpu-16", or NULL */
	char *accelerator_type; /* "NVIDIA_TESLA_V100", or NULL */
	int accelerator_count;
	char *image_uri; /* containerSpec.imageUri or pythonPackageSpec.executorImageUri */
	char **command;  /* containerSpec.command; may be empty for a reduction server */
	size_t ncommand;
	char **args;
	size_t nargs;
	struct smd_variable *env; /* containerSpec.env, in the spec's order */
	size_t nenv;
};

struct smd_job {
	char id[SMD_JOB_ID_SIZE]; /* from the spec's content: the same spec has the same id */
	char *display_name;       /* never NULL: "custom-job" when the spec gives none */
	char *trial;              /* hyperparameter tuning trial, or NULL */
	char *output_uri;         /* baseOutputDirectory.outputUriPrefix, or NULL */
	int64_t timeout_s;        /* scheduling.timeout; 7 days when not given */
	struct smd_variable *labels;
	size_t nlabels;
	struct smd_pool pools[SMD_JOB_POOLS_MAX];
	json_t *spec; /* the CustomJobSpec as given, for CLUSTER_SPEC's "job" */
};

const char *smd_role_name(enum smd_role role);

/* "workerpool1-2", as Vertex AI names replicas. */
void smd_replica_name(char name[SMD_REPLICA_NAME_MAX], int pool, int index);

/* The reverse; -EINVAL when the text is no replica name. */
int smd_replica_parse(const char *name, int *pool, int *index);

int smd_job_replica_count(const struct smd_job *job);

/* Makes it an unused pool: frees what it points to, keeps its number and role. */
void smd_pool_clear(struct smd_pool *pool);

void smd_job_free(struct smd_job *job);

#endif
