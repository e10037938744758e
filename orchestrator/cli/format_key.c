/* Reads the keys of a format, and finds their values. */
#include "orchestrator/cli/format_key.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/key_path.h"
#include "reduction_server/base/printable.h"

#define LABEL             ":label="
#define ELEMENT_DELIMITER ";"

/* Names with [N] or [] behind, dots between. */
static int is_path(const char *path)
{
	int names = 0;

	while (*path) {
		size_t length = strcspn(path, ".[]():\"'");

		if (length == 0 && (*path != '[' || names == 0)) {
			return 0;
		}
		path += length;
		names += length > 0;
		while (*path == '[') {
			path += 1 + strspn(path + 1, "0123456789");
			if (*path++ != ']') {
				return 0;
			}
		}
		if (*path == '.' && path[1]) {
			path++;
		} else if (*path) {
			return 0;
		}
	}
	return names > 0;
}

/* Whether a column before it has the label. */
static int is_taken(const struct smd_format_keys *keys, const char *label)
{
	for (size_t i = 0; i < keys->count; i++) {
		if (strcmp(keys->keys[i].label, label) == 0) {
			return 1;
		}
	}
	return 0;
}

/* Names in capitals, as gcloud heads a column: networkIP is NETWORK_IP, a.b is A_B. */
static void write_label(char *label, const char *names)
{
	for (const char *c = names; *c; c++) {
		if (*c == '[') {
			c += strcspn(c, "]");
			continue;
		}
		if (isupper((unsigned char)*c) && c > names && isalnum((unsigned char)c[-1]) &&
			!isupper((unsigned char)c[-1])) {
			*label++ = '_';
		}
		*label++ = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
	}
	*label = '\0';
}

/* The last name of a path, and as many before it as it takes to differ from other columns'. */
static char *default_label(const struct smd_format_keys *keys, const char *path)
{
	const char *name = path + strlen(path);
	char *label = malloc(2 * strlen(path) + 1);

	if (!label) {
		return NULL;
	}
	do {
		name -= name > path;
		while (name > path && name[-1] != '.') {
			name--;
		}
		write_label(label, name);
	} while (name > path && is_taken(keys, label));
	return label;
}

/* A label may stand in quotes, for a comma in it. */
static char *given_label(const char *text)
{
	size_t length = strlen(text);

	if (length >= 2 && (*text == '"' || *text == '\'') && text[length - 1] == *text) {
		return strndup(text + 1, length - 2);
	}
	return strdup(text);
}

static int add_key(struct smd_format_keys *keys, char *text, struct smd_error *error)
{
	char *label = strstr(text, LABEL);
	struct smd_format_key *key = &keys->keys[keys->count];
	char shown[64];

	snprintf(shown, sizeof(shown), "%s", text);
	smd_printable(shown);
	if (label) {
		*label = '\0';
	}
	key->path = text;
	if (smd_transform_take(&key->transform, text) || !is_path(text)) {
		return smd_error_set(error, EINVAL,
			"must have keys of names with dots between, which may end "
			"in " SMD_TRANSFORMS " and have " LABEL "TEXT behind them; \"%s\" is none",
			shown);
	}
	smd_key_path_respell(key->path);
	key->label = label ? given_label(label + strlen(LABEL)) : default_label(keys, key->path);
	if (!key->label) {
		return -ENOMEM;
	}
	smd_printable(key->label);
	keys->count++;
	return 0;
}

/* Ends the key that begins the text; what follows its comma, or NULL. */
static char *cut_key(char *text)
{
	const char *start = text;
	char quote = '\0';

	for (; *text; text++) {
		if (quote) {
			quote = *text == quote ? '\0' : quote;
		} else if ((*text == '"' || *text == '\'') && text > start && text[-1] == '=') {
			quote = *text;
		} else if (*text == ',') {
			*text = '\0';
			return text + 1;
		}
	}
	return NULL;
}

int smd_format_keys_parse(struct smd_format_keys *keys, const char *text, struct smd_error *error)
{
	size_t length = strlen(text);
	int ret = 0;

	if (length < 2 || text[length - 1] != ')') {
		return -EINVAL;
	}
	keys->text = strndup(text, length - 1);
	keys->keys = calloc(length, sizeof(*keys->keys));
	if (!keys->text || !keys->keys) {
		return -ENOMEM;
	}
	for (char *key = keys->text, *rest; key && !ret; key = rest) {
		key += strspn(key, " ");
		rest = cut_key(key);
		ret = add_key(keys, key, error);
	}
	return ret;
}

