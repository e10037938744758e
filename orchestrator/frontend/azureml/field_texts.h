/*
 * What the fields of Azure ML's command job and run configuration mean: for specs/schema, and for
 * summand-job(5), which is made of it.
 */
#ifndef SMD_FRONTEND_AZUREML_FIELD_TEXTS_H
#define SMD_FRONTEND_AZUREML_FIELD_TEXTS_H

#include "orchestrator/document/schema.h"

/* Ends with a field of NULL. */
extern const struct smd_field_text smd_azure_texts[];
extern const struct smd_field_text smd_run_configuration_texts[];

#endif
