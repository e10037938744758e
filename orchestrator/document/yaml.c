/* Makes a document from the events of libyaml, with the scalars of YAML's core schema. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/document/yaml_anchor.h"

#define YAML_TAG_STRING "tag:yaml.org,2002:str"

struct yaml_builder {
	yaml_parser_t parser;
	struct smd_diagnostics *diagnostics;
	struct smd_node *root;
	struct smd_node *open; /* the innermost array or object that has not ended */
	char *key;             /* a member's name that waits for its value */
	struct smd_source_position key_at;
	char *anchor; /* the name that the next node is given; NULL: none */
	struct smd_yaml_anchors anchors;
	int documents;
	int values;
};

static struct smd_source_position position_of(yaml_mark_t mark)
{
	return (struct smd_source_position){
		.line = (int)mark.line + 1, .column = (int)mark.column + 1};
}

/* libyaml tells only the offset of a byte that is no character. */
static struct smd_source_position position_of_offset(const char *text, size_t offset)
{
	struct smd_source_position at = {.line = 1, .column = 1};

	for (size_t i = 0; i < offset; i++) {
		if (text[i] == '\n') {
			at.line++;
			at.column = 1;
		} else if (((unsigned char)text[i] & 0xC0) != 0x80) {
			at.column++;
		}
	}
	return at;
}

static int refuse(struct yaml_builder *builder, struct smd_source_position at, const char *what)
{
	smd_error_in_text(builder->diagnostics, at, "%s", what);
	return -EINVAL;
}

/* The node that an event begins: the root, an element, or the member whose name came before. */
static int add_node(struct yaml_builder *builder, enum smd_node_type type,
	struct smd_source_position at, struct smd_node **out)
{
	struct smd_node *node;

	if (++builder->values > SMD_DOCUMENT_VALUES_MAX) {
		smd_error_in_text(builder->diagnostics, at, "must have at most %d values",
			SMD_DOCUMENT_VALUES_MAX);
		return -EINVAL;
	}
	node = smd_node_create(builder->open, builder->key, type, at);
	if (!node) {
		return -ENOMEM;
	}
	node->key_at = builder->key_at;
	free(builder->key);
	builder->key = NULL;
	if (!builder->open) {
		builder->root = node;
	}
	*out = node;
	return builder->anchor ? smd_yaml_anchor_put(&builder->anchors, builder->anchor, node) : 0;
}

/* A member's name comes next. */
static int wants_key(const struct yaml_builder *builder)
{
	return builder->open && builder->open->type == SMD_NODE_OBJECT && !builder->key;
}

static int open_node(
	struct yaml_builder *builder, enum smd_node_type type, const yaml_event_t *event)
{
	struct smd_source_position at = position_of(event->start_mark);
	struct smd_node *node;
	int ret;

	if (wants_key(builder)) {
		return refuse(builder, at, "a field's name must be a scalar, got a collection");
	}
	if (builder->open && smd_node_depth(builder->open) + 1 >= SMD_DOCUMENT_DEPTH_MAX) {
		smd_error_in_text(builder->diagnostics, at, "must nest at most %d levels deep",
			SMD_DOCUMENT_DEPTH_MAX);
		return -EINVAL;
	}
	ret = add_node(builder, type, at, &node);
	if (!ret) {
		builder->open = node;
	}
	return ret;
}

static int compare_keys(const void *a, const void *b)
{
	const struct smd_node *left = *(const struct smd_node *const *)a;
	const struct smd_node *right = *(const struct smd_node *const *)b;
	int order = strcmp(left->key, right->key);

	return order ? order : (left->index < right->index ? -1 : 1);
}

static int check_keys_differ(struct yaml_builder *builder, const struct smd_node *object)
{
	const struct smd_node **members;
	size_t n = 0;
	int ret = 0;

	if (object->count < 2) {
		return 0;
	}
	members = malloc(object->count * sizeof(*members));
	if (!members) {
		return -ENOMEM;
	}
	for (const struct smd_node *node = object->first; node; node = node->next) {
		members[n++] = node;
	}
	qsort(members, n, sizeof(*members), compare_keys);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(members[i - 1]->key, members[i]->key) == 0) {
			smd_error_at_name(builder->diagnostics, members[i],
				"must be given once, but is given in line %d too",
				members[i - 1]->key_at.line);
			ret = -EINVAL;
		}
	}
	free(members);
	return ret;
}

static int close_node(struct yaml_builder *builder)
{
	struct smd_node *node = builder->open;

	builder->open = node->parent;
	if (node->type == SMD_NODE_OBJECT) {
		int ret = check_keys_differ(builder, node);

		return ret ? ret : smd_yaml_merge(&builder->anchors, node);
	}
	return 0;
}

