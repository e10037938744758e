/* Prints a resource as lines of key and value. */
#include "orchestrator/cli/flattened_print.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

/* What is printed of one resource; first its widest key is sought. */
struct flattening {
	const struct smd_format_keys *keys;
	const struct smd_format_attributes *attributes;
	size_t width; /* of the widest key */
	FILE *out;    /* NULL: the width is sought */
};

static int flatten(struct flattening *flattening, const json_t *json, const char *name);

/* In small letters, the label of a key that is asked for; else its path. */
static char *shown_key(const struct flattening *flattening, const char *name)
{
	const char *text = name;
	char *key;

	for (size_t i = 0; i < flattening->keys->count; i++) {
		if (strcmp(flattening->keys->keys[i].path, name) == 0) {
			text = flattening->keys->keys[i].label;
		}
	}
	key = strdup(text);
	for (char *c = key; key && text != name && *c; c++) {
		*c = (char)tolower((unsigned char)*c);
	}
	return key;
}

/* The value in one line: in quotes if it would not stay what it is. */
static void print_text(const char *text, FILE *out)
{
	size_t length = strlen(text);

	if (length == 0 || (!strpbrk(text, "\r\n") && !isspace((unsigned char)*text) &&
				   !isspace((unsigned char)text[length - 1]))) {
		fputs(text, out);
		return;
	}
	putc('"', out);
	for (; *text; text++) {
		if (*text == '\n' || *text == '\r' || *text == '\t') {
			fprintf(out, "\\%c", *text == '\n' ? 'n' : *text == '\r' ? 'r' : 't');
		} else {
			fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
		}
	}
	putc('"', out);
}

static char *text_of(const json_t *json)
{
	if (json_is_string(json)) {
		return strdup(json_string_value(json));
	}
	if (json_is_boolean(json)) {
		return strdup(json_is_true(json) ? "True" : "False");
	}
	return json_is_null(json)
		       ? strdup("None")
		       : json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
}

static int print_scalar(struct flattening *flattening, const json_t *json, const char *name)
{
	const char *separator = flattening->attributes->separator;
	char *key = shown_key(flattening, name);
	char *text = text_of(json);
	size_t width = key ? strlen(key) : 0;

	if (key && text && !flattening->out) {
		flattening->width = width > flattening->width ? width : flattening->width;
	} else if (key && text) {
		fprintf(flattening->out, "%s%s%*s", key, separator ? separator : ": ",
			flattening->attributes->no_pad ? 0 : (int)(flattening->width - width), "");
		print_text(text, flattening->out);
		putc('\n', flattening->out);
	}
	free(key);
	free(text);
	return key && text ? 0 : -ENOMEM;
}

static int flatten_array(struct flattening *flattening, const json_t *json, const char *name)
{
	size_t index;
	json_t *value;
	int ret = 0;

	json_array_foreach (json, index, value) {
		char *inner;

		if (asprintf(&inner, "%s[%zu]", name, index) < 0) {
			return -ENOMEM;
		}
		ret = ret ? ret : flatten(flattening, value, inner);
		free(inner);
	}
	return ret;
}

/* By name, as gcloud has them. */
static int flatten_object(struct flattening *flattening, const json_t *json, const char *name)
{
	const char **names = smd_sorted_names(json);
	int ret = names ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && names[i]; i++) {
		char *inner;

		if (asprintf(&inner, "%s%s%s", name, *name ? "." : "", names[i]) < 0) {
			ret = -ENOMEM;
			break;
		}
		ret = flatten(flattening, json_object_get(json, names[i]), inner);
		free(inner);
	}
	free(names);
	return ret;
}

static int flatten(struct flattening *flattening, const json_t *json, const char *name)
{
	if (json_is_array(json) && json_array_size(json) > 0) {
		return flatten_array(flattening, json, name);
	}
	if (json_is_object(json) && json_object_size(json) > 0) {
		return flatten_object(flattening, json, name);
	}
	return print_scalar(flattening, json, name);
}

static int print_one(struct flattening flattening, const json_t *json, FILE *out)
{
	char *text = NULL;
	size_t length;
	FILE *file;
	int ret;

	if (json_is_null(json) || (json_is_object(json) && json_object_size(json) == 0)) {
		return 0;
	}
	ret = flatten(&flattening, json, "");
	file = ret ? NULL : open_memstream(&text, &length);
	if (!file) {
		return -ENOMEM;
	}
	flattening.out = file;
	ret = flatten(&flattening, json, "");
	if (fclose(file) || ret) {
		free(text);
		return -ENOMEM;
	}
	smd_printable_lines(text);
	fputs(text, out);
	free(text);
	return 0;
}

int smd_flattened_print(const json_t *json, const struct smd_format_keys *keys,
	const struct smd_format_attributes *attributes, FILE *out)
{
	const struct flattening flattening = {.keys = keys, .attributes = attributes};
	size_t index;
	json_t *resource;
	int ret = 0;

	if (!json_is_array(json)) {
		return print_one(flattening, json, out);
	}
	json_array_foreach (json, index, resource) {
		fputs("---\n", out);
		ret = ret ? ret : print_one(flattening, resource, out);
	}
	return ret;
}
