/*
 * The processes of a job's replicas: starts, reads, signals and reaps them, until nothing of them
 * is left. It reports what happens as events and decides nothing; beside the engine only the
 * supervisor knows process ids.
 */
#ifndef SMD_RUNNER_SUPERVISOR_H
#define SMD_RUNNER_SUPERVISOR_H

#include "orchestrator/runner/launch.h"
#include "orchestrator/runner/output.h"

struct event_base;

/* X(name, what happened, and what the event's text is) */
#define SMD_EVENTS(X)                                                                              \
	X(STARTED, "its process exists", "its program")                                            \
	X(READY, "it says that it can be used", "its address, or empty")                           \
	X(STATUS, "it says what it is doing", "that")                                              \
	X(RESULT, "it reports a figure", "the figure")                                             \
	X(ENDED, "its process has ended, or could not be started", "its program, or NULL")

enum smd_event_kind {
#define X(name, what, text) SMD_EVENT_##name,
	SMD_EVENTS(X)
#undef X
};

struct smd_event {
	enum smd_event_kind kind;
	struct smd_replica *replica;
	const char *text;
	const char *key;            /* RESULT: the figure's name */
	const struct smd_exit *end; /* ENDED: how */
};

/* 0, or -errno when the event cannot be taken; a RESULT is then written to the replica's log. */
typedef int smd_event_fn(void *arg, const struct smd_event *event);

struct smd_child;

struct smd_supervisor {
	struct smd_launcher launcher;
	struct event_base *base;
	uint64_t log_limit;        /* of each replica */
	struct smd_stream *stream; /* gets the lines of all replicas */
	struct smd_console *console;
	struct smd_replica *replicas;
	size_t count;
	smd_event_fn *take_event;
	void *arg;
	struct smd_child *children; /* one per replica */
	int children_ended;         /* SIGCHLD came */
	int has_orphans;            /* there may be children that are no replica's process */
	int is_paused;              /* replicas' output is not read */
};

/* Opens it; the fields above `children` are set. 0 or -errno. */
int smd_supervisor_open(struct smd_supervisor *supervisor);

/* No replica may be running. */
void smd_supervisor_close(struct smd_supervisor *supervisor);

/* Starts a replica that was started `restarts` times before. Reports STARTED or ENDED. */
void smd_supervisor_start(
	struct smd_supervisor *supervisor, struct smd_replica *replica, unsigned restarts);

/* Asks the replica to end, or ends it at once (SIGKILL). */
void smd_supervisor_end(
	struct smd_supervisor *supervisor, const struct smd_replica *replica, int signo);

/* To be called after each turn of the loop. Reports the ends of processes, ends what a killed agent
 * has left, and kills agents that were to end long ago and have not. */
void smd_supervisor_turn(struct smd_supervisor *supervisor);

#endif
