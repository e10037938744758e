/*
 * What the targets that run containers share: words and values in which "$" stands for itself, and
 * documents that are built member by member.
 */
#ifndef SMD_EXPORT_CONTAINER_H
#define SMD_EXPORT_CONTAINER_H

#include "orchestrator/export/target.h"

#define SMD_EXPORT_OUTPUT_DIR "/output" /* where a volume for the job's output is mounted */

/* The text for a reader to whom "$" begins a reference and "$$" is a "$"; the caller frees it.
 * NULL: out of memory. */
char *smd_export_escape(const char *text);

/* The same as a JSON string. */
json_t *smd_export_string(const char *text);

/* The text's one literal, escaped, as a JSON string. NULL: out of memory. */
json_t *smd_export_literal(const struct smd_text *text);

/* Sets a member and takes the value over; *failed is set when there is no memory for one of them.
 */
void smd_export_put(json_t *object, const char *key, json_t *value, int *failed);
void smd_export_append(json_t *array, json_t *value, int *failed);

#endif
