/* Writes JSON Schemas from the tables by which documents are decoded. */
#include "orchestrator/document/schema.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64

struct smd_schema {
	json_t *definitions; /* of messages, by their names */
	const struct smd_field_text *texts;
};

int smd_schema_create(struct smd_schema **out)
{
	struct smd_schema *schema = calloc(1, sizeof(*schema));

	if (!schema) {
		return -ENOMEM;
	}
	schema->definitions = json_object();
	if (!schema->definitions) {
		free(schema);
		return -ENOMEM;
	}
	*out = schema;
	return 0;
}

void smd_schema_free(struct smd_schema *schema)
{
	if (schema) {
		json_decref(schema->definitions);
		free(schema);
	}
}

void smd_schema_set_texts(struct smd_schema *schema, const struct smd_field_text *texts)
{
	schema->texts = texts;
}

json_t *smd_schema_text(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);

	if (!json) {
		fprintf(stderr, "a schema must be JSON: %s: %s\n", error.text, text);
	}
	return json;
}

static json_t *describe_text(const struct smd_field *field)
{
	json_t *json = json_pack("{s:s}", "type", "string");
	char *either;

	if (json && field->form && !field->required) {
		/* An empty text is none at all. */
		if (asprintf(&either, "^$|%s", field->form) < 0) {
			json_decref(json);
			return NULL;
		}
		json_object_set_new(json, "pattern", json_string(either));
		free(either);
	} else if (json && field->form) {
		json_object_set_new(json, "pattern", json_string(field->form));
	} else if (json && field->required) {
		json_object_set_new(json, "minLength", json_integer(1));
	}
	return json;
}

/* A 64-bit number may be a string. */
static json_t *describe_count(const struct smd_field *field)
{
	return json_pack("{s:[{s:s, s:i, s:i}, {s:s, s:s}]}", "anyOf", "type", "integer", "minimum",
		field->min, "maximum", field->max ? field->max : INT_MAX, "type", "string",
		"pattern", field->min > 0 ? "^0*[1-9][0-9]{0,9}$" : "^[0-9]{1,10}$");
}

static json_t *describe_enum(const struct smd_field *field)
{
	json_t *values = json_array();

	for (size_t i = 0; values && field->values[i]; i++) {
		json_array_append_new(values, json_string(field->values[i]));
		if (field->numbers) {
			json_array_append_new(values, json_integer(field->numbers[i]));
		}
	}
	return json_pack("{s:o}", "enum", values);
}

/* A list of what `items` describes; takes the reference to it. */
static json_t *describe_list(const struct smd_field *field, json_t *items)
{
	json_t *json = json_pack("{s:s, s:o}", "type", "array", "items", items);

	if (json && field->min > 0) {
		json_object_set_new(json, "minItems", json_integer(field->min));
	}
	if (json && field->max > 0) {
		json_object_set_new(json, "maxItems", json_integer(field->max));
	}
	return json;
}

static json_t *describe_strings(const struct smd_field *field)
{
	json_t *items = field->form
				? json_pack("{s:s, s:s}", "type", "string", "pattern", field->form)
				: json_pack("{s:s}", "type", "string");

	return describe_list(field, items);
}

/* By the ready-made decoder that the field has, or whose values its own takes. NULL: it is another.
 */
static json_t *describe_value(struct smd_schema *schema, const struct smd_field *field)
{
	smd_field_decode *decode = field->like ? field->like : field->decode;

	if (decode == smd_decode_string) {
		return describe_text(field);
	} else if (decode == smd_decode_enum) {
		return describe_enum(field);
	} else if (decode == smd_decode_boolean) {
		return json_pack("{s:s}", "type", "boolean");
	} else if (decode == smd_decode_count) {
		return describe_count(field);
	} else if (decode == smd_decode_duration) {
		return json_pack("{s:s, s:s}", "type", "string", "pattern",
			"^[0-9]{1,10}(\\.[0-9]{1,9})?s$");
	} else if (decode == smd_decode_strings) {
		return describe_strings(field);
	} else if (decode == smd_decode_map) {
		return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
			"string");
	} else if (decode == smd_decode_variables) {
		return describe_list(field, smd_schema_message(schema, &smd_variable_message));
	} else if (decode == smd_decode_object) {
		return smd_schema_message(schema, field->message);
	} else if (decode == smd_decode_objects) {
		return describe_list(field, smd_schema_message(schema, field->message));
	} else if (decode == smd_decode_anything) {
		return json_object();
	}
	return field->schema ? json_object() : NULL;
}

