/* The nodes of a document. */
#include "orchestrator/document/document.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CUT            "..."
#define NAME_SHOWN_MAX 128 /* bytes of a name in a pointer */

static int ends_with(const char *name, const char *ending)
{
	size_t length = strlen(name);
	size_t tail = strlen(ending);

	return length >= tail && strcasecmp(name + length - tail, ending) == 0;
}

int smd_document_parse(const char *name, const char *text, size_t length,
	struct smd_diagnostics *diagnostics, struct smd_node **out)
{
	static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* as editors on Windows write it */
	size_t mark = sizeof(byte_order_mark) - 1;
	size_t start = 0;
	int json = ends_with(name, ".json");

	if (length >= mark && memcmp(text, byte_order_mark, mark) == 0) {
		text += mark;
		length -= mark;
	}

	if (!json && !ends_with(name, ".yaml") && !ends_with(name, ".yml")) {
		while (start < length && strchr(" \t\r\n", text[start])) {
			start++;
		}
		json = start < length && (text[start] == '{' || text[start] == '[');
	}
	if (json) {
		return smd_document_parse_json(text, length, diagnostics, out);
	}
	return smd_document_parse_yaml(text, length, diagnostics, out);
}

static void append(struct smd_node *parent, struct smd_node *node)
{
	node->parent = parent;
	node->index = parent->count++;
	if (parent->last) {
		parent->last->next = node;
	} else {
		parent->first = node;
	}
	parent->last = node;
}

void smd_node_append(struct smd_node *parent, struct smd_node *child)
{
	append(parent, child);
}

void smd_node_move_children(struct smd_node *to, struct smd_node *from)
{
	to->first = from->first;
	to->last = from->last;
	to->count = from->count;
	from->first = NULL;
	from->last = NULL;
	from->count = 0;
	for (struct smd_node *child = to->first; child; child = child->next) {
		child->parent = to;
	}
}

struct smd_node *smd_node_create(struct smd_node *parent, const char *key, enum smd_node_type type,
	struct smd_source_position at)
{
	struct smd_node *node = calloc(1, sizeof(*node));

	if (!node) {
		return NULL;
	}
	if (key) {
		node->key = strdup(key);
		if (!node->key) {
			free(node);
			return NULL;
		}
	}
	node->type = type;
	node->at = at;
	node->key_at = at;
	if (parent) {
		append(parent, node);
	}
	return node;
}

struct smd_node *smd_node_create_string(
	struct smd_node *parent, const char *key, const char *text, struct smd_source_position at)
{
	struct smd_node *node = smd_node_create(parent, key, SMD_NODE_STRING, at);

	if (node) {
		node->string = strdup(text);
	}
	return node && node->string ? node : NULL;
}

void smd_node_detach(struct smd_node *node)
{
	struct smd_node *parent = node->parent;
	struct smd_node *before = NULL;

	if (!parent) {
		return;
	}
	for (struct smd_node *child = parent->first; child != node; child = child->next) {
		before = child;
	}
	*(before ? &before->next : &parent->first) = node->next;
	parent->last = parent->last == node ? before : parent->last;
	parent->count--;
	for (struct smd_node *child = node->next; child; child = child->next) {
		child->index--;
	}
	node->parent = NULL;
	node->next = NULL;
}

void smd_node_remove(struct smd_node *node)
{
	if (node) {
		smd_node_detach(node);
		smd_node_free(node);
	}
}

struct smd_node *smd_node_copy(struct smd_node *parent, const struct smd_node *node)
{
	struct smd_node *copy = smd_node_create(parent, node->key, node->type, node->at);

	if (!copy) {
		return NULL;
	}
	copy->key_at = node->key_at;
	copy->number = node->number;
	if (node->written) {
		copy->written = strdup(node->written);
		if (!copy->written) {
			return NULL;
		}
	}
	if (node->string) {
		copy->string = strdup(node->string);
		if (!copy->string) {
			return NULL;
		}
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (!smd_node_copy(copy, child)) {
			return NULL;
		}
	}
	return copy;
}

int smd_node_adopt(struct smd_node *parent, const char *key, struct smd_node *child)
{
	child->key = strdup(key);
	if (!child->key) {
		return -ENOMEM;
	}
	child->is_root = 1;
	append(parent, child);
	return 0;
}

static void free_content(struct smd_node *node)
{
	for (struct smd_node *child = node->first; child;) {
		struct smd_node *next = child->next;

		smd_node_free(child);
		child = next;
	}
	free(node->string);
	free(node->written);
}

