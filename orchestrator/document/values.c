/* Checks single values of a spec and stores them where their field's row says. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/decode.h"
#include "orchestrator/job/job.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"

#define VALUES_MAX  6 /* of an enumeration that is listed */
#define VALUES_SIZE 256
#define DIGITS      "0123456789"
#define EXACT_MAX   9007199254740992.0 /* up to it each whole number has a double */
#define FORM_MAX    1024               /* what is longer has no form that any field asks for */

static void *place_of(const struct smd_field *field, void *base)
{
	return base && field->offset != SMD_KEPT ? (char *)base + field->offset : NULL;
}

static char *copy(struct smd_decoder *decoder, const char *text)
{
	char *result = strdup(text);

	if (!result) {
		decoder->ret = -ENOMEM;
	}
	return result;
}

/* Room for a list of `size` bytes each, stored with its length at the field's places; the list is
 * owned by the structure at base from now on. NULL: nothing is to be stored. */
static void *begin_list(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, size_t size, void *base)
{
	void **place = place_of(field, base);
	void *list;

	if (!place || node->count == 0) {
		return NULL;
	}
	list = calloc(node->count, size);
	if (!list) {
		decoder->ret = -ENOMEM;
		return NULL;
	}
	*place = list;
	*(size_t *)((char *)base + field->count_offset) = node->count;
	return list;
}

/* 1, 0, or 0 with decoder->ret. */
static int has_form(struct smd_decoder *decoder, const char *text, const char *form)
{
	regex_t compiled;
	int ret;

	if (strlen(text) > FORM_MAX) {
		return 0;
	}
	if (regcomp(&compiled, form, REG_EXTENDED | REG_NOSUB)) {
		decoder->ret = -ENOMEM;
		return 0;
	}
	ret = regexec(&compiled, text, 0, NULL, 0);
	regfree(&compiled);
	if (ret == REG_ESPACE) {
		decoder->ret = -ENOMEM;
	}
	return ret == 0;
}

static void refuse_form(
	struct smd_decoder *decoder, const struct smd_field *field, const struct smd_node *node)
{
	char got[SMD_NODE_TEXT_MAX];

	smd_node_describe(node, got);
	smd_error_at_value(decoder->diagnostics, node, "must be %s, got %s", field->example, got);
}

static void check_form(
	struct smd_decoder *decoder, const struct smd_field *field, const struct smd_node *node)
{
	if (field->form && !has_form(decoder, node->string, field->form)) {
		refuse_form(decoder, field, node);
	}
}

/* Whether it is only quotes that a number or a truth value lacks. */
static int would_have_form(
	struct smd_decoder *decoder, const struct smd_field *field, const struct smd_node *node)
{
	char text[SMD_NODE_TEXT_MAX];

	if (node->type == SMD_NODE_ARRAY || node->type == SMD_NODE_OBJECT) {
		return 0;
	}
	smd_node_describe(node, text);
	return has_form(decoder, text, field->form);
}

void smd_decode_string(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	char **place = place_of(field, base);

	if (field->form && node->type != SMD_NODE_STRING &&
		!would_have_form(decoder, field, node)) {
		refuse_form(decoder, field, node);
		return;
	}
	if (!smd_decode_expects(decoder, node, SMD_NODE_STRING) || !*node->string) {
		return;
	}
	check_form(decoder, field, node);
	if (place) {
		*place = copy(decoder, node->string);
	}
}

/* How much of `text` begins with the word, whatever its case and its dashes; 0: none of it. */
static size_t match_word(const char *text, const char *word)
{
	size_t n = 0;

	while (word[n] && (toupper((unsigned char)text[n]) == toupper((unsigned char)word[n]) ||
				  (text[n] == '_' && strchr("- ", word[n])))) {
		n++;
	}
	return word[n] || (text[n] && text[n] != '_') ? 0 : n;
}

/* Whether the word is one of the parts of the value: H100 of NVIDIA_H100_80GB. */
static int has_part(const char *value, const char *word)
{
	while (value && match_word(value, word) == 0) {
		value = strchr(value, '_');
		value = value ? value + 1 : NULL;
	}
	return value != NULL;
}

