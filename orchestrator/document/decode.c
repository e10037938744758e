/* Decodes an object by its table: which fields there are, which are missing, which are strange. */
#include "orchestrator/document/decode.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/options.h"

#define FIELDS_MAX    32
#define NAME_SIZE_MAX 64
#define PATH_SIZE     512
#define PLACE_DEPTH   4 /* of a field below the document, where it is looked for */
#define PREFIX_MIN    5
#define HINT_SIZE     160
#define WORDS_MAX     40 /* of a hint: each of its characters may be a word */

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

/* "python3 train.py" as the array that was meant, if it is short and without quotes. */
static int write_words(const char *text, char hint[HINT_SIZE])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./:=,+@% ";
	int length;

	if (strlen(text) > WORDS_MAX || text[strspn(text, plain)] || !text[strspn(text, " ")]) {
		return 0;
	}
	length = snprintf(hint, HINT_SIZE, "; write [");
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		int word = (int)strcspn(text, " ");

		length += snprintf(hint + length, HINT_SIZE - (size_t)length, "%s\"%.*s\"",
			hint[length - 1] == '[' ? "" : ", ", word, text);
		text += word;
	}
	snprintf(hint + length, HINT_SIZE - (size_t)length, "]");
	return 1;
}

/* What is most often meant by a value of that type, in YAML above all. */
static void write_type_hint(
	const struct smd_node *node, enum smd_node_type type, const char *got, char hint[HINT_SIZE])
{
	int is_container = node->type == SMD_NODE_OBJECT || node->type == SMD_NODE_ARRAY;

	if (type == SMD_NODE_STRING && node->type != SMD_NODE_NULL && !is_container) {
		snprintf(hint, HINT_SIZE, "; in quotes it is one: \"%s\"", got);
	} else if (type == SMD_NODE_ARRAY && node->type == SMD_NODE_STRING &&
		   write_words(node->string, hint)) {
		return;
	} else if (type == SMD_NODE_ARRAY && node->type != SMD_NODE_NULL) {
		snprintf(hint, HINT_SIZE,
			"; it is written [A, B], or in YAML with a line \"- A\" for each element");
	} else if (type == SMD_NODE_OBJECT && node->type == SMD_NODE_ARRAY) {
		snprintf(hint, HINT_SIZE, "; in YAML it is written without \"- \"");
	}
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
	char hint[HINT_SIZE] = "";

	if (node->type == type) {
		return 1;
	}
	smd_node_describe(node, got);
	write_type_hint(node, type, got, hint);
	smd_error_at_value(
		decoder->diagnostics, node, "must be %s, got %s%s", names[type], got, hint);
	return 0;
}

/* A field that is looked for. */
struct field_search {
	const char *name;
	size_t length;    /* of the name, as far as it must agree */
	int is_prefix;    /* it may go on */
	const char *here; /* the pointer of the object where it stands */
};

static int matches(const struct field_search *search, const struct smd_field *field)
{
	/* What only the service writes is no place for it. */
	return field->decode != smd_decode_anything &&
	       strncmp(field->name, search->name, search->length) == 0 &&
	       (search->is_prefix || !field->name[search->length]);
}

/* Appends "/name", and of a list the element that holds the object, else the first. */
static void append_field(
	const struct field_search *search, const struct smd_field *field, char *path)
{
	size_t length = strlen(path);
	const char *index = "0";
	int digits = 1;

	length += (size_t)snprintf(path + length, PATH_SIZE - length, "/%s", field->name);
	if (field->decode == smd_decode_object || length + 2 >= PATH_SIZE) {
		return;
	}
	if (strncmp(search->here, path, length) == 0 && search->here[length] == '/') {
		index = search->here + length + 1;
		digits = (int)strcspn(index, "/");
	}
	snprintf(path + length, PATH_SIZE - length, "/%.*s", digits, index);
}

/* Looks for the field in the message, so many levels down, and appends its path: "/a/b". */
static int find_field(
	const struct smd_message *message, const struct field_search *search, int depth, char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < message->count; i++) {
		const struct smd_field *field = &message->fields[i];

		if (depth == 0 && matches(search, field)) {
			snprintf(path + length, PATH_SIZE - length, "/%s", field->name);
			return 1;
		}
		if (depth > 0 && field->message) {
			append_field(search, field, path);
			if (find_field(field->message, search, depth - 1, path)) {
				return 1;
			}
			path[length] = '\0';
		}
	}
	return 0;
}

/* Where the field belongs: nearest below the object where it stands, else in the document. */
static int find_place(const struct smd_decoder *decoder, const struct smd_message *message,
	const struct field_search *search, char *path)
{
	int found = 0;

	for (int depth = search->is_prefix ? 0 : 1; !found && depth <= PLACE_DEPTH; depth++) {
		snprintf(path, PATH_SIZE, "%s", search->here);
		found = find_field(message, search, depth, path);
	}
	for (int depth = 0; decoder->root && !found && depth <= PLACE_DEPTH; depth++) {
		*path = '\0';
		found = find_field(decoder->root, search, depth, path);
	}
	return found;
}

