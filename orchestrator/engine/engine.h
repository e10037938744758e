/*
 * What brings one agent to each host of an allocation, and gives the allocation back
 * (specs/design/agent-protocol.md). It starts no replica and reads no log: that goes over the
 * agent's connection to the runner, and is the same on every engine.
 */
#ifndef SMD_ENGINE_ENGINE_H
#define SMD_ENGINE_ENGINE_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

struct event_base;
struct smd_engine;

/* What a replica's machine type has, as far as that is known; 0: it is not. */
struct smd_pool_machine {
	int cpus;
	uint64_t memory_bytes;
};

/* What one worker pool needs. Numbers are of one replica; 0: not known, or none. */
struct smd_pool_request {
	int replicas; /* 0: the pool is empty, and has no hosts */
	int slots;    /* that a replica takes of a host: its processes, at least 1 */
	struct smd_pool_machine machine;
	int gpus;
	const char *machine_type; /* as the spec has it; or NULL */
	const char *gpu_type;     /* or NULL */
};

/* How the agent's bytes reach the runner. */
enum smd_carrier_kind {
	SMD_CARRIER_STREAM, /* its standard input and output, which the engine hands to the runner
			     */
	SMD_CARRIER_TCP     /* it connects to the runner itself, over TLS */
};

/*
 * An invitation for agents: one line of JSON with a newline at its end, to be written to the agent's
 * standard input, and nowhere else: it has the secret. `host` is the number of the host, or of the
 * first one where one line goes to several agents (summand-agent --host --number-from=VARIABLE).
 * `is_local`: the host is this machine. The caller wipes and frees it. NULL: out of memory.
 */
typedef char *smd_invite_fn(void *arg, int host, enum smd_carrier_kind kind, int is_local);

struct smd_allocation_request {
	const char *name;     /* of the job, for people: "summand-my-job" */
	int64_t time_limit_s; /* 0: none */
	unsigned grace_s;     /* of replicas, from SIGTERM to SIGKILL */
	struct smd_pool_request pools[SMD_JOB_POOLS_MAX];
	smd_invite_fn *invite;
	void *invite_arg;
	/* Whether the host of that name is to be left out, where the others have slots enough; NULL:
	 * none is. Engines whose hosts a cluster chooses do not ask. */
	int (*avoids)(void *arg, const char *name);
	void *avoids_arg;
};

/* A host of the allocation. */
struct smd_engine_host {
	int number;       /* 0 to nhosts - 1 */
	const char *name; /* as the engine calls it, for messages */
	int pool;         /* the only one whose replicas it takes; -1: any */
	int slots;        /* 0: as many as there are replicas */
	int is_local;     /* this machine: it sees the runner's files */
	/* SMD_CARRIER_STREAM: non-blocking descriptors, the runner's to close (they may be one and
	 * the same); the invitation has been written. SMD_CARRIER_TCP: -1. */
	int read_fd;
	int write_fd;
};

/* X(name, what has happened) */
#define SMD_ENGINE_EVENTS(X)                                                                       \
	X(PENDING, "it waits for hosts; `text` says why, as the engine puts it")                   \
	X(GRANTED, "there are `nhosts` hosts; a HOST for each of them follows, or LOST")           \
	X(HOST, "the agent of `host` is on its way")                                               \
	X(ENDING, "the allocation is taken away, and agents are told; `text` says why")             \
	X(LOST, "the host `number` has no agent, or no longer; `text` says why")                   \
	X(FAILED, "no hosts can be had, or all of them are lost; `text` says why")                 \
	X(RELEASED, "nothing of the allocation is left")

enum smd_engine_event_kind {
#define X(name, what) SMD_ENGINE_##name,
	SMD_ENGINE_EVENTS(X)
#undef X
};

struct smd_engine_event {
	enum smd_engine_event_kind kind;
	int nhosts;
	int leaves_out; /* GRANTED: all that were to be left out are */
	int number;
	const struct smd_engine_host *host;
	/* GRANTED: all of them, where they are known before their agents come; else NULL. Without
	 * descriptors. */
	const struct smd_engine_host *hosts;
	const char *text; /* names the host, where it is of one */
	int is_final;     /* ENDING, FAILED: asking for other hosts is no use */
};

typedef void smd_engine_event_fn(void *arg, const struct smd_engine_event *event);

struct smd_engine_ops {
	const char *name;
	int can_wait; /* an allocation may be queued for long */

	/* 0, or -errno with a text; then there is no allocation, and no event comes. What the
	 * request points to stays until RELEASED. */
	int (*allocate)(struct smd_engine *engine, const struct smd_allocation_request *request,
		struct smd_error *error);

	/* Cancels what is queued, or gives back what was granted. RELEASED follows, also from
	 * within; then there may be another allocation. */
	void (*release)(struct smd_engine *engine);

	/* A granted host whose agent has not come: its name, and in `words` what the engine has
	 * done for it so far. For messages. */
	const char *(*explain)(struct smd_engine *engine, int number, char *words, size_t size);

	/* Frees the engine, which has no allocation. */
	void (*close)(struct smd_engine *engine);
};

/* The first member of every engine. The caller of allocate() sets all but ops first. */
struct smd_engine {
	const struct smd_engine_ops *ops;
	struct event_base *base;
	smd_engine_event_fn *take_event;
	void *arg;
};

/* This machine. `agent` is summand-agent's path. 0, or -errno with a text. */
int smd_engine_local_open(struct smd_engine **out, const char *agent, struct smd_error *error);

/* The hosts of a file with lines "HOST [slots=N]". It is read once: it may be a pipe. */
struct smd_hostfile;

/* 0, or -errno with a text that names the line. */
int smd_hostfile_open(struct smd_hostfile **out, const char *path, struct smd_error *error);
void smd_hostfile_close(struct smd_hostfile *hostfile);

struct smd_ssh_options {
	const struct smd_hostfile *hosts;
	const char *command;  /* what stands before a host's name on a command line that runs a
				 command there; NULL: OpenSSH's */
	const char *agent;    /* summand-agent's path here, and on the hosts */
	int copies;           /* a copy of it is run there, and made where there is none; with it */
	int has_servers;      /* what reduction servers and their workers need, */
	int has_mpi;          /* and what starts the ranks of MPI */
};

/* Hosts that OpenSSH reaches, or a command like it. 0, or -errno with a text. */
int smd_engine_ssh_open(
	struct smd_engine **out, const struct smd_ssh_options *options, struct smd_error *error);

#define SMD_SLURM_OPTIONS_MAX 32

struct smd_slurm_options {
	const char *partition;   /* or NULL, as the next ones */
	const char *account;
	const char *constraint;
	const char *reservation;
	/* Others of sbatch, "--qos=high", or of one pool, "workerpool2:--partition=cpu". */
	const char *options[SMD_SLURM_OPTIONS_MAX];
	size_t noptions;
	const char *agent; /* summand-agent's path on the nodes */
};

/* Whether the options fit what this process runs in. 0, or -EINVAL with a text. */
int smd_engine_slurm_check(const struct smd_slurm_options *options, struct smd_error *error);

/* Nodes of a Slurm cluster, or those of the allocation that this process runs in. 0, or -errno with
 * a text. */
int smd_engine_slurm_open(
	struct smd_engine **out, const struct smd_slurm_options *options, struct smd_error *error);

#endif
