/*
 * The hosts of a job and the replicas on them: asks the engine for hosts, places the replicas,
 * starts and signals them, and hands on what their agents say. It reports what happens as events
 * and decides nothing about the job.
 */
#ifndef SMD_RUNNER_HOSTS_H
#define SMD_RUNNER_HOSTS_H

#include "orchestrator/engine/engine.h"
#include "orchestrator/runner/cool_down.h"
#include "orchestrator/runner/host.h"
#include "orchestrator/runner/launch.h"
#include "orchestrator/runner/output.h"
#include "worker/agent/host/gpu.h"

struct event_base;
struct smd_runner_listener;
struct smd_sessions;

/* What hosts tell those who have sessions there (sessions.h). */
struct smd_session_calls {
	/* What an agent says of a session. -EPROTO with a text: there is none of that number there. */
	int (*take_message)(struct smd_sessions *sessions, const struct smd_run_host *host,
		const struct smd_agent_message *message, struct smd_error *error);
	/* A host is lost, and with it all sessions there. */
	void (*lose_host)(struct smd_sessions *sessions, const struct smd_run_host *host,
		const struct smd_exit *end);
};

/* X(name, what happened, and what the event's text is) */
#define SMD_EVENTS(X)                                                                              \
	X(WAITING, "the engine waits for hosts", "why")                                            \
	X(LEFT_OUT, "hosts that cool down are left out", "which")                                  \
	X(ABSENT, "a host has not come, and the others suffice", "which one and why")             \
	X(PLACED, "all hosts are there, and it is known which replica runs where", "NULL")         \
	X(NO_HOSTS, "there are no hosts, or too few came", "why")                                  \
	X(HOST_LOST, "a host is lost; the ends of its replicas follow", "which one and why")       \
	X(RELEASED, "nothing is left on any host", "NULL")                                         \
	X(LAUNCHED, "a replica's process is asked for", "its program")                             \
	X(STARTED, "its process exists", "NULL")                                                   \
	X(READY, "it says that it can be used", "its address, or empty")                           \
	X(STATUS, "it says what it is doing", "that")                                              \
	X(RESULT, "it reports a figure", "the figure")                                             \
	X(FIGURE, "it reports a figure that changes", "the figure")                                \
	X(PROGRESS, "it says how far it is", "that")                                               \
	X(ENDED, "nothing of it is left, or it could not be started", "its program, or NULL")

enum smd_event_kind {
#define X(name, what, text) SMD_EVENT_##name,
	SMD_EVENTS(X)
#undef X
};

struct smd_event {
	enum smd_event_kind kind;
	struct smd_replica *replica; /* NULL: it is of hosts */
	const char *text;
	const char *key;            /* RESULT, FIGURE: its name */
	const struct smd_exit *end; /* ENDED: how */
};

/* 0, or -errno when the event cannot be taken; what a replica said is then written to its log. */
typedef int smd_event_fn(void *arg, const struct smd_event *event);

struct smd_replica_task;

struct smd_hosts {
	/* The caller's, before smd_hosts_open(). */
	struct smd_launcher launcher;
	struct event_base *base;
	struct smd_engine *engine;
	uint64_t log_limit;        /* of each replica */
	const struct smd_redaction *redaction; /* of what they write */
	struct smd_stream *stream; /* gets the lines of all replicas */
	struct smd_console *console;
	struct smd_replica *replicas;
	size_t count;
	size_t capacity; /* of the replicas */
	const struct smd_pool_machine *machines; /* of a replica of each pool */
	const char *interface;   /* by which hosts reach each other, or a network; NULL: any */
	unsigned silence_s;      /* after which a host is lost */
	unsigned join_timeout_s; /* for all agents to come */
	int may_share;           /* replicas may share GPUs */
	struct smd_cool_down cool_down;
	struct smd_sessions *sessions; /* in replicas; they have the numbers from `capacity` on, */
	const struct smd_session_calls *session_calls; /* and hear of them by these */
	struct smd_placement *placement; /* filled in by PLACED, but for what is there */
	smd_event_fn *take_event;
	void *arg;

