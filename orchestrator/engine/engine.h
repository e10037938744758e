/*
 * Where replicas run. An engine is an ops table: it places the replicas, starts one, signals one.
 *
 * Each started replica is a child process of the runner. The process ends when nothing of the
 * replica is left and its exit record is written. If the process itself is killed, what it leaves
 * becomes children of the runner.
 */
#ifndef SMD_ENGINE_ENGINE_H
#define SMD_ENGINE_ENGINE_H

#include <sys/types.h>

#include "orchestrator/contract/environment.h"
#include "reduction_server/base/error.h"

/* The notify pipe's number in every replica; SUMMAND_NOTIFY_FD says it too. */
#define SMD_ENGINE_NOTIFY_FD 3

/* A folder or a file of this machine that a container sees at its own path. */
struct smd_mount {
	const char *path;
	int writable;
};

/* Everything an engine needs to start one replica; borrowed for the call. */
struct smd_launch {
	char *const *argv;
	const struct smd_environment *environment;
	const char *image;   /* to be run in a container of; NULL: as a process */
	int has_command;     /* argv begins with a command, not with arguments of the image's entry
				point */
	const char *name;    /* unique on the host: "summand-8199-workerpool1-0" */
	const struct smd_mount *mounts; /* absolute paths */
	size_t nmounts;
	const char *directory;   /* where it runs; NULL: where the runner does */
	const char *exit_record; /* absolute path */
	unsigned grace_s;        /* from SIGTERM to SIGKILL */
};

/* A started replica. The descriptors are non-blocking reading ends of pipes, which the caller
 * closes; each has ended at the latest when the process has. */
struct smd_process {
	pid_t pid;
	int stdout_fd;
	int stderr_fd;
	int notify_fd;
	unsigned ending_max_s; /* how long its end may take after the grace period */
};

struct smd_engine;

struct smd_engine_ops {
	const char *name;

	/* Reserves a place for every replica until the engine is closed, and says where they are
	 * (out->output_dir is left NULL). 0, or -errno with a text; then *out is untouched. */
	int (*place)(struct smd_engine *engine, const struct smd_job *job,
		struct smd_placement *out, struct smd_error *error);

	/* A replica's GPUs as a value of CUDA_VISIBLE_DEVICES, which the caller frees. -ENOENT: the
	 * job asks for no GPUs, and its replicas see all there are. 0 or -errno. */
	int (*gpus)(struct smd_engine *engine, int pool, int index, char **out);

	/* Starts a replica. A command that cannot be executed is not an error here: the replica
	 * ends at once and its exit record says why. 0, or -errno; then nothing was started. */
	int (*start)(struct smd_engine *engine, const struct smd_launch *launch,
		struct smd_process *out);

	/* SIGTERM asks the replica to end and ends it when grace_s is over; SIGKILL ends it and
	 * everything that it started at once. The process must not have been reaped. */
	void (*signal)(struct smd_engine *engine, pid_t pid, int signo);

	/* Kills only the process, which has not ended in time: what the replica had started becomes
	 * children of the caller. */
	void (*abandon)(struct smd_engine *engine, pid_t pid);

	/* Removes what a launch has left elsewhere, such as a container, after its process was
	 * killed. */
	void (*clean_up)(struct smd_engine *engine, const char *name);

	/* Gives up the places and frees the engine. No replica may be running. */
	void (*close)(struct smd_engine *engine);
};

/* The first member of every engine. */
struct smd_engine {
	const struct smd_engine_ops *ops;
	const char *agent; /* the path of summand-agent, for what the runner itself starts */
};

struct smd_local_options {
	int oversubscribe;             /* replicas share GPUs where there are too few */
	const char *container_runtime; /* for launches with an image: podman, docker or apptainer;
					  or NULL */
};

/* This machine. Replicas are started through summand-agent, from the directory of the running
 * program; the calling thread must live as long as they do. 0, or -errno with a text. */
int smd_engine_local_open(
	struct smd_engine **out, const struct smd_local_options *options, struct smd_error *error);

#endif