/* One that is only spelled otherwise, one that has the last part, or a near one. */
const char *smd_enum_suggest(const char *got, const char *const *values)
{
	size_t tail = strlen(got);
	size_t count = 0;

	while (tail > 0 && !strchr("-_ ", got[tail - 1])) {
		tail--;
	}
	for (; values[count]; count++) {
		size_t length = match_word(values[count], got);

		if (length > 0 && !values[count][length]) {
			return values[count];
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (has_part(values[i], got + tail)) {
			return values[i];
		}
	}
	return smd_suggest(got, values, count);
}

/* "A, B or C"; "one of the API's values" where there are many. What stands for no value is left
 * out. */
static void list_values(const char *const *values, char list[VALUES_SIZE])
{
	const char *shown[VALUES_MAX];
	size_t count = 0;

	for (size_t i = 0; values[i]; i++) {
		if (!strstr(values[i], "UNSPECIFIED") && count++ < VALUES_MAX) {
			shown[count - 1] = values[i];
		}
	}
	if (count > VALUES_MAX) {
		snprintf(list, VALUES_SIZE, "one of the API's values");
		return;
	}
	*list = '\0';
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(list);

		snprintf(list + length, VALUES_SIZE - length, "%s%s", shown[i],
			i + 2 < count   ? ", "
			: i + 1 < count ? " or "
					: "");
	}
}

void smd_decode_enum(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	char got[SMD_NODE_TEXT_MAX];
	char list[VALUES_SIZE];
	const char *near;
	size_t n = 0;

	for (; node->type == SMD_NODE_STRING && field->values[n]; n++) {
		if (strcmp(node->string, field->values[n]) == 0) {
			smd_decode_string(decoder, field, node, base);
			return;
		}
	}
	smd_node_describe(node, got);
	list_values(field->values, list);
	near = node->type == SMD_NODE_STRING ? smd_enum_suggest(node->string, field->values) : NULL;
	smd_error_at_value(decoder->diagnostics, node, "must be %s, got %s%s%s%s", list, got,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

void smd_decode_boolean(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	int *place = place_of(field, base);

	if (smd_decode_expects(decoder, node, SMD_NODE_BOOLEAN) && place) {
		*place = node->number.boolean;
	}
}

void smd_decode_count(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	int *place = place_of(field, base);
	int max = field->max ? field->max : INT_MAX;
	char got[SMD_NODE_TEXT_MAX];
	uint64_t number;
	int64_t given;

	if (node->type != SMD_NODE_STRING && !smd_node_integer(node, &given) &&
		given >= field->min && given <= max) {
		number = (uint64_t)given;
	} else if (node->type != SMD_NODE_STRING ||
		   smd_parse_number(node->string, (uint64_t)field->min, (uint64_t)max, &number)) {
		smd_node_describe(node, got);
		smd_error_at_value(decoder->diagnostics, node,
			"must be a whole number from %d to %d, got %s", field->min, max, got);
		return;
	}
	if (place) {
		*place = (int)number;
	}
}

int smd_node_integer(const struct smd_node *node, int64_t *out)
{
	char *end;

	if (node->type == SMD_NODE_INTEGER) {
		*out = node->number.integer;
		return 0;
	}
	if (node->type == SMD_NODE_REAL && fabs(node->number.real) <= EXACT_MAX &&
		node->number.real == trunc(node->number.real)) {
		*out = (int64_t)node->number.real; /* 1.0, 1e3 */
		return 0;
	}
	if (node->type != SMD_NODE_STRING || !strchr("-" DIGITS, node->string[0])) {
		return -EINVAL;
	}
	errno = 0;
	*out = strtoll(node->string, &end, 10);
	return errno || end == node->string || *end ? -EINVAL : 0;
}

/* "604800s", "3.5s". */
static int parse_duration(const char *text, int64_t *out)
{
	size_t whole = strspn(text, DIGITS);
	const char *rest = text + whole;
	char seconds[20];
	uint64_t number;
	size_t fraction = 0;
	int more = 0;

	if (whole == 0 || whole >= sizeof(seconds)) {
		return -EINVAL;
	}
	memcpy(seconds, text, whole);
	seconds[whole] = '\0';
	if (smd_parse_number(seconds, 0, INT_MAX, &number)) {
		return -EINVAL;
	}
	if (*rest == '.') {
		fraction = strspn(++rest, DIGITS);
		more = strspn(rest, "0") < fraction;
		if (fraction == 0 || fraction > 9) {
			return -EINVAL;
		}
	}
	if (strcmp(rest + fraction, "s") != 0) {
		return -EINVAL;
	}
	*out = (int64_t)number + more;
	return 0;
}

void smd_decode_duration(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	int64_t *place = place_of(field, base);
	char got[SMD_NODE_TEXT_MAX];
	int64_t seconds;

	if (node->type != SMD_NODE_STRING || parse_duration(node->string, &seconds)) {
		int64_t number;
		char hint[32] = "";

		if (!smd_node_integer(node, &number) && number >= 0) {
			snprintf(hint, sizeof(hint), "; write \"%" PRId64 "s\"", number);
		}
		smd_node_describe(node, got);
		smd_error_at_value(decoder->diagnostics, node,
			"must be a duration in seconds such as \"3600s\", got %s%s", got, hint);
	} else if (place) {
		*place = seconds;
	}
}

int smd_decode_list(
	struct smd_decoder *decoder, const struct smd_field *field, const struct smd_node *node)
{
	const char *space = field->noun ? " " : "";
	const char *noun = field->noun ? field->noun : "";
	size_t max = field->max ? (size_t)field->max : node->count;

	if (!smd_decode_expects(decoder, node, SMD_NODE_ARRAY)) {
		return 0;
	}
	if (node->count >= (size_t)field->min && node->count <= max) {
		return 1;
	}
	if (field->min > 0 && field->max > 0) {
		smd_error_at_value(decoder->diagnostics, node, "must have %d to %d%s%s, got %zu",
			field->min, field->max, space, noun, node->count);
	} else {
		smd_error_at_value(decoder->diagnostics, node, "must have at %s %d%s%s, got %zu",
			field->min > 0 ? "least" : "most", field->min > 0 ? field->min : field->max,
			space, noun, node->count);
	}
	return 1;
}

void smd_decode_strings(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	char **list;

	if (!smd_decode_list(decoder, field, node)) {
		return;
	}
	list = begin_list(decoder, field, node, sizeof(*list), base);
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (!smd_decode_expects(decoder, child, SMD_NODE_STRING)) {
			continue;
		}
		check_form(decoder, field, child);
		if (list) {
			list[child->index] = copy(decoder, child->string);
		}
	}
}

void smd_decode_map(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_variable *list;

	if (!smd_decode_expects(decoder, node, SMD_NODE_OBJECT)) {
		return;
	}
	list = begin_list(decoder, field, node, sizeof(*list), base);
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (smd_decode_expects(decoder, child, SMD_NODE_STRING) && list) {
			list[child->index].name = copy(decoder, child->key);
			list[child->index].value = copy(decoder, child->string);
		}
	}
}

