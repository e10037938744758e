/*
 * The documents of the Vertex AI API: a CustomJob, a bare CustomJobSpec, or a
 * HyperparameterTuningJob, of which the job is its first trial.
 */
#ifndef SMD_FRONTEND_VERTEX_CUSTOM_JOB_H
#define SMD_FRONTEND_VERTEX_CUSTOM_JOB_H

#include "orchestrator/document/decode.h"
#include "orchestrator/job/job.h"

/* At most one of them recognises a document. */
int smd_custom_job_is(const struct smd_node *document);
int smd_custom_job_spec_is(const struct smd_node *document);
int smd_tuning_job_is(const struct smd_node *document);

extern const struct smd_message smd_custom_job;
extern const struct smd_message smd_custom_job_spec;
extern const struct smd_message smd_tuning_job;
extern const struct smd_message smd_worker_pool_spec;

/*
 * Decodes the document and checks every rule that can be checked before a job is started. The
 * caller frees *out with smd_job_free(). -EINVAL: the errors are in diagnostics, all of them.
 */
int smd_custom_job_decode(
	const struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_job **out);

/* Decodes workerPoolSpecs into the job at base. */
smd_field_decode smd_decode_worker_pools;
json_t *smd_describe_worker_pools(struct smd_schema *schema, const struct smd_field *field);

/* Fields of which any tells what the document is. */
extern const char *const smd_custom_job_marks[];
extern const char *const smd_tuning_job_marks[];

#endif