/* The message's own text before that of all messages. */
static const char *find_text(
	const struct smd_field_text *texts, const char *message, const char *field)
{
	const char *found = NULL;

	for (; texts->field; texts++) {
		if (strcmp(texts->field, field) != 0) {
			continue;
		}
		if (texts->message && strcmp(texts->message, message) == 0) {
			return texts->text;
		}
		found = texts->message ? found : texts->text;
	}
	return found;
}

/* What the field means, what its text must be, and that it has no effect. 0 or -errno. */
static int add_description(const struct smd_schema *schema, const struct smd_message *message,
	const struct smd_field *field, json_t *json)
{
	const char *rule = !field->example                       ? ""
			   : field->decode == smd_decode_strings ? " Each must be "
								 : " It must be ";
	const char *text;
	char *description;
	int length;

	if (!schema->texts) {
		return 0;
	}
	text = find_text(schema->texts, message->name, field->name);
	if (!text) {
		fprintf(stderr, "%s.%s: a table of field texts must say what it means\n",
			message->name, field->name);
		return -EINVAL;
	}
	length = asprintf(&description, "%s%s%s%s%s%s%s", text, rule, rule[0] ? field->example : "",
		rule[0] ? "." : "", field->note ? " Kept, without effect here: " : "",
		field->note ? field->note : "", field->note ? "." : "");
	if (length < 0) {
		return -ENOMEM;
	}
	json_object_set_new(json, "description", json_string(description));
	free(description);
	return 0;
}

static json_t *describe_field(
	struct smd_schema *schema, const struct smd_message *message, const struct smd_field *field)
{
	json_t *json =
		field->describe ? field->describe(schema, field) : describe_value(schema, field);
	json_t *more = field->schema ? smd_schema_text(field->schema) : NULL;

	if (field->schema && !more) {
		json_decref(json);
		return NULL;
	}
	if (!json) {
		fprintf(stderr, "%s: its row must say what values it has\n", field->name);
	}
	if (json && more) {
		json_object_update(json, more);
	}
	json_decref(more);
	/* null is the same as absent. */
	if (json && !field->required && json_object_size(json) > 0) {
		json = json_pack("{s:[o, {s:s}]}", "anyOf", json, "type", "null");
	}
	if (json && add_description(schema, message, field, json)) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static json_t *describe_object(struct smd_schema *schema, const struct smd_message *message)
{
	json_t *properties = json_object();
	json_t *required = json_array();
	json_t *rules = message->rules ? smd_schema_text(message->rules) : NULL;
	json_t *json = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
		"additionalProperties", message->is_open);

	if (message->rules && !rules) {
		json_decref(json);
		json = NULL;
	}
	for (size_t i = 0; json && i < message->count; i++) {
		const struct smd_field *field = &message->fields[i];
		json_t *value;

		if (field->is_refused) {
			continue;
		}
		value = describe_field(schema, message, field);
		if (!value || json_object_set_new(properties, field->name, value)) {
			json_decref(json);
			json = NULL;
		} else if (field->required) {
			json_array_append_new(required, json_string(field->name));
		}
	}
	if (json && json_array_size(required) > 0) {
		json_object_set(json, "required", required);
	}
	if (json && rules) {
		json_object_update(json, rules);
	}
	json_decref(required);
	json_decref(rules);
	return json;
}

json_t *smd_schema_message(struct smd_schema *schema, const struct smd_message *message)
{
	char reference[NAME_SIZE + 32];
	json_t *json;

	snprintf(reference, sizeof(reference), "#/definitions/%s", message->name);
	if (!json_object_get(schema->definitions, message->name)) {
		/* There before its fields are, one of which may have the message again. */
		json_object_set_new(schema->definitions, message->name, json_object());
		json = describe_object(schema, message);
		if (!json) {
			return NULL;
		}
		json_object_set_new(schema->definitions, message->name, json);
	}
	return json_pack("{s:s}", "$ref", reference);
}

json_t *smd_schema_finish(struct smd_schema *schema, const char *title, json_t *root)
{
	json_t *json = json_pack(
		"{s:s, s:s}", "$schema", "http://json-schema.org/draft-07/schema#", "title", title);

	if (!json || !root || json_object_update(json, root) ||
		json_object_set(json, "definitions", schema->definitions)) {
		json_decref(json);
		json = NULL;
	}
	json_decref(root);
	return json;
}
