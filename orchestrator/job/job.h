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

#define SMD_JOB_POOLS_MAX         4
#define SMD_JOB_REPLICAS_MAX      100000 /* of a pool */
#define SMD_JOB_PROCESSES_MAX     1024   /* of a replica */
#define SMD_JOB_SERVERS_MAX       64     /* reduction servers that a rank can use (libsummand) */
#define SMD_JOB_ID_SIZE           11     /* ten hexadecimal digits and the end */
#define SMD_REPLICA_NAME_MAX      32     /* "workerpool1-2" */
#define SMD_JOB_TIMEOUT_DEFAULT_S (7 * 24 * 3600)

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

/* Which framework's variables a replica gets: Vertex AI gives those of all. */
enum smd_distribution {
	SMD_DISTRIBUTION_ANY,
	SMD_DISTRIBUTION_PYTORCH,
	SMD_DISTRIBUTION_TENSORFLOW,
	SMD_DISTRIBUTION_MPI
};

/* Whose names and forms they have where clouds differ. */
enum smd_platform { SMD_PLATFORM_VERTEX, SMD_PLATFORM_AZUREML };

/* Who starts a replica's processes: the engine each of them, or its command all of them, as
 * torchrun and Lightning do; or one mpirun those of all replicas. Azure ML speaks of per-process
 * and per-node launch. */
enum smd_launch_mode { SMD_LAUNCH_PROCESS, SMD_LAUNCH_NODE, SMD_LAUNCH_MPIRUN };

/* Which MPI starts them; any: the first one that the chief has. */
enum smd_mpi_choice { SMD_MPI_CHOICE_ANY, SMD_MPI_CHOICE_OPENMPI, SMD_MPI_CHOICE_MPICH };

/* What each of their ranks is bound to. */
enum smd_mpi_binding {
	SMD_MPI_BINDING_NONE,
	SMD_MPI_BINDING_CORE,
	SMD_MPI_BINDING_NUMA,
	SMD_MPI_BINDING_SOCKET
};

/* How CLUSTER_SPEC and TF_CONFIG hold the spec itself. */
enum smd_job_encoding { SMD_JOB_ENCODING_OBJECT, SMD_JOB_ENCODING_STRING, SMD_JOB_ENCODING_NONE };

/* What TF_CONFIG calls the chief. */
enum smd_chief_name { SMD_CHIEF_NAME_CHIEF, SMD_CHIEF_NAME_MASTER };

/* Whose success is the job's: the chief's, that of chief and workers, of any one of these. */
enum smd_success_policy { SMD_SUCCESS_CHIEF, SMD_SUCCESS_ALL_WORKERS, SMD_SUCCESS_ANY };

/* Which ends are followed by a restart; EXIT_CODE: those from 128, and the listed ones. */
enum smd_restart_policy { SMD_RESTART_NEVER, SMD_RESTART_ON_FAILURE, SMD_RESTART_EXIT_CODE };

/* Whether reducers run on the workers' hosts too. AUTO: where the job has a pool of reduction
 * servers, of none or over several hosts of fewer than workers' hosts; ON: also where it has no
 * such pool. */
enum smd_hybrid_choice { SMD_HYBRID_AUTO, SMD_HYBRID_ON, SMD_HYBRID_OFF };

/* What becomes of a running job whose room a waiting one of a higher priority needs: nothing, or it
 * waits again and runs from its start, or it ends. Slurm's words. */
enum smd_preemption { SMD_PREEMPTION_OFF, SMD_PREEMPTION_REQUEUE, SMD_PREEMPTION_CANCEL };

enum smd_restart_scope { SMD_RESTART_JOB, SMD_RESTART_REPLICA };

struct smd_study;

struct smd_variable {
	char *name;
	char *value;
};

/* An exit code that is worth another attempt: one bit each. */
struct smd_exit_codes {
	uint64_t bits[4];
};

#define SMD_RESTART_BUDGETS_MAX 8
#define SMD_RESTART_CODE_LOST   0 /* of a replica that is lost; 0 is no failure */

/* How often ends with single exit codes are followed by a restart. */
struct smd_restart_budgets {
	struct smd_restart_budget {
		int code; /* 128 and the signal that has ended it, or SMD_RESTART_CODE_LOST */
		int restarts;
	} list[SMD_RESTART_BUDGETS_MAX];
	size_t count;
};