/* What may be meant by a name that the message does not have: the same elsewhere, a near one here,
 * one that begins so ("image" is imageUri). 0: nothing. */
static int find_meant(const struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, const char *name, char meant[PATH_SIZE])
{
	struct field_search search = {.name = name, .length = strlen(name)};
	const char *names[FIELDS_MAX];
	char *here = smd_node_pointer(node->parent);
	const char *near;
	size_t n = 0;
	int found;

	for (; n < message->count && n < FIELDS_MAX; n++) {
		names[n] = message->fields[n].name;
	}
	near = smd_suggest(name, names, n);
	search.here = here ? here : "";
	found = find_place(decoder, message, &search, meant);
	if (!found && near) {
		snprintf(meant, PATH_SIZE, "%s", near);
		found = 1;
	}
	search.length -= search.length > 0 && name[search.length - 1] == 's';
	search.is_prefix = 1;
	if (!found && search.length >= PREFIX_MIN) {
		found = find_place(decoder, message, &search, meant);
	}
	free(here);
	return found;
}

static void refuse_unknown(struct smd_decoder *decoder, const struct smd_message *message,
	const struct smd_node *node, const char *name)
{
	char meant[PATH_SIZE];

	if (message->is_open) {
		const char *names[FIELDS_MAX];
		const char *near;
		size_t n = 0;

		for (; n < message->count && n < FIELDS_MAX; n++) {
			names[n] = message->fields[n].name;
		}
		near = smd_suggest(name, names, n);
		smd_warning_at_name(decoder->diagnostics, node,
			"unknown field, left out as the service does%s%s%s",
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
		return;
	}
	/* What is not shown is not looked for. */
	if (decoder->diagnostics->count < SMD_DIAGNOSTICS_MAX &&
		find_meant(decoder, message, node, name, meant)) {
		smd_error_at_name(decoder->diagnostics, node, "unknown field%s; did you mean %s?",
			meant[0] == '/' ? " here" : "", meant);
	} else {
		smd_error_at_name(decoder->diagnostics, node, "unknown field");
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
	if (name != node->key && decoder->respelled++ == 0) {
		decoder->first_respelled = node;
		decoder->first_spelling = field->name;
	}
	if (seen[field - message->fields]) {
		smd_error_at_name(decoder->diagnostics, node,
			"must be given once, but is given in another spelling too");
		return;
	}
	seen[field - message->fields] = 1;
	if (field->note && node->type != SMD_NODE_NULL) {
		smd_note_at_name(
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
			smd_error_at_value(decoder->diagnostics, node, "must have %s", field->name);
		} else if (member && member->type == SMD_NODE_STRING && !*member->string) {
			smd_error_at_value(decoder->diagnostics, member, "must not be empty");
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

void smd_decode_finish(struct smd_decoder *decoder)
{
	size_t others = decoder->respelled - 1;

	if (decoder->respelled == 1) {
		smd_warning_at_name(decoder->diagnostics, decoder->first_respelled,
			"should be spelled %s", decoder->first_spelling);
	} else if (decoder->respelled > 1) {
		smd_warning_at_name(decoder->diagnostics, decoder->first_respelled,
			"should be spelled %s, and so should %zu more name%s in snake_case",
			decoder->first_spelling, others, others == 1 ? "" : "s");
	}
}

const struct smd_field *smd_message_row(const struct smd_message *message, const char *name)
{
	char camel[NAME_SIZE_MAX];
	const char *wanted = message->is_snake ? name : camel_case(name, camel);

	for (size_t i = 0; i < message->count; i++) {
		if (strcmp(message->fields[i].name, wanted) == 0) {
			return &message->fields[i];
		}
	}
	return NULL;
}

/* An object of the field's message, or a list of these. */
static int respell_value(const struct smd_field *field, json_t *value)
{
	size_t i;
	json_t *element;
	int ret = 0;

	if (!field->message) {
		return 0;
	}
	json_array_foreach (value, i, element) {
		ret = ret ? ret : smd_message_respell(field->message, element);
	}
	return ret ? ret : smd_message_respell(field->message, value);
}

/* The order of the names stays, so that what is printed of a job looks like its spec. */
int smd_message_respell(const struct smd_message *message, json_t *object)
{
	json_t *copy;
	const char *name;
	json_t *value;
	int ret = 0;

	if (!json_is_object(object)) {
		return 0;
	}
	copy = json_copy(object);
	if (!copy || json_object_clear(object)) {
		json_decref(copy);
		return -ENOMEM;
	}
	json_object_foreach (copy, name, value) {
		const struct smd_field *field = smd_message_row(message, name);

		ret = ret ? ret : field ? respell_value(field, value) : 0;
		if (!ret && json_object_set(object, field ? field->name : name, value)) {
			ret = -ENOMEM;
		}
	}
	json_decref(copy);
	return ret;
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
	if (!smd_decode_list(decoder, field, node)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		smd_decode_message(decoder, field->message, child, NULL);
	}
}
