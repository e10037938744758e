/*
 * A replica as its runner sees it: its state, and what is known about it (specs/design/runner.md).
 * Where replicas have several processes, each process is one of these.
 */
#ifndef SMD_RUNNER_REPLICA_H
#define SMD_RUNNER_REPLICA_H

#include <jansson.h>
#include <stdint.h>

#include "orchestrator/job/job.h"
#include "orchestrator/runner/replica_progress.h"
#include "orchestrator/runner/tail.h"
#include "worker/agent/exit_record.h"

#define SMD_REPLICA_STATUS_MAX  512
#define SMD_REPLICA_RESULTS_MAX 64

/* X(name, legal predecessors, meaning); P(x) is the bit of state x */
#define SMD_REPLICA_STATES(X)                                                                      \
	X(PENDING, P(SUCCEEDED) | P(FAILED) | P(STOPPED), "not started")                           \
	X(STARTING, P(PENDING), "starting")                                                        \
	X(RUNNING, P(STARTING), "running")                                                         \
	X(STOPPING, P(STARTING) | P(RUNNING), "stopping")                                          \
	X(SUCCEEDED, P(RUNNING), "succeeded")                                                      \
	X(FAILED, P(PENDING) | P(STARTING) | P(RUNNING), "failed")                                 \
	X(STOPPED, P(STOPPING), "stopped")

enum smd_replica_state {
#define X(name, predecessors, meaning) SMD_REPLICA_##name,
	SMD_REPLICA_STATES(X)
#undef X
		SMD_REPLICA_STATE_COUNT
};

/* X(name, what happened) */
#define SMD_REPLICA_EVENTS(X)                                                                      \
	X(LAUNCHED, "its process exists")                                                          \
	X(READY, "it said that it can be used, or need not say so")                                \
	X(STOP, "the runner asked it to end")                                                      \
	X(EXIT_OK, "it ended with status 0")                                                       \
	X(EXIT_BAD, "it ended in another way, or could not be started")                            \
	X(RETRY, "it is going to be started again")

enum smd_replica_event {
#define X(name, what) SMD_REPLICA_EVENT_##name,
	SMD_REPLICA_EVENTS(X)
#undef X
		SMD_REPLICA_EVENT_COUNT
};

/* How often there was another attempt, by the budget (policy.h) that its cause drew
 * from. */
struct smd_restart_counts {
	unsigned drawn[SMD_RESTART_BUDGETS_MAX + 1];
};

struct smd_loss;

struct smd_replica {
	char name[SMD_REPLICA_NAME_MAX];
	int pool;
	int index;
	int process; /* which of the replica's processes this is */
	int processes;
	enum smd_role role;
	enum smd_replica_state state; /* written by smd_replica_set_state() alone */
	char *program;                /* the first word of its command, once started */
	struct smd_tail tail;         /* of its standard error */
	uint64_t started_ns;          /* 0: never */
	uint64_t ended_ns;            /* 0: not yet */
	struct smd_exit end;          /* once it has ended */
	unsigned restarts;            /* of it alone, without the job's; */
	unsigned returns;             /* so many as it was taken away before, and wanted again */
	struct smd_restart_counts counts; /* the same */
	uint64_t restart_ns;          /* when it is restarted alone; 0: it is not */
	struct smd_loss *loss;        /* of a reduction server; NULL: it was never lost */
	char status[SMD_REPLICA_STATUS_MAX];
	int status_is_new;        /* not shown yet */
	uint64_t status_shown_ns; /* when one was shown last */
	json_t *results;          /* key -> last value, as text */
	json_t *figures;          /* the same, while it runs; NULL: it reported none */
	struct smd_replica_progress progress;
};

int smd_replica_init(struct smd_replica *replica, const struct smd_job_pool *pool, int index,
	int process, int processes);
void smd_replica_clear(struct smd_replica *replica);

/* Takes a replica that has ended back to PENDING and forgets its last attempt. */
void smd_replica_retry(struct smd_replica *replica);

const char *smd_replica_state_name(enum smd_replica_state state);    /* "RUNNING" */
const char *smd_replica_state_meaning(enum smd_replica_state state); /* "running" */

/* Whether `next` may follow `state`. */
int smd_replica_may_follow(enum smd_replica_state state, enum smd_replica_state next);

/* The state after the event; the same one when the event changes nothing. */
enum smd_replica_state smd_replica_after(
	enum smd_replica_state state, enum smd_replica_event event);

/* The sole writer of the state; asserts that it is a legal successor. */
void smd_replica_set_state(struct smd_replica *replica, enum smd_replica_state next);

/* Applies the event. True when the state changed. */
int smd_replica_apply(struct smd_replica *replica, enum smd_replica_event event);

/* Whether it has a process. */
int smd_replica_is_alive(const struct smd_replica *replica);

/* Whether it serves the others: a reduction server or a parameter server. */
int smd_replica_is_server(const struct smd_replica *replica);

/* Takes a result; the last value of a key wins. -ENOSPC when there are too many keys. */
int smd_replica_set_result(struct smd_replica *replica, const char *key, const char *value);

/* The same for a figure that changes. */
int smd_replica_set_figure(struct smd_replica *replica, const char *key, const char *value);

/* The value of a key, or NULL. */
const char *smd_replica_result(const struct smd_replica *replica, const char *key);

double smd_replica_elapsed(const struct smd_replica *replica);

/* The width of the longest name. */
int smd_replica_names_width(const struct smd_replica *replicas, size_t count);

#endif
