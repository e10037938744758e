/*
 * The distributions of Azure ML's first version as flags: PyTorchConfiguration, MpiConfiguration
 * and TensorflowConfiguration. They spread the program of worker pool 0 over nodes.
 */
#ifndef SMD_FRONTEND_AZUREML_AZURE_FLAGS_H
#define SMD_FRONTEND_AZUREML_AZURE_FLAGS_H

#include "orchestrator/frontend/job_flags.h"

extern const struct smd_flag_family smd_azure_flags;

#endif
