/*
 * Runs a job on this machine, in the foreground: this process is the job's runner.
 */
#ifndef SMD_RUNNER_LOCAL_RUN_H
#define SMD_RUNNER_LOCAL_RUN_H

#include "orchestrator/engine/engine.h"
#include "orchestrator/runner/console.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/store/entry.h"
#include "reduction_server/base/error.h"

/* Where a process of a trial reports its metrics, in the job directory: pool, index, process. */
#define SMD_METRIC_FILE "metrics/workerpool%d-%d.%d"

#define SMD_HOST_TIMEOUT_DEFAULT_S 15
#define SMD_JOIN_TIMEOUT_DEFAULT_S 120
#define SMD_HOST_FAILURES_DEFAULT    3 /* of a service, whose jobs are many people's */
#define SMD_HOST_COOL_DOWN_DEFAULT_S 600

/* Where a job's replicas run. */
enum smd_local_run_engine {
	SMD_LOCAL_RUN_HERE, /* on this machine */
	SMD_LOCAL_RUN_SSH,  /* on hosts that ssh reaches */
	SMD_LOCAL_RUN_SLURM /* on nodes of a Slurm cluster */
};

struct smd_local_run_options {
	const struct smd_jobdir *dir;  /* where logs and records go */
	unsigned grace_s;              /* from SIGTERM to SIGKILL, and for an evaluator to finish */
	unsigned ready_timeout_s;      /* for a reduction server to say that it is ready */
	int oversubscribe;             /* replicas may share GPUs */
	enum smd_local_run_engine engine;
	const char *hostfile;    /* of ssh; or NULL */
	struct smd_hostfile *hosts; /* that it names; or NULL */
	const char *ssh_command; /* in its place; or NULL */
	int copies_agent;        /* to hosts that have no copy of it */
	struct smd_pool_machine machines[SMD_JOB_POOLS_MAX]; /* of a replica of each pool */
	struct smd_slurm_options slurm; /* but for the agent */
	const char *interface;   /* by which hosts reach each other, or a network; NULL: any */
	unsigned host_timeout_s; /* of silence, after which a host is lost */
	unsigned join_timeout_s; /* for the agents of all hosts to come */
	unsigned host_failures;    /* in a row, after which a host cools down; 0: none */
	unsigned host_cool_down_s; /* how long it is left out then */
	const char *container_runtime; /* images are run with it; NULL: commands, as processes */
	enum smd_view view;
	enum smd_color color;
	uint64_t log_limit;        /* of each log in bytes; 0: none */
	const char *metrics;       /* where metrics are read; NULL: nowhere */
	const char *trace;         /* the file that gets the trace; NULL: none */
	const struct smd_trace_family *trace_family; /* of other lines there; NULL: there are none */
	unsigned trial;            /* that the job is; 0: it is none */
	const char *secrets_folder; /* of what the job refers to by name; or NULL */
	int show_secrets;          /* in records too, instead of masks */
	int tells_failure;         /* the caller prints it, once it has the exit code */
	int complaints;            /* a pipe that gets, too, why nothing was started; 0: none */
	enum smd_stored_kind kind; /* that it is in the store */
	uint64_t seed;             /* of the search of a tuning job */
	int is_unlisted;           /* the job is a part of another one: it is not in the store */
	struct smd_entry *entry;   /* the job's in the store; NULL: it is to be made */
	const char *spec_text;     /* the spec as given, kept in the job directory; or NULL */
	size_t spec_length;
	const char *plan_text; /* the plan as printed, kept in the job directory; or NULL */
};

/*
 * Starts the replicas in order, supervises them and prints progress and the summary. Returns the
 * program's exit code: 0 the job succeeded, 1 it failed (the reason has been printed), 130 or 143
 * it was interrupted. -errno with a text when nothing could be started at all.
 *
 * The job is in the store from the beginning. Where the store cannot be written that is told, and
 * the job runs nevertheless.
 */
int smd_local_run(const struct smd_job *job, const struct smd_local_run_options *options,
	struct smd_error *error);

#endif
