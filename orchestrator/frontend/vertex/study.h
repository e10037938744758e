/*
 * The StudySpec of a HyperparameterTuningJob: what is varied, and what is measured.
 */
#ifndef SMD_FRONTEND_VERTEX_STUDY_H
#define SMD_FRONTEND_VERTEX_STUDY_H

#include "orchestrator/document/decode.h"
#include "orchestrator/job/study.h"

#define SMD_STUDY_LIST_MAX 1000  /* metrics, parameters, and values of one */
#define SMD_STUDY_MIN_GAP  1e-10 /* between discrete values */
#define SMD_STUDY_VALUES   4     /* kinds of values */

extern const struct smd_message smd_study_spec;

/* The field of a ParameterSpec for each kind of value, and of a condition on a parent of that kind
 * (NULL: there is none). */
extern const char *const smd_study_value_specs[SMD_STUDY_VALUES];
extern const char *const smd_study_parent_values[SMD_STUDY_VALUES];

/* The value of a node that is a number, which may be a string where it is whole; NULL is none. */
int smd_study_is_number(const struct smd_node *node);
double smd_study_number(const struct smd_node *node);

/* Checks what the table does not say: that names are unique, and values make sense. */
void smd_study_check(struct smd_decoder *decoder, const struct smd_node *study);

/* The study of a document without errors. What only shows in all parameters together is an error
 * of the diagnostics, and *out may be left as it is then. 0 or -ENOMEM; free *out with
 * smd_study_free(). */
int smd_study_decode(
	struct smd_decoder *decoder, const struct smd_node *node, struct smd_study **out);

#endif
