/*
 * A TrainingPipeline of the Vertex AI API whose task is a custom one or the tuning of one, as the
 * CustomJob or HyperparameterTuningJob that it starts.
 */
#ifndef SMD_FRONTEND_VERTEX_TRAINING_PIPELINE_H
#define SMD_FRONTEND_VERTEX_TRAINING_PIPELINE_H

#include "orchestrator/frontend/frontend.h"

extern const struct smd_message smd_training_pipeline;
extern const char *const smd_training_pipeline_marks[];

/* An smd_frontend's. */
int smd_training_pipeline_is(const struct smd_node *document);
int smd_training_pipeline_convert(struct smd_conversion *conversion, struct smd_node **document);

#endif
