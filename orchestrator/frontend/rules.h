/*
 * Rules for values that every front end has: names, machine types, images, variables.
 */
#ifndef SMD_FRONTEND_RULES_H
#define SMD_FRONTEND_RULES_H

#include "orchestrator/document/decode.h"

#define SMD_VARIABLES_MAX 100 /* of a task */

/* Azure's too. */
#define SMD_MACHINE_TYPE_FORM    "^[A-Za-z0-9_-]*$"
#define SMD_MACHINE_TYPE_EXAMPLE "a machine type such as n1-standard-4"

/* What smd_check_display_name() checks. */
#define SMD_DISPLAY_NAME_SCHEMA                                                                    \
	"{\"maxLength\": 128, \"pattern\": \"^[^\\\\x00-\\\\x1f\\\\x7f]*$\"}"

#define SMD_ACCELERATOR_NONE "ACCELERATOR_TYPE_UNSPECIFIED"

/* The values of MachineSpec.acceleratorType, then NULL. */
extern const char *const smd_accelerator_types[];

/* Their numbers in the API. */
extern const int smd_accelerator_numbers[];

/* Characters of a UTF-8 text, not bytes. */
size_t smd_count_characters(const char *text);

/* Whether it is a reduction server's image: (^|/)reductionserver(:|@|$). */
int smd_image_is_reduction_server(const char *image);

/* At most 128 characters, none of which steers a terminal; the node may be NULL or of any type. */
void smd_check_display_name(struct smd_decoder *decoder, const struct smd_node *name);

/* Whether it has SMD_IDENTIFIER_FORM. */
int smd_is_identifier(const char *name);

#endif
