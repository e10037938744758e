/*
 * A run configuration of Azure ML's version 1 (YAML) as a CustomJob: what its SDK keeps of a
 * ScriptRunConfig. Like a command job it has nodes, whose first is worker pool 0 (azure_job.h).
 */
#ifndef SMD_FRONTEND_AZUREML_RUN_CONFIGURATION_H
#define SMD_FRONTEND_AZUREML_RUN_CONFIGURATION_H

#include "orchestrator/frontend/frontend.h"

extern const struct smd_message smd_run_configuration;

/* Whether the document says that it is one. */
int smd_run_configuration_is(const struct smd_node *document);

/* An smd_frontend's. */
int smd_run_configuration_convert(struct smd_conversion *conversion, struct smd_node **document);

#endif
