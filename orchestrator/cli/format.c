/* Reads a format and prints a resource by it. */
#include "orchestrator/cli/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/cells.h"
#include "orchestrator/cli/flattened_print.h"
#include "orchestrator/cli/projection.h"
#include "orchestrator/job/shown.h"

#define LIST_DELIMITER ";"

struct smd_format {
	enum smd_format_kind kind;
	struct smd_format_attributes attributes;
	struct smd_format_keys keys;
};

static const struct format_name {
	const char *name;
	enum smd_format_kind kind;
	int needs_keys;
} names[] = {
	{"json", SMD_FORMAT_JSON, 0},
	{"yaml", SMD_FORMAT_YAML, 0},
	{"default", SMD_FORMAT_YAML, 0},
	{"flattened", SMD_FORMAT_FLATTENED, 0},
	{"text", SMD_FORMAT_FLATTENED, 0},
	{"none", SMD_FORMAT_NONE, 0},
	{"disable", SMD_FORMAT_NONE, 0},
	{"csv", SMD_FORMAT_CSV, 1},
	{"get", SMD_FORMAT_GET, 1},
	{"table", SMD_FORMAT_TABLE, 1},
	{"value", SMD_FORMAT_VALUE, 1},
};

static const struct format_name *find_name(const char *text, size_t length)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i].name) == length && strncmp(names[i].name, text, length) == 0) {
			return &names[i];
		}
	}
	return NULL;
}

static void drop_transforms(struct smd_format_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++) {
		keys->keys[i].transform.kind = SMD_TRANSFORM_NONE;
	}
}

/* "NAME[ATTRIBUTE,...](KEY,...)" */
static int parse(struct smd_format *format, const char *text, struct smd_error *error)
{
	size_t length = strcspn(text, "[(");
	const struct format_name *name = find_name(text, length);
	int ret;

	if (!name) {
		return smd_error_set(error, EINVAL, "must be one of " SMD_FORMATS);
	}
	format->kind = name->kind;
	text += length;
	ret = smd_format_attributes_parse(
		&format->attributes, format->kind, name->name, &text, error);
	if (ret) {
		return ret;
	}
	if (*text == '(') {
		ret = smd_format_keys_parse(&format->keys, text + 1, error);
	} else if (*text || name->needs_keys) {
		ret = -EINVAL;
	}
	if (ret == -EINVAL) {
		return smd_error_set(error, EINVAL,
			"must have keys in parentheses, such as %s(displayName,state)", name->name);
	}
	if (format->attributes.no_transforms || format->kind == SMD_FORMAT_GET) {
		drop_transforms(&format->keys);
	}
	return ret;
}

