/*
 * A command job of Azure ML (YAML, version 2) as a CustomJob.
 *
 * Nodes are replicas: the first is worker pool 0, the others pool 1, parameter servers pool 2. What
 * remains of Azure's meaning is in the settings distribution, platform and processes-per-replica.
 */
#ifndef SMD_FRONTEND_AZUREML_AZURE_JOB_H
#define SMD_FRONTEND_AZUREML_AZURE_JOB_H

#include "orchestrator/document/diagnostics.h"

/* Whether the document says that it is a job of Azure ML. */
int smd_azure_job_is(const struct smd_node *document);

/*
 * Makes a CustomJob's document of it, whose nodes stand where Azure's stood. Local paths are
 * relative to the directory. *code_dir is the directory of the code, or NULL; the caller frees
 * both. -EINVAL: the errors are in diagnostics.
 */
int smd_azure_job_convert(const struct smd_node *document, const char *directory,
	struct smd_diagnostics *diagnostics, struct smd_node **out, char **code_dir);

#endif
