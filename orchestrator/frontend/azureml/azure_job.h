/*
 * A command job of Azure ML (YAML, version 2) as a CustomJob.
 *
 * Nodes are replicas: the first is worker pool 0, the others pool 1, parameter servers pool 2. What
 * remains of Azure's meaning is in the settings distribution, platform and processes-per-replica.
 */
#ifndef SMD_FRONTEND_AZUREML_AZURE_JOB_H
#define SMD_FRONTEND_AZUREML_AZURE_JOB_H

#include "orchestrator/frontend/frontend.h"

enum smd_azure_distribution {
	SMD_AZURE_NO_DISTRIBUTION,
	SMD_AZURE_PYTORCH,
	SMD_AZURE_TENSORFLOW,
	SMD_AZURE_MPI
};

/* Their names, from pytorch on, then NULL. */
extern const char *const smd_azure_distributions[];

struct smd_azure_job {
	char *name;
	char *display_name;
	char *command;
	char *code;
	enum smd_azure_distribution distribution;
	int processes;
	int worker_count;
	int parameter_server_count;
	int instance_count;
	char *instance_type;
	char *image;
	int timeout_s;
	struct smd_variable *env;
	size_t nenv;
};

/* Scalars of any type, which become texts. */
#define SMD_AZURE_LITERAL_SCHEMA "{\"type\": [\"string\", \"number\", \"boolean\", \"null\"]}"

#define SMD_AZURE_VARIABLES_SCHEMA                                                                 \
	"{\"type\": \"object\", \"additionalProperties\": " SMD_AZURE_LITERAL_SCHEMA               \
	", \"propertyNames\": {\"pattern\": \"" SMD_IDENTIFIER_FORM "\"}, \"maxProperties\": 100}"

extern const struct smd_message smd_azure_command_job;

/* Adds variables of a struct smd_azure_job, whose values may be numbers and truth values. */
smd_field_decode smd_azure_decode_variables;

/* Whether the document says that it is a job of Azure ML. */
int smd_azure_job_is(const struct smd_node *document);

/* An smd_frontend's. */
int smd_azure_job_convert(struct smd_conversion *conversion, struct smd_node **document);

void smd_azure_job_clear(struct smd_azure_job *job);

/* The CustomJob of a job that the document describes; its shell gets the line. */
int smd_azure_job_build(const struct smd_azure_job *job, const char *line,
	const struct smd_node *document, struct smd_node **out);

#endif
