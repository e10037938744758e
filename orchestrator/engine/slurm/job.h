/* What `scontrol --oneliner show job` says of a job: a line for each component. */
#ifndef SMD_ENGINE_SLURM_JOB_H
#define SMD_ENGINE_SLURM_JOB_H

#include <stddef.h>

/* Where a job is, as far as hosts are concerned. */
enum smd_slurm_phase {
	SMD_SLURM_WAITING, /* for hosts, or for those that it has to be made ready */
	SMD_SLURM_RUNNING,
	SMD_SLURM_GOING, /* it is being ended */
	SMD_SLURM_OVER
};

/* Texts point into what scontrol has said. */
struct smd_slurm_component {
	int offset;         /* in a heterogeneous job; 0: it is none */
	const char *state;  /* "RUNNING" */
	const char *reason; /* "Resources"; "" */
	const char *nodes;  /* "node[0-2]"; "": none yet */
	const char *gres;   /* of each node: "gpu:1"; "" */
	const char *partition;
	int nnodes;
	int ntasks;
	int restarts;
	int is_preempted; /* it has been told to end, for another job */
};

struct smd_slurm_job {
	struct smd_slurm_component *components; /* in the order of their offsets */
	size_t count;
	int is_heterogeneous;
};

/* Writes into the text. 0; -EPROTO: it is no such thing; -ENOMEM. */
int smd_slurm_job_parse(struct smd_slurm_job *job, char *text);
void smd_slurm_job_clear(struct smd_slurm_job *job);

enum smd_slurm_phase smd_slurm_job_phase(const struct smd_slurm_job *job);

/* The component that says why the job is where it is. */
const struct smd_slurm_component *smd_slurm_job_speaker(const struct smd_slurm_job *job);

#endif
