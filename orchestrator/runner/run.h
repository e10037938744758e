/*
 * One job on its way from ALLOCATING to ENDED, in one attempt or several (specs/design/runner.md,
 * "Phases of a job").
 *
 * It is one state machine over events. Those of hosts and replicas come from the hosts (hosts.h),
 * interruptions from the loop; they are only noted. smd_run_turn(), called once
 * after each turn of the loop, draws the consequences; it is the only place where phases change.
 */
#ifndef SMD_RUNNER_RUN_H
#define SMD_RUNNER_RUN_H

#include "orchestrator/runner/console.h"
#include "orchestrator/runner/display.h"
#include "orchestrator/runner/hosts.h"
#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/record.h"
#include "orchestrator/runner/scaling.h"
#include "orchestrator/runner/stream.h"
#include "orchestrator/runner/trace.h"

struct smd_run {
	struct smd_job_status status;
	unsigned grace_s;
	unsigned ready_timeout_s;
	const struct smd_jobdir *dir;
	struct smd_hosts hosts;
	/* Builds what an attempt's replicas are started with, once it is known where they run. 0, or
	 * -errno with a text. */
	int (*prepare_attempt)(void *arg, struct smd_error *error);
	void *arg;
	struct smd_console console;
	struct smd_display display;
	struct smd_stream stream;
	struct smd_record record;
	struct smd_trace trace;
	int changed; /* the record is out of date */

	uint64_t limit_ns;    /* when the time limit began; 0: not yet */
	uint64_t settled_ns;  /* from when on a failure is final; 0: none yet */
	uint64_t told_ns;     /* by when a lost host's engine must have said why */
	uint64_t deadline_ns; /* of PREPARING, FINISHING and RESTARTING */
	int is_placed;        /* the replicas have hosts */
	int is_releasing;     /* hosts are given back between two attempts */
	int is_released;      /* nothing is left on any host */
	char *no_hosts;       /* why there are none, or no longer; or NULL */
	int interrupted_by;   /* the first signal */
	int has_losses;       /* some reduction server was lost in this attempt */
	int servers_changed;  /* the list of those that serve is out of date (server_list.h) */
	struct smd_scaling scaling;
};

/* Begins the first attempt. The hosts are open, and report to smd_run_take_event(). */
void smd_run_begin(struct smd_run *run);

/* Ends a job that has not begun, and cannot. */
void smd_run_give_up(struct smd_run *run, const char *reason);

/* Takes an event of hosts or of a replica, with the run as `arg`. */
smd_event_fn smd_run_take_event;

/* Takes a signal that ends the job; the second one ends it at once. */
void smd_run_interrupt(struct smd_run *run, int signo);

/* Ends the job at once, because its guard was killed. It has failed, unless it was interrupted
 * before. */
void smd_run_lose_guard(struct smd_run *run, pid_t guard);

/* Draws the consequences of the events that the last turn of the loop brought. */
void smd_run_turn(struct smd_run *run);

#endif