static int is_one_of(const char *text, const char *const *words)
{
	while (*words && strcmp(text, *words) != 0) {
		words++;
	}
	return *words != NULL;
}

/* Core schema: [-+]?[0-9]+, 0o[0-7]+, 0x[0-9a-fA-F]+. */
static int is_integer(const char *text, int *base)
{
	static const char *const digits[] = {"0123456789", "01234567", "0123456789abcdefABCDEF"};
	int which = 0;

	if (text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
		which = text[1] == 'o' ? 1 : 2;
		text += 2;
	} else if (text[0] == '-' || text[0] == '+') {
		text++;
	}
	*base = which == 0 ? 10 : which == 1 ? 8 : 16;
	return *text && text[strspn(text, digits[which])] == '\0';
}

/* Core schema: [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static int is_real(const char *text)
{
	static const char digits[] = "0123456789";
	size_t whole;
	size_t part = 0;

	text += *text == '-' || *text == '+';
	whole = strspn(text, digits);
	text += whole;
	if (*text == '.') {
		part = strspn(text + 1, digits);
		text += 1 + part;
	}
	if (whole + part == 0) {
		return 0;
	}
	if (*text == 'e' || *text == 'E') {
		text++;
		text += *text == '-' || *text == '+';
		part = strspn(text, digits);
		if (part == 0) {
			return 0;
		}
		text += part;
	}
	return *text == '\0';
}

/* Gives a plain scalar the type that its spelling stands for. */
static int resolve_plain(struct yaml_builder *builder, struct smd_node *node, const char *text)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const trues[] = {"true", "True", "TRUE", NULL};
	static const char *const falses[] = {"false", "False", "FALSE", NULL};
	int base;

	if (is_one_of(text, nulls)) {
		node->type = SMD_NODE_NULL;
	} else if (is_one_of(text, trues) || is_one_of(text, falses)) {
		node->type = SMD_NODE_BOOLEAN;
		node->number.boolean = is_one_of(text, trues);
	} else if (is_integer(text, &base)) {
		node->type = SMD_NODE_INTEGER;
		node->written = strdup(text);
		if (!node->written) {
			return -ENOMEM;
		}
		errno = 0;
		node->number.integer = strtoll(base == 10 ? text : text + 2, NULL, base);
		if (errno == ERANGE) {
			smd_error_in_text(builder->diagnostics, node->at,
				"a whole number must fit into 64 bits, got %.64s", text);
			return -EINVAL;
		}
	} else if (is_real(text)) {
		node->type = SMD_NODE_REAL;
		node->written = strdup(text);
		if (!node->written) {
			return -ENOMEM;
		}
		node->number.real = strtod(text, NULL);
		if (isinf(node->number.real)) {
			smd_error_in_text(builder->diagnostics, node->at,
				"a number must fit into a double, got %.64s", text);
			return -EINVAL;
		}
	} else {
		node->string = strdup(text);
		return node->string ? 0 : -ENOMEM;
	}
	return 0;
}

static int add_scalar(struct yaml_builder *builder, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	const char *tag = (const char *)event->data.scalar.tag;
	struct smd_source_position at = position_of(event->start_mark);
	struct smd_node *node;
	int ret;

	if (strlen(text) != event->data.scalar.length) {
		return refuse(builder, at, "a text must not contain NUL");
	}
	if (wants_key(builder)) {
		if (builder->anchor) {
			return refuse(builder, at, "an anchor must be a value's, not a name's");
		}
		builder->key = strdup(text);
		builder->key_at = at;
		return builder->key ? 0 : -ENOMEM;
	}
	if (tag && strcmp(tag, "!") != 0 && strcmp(tag, YAML_TAG_STRING) != 0) {
		return refuse(builder, at, "a value must not have a tag other than !!str");
	}
	ret = add_node(builder, SMD_NODE_STRING, at, &node);
	if (ret) {
		return ret;
	}
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tag) {
		return resolve_plain(builder, node, text);
	}
	node->string = strdup(text);
	return node->string ? 0 : -ENOMEM;
}

static const char *anchor_of(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return (const char *)event->data.scalar.anchor;
	case YAML_SEQUENCE_START_EVENT:
		return (const char *)event->data.sequence_start.anchor;
	case YAML_MAPPING_START_EVENT:
		return (const char *)event->data.mapping_start.anchor;
	default:
		return NULL;
	}
}

