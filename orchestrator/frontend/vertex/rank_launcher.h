/*
 * Programs that start the ranks of a world themselves, mpirun and its like: whether a worker pool's
 * command is one, or runs one.
 */
#ifndef SMD_FRONTEND_VERTEX_RANK_LAUNCHER_H
#define SMD_FRONTEND_VERTEX_RANK_LAUNCHER_H

#include "orchestrator/job/job.h"

struct smd_rank_launcher {
	const char *name;
	const char *instead;     /* what to do where each of several replicas has one */
	const char *does;        /* why it cannot be started by an mpirun: "wants to ..." */
	const char *knows_world; /* the option by which it is told of the others; or NULL */
	int is_mpi;              /* it is an mpirun, and takes our starter for its ssh */
};

/* The one that the command begins with, also as what a shell runs (sh -c "mpirun ..."), and that
 * knows of its own replica only; or NULL. */
const struct smd_rank_launcher *smd_rank_launcher_of(const struct smd_job_pool *pool);

/* The first one that the command runs anywhere, srun included: "cd src && A=1 mpirun ..."; or NULL.
 * What a script does that it runs is not seen. */
const struct smd_rank_launcher *smd_rank_launcher_inside(const struct smd_job_pool *pool);

#endif
