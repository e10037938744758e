/*
 * Rules for values that every front end has: names, machine types, images, variables.
 */
#ifndef SMD_FRONTEND_RULES_H
#define SMD_FRONTEND_RULES_H

#include "orchestrator/document/decode.h"

#define SMD_ACCELERATOR_NONE "ACCELERATOR_TYPE_UNSPECIFIED"

/* The values of MachineSpec.acceleratorType, then NULL. */
extern const char *const smd_accelerator_types[];

/* Characters of a UTF-8 text, not bytes. */
size_t smd_count_characters(const char *text);

/* Whether it is a reduction server's image: (^|/)reductionserver(:|@|$). */
int smd_image_is_reduction_server(const char *image);

/* What breaks one of these rules is an error of the node, which may be NULL or of any type. */
void smd_check_display_name(struct smd_decoder *decoder, const struct smd_node *name);
void smd_check_machine_type(struct smd_decoder *decoder, const struct smd_node *node);
void smd_check_variable_count(struct smd_decoder *decoder, const struct smd_node *env);

/* A C identifier: what a variable's name must be. */
int smd_is_identifier(const char *name);
#define SMD_IDENTIFIER_RULE "letters, digits and _, and not begin with a digit"

#endif