static int add_alias(struct yaml_builder *builder, const yaml_event_t *event)
{
	struct smd_source_position at = position_of(event->start_mark);
	struct smd_node *node = NULL;
	int ret;

	if (wants_key(builder)) {
		return refuse(builder, at, "a field's name must be a scalar, got an alias");
	}
	ret = smd_yaml_alias_add(&builder->anchors, (const char *)event->data.alias.anchor,
		builder->open, builder->key, at, &node);
	if (node) {
		node->key_at = builder->key_at;
	}
	free(builder->key);
	builder->key = NULL;
	return ret;
}

static int take_node(struct yaml_builder *builder, const yaml_event_t *event)
{
	const char *anchor = anchor_of(event);
	int ret;

	builder->anchor = anchor ? strdup(anchor) : NULL;
	if (anchor && !builder->anchor) {
		return -ENOMEM;
	}
	ret = event->type == YAML_SCALAR_EVENT          ? add_scalar(builder, event)
	      : event->type == YAML_MAPPING_START_EVENT ? open_node(builder, SMD_NODE_OBJECT, event)
							: open_node(builder, SMD_NODE_ARRAY, event);
	free(builder->anchor);
	builder->anchor = NULL;
	return ret;
}

static int take_event(struct yaml_builder *builder, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return builder->documents++ > 0 ? refuse(builder, position_of(event->start_mark),
							  "must be a single YAML document")
						: 0;
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
	case YAML_SCALAR_EVENT:
		return take_node(builder, event);
	case YAML_ALIAS_EVENT:
		return add_alias(builder, event);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return close_node(builder);
	default:
		return 0;
	}
}

/* What a newcomer to YAML stumbles over; the text is the file from the place of the problem on. */
static const char *syntax_hint(const char *problem, const char *text)
{
	if (strstr(problem, "cannot start any token")) {
		return *text == '\t' ? "; lines are indented with spaces, not with tabs"
				     : "; a text that begins with it needs quotes";
	}
	if (strstr(problem, "mapping values are not allowed")) {
		return "; a text with \": \" in it needs quotes";
	}
	if (strstr(problem, "did not find expected key") ||
		strstr(problem, "did not find expected '-' indicator")) {
		return "; members of one object, and elements of one array, are indented alike";
	}
	return "";
}

/* Where the position is in the text, which may be shorter. */
static const char *find_position(const char *text, struct smd_source_position at)
{
	for (int line = 1; line < at.line && *text; line++) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	for (int column = 1; column < at.column && *text; column++) {
		text++;
		while (((unsigned char)*text & 0xC0) == 0x80) {
			text++;
		}
	}
	return text;
}

static int refuse_syntax(struct yaml_builder *builder, const char *text)
{
	const yaml_parser_t *parser = &builder->parser;
	struct smd_source_position at = position_of(parser->problem_mark);

	if (parser->error == YAML_MEMORY_ERROR) {
		return -ENOMEM;
	}
	if (parser->error == YAML_READER_ERROR) {
		at = position_of_offset(text, parser->problem_offset);
	}
	smd_error_in_text(builder->diagnostics, at, "must be YAML: %s%s%s%s",
		parser->context ? parser->context : "", parser->context ? ": " : "",
		parser->problem ? parser->problem : "cannot be parsed",
		parser->problem ? syntax_hint(parser->problem, find_position(text, at)) : "");
	return -EINVAL;
}

static int build(struct yaml_builder *builder, const char *text)
{
	yaml_event_t event;
	int ret = 0;
	int ended = 0;

	while (!ended && !ret) {
		if (!yaml_parser_parse(&builder->parser, &event)) {
			return refuse_syntax(builder, text);
		}
		ended = event.type == YAML_STREAM_END_EVENT;
		ret = take_event(builder, &event);
		yaml_event_delete(&event);
	}
	if (!ret && !builder->root) {
		return refuse(builder, (struct smd_source_position){.line = 1, .column = 1},
			"must hold a job, got nothing");
	}
	return ret;
}

int smd_document_parse_yaml(
	const char *text, size_t length, struct smd_diagnostics *diagnostics, struct smd_node **out)
{
	struct yaml_builder builder = {.diagnostics = diagnostics};
	int ret;

	if (!yaml_parser_initialize(&builder.parser)) {
		return -ENOMEM;
	}
	builder.anchors.diagnostics = diagnostics;
	builder.anchors.values = &builder.values;
	yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text, length);
	yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
	ret = build(&builder, text);
	yaml_parser_delete(&builder.parser);
	free(builder.key);
	smd_yaml_anchors_clear(&builder.anchors);
	if (ret) {
		smd_node_free(builder.root);
		return ret;
	}
	*out = builder.root;
	return 0;
}
