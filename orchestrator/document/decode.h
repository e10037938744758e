/*
 * A message of the Vertex AI API as a table: a row per field says its name, how its value is
 * checked, and where in a C structure it goes.
 *
 * The rules are those of proto3's JSON: null and an empty string are the same as absent, names are
 * lowerCamelCase (snake_case is accepted with a warning), a 64-bit number may be a string, a whole
 * number may be written 1.0. But values of enumerations have names, and no numbers. What the
 * table does not know is an error. Decoding goes on after an error, so that all are found.
 */
#ifndef SMD_DOCUMENT_DECODE_H
#define SMD_DOCUMENT_DECODE_H

#include <stddef.h>

#include "orchestrator/document/diagnostics.h"

/* The place of a field that is checked, but has no use beyond the spec itself. */
#define SMD_KEPT ((size_t)-1)

struct smd_message;

struct smd_decoder {
	struct smd_diagnostics *diagnostics;
	int ret;                        /* -ENOMEM once memory ran out */
	const struct smd_message *root; /* the document's, for hints; or NULL */
};

struct smd_field;

struct smd_message {
	const struct smd_field *fields;
	size_t count;
	int is_snake; /* names are not lowerCamelCase: another API's */
};

struct smd_field {
	const char *name;
	/* Checks the node and stores it at base + offset. base is NULL where a parent was SMD_KEPT.
	 */
	void (*decode)(struct smd_decoder *decoder, const struct smd_field *field,
		const struct smd_node *node, void *base);
	size_t offset;
	size_t count_offset; /* of lists: where the length goes, a size_t */
	int required;
	const char *note;                  /* why the field has no effect here; NULL: it has one */
	const struct smd_message *message; /* of objects and lists of objects, for hints too */
	const char *const *values;         /* of enumerations: the values, then NULL */
	const char *form;                  /* of strings: an extended regular expression, or NULL */
	const char *example;               /* what the form looks like */
	int min;                           /* of counts */
	int max;                           /* of counts; 0: INT_MAX */
};

/* A row; what it leaves out is designated: .required = 1, .message = &machine. */
#define SMD_FIELD(name_, decode_, offset_, ...)                                                    \
	{                                                                                          \
		.name = (name_), .decode = (decode_), .offset = (offset_), __VA_ARGS__             \
	}

#define SMD_MESSAGE(rows)                                                                          \
	{                                                                                          \
		rows, sizeof(rows) / sizeof((rows)[0]), .is_snake = 0                              \
	}

/* Decodes an object by its table. */
void smd_decode_message(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, void *base);

void smd_decode_string(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* char *; of field->form */
void smd_decode_enum(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* char *, one of field->values */
void smd_decode_boolean(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* int */
void smd_decode_count(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* int, field->min to field->max */
void smd_decode_duration(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* int64_t, whole seconds, rounded up */
void smd_decode_strings(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* char **, size_t; each of field->form */
void smd_decode_map(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* struct smd_variable *, size_t */
void smd_decode_variables(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* a list of {name, value}; as smd_decode_map */
void smd_decode_object(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* field->message */
void smd_decode_objects(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* a list of field->message, only checked */
void smd_decode_anything(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base); /* an output field: not even checked */

/* The value that is meant, or NULL; `values` ends with NULL. */
const char *smd_enum_suggest(const char *got, const char *const *values);

/* A 64-bit number, which may be a string or written as 1.0 or 1e3; -EINVAL when it is none. */
int smd_node_integer(const struct smd_node *node, int64_t *out);

/* The object's member of that lowerCamelCase name, however it is spelled; NULL: absent or null. */
const struct smd_node *smd_node_member(const struct smd_node *object, const char *name);

/* Whether the node has the type; an error "must be a string, got 3" when it has not. */
int smd_decode_expects(
	struct smd_decoder *decoder, const struct smd_node *node, enum smd_node_type type);

#endif
