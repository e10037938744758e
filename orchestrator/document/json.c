/*
 * Makes a document from JSON. jansson judges the text and decodes its values; a walk over the
 * text, which is by then known to be valid, adds the positions that jansson does not keep.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/diagnostics.h"

struct walk {
	const char *at;
	const char *end;
	struct smd_source_position position;
};

static int is_continuation(char byte)
{
	return ((unsigned char)byte & 0xC0) == 0x80;
}

static void step(struct walk *walk)
{
	if (walk->at == walk->end) {
		return;
	}
	if (*walk->at == '\n') {
		walk->position.line++;
		walk->position.column = 1;
	} else if (!is_continuation(*walk->at)) {
		walk->position.column++;
	}
	walk->at++;
	/* A character is left behind as a whole. */
	while (walk->at < walk->end && is_continuation(*walk->at)) {
		walk->at++;
	}
}

/* To the next token: white space, colons and commas only separate. */
static struct smd_source_position seek_token(struct walk *walk)
{
	while (walk->at < walk->end && strchr(" \t\r\n:,", *walk->at)) {
		step(walk);
	}
	return walk->position;
}

static void skip_scalar(struct walk *walk)
{
	if (walk->at < walk->end && *walk->at != '"') {
		while (walk->at < walk->end && !strchr(" \t\r\n,]}", *walk->at)) {
			step(walk);
		}
		return;
	}
	step(walk);
	while (walk->at < walk->end && *walk->at != '"') {
		if (*walk->at == '\\') {
			step(walk);
		}
		step(walk);
	}
	step(walk);
}

/* Refuses too many values before memory is spent on them; the text may be anything. */
static int check_values(const char *text, size_t length, struct smd_diagnostics *diagnostics)
{
	struct walk walk = {.at = text, .end = text + length, .position = {.line = 1, .column = 1}};
	int values = 0;

	for (const char *at = text; at < walk.end; at++) {
		if (*at == '"') {
			for (at++; at < walk.end && *at != '"'; at++) {
				at += *at == '\\';
			}
		} else if (*at == ',' || *at == '[' || *at == '{') {
			values++;
		}
		if (values > SMD_DOCUMENT_VALUES_MAX) {
			while (walk.at < at) {
				step(&walk);
			}
			smd_error_in_text(diagnostics, walk.position, "must have at most %d values",
				SMD_DOCUMENT_VALUES_MAX);
			return -EINVAL;
		}
	}
	return 0;
}

static int set_scalar(struct smd_node *node, const json_t *json)
{
	switch (json_typeof(json)) {
	case JSON_STRING:
		node->type = SMD_NODE_STRING;
		node->string = strdup(json_string_value(json));
		return node->string ? 0 : -ENOMEM;
	case JSON_INTEGER:
		node->type = SMD_NODE_INTEGER;
		node->number.integer = json_integer_value(json);
		return 0;
	case JSON_REAL:
		node->type = SMD_NODE_REAL;
		node->number.real = json_real_value(json);
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		node->type = SMD_NODE_BOOLEAN;
		node->number.boolean = json_is_true(json);
		return 0;
	default:
		node->type = SMD_NODE_NULL;
		return 0;
	}
}

static int walk_value(struct walk *walk, struct smd_node *node, json_t *json,
	struct smd_diagnostics *diagnostics);

static int walk_object(
	struct walk *walk, struct smd_node *node, json_t *json, struct smd_diagnostics *diagnostics)
{
	const char *key;
	json_t *value;

	json_object_foreach (json, key, value) {
		struct smd_source_position key_at = seek_token(walk);
		struct smd_node *child;
		int ret;

		skip_scalar(walk);
		child = smd_node_create(node, key, SMD_NODE_NULL, seek_token(walk));
		if (!child) {
			return -ENOMEM;
		}
		child->key_at = key_at;
		ret = walk_value(walk, child, value, diagnostics);
		if (ret) {
			return ret;
		}
	}
	return 0;
}

