/* The table of front ends, and the way of a document through it. */
#include "orchestrator/frontend/frontend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/settle.h"
#include "orchestrator/frontend/azureml/azure_flags.h"
#include "orchestrator/frontend/azureml/azure_job.h"
#include "orchestrator/frontend/azureml/field_texts.h"
#include "orchestrator/frontend/azureml/run_configuration.h"
#include "orchestrator/frontend/gcloud/gcloud_flags.h"
#include "orchestrator/frontend/vertex/custom_job.h"
#include "orchestrator/frontend/vertex/field_texts.h"
#include "orchestrator/frontend/vertex/training_pipeline.h"

const struct smd_frontend smd_frontends[] = {
	{
		.name = "a CustomJob",
		.recognises = smd_custom_job_is,
		.message = &smd_custom_job,
		.schema = "job",
		.texts = smd_vertex_texts,
		.marks = smd_custom_job_marks,
		.flags = &smd_gcloud_pool_flags,
	},
	{
		.name = "a CustomJobSpec",
		.recognises = smd_custom_job_spec_is,
		.message = &smd_custom_job_spec,
		.schema = "job",
		.texts = smd_vertex_texts,
	},
	{
		.name = "a HyperparameterTuningJob",
		.recognises = smd_tuning_job_is,
		.message = &smd_tuning_job,
		.schema = "job",
		.texts = smd_vertex_texts,
		.marks = smd_tuning_job_marks,
	},
	{
		.name = "a TrainingPipeline",
		.recognises = smd_training_pipeline_is,
		.convert = smd_training_pipeline_convert,
		.message = &smd_training_pipeline,
		.schema = "job",
		.texts = smd_vertex_texts,
		.marks = smd_training_pipeline_marks,
	},
	{
		.name = "a command job of Azure ML",
		.recognises = smd_azure_job_is,
		.convert = smd_azure_job_convert,
		.message = &smd_azure_command_job,
		.schema = "azure_command_job",
		.texts = smd_azure_texts,
		.flags = &smd_azure_flags,
	},
	{
		.name = "a run configuration of its version 1",
		.recognises = smd_run_configuration_is,
		.convert = smd_run_configuration_convert,
		.message = &smd_run_configuration,
		.schema = "azure_run_configuration",
		.texts = smd_run_configuration_texts,
	},
	{.flags = &smd_gcloud_job_flags}, /* after Azure ML's, which spread the pools */
	{.name = NULL},
};

int smd_frontend_is_end(const struct smd_frontend *row)
{
	return !row->name && !row->flags;
}

const struct smd_frontend *smd_frontend_named(const struct smd_frontend *table, const char *name)
{
	for (; !smd_frontend_is_end(table); table++) {
		if (table->name && strcmp(table->name, name) == 0) {
			return table;
		}
	}
	return NULL;
}

const struct smd_frontend *smd_frontend_find(
	const struct smd_frontend *table, const struct smd_node *document)
{
	const struct smd_frontend *found = NULL;

	for (; !smd_frontend_is_end(table); table++) {
		if (table->recognises && table->recognises(document)) {
			found = table;
		}
	}
	return found;
}

/* How many of the rows, from this one on, take documents. */
static size_t count_names(const struct smd_frontend *row)
{
	size_t count = 0;

	for (; !smd_frontend_is_end(row); row++) {
		count += row->name != NULL;
	}
	return count;
}

char *smd_frontend_names(const struct smd_frontend *table)
{
	char *names = NULL;
	size_t length;
	FILE *out = open_memstream(&names, &length);

	if (!out) {
		return NULL;
	}
	for (; !smd_frontend_is_end(table); table++) {
		size_t after = count_names(table + 1);

		if (table->name) {
			fprintf(out, "%s%s", table->name,
				after > 1    ? ", "
				: after == 1 ? " or "
					     : "");
		}
	}
	if (fclose(out)) {
		free(names);
		return NULL;
	}
	return names;
}

/* A document of a system that schedules jobs, but whose jobs are not described here. */
static int refuse_kubernetes(const struct smd_frontend *table, struct smd_diagnostics *diagnostics,
	const struct smd_node *document)
{
	const struct smd_node *kind = smd_node_member(document, "kind");
	char got[SMD_NODE_TEXT_MAX];
	char *names;

	if (!kind || !smd_node_member(document, "apiVersion")) {
		return 0;
	}
	names = smd_frontend_names(table);
	if (!names) {
		return -ENOMEM;
	}
	smd_node_describe(kind, got);
	smd_error_at_value(diagnostics, document, "must be %s, got Kubernetes' %s", names, got);
	free(names);
	return -EINVAL;
}

int smd_frontend_convert(const struct smd_frontend *table, struct smd_conversion *conversion,
	struct smd_node **document)
{
	const struct smd_frontend *frontend = smd_frontend_find(table, *document);
	int ret = refuse_kubernetes(table, conversion->diagnostics, *document);

	if (ret || !frontend) {
		return ret;
	}
	return frontend->convert
		       ? frontend->convert(conversion, document)
		       : smd_message_settle(frontend->message, *document, conversion->diagnostics);
}

int smd_frontend_decode(
	const struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_job **out)
{
	return smd_custom_job_decode(document, diagnostics, out);
}
