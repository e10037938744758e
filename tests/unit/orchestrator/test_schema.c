/* A table's rows are its schema: a row more is a property more, and none is left out in silence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "orchestrator/document/schema.h"

static void decode_own(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)decoder;
	(void)field;
	(void)node;
	(void)base;
}

static const struct smd_message tree;

static const struct smd_field tree_rows[] = {
	SMD_FIELD("name", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("kind", smd_decode_string, SMD_KEPT, .form = "^[a-z]+$", .example = "a word"),
	SMD_FIELD("age", smd_decode_count, SMD_KEPT, .min = 1, .max = 99),
	SMD_FIELD("branches", smd_decode_objects, SMD_KEPT, .message = &tree, .max = 7),
	SMD_FIELD("leaves", decode_own, SMD_KEPT, .schema = "{\"type\": \"number\"}"),
	SMD_FIELD("height", decode_own, SMD_KEPT, .like = smd_decode_boolean),
	SMD_FIELD("roots", smd_decode_anything, SMD_KEPT, .is_refused = 1),
};
static const struct smd_message tree =
	SMD_MESSAGE("Tree", tree_rows, .rules = "{\"minProperties\": 1}");

static void rows_become_properties(void **state)
{
	static const char expected[] =
		"{\"type\": \"object\", \"additionalProperties\": false, \"minProperties\": 1, "
		"\"required\": [\"name\"], \"properties\": {"
		"\"name\": {\"type\": \"string\", \"minLength\": 1}, "
		"\"kind\": {\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^$|^[a-z]+$\"}, "
		"{\"type\": \"null\"}]}, "
		"\"age\": {\"anyOf\": [{\"anyOf\": [{\"type\": \"integer\", \"minimum\": 1, "
		"\"maximum\": 99}, {\"type\": \"string\", \"pattern\": "
		"\"^0*[1-9][0-9]{0,9}$\"}]}, {\"type\": \"null\"}]}, "
		"\"branches\": {\"anyOf\": [{\"type\": \"array\", \"items\": {\"$ref\": "
		"\"#/definitions/Tree\"}, \"maxItems\": 7}, {\"type\": \"null\"}]}, "
		"\"leaves\": {\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"null\"}]}, "
		"\"height\": {\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"null\"}]}}}";
	json_t *wanted = smd_schema_text(expected);
	struct smd_schema *schema;
	json_t *json;

	(void)state;
	assert_int_equal(smd_schema_create(&schema), 0);
	json = smd_schema_finish(schema, "Trees", smd_schema_message(schema, &tree));
	assert_string_equal(json_string_value(json_object_get(json, "$ref")), "#/definitions/Tree");
	assert_true(
		json_equal(json_object_get(json_object_get(json, "definitions"), "Tree"), wanted));
	json_decref(wanted);
	json_decref(json);
	smd_schema_free(schema);
}

static void what_a_row_does_not_say_is_refused(void **state)
{
	static const struct smd_field rows[] = {SMD_FIELD("secret", decode_own, SMD_KEPT)};
	static const struct smd_message message = SMD_MESSAGE("Secret", rows);
	struct smd_schema *schema;

	(void)state;
	assert_int_equal(smd_schema_create(&schema), 0);
	assert_null(smd_schema_message(schema, &message));
	smd_schema_free(schema);
}

static void what_a_row_means_must_be_known(void **state)
{
	static const struct smd_field_text texts[] = {
		{"Tree", "name", "What it is called."},
		{NULL, "kind", "What kind it is."},
		{NULL, NULL, NULL},
	};
	static const struct smd_field rows[] = {
		SMD_FIELD("name", smd_decode_string, SMD_KEPT, .note = "trees have no names"),
		SMD_FIELD("kind", smd_decode_string, SMD_KEPT, .form = "^[a-z]+$",
			.example = "a word"),
	};
	static const struct smd_message known = SMD_MESSAGE("Tree", rows);
	static const struct smd_message unknown = SMD_MESSAGE("Bush", rows);
	struct smd_schema *schema;
	json_t *json;
	json_t *fields;

	(void)state;
	assert_int_equal(smd_schema_create(&schema), 0);
	smd_schema_set_texts(schema, texts);
	assert_null(smd_schema_message(schema, &unknown));
	json = smd_schema_finish(schema, "Trees", smd_schema_message(schema, &known));
	assert_non_null(json);
	fields = json_object_get(
		json_object_get(json_object_get(json, "definitions"), "Tree"), "properties");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(fields, "name"), "description")),
		"What it is called. Kept, without effect here: trees have no names.");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(fields, "kind"), "description")),
		"What kind it is. It must be a word.");
	json_decref(json);
	smd_schema_free(schema);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_become_properties),
		cmocka_unit_test(what_a_row_does_not_say_is_refused),
		cmocka_unit_test(what_a_row_means_must_be_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
