/*
 * The StudySpec of a HyperparameterTuningJob: what is varied, and what is measured.
 */
#ifndef SMD_FRONTEND_VERTEX_STUDY_H
#define SMD_FRONTEND_VERTEX_STUDY_H

#include "orchestrator/document/decode.h"
#include "orchestrator/job/job.h"

extern const struct smd_message smd_study_spec;

/* Checks what the table does not say: that names are unique, and values make sense. */
void smd_study_check(struct smd_decoder *decoder, const struct smd_node *study);

/*
 * Gives every pool but reduction servers the arguments --ID=VALUE of the study's first trial: of
 * each parameter its default, or its first value.
 */
void smd_study_add_arguments(
	struct smd_decoder *decoder, const struct smd_node *study, struct smd_job *job);

#endif