void smd_format_keys_destroy(struct smd_format_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++) {
		free(keys->keys[i].label);
	}
	free(keys->keys);
	free(keys->text);
}

static int write_scalar(const json_t *json, FILE *out)
{
	char *text;

	if (json_is_null(json)) {
		return 0;
	}
	if (json_is_boolean(json)) {
		fputs(json_is_true(json) ? "True" : "False", out);
		return 0;
	}
	if (json_is_string(json)) {
		fputs(json_string_value(json), out);
		return 0;
	}
	text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
	if (!text) {
		return -ENOMEM;
	}
	fputs(text, out);
	free(text);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **smd_sorted_names(const json_t *object)
{
	const char **names = calloc(json_object_size(object) + 1, sizeof(*names));
	size_t count = 0;
	const char *name;
	json_t *value;

	if (!names) {
		return NULL;
	}
	json_object_foreach ((json_t *)object, name, value) {
		names[count++] = name;
	}
	qsort(names, count, sizeof(*names), compare_names);
	return names;
}

static int write_object(const json_t *json, const char *delimiter, FILE *out)
{
	const char **names = smd_sorted_names(json);
	int ret = names ? 0 : -ENOMEM;

	for (const char **name = names; !ret && *name; name++) {
		fprintf(out, "%s%s=", name > names ? delimiter : "", *name);
		ret = write_scalar(json_object_get(json, *name), out);
	}
	free(names);
	return ret;
}

static int write_value(const json_t *json, const char *delimiter, FILE *out)
{
	size_t index;
	json_t *value;
	int ret = 0;

	if (delimiter && json_is_object(json)) {
		return write_object(json, delimiter, out);
	}
	if (!delimiter || !json_is_array(json)) {
		return write_scalar(json, out);
	}
	json_array_foreach (json, index, value) {
		fputs(index > 0 ? delimiter : "", out);
		ret = ret ? ret : write_scalar(value, out);
	}
	return ret;
}

static int write_path(const json_t *json, const char *path, const char *delimiter, FILE *out);

/* "[N]..." or "[]...": one element, or all with the delimiter between. */
static int write_elements(const json_t *json, const char *path, const char *delimiter, FILE *out)
{
	const char *end = strchr(path, ']') + 1;
	size_t index;
	json_t *value;
	int ret = 0;

	if (end == path + 2) {
		json_array_foreach (json, index, value) {
			if (index > 0) {
				fputs(delimiter ? delimiter : ELEMENT_DELIMITER, out);
			}
			ret = ret ? ret : write_path(value, end, delimiter, out);
		}
		return ret;
	}
	return write_path(json_array_get(json, strtoul(path + 1, NULL, 10)), end, delimiter, out);
}

static int write_path(const json_t *json, const char *path, const char *delimiter, FILE *out)
{
	char *name;
	size_t length;
	int ret;

	path += *path == '.';
	if (!json) {
		return 0;
	}
	if (!*path) {
		return write_value(json, delimiter, out);
	}
	if (*path == '[') {
		return write_elements(json, path, delimiter, out);
	}
	length = strcspn(path, ".[");
	name = strndup(path, length);
	if (!name) {
		return -ENOMEM;
	}
	ret = write_path(json_object_get(json, name), path + length, delimiter, out);
	free(name);
	return ret;
}

/* The text of what is no text of the row itself. */
static char *found_text(const json_t *row, const char *path, const char *delimiter)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int ret;

	if (!out) {
		return NULL;
	}
	ret = write_path(row, path, delimiter, out);
	if (fclose(out) || ret) {
		free(text);
		return NULL;
	}
	return text;
}

char *smd_format_key_text(
	const struct smd_format_key *key, const json_t *row, const char *delimiter)
{
	const char *own = json_string_value(json_object_get(row, key->path));
	char *text = own ? strdup(own) : found_text(row, key->path, delimiter);

	if (text) {
		smd_transform_apply(&key->transform, text);
	}
	return text;
}
