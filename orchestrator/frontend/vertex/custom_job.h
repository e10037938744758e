/*
 * A CustomJob, a bare CustomJobSpec, or a HyperparameterTuningJob of the Vertex AI API as a job; of
 * the latter the job is its first trial.
 */
#ifndef SMD_FRONTEND_VERTEX_CUSTOM_JOB_H
#define SMD_FRONTEND_VERTEX_CUSTOM_JOB_H

#include "orchestrator/document/decode.h"
#include "orchestrator/job/job.h"

/*
 * Decodes the document and checks every rule that can be checked before a job is started. The
 * caller frees *out with smd_job_free(). -EINVAL: the errors are in diagnostics, all of them.
 */
int smd_custom_job_decode(
	const struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_job **out);

/* The values of MachineSpec.acceleratorType, then NULL. */
extern const char *const smd_accelerator_types[];

/* Whether it is a reduction server's image: (^|/)reductionserver(:|@|$). */
int smd_image_is_reduction_server(const char *image);

/* Rules for values that other front ends have too; what breaks one is an error of the node, which
 * may be of any type. */
void smd_check_display_name(struct smd_decoder *decoder, const struct smd_node *name);
void smd_check_machine_type(struct smd_decoder *decoder, const struct smd_node *node);
void smd_check_variable_count(struct smd_decoder *decoder, const struct smd_node *env);

/* A C identifier: what a variable's name must be. */
int smd_is_identifier(const char *name);
#define SMD_IDENTIFIER_RULE "letters, digits and _, and not begin with a digit"

extern const struct smd_message smd_worker_pool_spec;

/* Decodes workerPoolSpecs into the job at base. */
void smd_decode_worker_pools(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base);

#endif
