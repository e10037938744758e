/*
 * How a job is: what its runner knows, for everything that shows or records it to read. Only run.c
 * changes it.
 */
#ifndef SMD_RUNNER_JOB_STATUS_H
#define SMD_RUNNER_JOB_STATUS_H

#include "orchestrator/runner/replica.h"
#include "orchestrator/store/scale_request.h"

#define SMD_SCALE_REFUSED_SIZE 256

/* X(name, what is announced, and what when the job is cancelled) */
#define SMD_JOB_PHASES(X)                                                                          \
	X(ALLOCATING, "JOB_STATE_PENDING", "JOB_STATE_CANCELLING")                                 \
	X(PREPARING, "JOB_STATE_PENDING", "JOB_STATE_PENDING")                                     \
	X(RUNNING, "JOB_STATE_RUNNING", "JOB_STATE_RUNNING")                                       \
	X(FINISHING, "JOB_STATE_RUNNING", "JOB_STATE_RUNNING")                                     \
	X(STOPPING, "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")                                   \
	X(DRAINING, "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")                                   \
	X(RELEASING, "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")                                  \
	X(RESTARTING, "JOB_STATE_PENDING", "JOB_STATE_CANCELLING")                                 \
	X(ENDED, NULL, "JOB_STATE_CANCELLED") /* NULL: the outcome's */

enum smd_job_phase {
#define X(name, announced, cancelled) SMD_PHASE_##name,
	SMD_JOB_PHASES(X)
#undef X
		SMD_PHASE_COUNT
};

enum smd_outcome {
	SMD_OUTCOME_OPEN,
	SMD_OUTCOME_RESTART, /* of this attempt only: another one follows */
	SMD_OUTCOME_SUCCEEDED,
	SMD_OUTCOME_FAILED,
	SMD_OUTCOME_CANCELLED
};

struct smd_job_status {
	const struct smd_job *job;
	const char *name; /* its resource name; NULL: it is not in the store */
	struct smd_replica *replicas;
	size_t count;
	size_t capacity; /* of the replicas: reduction servers may be added behind the others */
	int nservers;    /* reduction servers that there are to be: all reducers, and of the others the first */
	int nreducers;   /* of these, those on workers' hosts, whose indices are next to the job file's */
	int ntold;       /* as many as there were to be when this attempt began: its ranks were told of these */
	/* The last request to change their number; empty: there was none. */
	char scale_request[SMD_SCALE_ID_SIZE];
	char scale_refused[SMD_SCALE_REFUSED_SIZE]; /* why not; empty: it is carried out */
	enum smd_job_phase phase;
	enum smd_outcome outcome;
	char *failure;                      /* the message, once the job has failed */
	const struct smd_replica *decisive; /* whose end decides the outcome */
	unsigned restarts;                  /* of the whole job */
	struct smd_restart_counts counts;   /* the same */
	char *left_out; /* hosts that cool down, and why; NULL: none is left out */
	int interruptions;                  /* signals that asked it to end */
	uint64_t started_ns;
	uint64_t ended_ns;
	char create_time[SMD_TIMESTAMP_SIZE];
	char start_time[SMD_TIMESTAMP_SIZE]; /* empty: never RUNNING */
	char end_time[SMD_TIMESTAMP_SIZE];
};

/* Whether the replica is to run: all but the reduction servers that a request has taken away. */
int smd_job_status_wants(const struct smd_job_status *status, const struct smd_replica *replica);

/* Whether the reduction server is one that the ranks of this attempt were told of. */
int smd_job_status_was_told(const struct smd_job_status *status, const struct smd_replica *replica);

/* The index in its pool of the n-th reduction server from 0 that is no reducer. */
int smd_job_status_server_index(const struct smd_job_status *status, int n);

/* How many indices before the reducers' are of servers that a request has taken away. */
int smd_job_status_gap(const struct smd_job_status *status);

/* Whether all servers that are to run do: reduction servers, or parameter servers, which may have ended well, too. */
int smd_job_status_servers_run(const struct smd_job_status *status);

/* How many reduction servers are at work. */
int smd_job_status_serving(const struct smd_job_status *status);

/* The end for which there is another attempt: the decisive one, or that of hosts that did not come. */
const struct smd_exit *smd_job_status_cause(const struct smd_job_status *status);

/* What is announced as the job's state. */
const char *smd_job_state_name(const struct smd_job_status *status);

/* How often the replica has been started before, alone or with the whole job. */
unsigned smd_job_status_restarts_of(
	const struct smd_job_status *status, const struct smd_replica *replica);

#endif
