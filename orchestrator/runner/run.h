/*
 * One job on its way from PREPARING to ENDED, in one attempt or several (specs/design/runner.md, "The
 * order of a job's life").
 *
 * Callbacks of the event loop only record facts here. smd_run_turn(), called once after each turn
 * of the loop, draws the consequences; it is the only place where phases change and objects die.
 */
#ifndef SMD_RUNNER_RUN_H
#define SMD_RUNNER_RUN_H

#include "orchestrator/engine/engine.h"
#include "orchestrator/runner/display.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/local_run.h"
#include "orchestrator/runner/replica.h"
#include "orchestrator/runner/stream.h"
#include "orchestrator/runner/workspace.h"

/* X(name, what is announced, and what when the job is cancelled) */
#define SMD_RUN_PHASES(X)                                                                          \
	X(PREPARING, "JOB_STATE_PENDING", "JOB_STATE_PENDING")                                     \
	X(RUNNING, "JOB_STATE_RUNNING", "JOB_STATE_RUNNING")                                       \
	X(FINISHING, "JOB_STATE_RUNNING", "JOB_STATE_RUNNING")                                     \
	X(STOPPING, "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")                                   \
	X(DRAINING, "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")                                   \
	X(RESTARTING, "JOB_STATE_PENDING", "JOB_STATE_CANCELLING")                                 \
	X(ENDED, NULL, "JOB_STATE_CANCELLED") /* NULL: the outcome's */

enum smd_run_phase {
#define X(name, announced, cancelled) SMD_RUN_##name,
	SMD_RUN_PHASES(X)
#undef X
		SMD_RUN_PHASE_COUNT
};

enum smd_outcome {
	SMD_OUTCOME_OPEN,
	SMD_OUTCOME_RESTART, /* of this attempt only: another one follows */
	SMD_OUTCOME_SUCCEEDED,
	SMD_OUTCOME_FAILED,
	SMD_OUTCOME_CANCELLED
};

struct smd_run {
	const struct smd_job *job;
	pid_t guard; /* guard.h */
	unsigned grace_s;
	unsigned ready_timeout_s;
	const char *container_runtime; /* what runs images; NULL: commands are run, as processes */
	struct smd_engine *engine;
	struct smd_placement placement;
	struct smd_contract *contract;
	struct smd_jobdir dir;
	struct smd_workspace workspace;
	struct event_base *base;
	struct smd_replica *replicas;
	size_t count;
	struct smd_display display;
	struct smd_stream stream;
	FILE *progress; /* where progress and summary go */

	enum smd_run_phase phase; /* written by set_phase() in run.c alone */
	enum smd_outcome outcome;
	char *failure;                      /* the message, once the job has failed */
	const struct smd_replica *decisive; /* whose end decides the outcome */
	uint64_t settled_ns;                /* from when on a failure is final; 0: none yet */
	uint64_t started_ns;
	uint64_t ended_ns;
	uint64_t deadline_ns; /* of PREPARING, FINISHING and RESTARTING */
	unsigned restarts;    /* of the whole job */
	char create_time[SMD_TIMESTAMP_SIZE];
	char start_time[SMD_TIMESTAMP_SIZE]; /* empty: never RUNNING */
	char end_time[SMD_TIMESTAMP_SIZE];

	/* Facts that callbacks record. */
	int children_ended; /* SIGCHLD came */
	int has_orphans;    /* there may be children that are no replica's process */
	int interruptions;
	int interrupted_by; /* the first signal */

	uint64_t recorded_ns; /* when state.json was written */
	int record_error;     /* why it could not be; 0: it was */
	int changed;          /* something in state.json is out of date */
};

/* What has ended, and what was left behind; see reap.c. */

/* Takes the ends of processes, and ends what a killed agent has left. */
void smd_run_reap(struct smd_run *run);

/* Asks the replica to end, or ends it at once (SIGKILL). */
void smd_run_end(struct smd_run *run, struct smd_replica *replica, int signo);

/* Ends processes that were asked to end and have not, long after they should have. */
void smd_run_end_overdue(struct smd_run *run);

/* Starts one replica; see launch.c. */
void smd_run_launch(struct smd_run *run, struct smd_replica *replica);

/* What its launches are called, which the caller frees. NULL: out of memory. */
char *smd_run_launch_name(const struct smd_replica *replica);

/* Begins the first attempt. */
void smd_run_begin(struct smd_run *run);

/* Ends a job that has not begun, and cannot. */
void smd_run_give_up(struct smd_run *run, const char *reason);

/* Restarts; see restart.c. */

/* A replica has failed: whether it will be started again alone, which is then noted in it. */
int smd_run_schedule_replica(struct smd_run *run, struct smd_replica *replica);

/* Starts the replicas whose time has come. */
void smd_run_restart_replicas(struct smd_run *run);

/* Whether the whole job is started again after the end of run->decisive. */
int smd_run_may_restart(const struct smd_run *run);

/* Forgets the last attempt; every replica is PENDING then. */
void smd_run_reset(struct smd_run *run);

/* Draws the consequences of the facts that the last turn of the loop recorded. */
void smd_run_turn(struct smd_run *run);

/* Applies an event to a replica and notes that the job's record is out of date. */
void smd_run_apply(struct smd_run *run, struct smd_replica *replica, enum smd_replica_event event);

/* A replica has ended, or could not be started: replica->end says how. */
void smd_run_take_end(struct smd_run *run, struct smd_replica *replica);

/* Says something in the job's stream, as the service. */
void smd_run_say(struct smd_run *run, const char *severity, const char *text);

/* What is announced as the job's state. */
const char *smd_run_state_name(const struct smd_run *run);

/* Prints the summary and writes summary.json. */
void smd_run_print_summary(const struct smd_run *run, FILE *file);
int smd_run_write_summary(const struct smd_run *run);

#endif