	/* Its own. */
	/* What replicas have to do with a frame of their host's, and with its end. */
	int (*take_message)(struct smd_hosts *hosts, struct smd_run_host *host,
		const struct smd_agent_message *message, struct smd_error *error);
	void (*end_tasks_of)(
		struct smd_hosts *hosts, const struct smd_run_host *host, const char *reason);
	struct smd_allocation_request request;
	char *request_name;
	int is_allocated; /* or asked for */
	int is_placed;
	int has_lost; /* a host: another start needs another allocation */
	int leaves_out;   /* the allocation does, hosts that cool down */
	int takes_all;    /* no host is left out: the others were too few */
	int begins_again; /* with another allocation, once this one is given back */
	uint64_t ending_ns; /* when the engine said that they are taken away; 0: it has not */
	int is_final; /* and that is no use: the engine has said so */
	struct smd_run_host *hosts;
	int nhosts;
	struct smd_agent_greeting **greetings; /* of each host; NULL: none */
	struct smd_gpus *gpus;           /* of each host, once placed */
	int (*first)[SMD_JOB_POOLS_MAX]; /* of each host: the pool's first replica there */
	int *host_of[SMD_JOB_POOLS_MAX];
	uint64_t join_by_ns;
	struct smd_runner_listener *listener; /* NULL: no agent comes by TCP */
	uint8_t key[SMD_AGENT_KEY_SIZE];
	struct smd_replica_task *tasks; /* one per replica */
	size_t nwaiting; /* replicas whose start waits for room on the connection, or for its turn */
	uint64_t turned_ns; /* when this turn began, */
	int wants_turn;     /* and that the next one shall begin at once */
	int is_paused;          /* replicas' output gets no credit */
};

/* Opens it. 0 or -errno. */
int smd_hosts_open(struct smd_hosts *hosts);

/* No replica may be running, and nothing allocated. */
void smd_hosts_close(struct smd_hosts *hosts);

#define SMD_SERVER_LIST "servers" /* in the job's directory, and in the folder of each agent */

/* Gives each host that does not see the job's directory a file of that name, or another text in
 * it. */
void smd_hosts_send_file(struct smd_hosts *hosts, const char *name, const char *text);

/* Asks for hosts; PLACED or NO_HOSTS follows. 0, or -errno with a text. */
int smd_hosts_allocate(struct smd_hosts *hosts, struct smd_error *error);

/* Gives them back, or cancels; what still runs there is ended. RELEASED follows, at once where
 * nothing is allocated. */
void smd_hosts_release(struct smd_hosts *hosts);

/* Starts a replica that was started `restarts` times before. Reports LAUNCHED or ENDED. */
void smd_hosts_start(struct smd_hosts *hosts, struct smd_replica *replica, unsigned restarts);

/* Whether the replica's host is there, and stays as far as is known. */
int smd_hosts_can_start(const struct smd_hosts *hosts, const struct smd_replica *replica);

/* The replica has failed by its own end or its host's, and not because another one had. */
void smd_hosts_blame(struct smd_hosts *hosts, const struct smd_replica *replica);

/* Whether a host is about to be given up. */
int smd_hosts_may_lose_one(const struct smd_hosts *hosts);

/* The job has succeeded on its hosts. */
void smd_hosts_praise(const struct smd_hosts *hosts);

/* Asks the replica to end, or ends it at once (SIGKILL). */
void smd_hosts_end(struct smd_hosts *hosts, const struct smd_replica *replica, int signo);

/* Starts what an EXEC asks for beside the process of a replica, with that number; *host is where.
 * STARTED or ENDED of the agent follows. 0, or -errno with a text that says what of the replica. */
int smd_hosts_start_session(struct smd_hosts *hosts, const struct smd_replica *replica, uint32_t id,
	const struct smd_agent_message *exec, struct smd_run_host **host, struct smd_error *error);

/* To be called after each turn of the loop. */
void smd_hosts_turn(struct smd_hosts *hosts);

#endif