static const struct smd_field variable_rows[] = {
	SMD_FIELD("name", smd_decode_string, offsetof(struct smd_variable, name), .required = 1,
		.form = SMD_IDENTIFIER_FORM, .example = SMD_IDENTIFIER_RULE),
	SMD_FIELD("value", smd_decode_string, offsetof(struct smd_variable, value)),
};
const struct smd_message smd_variable_message = SMD_MESSAGE("EnvVar", variable_rows);

void smd_decode_variables(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_variable *list;
	char got[SMD_NODE_TEXT_MAX];

	if (node->type == SMD_NODE_OBJECT && node->first) {
		smd_error_at_value(decoder->diagnostics, node,
			"must be an array, got an object; write [{\"name\": \"%s\", "
			"\"value\": ...}, ...]",
			strlen(node->first->key) < SMD_NODE_TEXT_MAX ? node->first->key : "NAME");
		return;
	}
	if (!smd_decode_list(decoder, field, node)) {
		return;
	}
	list = begin_list(decoder, field, node, sizeof(*list), base);
	for (const struct smd_node *child = node->first; child; child = child->next) {
		const char *equals =
			child->type == SMD_NODE_STRING ? strchr(child->string, '=') : NULL;

		if (equals && equals - child->string < SMD_NODE_TEXT_MAX) {
			smd_node_describe(child, got);
			smd_error_at_value(decoder->diagnostics, child,
				"must be an object, got %s; write {\"name\": \"%.*s\", \"value\": "
				"...}",
				got, (int)(equals - child->string), child->string);
			continue;
		}
		smd_decode_message(
			decoder, &smd_variable_message, child, list ? &list[child->index] : NULL);
		if (list && !list[child->index].value) {
			list[child->index].value = copy(decoder, "");
		}
	}
}

void smd_decode_anything(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)decoder;
	(void)field;
	(void)node;
	(void)base;
}
