/*
 * Values of enumerations as the numbers that the API gives them: clients may ask for these in
 * answers, and send them in requests.
 */
#ifndef SMD_DOCUMENT_ENUMS_H
#define SMD_DOCUMENT_ENUMS_H

#include "orchestrator/document/decode.h"

/* Puts names in the place of numbers, in a document that is to be decoded. A number without a name
 * stays, and is refused by the decoder. 0 or -ENOMEM. */
int smd_enums_name(const struct smd_message *message, struct smd_node *node);

/* Puts numbers in the place of names, in an object of lowerCamelCase names. 0 or -ENOMEM. */
int smd_enums_number(const struct smd_message *message, json_t *object);

#endif
