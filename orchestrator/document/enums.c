/* Exchanges names and numbers of enumerations. */
#include "orchestrator/document/enums.h"

#include <errno.h>
#include <string.h>

/* NULL: the number has none. */
static const char *name_of(const struct smd_field *field, int64_t number)
{
	for (size_t i = 0; field->numbers && field->values[i]; i++) {
		if (field->numbers[i] == number) {
			return field->values[i];
		}
	}
	return NULL;
}

static int name_value(const struct smd_field *field, struct smd_node *node)
{
	int64_t number;
	const char *name;

	if (!field->numbers || node->type == SMD_NODE_STRING || smd_node_integer(node, &number)) {
		return 0;
	}
	name = name_of(field, number);
	if (!name) {
		return 0;
	}
	smd_node_reset(node, SMD_NODE_STRING, node->at);
	node->string = strdup(name);
	return node->string ? 0 : -ENOMEM;
}

static int name_member(const struct smd_field *field, struct smd_node *node)
{
	int ret = 0;

	if (!field->message) {
		return name_value(field, node);
	}
	if (node->type != SMD_NODE_ARRAY) {
		return smd_enums_name(field->message, node);
	}
	for (struct smd_node *element = node->first; element && !ret; element = element->next) {
		ret = smd_enums_name(field->message, element);
	}
	return ret;
}

int smd_enums_name(const struct smd_message *message, struct smd_node *node)
{
	int ret = 0;

	if (node->type != SMD_NODE_OBJECT) {
		return 0;
	}
	for (struct smd_node *member = node->first; member && !ret; member = member->next) {
		const struct smd_field *field = smd_message_row(message, member->key);

		ret = field ? name_member(field, member) : 0;
	}
	return ret;
}

/* The number of a name; NULL: it has none. */
static json_t *number_of(const struct smd_field *field, const char *name)
{
	for (size_t i = 0; name && field->numbers && field->values[i]; i++) {
		if (strcmp(field->values[i], name) == 0) {
			return json_integer(field->numbers[i]);
		}
	}
	return NULL;
}

static int number_member(
	const struct smd_field *field, json_t *object, const char *name, json_t *value)
{
	json_t *number = number_of(field, json_string_value(value));
	json_t *element;
	size_t i;
	int ret = 0;

	if (number) {
		return json_object_set_new(object, name, number) ? -ENOMEM : 0;
	}
	if (!field->message) {
		return 0;
	}
	json_array_foreach (value, i, element) {
		ret = ret ? ret : smd_enums_number(field->message, element);
	}
	return ret ? ret : smd_enums_number(field->message, value);
}

int smd_enums_number(const struct smd_message *message, json_t *object)
{
	const char *name;
	json_t *value;
	int ret = 0;

	if (!json_is_object(object)) {
		return 0;
	}
	json_object_foreach (object, name, value) {
		const struct smd_field *field = smd_message_row(message, name);

		ret = ret || !field ? ret : number_member(field, object, name, value);
	}
	return ret;
}
