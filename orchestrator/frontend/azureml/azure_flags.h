/*
 * The distributions of Azure ML's first version as flags: PyTorchConfiguration, MpiConfiguration
 * and TensorflowConfiguration. They spread the program of worker pool 0 over nodes.
 */
#ifndef SMD_FRONTEND_AZUREML_AZURE_FLAGS_H
#define SMD_FRONTEND_AZUREML_AZURE_FLAGS_H

#include "orchestrator/frontend/gcloud/job_edit.h"

/* process_count=TOTAL,node_count=N */
void smd_edit_azure_pytorch(struct smd_job_edit *edit, const struct smd_flag_value *flag);
/* process_count_per_node=N,node_count=N */
void smd_edit_azure_mpi(struct smd_job_edit *edit, const struct smd_flag_value *flag);
/* worker_count=N,parameter_server_count=N */
void smd_edit_azure_tensorflow(struct smd_job_edit *edit, const struct smd_flag_value *flag);

#endif
