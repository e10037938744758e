/*
 * The row of one job, as its runner writes it.
 *
 * Whoever holds the entry, and so its lock (runner_lock.h), is the job's runner: its guard, the
 * runner itself, and what `create` has forked to become them. No connection stays open, so the
 * entry goes through forks.
 */
#ifndef SMD_STORE_ENTRY_H
#define SMD_STORE_ENTRY_H

#include <jansson.h>

#include "orchestrator/store/store.h"
#include "worker/agent/exit_record.h"

#define SMD_ENTRY_STATE_SIZE 32

struct smd_entry {
	int64_t id;
	char name[SMD_STORE_NAME_SIZE];
	char shown_name[SMD_STORE_NAME_SIZE]; /* by which others know it: smd_stored_job_name() */
	char create_time[SMD_TIMESTAMP_SIZE];
	char queue_time[SMD_TIMESTAMP_SIZE]; /* since when it waited in the queue; empty: it did not */
	char *state_dir;
	char *directory; /* that a job of the queue has had before, when it made room; or NULL */
	int lock_fd;
	int is_ended;                     /* its last state has been written, */
	int waits_again;                  /* and was not its end: another one needs its room */
	int error;                        /* of the last attempt to write it: it is told once */
	char state[SMD_ENTRY_STATE_SIZE]; /* as last written */
};

/* How a job is now. NULL: not yet, or none. */
struct smd_entry_change {
	const char *state;
	const char *start_time;
	const char *end_time;
	int error_code;
	const char *error_message;
};

/* Adds a job of a kind, PENDING, which has the directory alone from now on. `resource` is the
 * CustomJob as it may be shown. 0, or -errno with a text. */
int smd_entry_open(struct smd_entry *entry, enum smd_stored_kind kind, const json_t *resource,
	const char *display_name, const char *directory, struct smd_error *error);

/* An id for a new job. 0, or -errno with a text. */
int smd_entry_draw_id(int64_t *id, struct smd_error *error);

/* Becomes the runner of a job that waits in the queue (queue.h), which it does until
 * smd_entry_begin(). -EAGAIN: another process is; -EALREADY: it waits no longer. */
int smd_entry_open_queued(struct smd_entry *entry, int64_t id, struct smd_error *error);

/* The job is PENDING, and has the directory and the GPUs, as CUDA_VISIBLE_DEVICES has them or NULL:
 * only one runner ever gets there. -EALREADY: it waits no
 * longer, because somebody has cancelled it. */
int smd_entry_begin(struct smd_entry *entry, const char *directory, const char *devices,
	struct smd_error *error);

/* This process becomes the job's guard, which `cancel` signals. 1: the job has been cancelled
 * already. 0, or -errno after a warning: the job runs, and cannot be cancelled from elsewhere. */
int smd_entry_take(struct smd_entry *entry);

/* Lets go of the job in this process. */
void smd_entry_close(struct smd_entry *entry);

/* Writes a change, which is on the disk then. The end of a job that was to make room may be that it
 * waits again. A job that has ended stays as it is. What fails is
 * logged, and the job goes on; its state.json has the same. */
void smd_entry_write(struct smd_entry *entry, const struct smd_entry_change *change);

#endif