int smd_format_parse(const char *text, struct smd_format **out, struct smd_error *error)
{
	struct smd_format *format = calloc(1, sizeof(*format));
	int ret = format ? parse(format, text ? text : "json", error) : -ENOMEM;

	if (ret) {
		smd_format_free(format);
		return ret == -EINVAL ? ret : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	*out = format;
	return 0;
}

void smd_format_free(struct smd_format *format)
{
	if (!format) {
		return;
	}
	smd_format_attributes_destroy(&format->attributes);
	smd_format_keys_destroy(&format->keys);
	free(format);
}

static int is_of_cells(const struct smd_format *format)
{
	return format->kind == SMD_FORMAT_TABLE || format->kind == SMD_FORMAT_CSV ||
	       format->kind == SMD_FORMAT_VALUE || format->kind == SMD_FORMAT_GET;
}

/* Between the items of a list. A table has lists as JSON. */
static const char *delimiter_of(const struct smd_format *format)
{
	if (format->kind == SMD_FORMAT_TABLE) {
		return NULL;
	}
	return format->attributes.delimiter ? format->attributes.delimiter : LIST_DELIMITER;
}

/* Prints the cells, as far as they could be made, and frees them. A heading alone says nothing.
 * 0 or -ENOMEM. */
static int finish_cells(const struct smd_format *format, char **texts, size_t rows, FILE *out)
{
	const struct smd_cells cells = {texts, rows, &format->keys};
	size_t count = rows * format->keys.count;
	size_t made = 0;
	int ret = 0;

	while (texts && made < count && texts[made]) {
		made++;
	}
	if (!texts || made < count) {
		ret = -ENOMEM;
	} else if (rows > 0 && format->kind == SMD_FORMAT_TABLE) {
		ret = smd_table_print(&cells, &format->attributes, out);
	} else if (rows > 0) {
		ret = smd_values_print(&cells, format->kind, &format->attributes, out);
	}
	for (size_t i = 0; i < made; i++) {
		free(texts[i]);
	}
	free(texts);
	return ret;
}

static const json_t *row_of(const json_t *json, size_t row)
{
	return json_is_array(json) ? json_array_get(json, row) : json;
}

static int print_cells(const struct smd_format *format, const json_t *json, FILE *out)
{
	size_t columns = format->keys.count;
	size_t rows = json_is_array(json) ? json_array_size(json) : 1;
	char **texts = calloc(rows * columns + 1, sizeof(*texts));

	for (size_t i = 0; texts && i < rows * columns; i++) {
		texts[i] = smd_format_key_text(&format->keys.keys[i % columns],
			row_of(json, i / columns), delimiter_of(format));
		if (!texts[i]) {
			break;
		}
	}
	return finish_cells(format, texts, rows, out);
}

int smd_format_print_texts(const struct smd_format *format, size_t rows, smd_format_text_fn *text,
	void *arg, FILE *out)
{
	size_t columns = format->keys.count;
	char **texts;

	if (!is_of_cells(format)) {
		return 0;
	}
	texts = calloc(rows * columns + 1, sizeof(*texts));
	for (size_t i = 0; texts && i < rows * columns; i++) {
		const struct smd_format_key *key = &format->keys.keys[i % columns];
		char buffer[SMD_FORMAT_TEXT_SIZE];
		const char *own = text(arg, i / columns, key->path, buffer);

		texts[i] = strdup(own ? own : "");
		if (!texts[i]) {
			break;
		}
		smd_transform_apply(&key->transform, texts[i]);
	}
	return finish_cells(format, texts, rows, out);
}

int smd_format_is_of_texts(const struct smd_format *format, int (*is_text)(const char *key))
{
	for (size_t i = 0; i < format->keys.count; i++) {
		if (!is_text(format->keys.keys[i].path)) {
			return 0;
		}
	}
	return is_of_cells(format) || format->kind == SMD_FORMAT_NONE;
}

int smd_format_is_within(const struct smd_format *format, const char *const *keys)
{
	for (size_t i = 0; i < format->keys.count; i++) {
		const char *path = format->keys.keys[i].path;
		size_t length = strcspn(path, ".[");
		const char *const *key = keys;

		while (*key && (strncmp(*key, path, length) != 0 || (*key)[length])) {
			key++;
		}
		if (!*key) {
			return 0;
		}
	}
	return format->keys.count > 0 || format->kind == SMD_FORMAT_NONE;
}

static int print_json(const json_t *json, FILE *out)
{
	char *text =
		smd_shown_json(json, JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_REAL_PRECISION(15));

	if (!text) {
		return -ENOMEM;
	}
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

/* As gcloud prints a list: a document for each. */
static int print_documents(const json_t *list, FILE *out)
{
	size_t index;
	json_t *value;
	int ret = 0;

	json_array_foreach (list, index, value) {
		fputs("---\n", out);
		ret = ret ? ret : smd_yaml_print(value, out);
	}
	return ret;
}

static int print_part(const struct smd_format *format, const json_t *json, FILE *out)
{
	switch (format->kind) {
	case SMD_FORMAT_JSON:
		return print_json(json, out);
	case SMD_FORMAT_YAML:
		return json_is_array(json) ? print_documents(json, out) : smd_yaml_print(json, out);
	case SMD_FORMAT_FLATTENED:
		return smd_flattened_print(json, &format->keys, &format->attributes, out);
	case SMD_FORMAT_NONE:
	case SMD_FORMAT_CSV:
	case SMD_FORMAT_GET:
	case SMD_FORMAT_TABLE:
	case SMD_FORMAT_VALUE:
		break;
	}
	return 0;
}

int smd_format_print(const struct smd_format *format, const json_t *json, FILE *out)
{
	json_t *part;
	int ret;

	if (is_of_cells(format)) {
		return print_cells(format, json, out);
	}
	if (format->keys.count == 0) {
		return print_part(format, json, out);
	}
	part = smd_project(json, &format->keys);
	ret = part ? print_part(format, part, out) : -ENOMEM;
	json_decref(part);
	return ret;
}
