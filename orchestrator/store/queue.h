/*
 * Jobs that wait for room: the service adds them, and a runner takes each of them over by its entry
 * (entry.h).
 *
 * A job that waits is QUEUED, has no directory and no runner, and what it is run from is in the
 * store, secrets too. It stays in the queue's table until it is deleted, because what it takes of
 * the machine is there.
 */
#ifndef SMD_STORE_QUEUE_H
#define SMD_STORE_QUEUE_H

#include <jansson.h>

#include "orchestrator/job/job.h"
#include "orchestrator/store/store.h"
#include "worker/agent/exit_record.h"

#define SMD_STATE_QUEUED "JOB_STATE_QUEUED"

/* What a job takes of a machine, all of its replicas together. */
struct smd_demand {
	int64_t cpus;
	int64_t memory_bytes;
	int64_t gpus;
};

/* A job that is to wait. */
struct smd_new_job {
	enum smd_stored_kind kind;
	const char *project;
	const char *location;
	const char *display_name;
	const json_t *resource; /* as it may be shown */
	const char *spec;       /* as it is run */
	struct smd_demand demand;
	int priority;
	enum smd_preemption preemption;
	int64_t max_wait_s; /* 0: without end */
	int64_t timeout_s;
	/* Set when it is added. */
	int64_t id;
	char create_time[SMD_TIMESTAMP_SIZE];
};

/* Adds jobs, all of them or none, in one transaction. They are on the disk then. 0, or -errno with
 * a text. */
int smd_queue_add(
	struct smd_store *store, struct smd_new_job *jobs, size_t count, struct smd_error *error);

/* A job of the queue that has not ended; its texts are valid until the next one. */
struct smd_queued_job {
	int64_t id;
	int is_waiting; /* else its runner has it */
	struct smd_demand demand;
	int priority;
	int64_t max_wait_s;
	int64_t timeout_s;
	enum smd_preemption preemption;
	int is_preempted;      /* it runs, and has been told to make room */
	const char *wait_time; /* since when it waits; else when it was last written */
	const char *project;
	/* Of one that does not wait: about when it began, and the GPUs that it has; else NULL. */
	const char *begin_time;
	const char *devices;
};

typedef int smd_queued_job_fn(void *arg, const struct smd_queued_job *job);

/* Calls back with all of them, in the order in which they came. */
int smd_queue_each(
	struct smd_store *store, smd_queued_job_fn *take, void *arg, struct smd_error *error);

/* What a waiting job is run from, which the caller frees. -ENOENT with a text: it waits no longer.
 */
int smd_queue_read_spec(struct smd_store *store, int64_t id, enum smd_stored_kind *kind,
	char **spec, struct smd_error *error);

/* Ends a job that waits. -EALREADY, without a text: none of that id does. */
int smd_queue_end(struct smd_store *store, int64_t id, const char *state, int code,
	const char *message, struct smd_error *error);

/* The job is to make room for the other one: durably, and by a signal to its guard if it has one
 * yet. What follows is written by its runner, or by whoever settles it. -EALREADY, without a text: it
 * runs no longer, or is to end anyway; -ESRCH: its guard is not to be reached from here. */
int smd_queue_preempt(struct smd_store *store, int64_t id, int64_t other, struct smd_error *error);

/* What a job of the queue has to do with others that need its room. */
struct smd_preemptions {
	int64_t makes_room_for; /* it runs, and is being stopped for that job; 0: it is not */
	unsigned count;		/* how often it was stopped, and waited again */
	int64_t last_by;	/* for which job the last time, */
	char last_time[SMD_TIMESTAMP_SIZE]; /* and when */
};

/* All zero where nothing is known of the job. 0, or -errno with a text. */
int smd_queue_preemptions(struct smd_store *store, int64_t id, struct smd_preemptions *out,
	struct smd_error *error);

/* Signals once more the guards of jobs that were to make room before this process was there, and have
 * not noticed. */
int smd_queue_preempt_again(struct smd_store *store, struct smd_error *error);

#endif
