/*
 * A tuning job while it runs: what tuning.c decides, report.c prints and record.c writes.
 */
#ifndef SMD_TUNING_STUDY_RUN_H
#define SMD_TUNING_STUDY_RUN_H

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/outlet.h"
#include "orchestrator/runner/stream.h"
#include "orchestrator/runner/trace.h"
#include "orchestrator/tuning/trial.h"
#include "orchestrator/tuning/tuning.h"

#define SMD_STUDY_LOG "logs/job.log"

/* X(name, what is announced, what it does) */
#define SMD_STUDY_PHASES(X)                                                                        \
	X(SEARCHING, "JOB_STATE_RUNNING", "trials are started as others end")                      \
	X(FINISHING, "JOB_STATE_RUNNING", "no more are started, those that run go on")             \
	X(STOPPING, "JOB_STATE_RUNNING", "those that run are asked to end")                        \
	X(ENDED, NULL, "none runs")

enum smd_study_phase {
#define X(name, announced, meaning) SMD_STUDY_##name,
	SMD_STUDY_PHASES(X)
#undef X
};

struct smd_metrics_endpoint;
struct smd_past_trial;

struct smd_study_run {
	const struct smd_job *job;
	const struct smd_study *study;
	const struct smd_jobdir *dir;
	struct smd_entry *entry; /* NULL: it is not in the store */
	struct smd_trial_runner runner;
	uint64_t seed;

	enum smd_study_phase phase;
	enum smd_outcome outcome;
	char *failure;    /* of a job that has failed */
	const char *over; /* why no more trials are started */
	struct smd_trial *trials;
	size_t count;
	const struct smd_trial *best; /* of several the last one; NULL: none has succeeded */
	size_t ended_since_best;
	uint64_t begun_ns;
	uint64_t best_ns;
	int interruptions;
	int interrupted_by;
	int record_error; /* of the last attempt to write it: it is told once */
	char create_time[SMD_TIMESTAMP_SIZE];
	char start_time[SMD_TIMESTAMP_SIZE];
	char end_time[SMD_TIMESTAMP_SIZE];

	struct smd_outlet out;   /* standard output */
	struct event_base *base; /* writes what that has not taken yet */
	int has_status_line;     /* it is a terminal that can take a line back */
	int is_drawn;            /* the line is there now */
	int is_colored;
	int is_full; /* of what trials print: they wait */
	uint64_t status_ns;
	struct smd_stream stream;
	struct smd_trace trace;
	struct smd_metrics_endpoint *metrics; /* NULL: they are not read */
};

size_t smd_study_run_count(
	const struct smd_study_run *run, int (*is)(const struct smd_trial *trial));

/* Whether it is the best; of a study with several metrics, whether no other one is better in one of
 * them and worse in none. */
int smd_study_run_is_best(const struct smd_study_run *run, const struct smd_trial *trial);

/* Takes a trial that has ended. */
void smd_study_run_judge(struct smd_study_run *run, const struct smd_trial *trial);

/* The trials as the search sees them; NULL: out of memory. */
struct smd_past_trial *smd_study_run_past(const struct smd_study_run *run);

/* What is announced as the job's state. */
const char *smd_study_run_state(const struct smd_study_run *run);

/* Puts the job's state and its trials on the disk and into the store. */
void smd_study_run_write(struct smd_study_run *run);

/* From now on nothing waits for who reads standard output, until it is closed. 0 or -errno. */
int smd_study_run_open_output(struct smd_study_run *run);
void smd_study_run_close_output(struct smd_study_run *run);

/* A line to who watches, and to the job's log. */
void smd_study_run_say(struct smd_study_run *run, const char *severity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A line that a trial's replica has printed, to who watches, when it is flushed. */
void smd_study_run_show_line(
	struct smd_study_run *run, unsigned trial, const char *text, size_t length);
void smd_study_run_flush(struct smd_study_run *run);

/* Lets trials wait before they print more while who watches is behind, but never for long. */
void smd_study_run_check_room(struct smd_study_run *run);

void smd_study_run_say_start(struct smd_study_run *run, const struct smd_trial *trial);
void smd_study_run_say_end(struct smd_study_run *run, const struct smd_trial *trial);

/* On a terminal: how the trials are that run now. Call it several times a second. */
void smd_study_run_show_status(struct smd_study_run *run);

/* All trials, the best one marked. */
void smd_study_run_print_table(struct smd_study_run *run);

#endif
