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

#include <jansson.h>
#include <stddef.h>

#include "orchestrator/document/diagnostics.h"

/* The place of a field that is checked, but has no use beyond the spec itself. */
#define SMD_KEPT ((size_t)-1)

/* A C identifier: what a variable's name must be. */
#define SMD_IDENTIFIER_FORM "^[A-Za-z_][A-Za-z0-9_]*$"
#define SMD_IDENTIFIER_RULE "letters, digits and _, and not begin with a digit"

struct smd_message;

struct smd_decoder {
	struct smd_diagnostics *diagnostics;
	int ret;                        /* -ENOMEM once memory ran out */
	const struct smd_message *root; /* the document's, for hints; or NULL */
	/* Names in snake_case: how many, and the first of them with its field's name. */
	size_t respelled;
	const struct smd_node *first_respelled;
	const char *first_spelling;
};

struct smd_field;
struct smd_schema;

struct smd_message {
	const char *name; /* the API's, for the schema */
	const struct smd_field *fields;
	size_t count;
	int is_snake;      /* names are not lowerCamelCase: another API's */
	int is_open;       /* other fields are left out, with a warning: the API does so too */
	const char *rules; /* between fields, that code checks: JSON Schema, or NULL */
};

/* Checks the node and stores it at base + offset. base is NULL where a parent was SMD_KEPT. */
typedef void smd_field_decode(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base);

struct smd_field {
	const char *name;
	smd_field_decode *decode;
	size_t offset;
	size_t count_offset; /* of lists: where the length goes, a size_t */
	int required;
	const char *note;                  /* why the field has no effect here; NULL: it has one */
	const struct smd_message *message; /* of objects and lists of objects, for hints too */
	const char *const *values;         /* of enumerations: the values, then NULL */
	const int *numbers;                /* their numbers in the API; NULL: they have none */
	const char *form;                  /* of strings: an extended regular expression, or NULL */
	const char *example;               /* what the form looks like */
	const char *noun;                  /* of lists: what their elements are called, or NULL */
	int min;                           /* of counts, and of lists: how many elements */
	int max;                           /* of counts; 0: INT_MAX; of lists; 0: no limit */
	/* For specs/schema, where `decode` is not one of those below. */
	smd_field_decode *like; /* the one whose values it takes */
	const char *schema;     /* what else holds, or all of it: JSON Schema */
	json_t *(*describe)(struct smd_schema *schema, const struct smd_field *field);
	int is_list;    /* of objects, though `decode` is not smd_decode_objects */
	int is_refused; /* the row only explains why there is no such field */
};

/* A row; what it leaves out is designated: .required = 1, .message = &machine. */
#define SMD_FIELD(name_, decode_, offset_, ...)                                                    \
	{                                                                                          \
		.name = (name_), .decode = (decode_), .offset = (offset_), __VA_ARGS__             \
	}

#define SMD_MESSAGE(name_, rows, ...)                                                              \
	{                                                                                          \
		.name = (name_), .fields = (rows), .count = sizeof(rows) / sizeof((rows)[0]),      \
		__VA_ARGS__                                                                        \
	}

/* The row of a field, however its name is spelled; NULL: there is none. */
const struct smd_field *smd_message_row(const struct smd_message *message, const char *name);

/* Warns, once, of names in snake_case. */
void smd_decode_finish(struct smd_decoder *decoder);

/* Spells the message's fields in a JSON object, and those of its parts, in lowerCamelCase. 0 or
 * -ENOMEM. */
int smd_message_respell(const struct smd_message *message, json_t *object);

/* Decodes an object by its table. */
void smd_decode_message(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, void *base);

smd_field_decode smd_decode_string;    /* char *; of field->form */
smd_field_decode smd_decode_enum;      /* char *, one of field->values */
smd_field_decode smd_decode_boolean;   /* int */
smd_field_decode smd_decode_count;     /* int, field->min to field->max */
smd_field_decode smd_decode_duration;  /* int64_t, whole seconds, rounded up */
smd_field_decode smd_decode_strings;   /* char **, size_t; each of field->form */
smd_field_decode smd_decode_map;       /* struct smd_variable *, size_t */
smd_field_decode smd_decode_variables; /* a list of {name, value}; as smd_decode_map */
extern const struct smd_message smd_variable_message;
smd_field_decode smd_decode_object;   /* field->message */
smd_field_decode smd_decode_objects;  /* a list of field->message, only checked */
smd_field_decode smd_decode_anything; /* an output field: not even checked */

/* Whether the node is an array of as many elements as the field allows; else an error says so, and
 * 0 is returned where it is none. */
int smd_decode_list(
	struct smd_decoder *decoder, const struct smd_field *field, const struct smd_node *node);

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