struct smd_job_pool {
	int index;
	enum smd_role role;
	int replica_count;      /* 0: the pool is not used, and nothing below is set */
	char *machine_type;     /* "n1-highcpu-16", or NULL */
	char *accelerator_type; /* "NVIDIA_TESLA_V100", or NULL */
	int accelerator_count;
	int accelerators_are_built_in; /* the machine type has them: the spec names none */
	char *image_uri;     /* containerSpec.imageUri or pythonPackageSpec.executorImageUri */
	char **package_uris; /* pythonPackageSpec.packageUris, to be installed first */
	size_t npackage_uris;
	char **command; /* containerSpec.command, or python3 -m MODULE; empty: the image's own */
	size_t ncommand;
	char **args;
	size_t nargs;
	struct smd_variable *env; /* of either, in the spec's order */
	size_t nenv;
};

struct smd_job {
	char id[SMD_JOB_ID_SIZE]; /* from the spec's content: the same spec has the same id */
	char *display_name;       /* never NULL: "custom-job" when the spec gives none */
	char *run_name;           /* Azure ML's name of the run, or NULL */
	char *trial;              /* hyperparameter tuning trial, or NULL */
	struct smd_study *study;  /* of a tuning job, of which the job is one trial; else NULL */
	size_t ntrial_args;       /* at the end of each pool's args: the trial's parameters */
	int max_trial_count;      /* 0: the job is no tuning job */
	int parallel_trial_count;
	int max_failed_trial_count;
	char *output_uri;   /* baseOutputDirectory.outputUriPrefix, or NULL */
	int64_t timeout_s;  /* scheduling.timeout; 7 days when not given */
	int64_t max_wait_s; /* scheduling.maxWaitDuration, 1 day; 0: without end */
	int restart_job_on_worker_restart;
	int disable_retries;
	/* Settings: what the API has no field for (spec/setting.h), mostly enums from above. */
	int distribution;
	int platform;
	int processes_per_replica; /* 1 or more, of pools 0 and 1 */
	int launch;
	int mpi_choice;
	int mpi_binding;
	int has_own_mpirun; /* with SMD_LAUNCH_MPIRUN: the chief's command is it */
	int job_encoding;
	int chief_name;
	int success_policy;
	int restart_policy;
	int restart_scope;
	int max_restarts;
	int restart_backoff_s; /* before the first restart */
	int server_restarts;   /* of a lost reduction server; 0: its loss ends the job */
	int hybrid;
	int priority; /* in the service's queue */
	int preemption;
	struct smd_exit_codes retryable;
	struct smd_restart_budgets budgets; /* each code once */
	/* A local package: what is copied to where replicas run, and installed there. */
	/* $NAME and ${NAME} in arguments are variables too, as a shell would have it. */
	int has_shell_arguments;
	char *code_dir; /* or NULL: replicas run in the caller's directory */
	char **requirements;
	size_t nrequirements;
	char **extra_packages;
	size_t nextra_packages;
	struct smd_variable *labels;
	size_t nlabels;
	struct smd_job_pool pools[SMD_JOB_POOLS_MAX];
	json_t *spec;     /* the CustomJobSpec as given, for CLUSTER_SPEC's "job" */
	json_t *resolved; /* the CustomJob with it, as all flags and front ends have made it */
};

const char *smd_role_name(enum smd_role role);

/* "workerpool1-2", as Vertex AI names replicas. */
void smd_replica_name(char name[SMD_REPLICA_NAME_MAX], int pool, int index);

/* The reverse; -EINVAL when the text is no replica name. */
int smd_replica_parse(const char *name, int *pool, int *index);

int smd_job_replica_count(const struct smd_job *job);

/* Its accelerators are none that a machine here has. */
/* The word of that number of the command and its args; NULL: what stands there is no text. */
const char *smd_job_pool_word(const struct smd_job_pool *pool, size_t i);

int smd_job_pool_has_tpus(const struct smd_job_pool *pool);

/* Whether it brings reduction servers of its own, or reducers on the workers' hosts alone. */
int smd_job_has_servers(const struct smd_job *job);

/* Whether its programs need a secret in common: with reduction servers, and where an mpirun starts
 * daemons on other replicas. */
int smd_job_has_token(const struct smd_job *job);

/* How many processes an engine starts in each of the pool's replicas. */
int smd_job_processes(const struct smd_job *job, int pool);

int smd_exit_codes_contain(const struct smd_exit_codes *codes, int code);

/* The text in which "$$" is a "$" and "$(NAME)" a reference, and that then is `text`; the caller
 * frees it. NULL when out of memory. */
char *smd_reference_escape(const char *text);

/* Makes it an unused pool: frees what it points to, keeps its number and role. */
void smd_job_pool_clear(struct smd_job_pool *pool);

void smd_job_free(struct smd_job *job);

#endif
