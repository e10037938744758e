/* The JSON Schemas of the documents that the front ends recognise. */
#include "orchestrator/document/schema.h"

#include <stdio.h>
#include <string.h>

#include "orchestrator/frontend/frontend.h"

#define TITLE_SIZE 512

static int has_schema(const struct smd_frontend *row, const char *schema)
{
	return row->schema && strcmp(row->schema, schema) == 0;
}

/* "an object with any of these fields" */
static json_t *describe_marks(const char *const *marks)
{
	json_t *any = json_array();

	for (; any && *marks; marks++) {
		json_array_append_new(any, json_pack("{s:[s]}", "required", *marks));
	}
	return json_pack("{s:o}", "anyOf", any);
}

/* One row's part, before `others`, which has what is none of it; takes the reference to that. */
static json_t *describe_row(
	struct smd_schema *schema, const struct smd_frontend *row, json_t *others)
{
	json_t *own;

	smd_schema_set_texts(schema, row->texts);
	own = smd_schema_message(schema, row->message);

	if (!row->marks) {
		json_decref(others);
		return own;
	}
	return json_pack("{s:o, s:o, s:o}", "if", describe_marks(row->marks), "then", own, "else",
		others ? others : json_false());
}

/* The rows without marks come last, and of the others the special before the general. */
static json_t *describe_rows(
	struct smd_schema *schema, const struct smd_frontend *table, const char *file)
{
	json_t *root = NULL;

	for (int pass = 0; pass < 2; pass++) {
		for (const struct smd_frontend *row = table; !smd_frontend_is_end(row); row++) {
			if (has_schema(row, file) && (row->marks != NULL) == pass) {
				root = describe_row(schema, row, root);
			}
		}
	}
	return root;
}

/* "A CustomJob, a CustomJobSpec or ...". */
static void write_title(const struct smd_frontend *table, const char *file, char title[TITLE_SIZE])
{
	const char *names[8];
	size_t count = 0;
	int length = 0;

	for (; !smd_frontend_is_end(table); table++) {
		if (has_schema(table, file) && count < sizeof(names) / sizeof(names[0])) {
			names[count++] = table->name;
		}
	}
	*title = '\0';
	for (size_t i = 0; i < count && length < TITLE_SIZE; i++) {
		length += snprintf(title + length, TITLE_SIZE - (size_t)length, "%s%s",
			i == 0          ? "A job for summand: "
			: i + 1 < count ? ", "
					: " or ",
			names[i]);
	}
}

json_t *smd_frontend_schema(const struct smd_frontend *table, const char *file)
{
	struct smd_schema *schema;
	char title[TITLE_SIZE];
	json_t *json;

	if (smd_schema_create(&schema)) {
		return NULL;
	}
	write_title(table, file, title);
	json = smd_schema_finish(schema, title, describe_rows(schema, table, file));
	smd_schema_free(schema);
	return json;
}
