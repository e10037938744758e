/*
 * The folders that replicas run from: a copy of the job's code, and its Python packages.
 */
#ifndef SMD_RUNNER_WORKSPACE_H
#define SMD_RUNNER_WORKSPACE_H

#include "orchestrator/contract/environment.h"
#include "orchestrator/runner/jobdir.h"

struct smd_workspace {
	char *code; /* a copy of the job's code_dir; NULL: replicas run in the runner's directory */
	char *packages; /* with the job's Python packages; NULL: it has none */
};

/* Copies and installs into the job directory. cp and pip run under the agent, so nothing of them is
 * left when this process is killed; their output is in logs/setup.log. That packages are being
 * installed, and the last lines of one that fails, go to `words`. 0, or -errno with a text; then
 * the workspace is empty. */
int smd_workspace_open(struct smd_workspace *workspace, const struct smd_job *job,
	const struct smd_jobdir *dir, const char *agent, FILE *words, struct smd_error *error);
void smd_workspace_close(struct smd_workspace *workspace);

/* Puts the packages at the front of the replica's PYTHONPATH. 0 or -errno. */
int smd_workspace_add(const struct smd_workspace *workspace, struct smd_environment *environment);

#endif
