/*
 * A message's table as a JSON Schema (draft 7), for editors and for programs in other languages.
 *
 * What a table says in general the schema says too. What only a decoder of a field's own says, and
 * rules between fields, stand as JSON beside them (.schema, .describe and .rules in decode.h); a
 * field of which nothing is known is refused, so that none is forgotten.
 */
#ifndef SMD_DOCUMENT_SCHEMA_H
#define SMD_DOCUMENT_SCHEMA_H

#include <jansson.h>

#include "orchestrator/document/decode.h"

struct smd_schema;

/* What a field means, in sentences: a property's description. */
struct smd_field_text {
	const char *message; /* its name; NULL: any that has no text of its own for the field */
	const char *field;   /* NULL: the end of a table */
	const char *text;
};

int smd_schema_create(struct smd_schema **out);
void smd_schema_free(struct smd_schema *schema);

/* From now on each field of a message must have a text in the table. NULL: none has a description.
 */
void smd_schema_set_texts(struct smd_schema *schema, const struct smd_field_text *texts);

/* A reference to the definition of the message's objects, by its name. NULL: out of memory, or a
 * field's values or its meaning are not known; standard error has its name. */
json_t *smd_schema_message(struct smd_schema *schema, const struct smd_message *message);

/* A schema from text, which must be JSON. */
json_t *smd_schema_text(const char *text);

/* "root" with title and with the definitions that it refers to; takes the reference to root. NULL:
 * out of memory. */
json_t *smd_schema_finish(struct smd_schema *schema, const char *title, json_t *root);

#endif
