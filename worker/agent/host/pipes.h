/*
 * The pipes of one process of a replica: what comes out of them goes to the runner, within the
 * credit that it has given.
 */
#ifndef SMD_AGENT_HOST_PIPES_H
#define SMD_AGENT_HOST_PIPES_H

#include "worker/agent/host/hosted.h"

struct smd_pipes;

struct smd_pipe {
	struct smd_pipes *pipes;
	enum smd_agent_stream stream;
	struct event *event; /* NULL: not open */
	int has_ended;
};

struct smd_pipes {
	/* The caller's, before smd_pipes_open(). */
	struct smd_hosts_own *own;
	uint32_t id; /* of the process, for the runner */
	uint32_t credit;

	/* Its own. */
	struct smd_pipe ends[SMD_AGENT_STREAMS];
};

/* Takes over the process's descriptors. 0, or -ENOMEM when one of them is not read. */
int smd_pipes_open(struct smd_pipes *pipes, const struct smd_process *process);

/* The runner takes so many bytes more. */
void smd_pipes_give_credit(struct smd_pipes *pipes, uint32_t bytes);

/* Reads on, or does not: the connection has room again, or has none (own->is_full). */
void smd_pipes_watch(struct smd_pipes *pipes);

/* Sends what is left in them when the process has ended, also without credit, and closes them. */
void smd_pipes_drain(struct smd_pipes *pipes);

/* Closes what is open. */
void smd_pipes_close(struct smd_pipes *pipes);

#endif
