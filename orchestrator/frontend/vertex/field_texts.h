/*
 * What the fields of the Vertex AI API's messages mean: for specs/schema, and for summand-job(5),
 * which is made of it.
 */
#ifndef SMD_FRONTEND_VERTEX_FIELD_TEXTS_H
#define SMD_FRONTEND_VERTEX_FIELD_TEXTS_H

#include "orchestrator/document/schema.h"

/* Ends with a field of NULL. */
extern const struct smd_field_text smd_vertex_texts[];

#endif
