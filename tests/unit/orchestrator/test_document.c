/* JSON and YAML become the same nodes, and every node knows where it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/diagnostics.h"

static struct smd_node *parse(const char *name, const char *text)
{
	struct smd_diagnostics diagnostics = {.count = 0};
	struct smd_node *document = NULL;

	assert_int_equal(smd_document_parse(name, text, strlen(text), &diagnostics, &document), 0);
	assert_int_equal(diagnostics.found[SMD_SEVERITY_ERROR], 0);
	return document;
}

static void assert_at(const struct smd_node *node, int line, int column)
{
	assert_int_equal(node->at.line, line);
	assert_int_equal(node->at.column, column);
}

static void json_positions(void **state)
{
	struct smd_node *root = parse(
		"a.json", "\n {\"größe\": [1, \"a\\\"b\" , {}],\n\t\"b\":\n  null , \"c\":-2.5e3}");
	const struct smd_node *a = root->first;
	const struct smd_node *b = a->next;

	(void)state;
	assert_at(root, 2, 2);
	assert_string_equal(a->key, "größe");
	assert_int_equal(a->key_at.column, 3);
	assert_at(a, 2, 12);
	assert_at(a->first, 2, 13);
	assert_at(a->first->next, 2, 16);
	assert_string_equal(a->first->next->string, "a\"b");
	assert_at(a->last, 2, 25);
	assert_int_equal(b->key_at.line, 3);
	assert_int_equal(b->key_at.column, 2);
	assert_at(b, 4, 3);
	assert_int_equal(b->type, SMD_NODE_NULL);
	assert_int_equal(b->next->key_at.column, 10);
	assert_at(b->next, 4, 14);
	assert_true(b->next->number.real == -2500);
	smd_node_free(root);
}

static void yaml_positions(void **state)
{
	struct smd_node *root = parse("a.yaml", "größe: [1, ä, x]\nb:\n  - c: 2\n");
	const struct smd_node *a = root->first;
	const struct smd_node *c = a->next->first->first;

	(void)state;
	assert_at(root, 1, 1);
	assert_at(a->first, 1, 9);
	assert_at(a->last, 1, 15);
	assert_at(a->next->first, 3, 5);
	assert_int_equal(c->key_at.column, 5);
	assert_at(c, 3, 8);
	smd_node_free(root);
}

static void yaml_scalars_of_the_core_schema(void **state)
{
	struct smd_node *root = parse("a.yml",
		"[1, -2, +3, 0x1F, 0o17, 010, 1.5, .5, 1e3, true, False, ~, null, yes, 0x, 1e, .,"
		" '1', \"true\", !!str 2, 1_000]");
	json_t *json = smd_node_to_json(root);
	char *text = json_dumps(json, JSON_COMPACT);

	(void)state;
	assert_string_equal(text, "[1,-2,3,31,15,10,1.5,0.5,1000.0,true,false,null,null,"
				  "\"yes\",\"0x\",\"1e\",\".\",\"1\",\"true\",\"2\",\"1_000\"]");
	free(text);
	json_decref(json);
	smd_node_free(root);
}

static void yaml_is_the_same_document(void **state)
{
	struct smd_node *from_json = parse("-", " {\"a\": [1, {\"b\": \"c\"}], \"d\": true}");
	struct smd_node *from_yaml = parse("-", "a:\n- 1\n- b: c\nd: true\n");
	json_t *left = smd_node_to_json(from_json);
	json_t *right = smd_node_to_json(from_yaml);

	(void)state;
	assert_true(json_equal(left, right));
	json_decref(left);
	json_decref(right);
	smd_node_free(from_json);
	smd_node_free(from_yaml);
}

static void pointers_escape(void **state)
{
	struct smd_node *root = parse("a.json", "{\"a/b\": [0, {\"c~d\": 1}]}");
	char *pointer = smd_node_pointer(root->first->last->first);
	char *nothing = smd_node_pointer(root);

	(void)state;
	assert_string_equal(pointer, "/a~1b/1/c~0d");
	assert_string_equal(nothing, "");
	free(pointer);
	free(nothing);
	smd_node_free(root);
}

static void descriptions_are_short(void **state)
{
	char text[SMD_NODE_TEXT_MAX];
	struct smd_node *root = parse("a.json",
		"[\"ä\\n\", 1.5, [], {\"a\": 1}, null, "
		"\"äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää\"]");
	const struct smd_node *node = root->first;

	(void)state;
	smd_node_describe(node, text);
	assert_string_equal(text, "\"ä\\n\"");
	smd_node_describe(node = node->next, text);
	assert_string_equal(text, "1.5");
	smd_node_describe(node = node->next, text);
	assert_string_equal(text, "an empty array");
	smd_node_describe(node = node->next, text);
	assert_string_equal(text, "an object");
	smd_node_describe(node = node->next, text);
	assert_string_equal(text, "null");
	smd_node_describe(node->next, text);
	assert_string_equal(text + strlen(text) - 5, "ä...");
	smd_node_free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_positions),
		cmocka_unit_test(yaml_positions),
		cmocka_unit_test(yaml_scalars_of_the_core_schema),
		cmocka_unit_test(yaml_is_the_same_document),
		cmocka_unit_test(pointers_escape),
		cmocka_unit_test(descriptions_are_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
