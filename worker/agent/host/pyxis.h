/*
 * A replica's command in a container of Pyxis, Slurm's plugin: a step of its own on this node, with
 * srun's --container-image.
 */
#ifndef SMD_AGENT_HOST_PYXIS_H
#define SMD_AGENT_HOST_PYXIS_H

#include "reduction_server/base/error.h"
#include "worker/agent/wire/launch.h"

/* What a step needs of its host's agent. */
struct smd_pyxis_place {
	const char *program_dir; /* the agent's */
	const char *prefix;      /* of the files by which agent and container meet; unused so far */
};

/* Writes the replica's variables and command beside the prefix, for the container alone, and gives
 * the command line that runs it, which the caller frees with smd_argv_free(). 0, or -errno with a
 * text for whoever started the job. */
int smd_pyxis_prepare(const struct smd_launch *launch, const struct smd_pyxis_place *place,
	char ***argv, struct smd_error *error);

/* The variables that srun must be run with: this process's, without those by which Slurm describes
 * the agent's own step. NULL: out of memory. */
char **smd_pyxis_environment(const struct smd_launch *launch);

/* The shell command that ends what is left in the container. The caller frees it. NULL: out of
 * memory. */
char *smd_pyxis_cleanup(const char *prefix);

/* The image as enroot names it: "nvcr.io/nvidia/pytorch:24.01" is "nvcr.io#nvidia/pytorch:24.01".
 * The caller frees it. NULL: out of memory. */
char *smd_pyxis_image(const char *image);

#endif
