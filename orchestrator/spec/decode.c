/* Decodes an object by its table: which fields there are, which are missing, which are strange. */
#include "orchestrator/spec/decode.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "reduction_server/base/options.h"

#define FIELDS_MAX    32
#define NAME_SIZE_MAX 64

/* "replica_count" -> "replicaCount"; a name too long for any field stays as it is. */
static const char *camel_case(const char *name, char camel[NAME_SIZE_MAX])
{
	size_t n = 0;

	if (!strchr(name, '_') || strlen(name) >= NAME_SIZE_MAX) {
		return name;
	}
	for (; *name; name++) {
		if (name[0] == '_' && name[1]) {
			name++;
			camel[n++] = (char)toupper((unsigned char)*name);
		} else {
			camel[n++] = *name;
		}
	}
	camel[n] = '\0';
	return camel;
}

const struct smd_node *smd_node_member(const struct smd_node *object, const char *name)
{
	char camel[NAME_SIZE_MAX];

	if (object->type != SMD_NODE_OBJECT) {
		return NULL;
	}
	for (const struct smd_node *node = object->first; node; node = node->next) {
		if (strcmp(node->key, name) == 0 ||
			strcmp(camel_case(node->key, camel), name) == 0) {
			return node->type == SMD_NODE_NULL ? NULL : node;
		}
	}
	return NULL;
}

int smd_decode_expects(
	struct smd_decoder *decoder, const struct smd_node *node, enum smd_node_type type)
{
	static const char *const names[] = {
		[SMD_NODE_NULL] = "null",
		[SMD_NODE_BOOLEAN] = "true or false",
		[SMD_NODE_INTEGER] = "a whole number",
		[SMD_NODE_REAL] = "a number",
		[SMD_NODE_STRING] = "a string",
		[SMD_NODE_ARRAY] = "an array",
		[SMD_NODE_OBJECT] = "an object",
	};
	char got[SMD_NODE_TEXT_MAX];

	if (node->type == type) {
		return 1;
	}
	smd_node_describe(node, got);
	smd_mistake_value(decoder->diagnostics, node, "must be %s, got %s", names[type], got);
	return 0;
}

static void refuse_unknown(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, const char *name)
{
	const char *names[FIELDS_MAX];
	const char *near;
	size_t n = 0;

	for (; n < message->count && n < FIELDS_MAX; n++) {
		names[n] = message->fields[n].name;
	}
	near = smd_suggest(name, names, n);
	if (near) {
		smd_mistake_name(
			decoder->diagnostics, node, "unknown field; did you mean %s?", near);
	} else {
		smd_mistake_name(decoder->diagnostics, node, "unknown field");
	}
}

static void decode_member(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, void *base, unsigned char *seen)
{
	char camel[NAME_SIZE_MAX];
	const char *name = message->is_snake ? node->key : camel_case(node->key, camel);
	const struct smd_field *field = message->fields;
	const struct smd_field *end = field + message->count;

	while (field < end && strcmp(field->name, name) != 0) {
		field++;
	}
	if (field == end) {
		refuse_unknown(decoder, message, node, name);
		return;
	}
	if (name != node->key) {
		smd_warning_name(decoder->diagnostics, node, "should be spelled %s", field->name);
	}
	if (seen[field - message->fields]) {
		smd_mistake_name(decoder->diagnostics, node,
			"must be given once, but is given in another spelling too");
		return;
	}
	seen[field - message->fields] = 1;
	if (field->note && node->type != SMD_NODE_NULL) {
		smd_note_name(
			decoder->diagnostics, node, "kept, without effect here: %s", field->note);
	}
	if (node->type != SMD_NODE_NULL) {
		field->decode(decoder, field, node, base);
	}
}

static void check_required(
	struct smd_decoder *decoder, const struct smd_message *message, const struct smd_node *node)
{
	for (size_t i = 0; i < message->count; i++) {
		const struct smd_field *field = &message->fields[i];
		const struct smd_node *member =
			field->required ? smd_node_member(node, field->name) : NULL;

		if (field->required && !member) {
			smd_mistake_value(decoder->diagnostics, node, "must have %s", field->name);
		} else if (member && member->type == SMD_NODE_STRING && !*member->string) {
			smd_mistake_value(decoder->diagnostics, member, "must not be empty");
		}
	}
}

void smd_decode_message(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, void *base)
{
	unsigned char seen[FIELDS_MAX] = {0};

	assert(message->count <= FIELDS_MAX);
	if (!smd_decode_expects(decoder, node, SMD_NODE_OBJECT)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		decode_member(decoder, message, child, base, seen);
	}
	check_required(decoder, message, node);
}

void smd_decode_object(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	void *place = base && field->offset != SMD_KEPT ? (char *)base + field->offset : NULL;

	smd_decode_message(decoder, field->message, node, place);
}

void smd_decode_objects(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)base;
	if (!smd_decode_expects(decoder, node, SMD_NODE_ARRAY)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		smd_decode_message(decoder, field->message, child, NULL);
	}
}