void smd_node_free(struct smd_node *node)
{
	if (!node) {
		return;
	}
	free_content(node);
	free(node->key);
	free(node);
}

void smd_node_reset(struct smd_node *node, enum smd_node_type type, struct smd_source_position at)
{
	free_content(node);
	node->string = NULL;
	node->written = NULL;
	node->first = NULL;
	node->last = NULL;
	node->count = 0;
	node->type = type;
	node->at = at;
	node->key_at = at;
}

int smd_node_depth(const struct smd_node *node)
{
	int depth = 0;

	for (node = node->parent; node; node = node->parent) {
		depth++;
	}
	return depth;
}

static json_t *container_to_json(const struct smd_node *node)
{
	int is_object = node->type == SMD_NODE_OBJECT;
	json_t *json = is_object ? json_object() : json_array();

	for (const struct smd_node *child = node->first; json && child; child = child->next) {
		json_t *value = smd_node_to_json(child);

		if (is_object ? json_object_set_new(json, child->key, value)
			      : json_array_append_new(json, value)) {
			json_decref(json);
			return NULL;
		}
	}
	return json;
}

json_t *smd_node_to_json(const struct smd_node *node)
{
	switch (node->type) {
	case SMD_NODE_BOOLEAN:
		return json_boolean(node->number.boolean);
	case SMD_NODE_INTEGER:
		return json_integer(node->number.integer);
	case SMD_NODE_REAL:
		return json_real(node->number.real);
	case SMD_NODE_STRING:
		return json_string(node->string);
	case SMD_NODE_ARRAY:
	case SMD_NODE_OBJECT:
		return container_to_json(node);
	case SMD_NODE_NULL:
		break;
	}
	return json_null();
}

static int is_continuation(char byte)
{
	return ((unsigned char)byte & 0xC0) == 0x80;
}

/* A name too long to be read keeps its beginning and its end, without parts of characters. */
static void write_name(const char *name, FILE *out)
{
	size_t length = strlen(name);
	size_t left = length > NAME_SHOWN_MAX ? NAME_SHOWN_MAX / 2 : length;
	size_t right = length > NAME_SHOWN_MAX ? length - NAME_SHOWN_MAX / 2 : length;

	while (left < length && left > 0 && is_continuation(name[left])) {
		left--;
	}
	while (is_continuation(name[right])) {
		right++;
	}
	for (size_t i = 0; i < length; i++) {
		if (i == left) {
			fputs(CUT, out);
			i = right;
		}
		if (name[i] == '~' || name[i] == '/') {
			fputs(name[i] == '~' ? "~0" : "~1", out);
		} else {
			fputc(name[i], out);
		}
	}
}

static void write_pointer(const struct smd_node *node, FILE *out)
{
	if (!node->parent || node->is_root) {
		return;
	}
	write_pointer(node->parent, out);
	fputc('/', out);
	if (!node->key) {
		fprintf(out, "%zu", node->index);
		return;
	}
	write_name(node->key, out);
}

char *smd_node_pointer(const struct smd_node *node)
{
	char *pointer = NULL;
	size_t length;
	FILE *out = open_memstream(&pointer, &length);

	if (!out) {
		return NULL;
	}
	write_pointer(node, out);
	if (fclose(out)) {
		free(pointer);
		return NULL;
	}
	return pointer;
}

void smd_node_describe(const struct smd_node *node, char text[SMD_NODE_TEXT_MAX])
{
	if (node->written && strlen(node->written) < SMD_NODE_TEXT_MAX) {
		strcpy(text, node->written);
	} else {
		smd_node_value_text(node, text);
	}
}

void smd_node_value_text(const struct smd_node *node, char text[SMD_NODE_TEXT_MAX])
{
	json_t *json;
	char *dumped;
	size_t length;

	if (node->type == SMD_NODE_ARRAY) {
		strcpy(text, node->count ? "an array" : "an empty array");
		return;
	}
	if (node->type == SMD_NODE_OBJECT) {
		strcpy(text, node->count ? "an object" : "an empty object");
		return;
	}
	json = smd_node_to_json(node);
	dumped = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	json_decref(json);
	snprintf(text, SMD_NODE_TEXT_MAX, "%s", dumped ? dumped : "a value");
	if (dumped && strlen(dumped) >= SMD_NODE_TEXT_MAX) {
		length = SMD_NODE_TEXT_MAX - sizeof(CUT);
		while (length > 0 && is_continuation(text[length])) {
			length--; /* never through the middle of a character */
		}
		memcpy(text + length, CUT, sizeof(CUT));
	}
	free(dumped);
}
