/*
 * The step that brings agents to the hosts of one component: one srun, what it says of hosts, and
 * its end.
 */
#ifndef SMD_ENGINE_SLURM_STEP_H
#define SMD_ENGINE_SLURM_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "orchestrator/engine/slurm/command.h"
#include "orchestrator/engine/slurm/submission.h"

struct smd_slurm_host {
	char *name;
	char said[512];    /* the last line of its agent */
	char how[128];     /* its agent has ended, as srun puts it; or empty */
	uint64_t ended_ns; /* then; its words may still come */
	int is_lost;
};

struct smd_slurm_step {
	/* The caller's. */
	struct smd_slurm_host *hosts;
	int count;
	int first; /* the number of the first one among all hosts */
	int pool;  /* the only one whose replicas they take; -1: any */
	int slots; /* of each host; 0: as many as there are replicas */
	/* Slurm ends the job, or its host; the line says why. */
	void (*on_line)(void *owner, const char *line);
	void (*on_end)(void *owner);
	void *owner;

	/* Its own. */
	struct smd_slurm_command *command; /* NULL: it has ended */
	int has_begun;
	char words[512]; /* srun's last line of its own */
	char end[64];    /* how srun has ended */
};

/* `invitation` is that for the first host. 0 or -errno. */
int smd_slurm_step_start(struct smd_slurm_step *step, struct event_base *base,
	const struct smd_slurm_step_request *request, const char *invitation,
	char *const *environment);

/* What is known of a host whose agent has not come, while srun runs. */
void smd_slurm_step_tell(const struct smd_slurm_step *step, const struct smd_slurm_host *host,
	char *text, size_t size);

/* Why the host has no agent: what it has said, or srun of it, or how srun has ended. */
void smd_slurm_step_explain(const struct smd_slurm_step *step, const struct smd_slurm_host *host,
	char *text, size_t size);

#endif
