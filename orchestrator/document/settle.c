/* Walks a document beside its tables, before it is decoded. */
#include "orchestrator/document/settle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/diagnostics.h"

/* A number that names nothing is left for the decoder to refuse. */
static int name_enum(const struct smd_field *field, struct smd_node *node)
{
	for (size_t i = 0; field->numbers && field->values[i]; i++) {
		if (node->type == SMD_NODE_INTEGER && node->number.integer == field->numbers[i]) {
			node->string = strdup(field->values[i]);
			node->type = SMD_NODE_STRING;
			return node->string ? 0 : -ENOMEM;
		}
	}
	return 0;
}

/* {A: b} is no variable but a map of them, which gcloud refuses too. */
static int is_element(const struct smd_field *field, const struct smd_node *node)
{
	return node->type == SMD_NODE_OBJECT && node->count > 0 &&
	       (field->decode != smd_decode_variables || smd_node_member(node, "name"));
}

/* The node becomes a list with an element of what it was. */
static int wrap(struct smd_node *node, struct smd_diagnostics *diagnostics)
{
	struct smd_node *element = smd_node_create(NULL, NULL, node->type, node->at);

	if (!element) {
		return -ENOMEM;
	}
	smd_warning_at_value(diagnostics, node,
		"should be an array: it is taken for one of a single object; in YAML each begins "
		"with \"- \"");
	smd_node_move_children(element, node);
	node->type = SMD_NODE_ARRAY;
	smd_node_append(node, element);
	return 0;
}

static int settle_list(
	const struct smd_field *field, struct smd_node *node, struct smd_diagnostics *diagnostics)
{
	int ret = is_element(field, node) ? wrap(node, diagnostics) : 0;

	if (node->type != SMD_NODE_ARRAY || !field->message) {
		return ret;
	}
	for (struct smd_node *child = node->first; child && !ret; child = child->next) {
		ret = smd_message_settle(field->message, child, diagnostics);
	}
	return ret;
}

static int settle_field(
	const struct smd_field *field, struct smd_node *node, struct smd_diagnostics *diagnostics)
{
	if (field->decode == smd_decode_enum) {
		return name_enum(field, node);
	}
	if (field->is_list || field->decode == smd_decode_objects ||
		field->decode == smd_decode_variables) {
		return settle_list(field, node, diagnostics);
	}
	return field->message ? smd_message_settle(field->message, node, diagnostics) : 0;
}

int smd_message_settle(const struct smd_message *message, struct smd_node *object,
	struct smd_diagnostics *diagnostics)
{
	int ret = 0;

	if (object->type != SMD_NODE_OBJECT) {
		return 0;
	}
	for (struct smd_node *child = object->first; child && !ret; child = child->next) {
		const struct smd_field *field = smd_message_row(message, child->key);

		ret = field ? settle_field(field, child, diagnostics) : 0;
	}
	return ret;
}
