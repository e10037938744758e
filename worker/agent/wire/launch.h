/* What the agent of a host is told to start one process of a replica with. */
#ifndef SMD_AGENT_WIRE_LAUNCH_H
#define SMD_AGENT_WIRE_LAUNCH_H

#include <stdint.h>

#include "orchestrator/contract/environment.h"

/* The notify pipe's number in every replica; SUMMAND_NOTIFY_FD says it too. */
#define SMD_NOTIFY_FD 3

/* A folder or a file of the host that a container sees at its own path. */
struct smd_mount {
	const char *path;
	int writable;
};

/* What a session is shown on; rows 0: it is none, and the session has pipes. */
struct smd_terminal {
	unsigned rows;
	unsigned columns;
	const char *type; /* TERM: "xterm-256color" */
};

#define SMD_TERMINAL_SIZE_MAX 10000 /* rows, columns */

/* All of it is borrowed. */
struct smd_launch {
	char *const *argv;
	const struct smd_environment *environment;
	const char *image;   /* to be run in a container of; NULL: as a process */
	const char *runtime; /* that runs images: podman, docker, apptainer or pyxis; NULL: there are
				none */
	int has_command;     /* argv begins with a command, not with arguments of the image's entry
				point */
	const char *name;    /* unique on the host: "summand-8199-workerpool1-0" */
	const struct smd_mount *mounts; /* absolute paths */
	size_t nmounts;
	const char *directory;  /* where it runs; NULL: where the agent does */
	const char *error_file; /* what is in it at the end comes with the end; or NULL */
	unsigned grace_s;       /* from SIGTERM to SIGKILL */
	int is_session; /* it has input, runs beside the replica's own process, */
	uint32_t of;    /* which has this number, and ends with that */
	struct smd_terminal terminal; /* of a session */
};

#endif