static int walk_array(
	struct walk *walk, struct smd_node *node, json_t *json, struct smd_diagnostics *diagnostics)
{
	size_t index;
	json_t *value;

	json_array_foreach (json, index, value) {
		struct smd_node *child =
			smd_node_create(node, NULL, SMD_NODE_NULL, seek_token(walk));
		int ret = child ? walk_value(walk, child, value, diagnostics) : -ENOMEM;

		if (ret) {
			return ret;
		}
	}
	return 0;
}

static int walk_value(
	struct walk *walk, struct smd_node *node, json_t *json, struct smd_diagnostics *diagnostics)
{
	const char *begin = walk->at;
	int ret;

	if (!json_is_object(json) && !json_is_array(json)) {
		skip_scalar(walk);
		if (json_is_number(json)) {
			node->written = strndup(begin, (size_t)(walk->at - begin));
		}
		return json_is_number(json) && !node->written ? -ENOMEM : set_scalar(node, json);
	}
	if (smd_node_depth(node) >= SMD_DOCUMENT_DEPTH_MAX) {
		smd_error_in_text(diagnostics, node->at, "must nest at most %d levels deep",
			SMD_DOCUMENT_DEPTH_MAX);
		return -EINVAL;
	}
	step(walk); /* past the opening bracket */
	if (json_is_object(json)) {
		node->type = SMD_NODE_OBJECT;
		ret = walk_object(walk, node, json, diagnostics);
	} else {
		node->type = SMD_NODE_ARRAY;
		ret = walk_array(walk, node, json, diagnostics);
	}
	if (!ret) {
		seek_token(walk);
		step(walk);
	}
	return ret;
}

/* What is written so often instead of JSON that it is worth a word. */
static const char *syntax_hint(const char *text)
{
	static const struct {
		const char *near;
		const char *hint;
	} hints[] = {
		{"near '/", "; JSON has no comments"},
		{"near '#", "; JSON has no comments"},
		{"near '\''", "; JSON's quotes are \""},
		{"near 'None'", "; JSON writes null"},
		{"near 'True'", "; JSON writes true"},
		{"near 'False'", "; JSON writes false"},
		{"unexpected token near ']'", "; after the last element there is no comma"},
		{"expected near '}'", "; after the last member there is no comma"},
	};

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (strstr(text, hints[i].near)) {
			return hints[i].hint;
		}
	}
	return "";
}

static int refuse_syntax(const json_error_t *error, struct smd_diagnostics *diagnostics)
{
	struct smd_source_position at = {.line = error->line > 0 ? error->line : 1,
		.column = error->column > 0 ? error->column : 1};

	switch (json_error_code(error)) {
	case json_error_out_of_memory:
	case json_error_unknown: /* it has no text either: an object or array could not grow */
		return -ENOMEM;
	case json_error_null_character:
	case json_error_null_byte_in_key:
		smd_error_in_text(diagnostics, at, "a text must not contain NUL");
		return -EINVAL;
	default:
		smd_error_in_text(diagnostics, at, "must be JSON: %s%s", error->text,
			syntax_hint(error->text));
		return -EINVAL;
	}
}

int smd_document_parse_json(
	const char *text, size_t length, struct smd_diagnostics *diagnostics, struct smd_node **out)
{
	struct walk walk = {.at = text, .end = text + length, .position = {.line = 1, .column = 1}};
	json_error_t error;
	struct smd_node *root;
	json_t *json;
	int ret = check_values(text, length, diagnostics);

	if (ret) {
		return ret;
	}
	json = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!json) {
		return refuse_syntax(&error, diagnostics);
	}
	root = smd_node_create(NULL, NULL, SMD_NODE_NULL, seek_token(&walk));
	ret = root ? walk_value(&walk, root, json, diagnostics) : -ENOMEM;
	json_decref(json);
	if (ret) {
		smd_node_free(root);
		return ret;
	}
	*out = root;
	return 0;
}
