/* Prints a resource by its format. */
#include "orchestrator/cli/format.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/key_path.h"
#include "orchestrator/job/shown.h"
#include "reduction_server/base/printable.h"

#define LABEL     ":label="
#define GAP_WIDTH 2

enum format_kind { FORMAT_JSON, FORMAT_YAML, FORMAT_TABLE, FORMAT_VALUE };

/* What is done to a value before it is printed; gcloud's names. */
enum transform { TRANSFORM_NONE, TRANSFORM_BASENAME, TRANSFORM_DATE };

struct table_column {
	char *path;
	char *label;
	enum transform transform;
	size_t width; /* in a table */
};

struct smd_format {
	enum format_kind kind;
	struct table_column *columns;
	size_t count;
	char *text; /* holds paths and labels */
};

/* Names with [N] or [] behind, dots between. */
static int is_path(const char *path)
{
	int names = 0;

	while (*path) {
		size_t length = strcspn(path, ".[]()");

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

/* The last name of a path in capitals, as gcloud heads a column: displayName is DISPLAY_NAME. */
static void set_label(struct table_column *column)
{
	const char *dot = strrchr(column->path, '.');
	const char *name = dot ? dot + 1 : column->path;
	size_t used = 0;

	column->label = calloc(1, 2 * strlen(name) + 1);
	for (const char *c = name; column->label && *c && *c != '['; c++) {
		if (isupper((unsigned char)*c) && c > name && islower((unsigned char)c[-1])) {
			column->label[used++] = '_';
		}
		column->label[used++] = (char)toupper((unsigned char)*c);
	}
}

/* Cuts ".basename()" or ".date()" from the end of a path. */
static void take_transform(struct table_column *column)
{
	static const struct {
		const char *text;
		enum transform transform;
	} transforms[] = {{".basename()", TRANSFORM_BASENAME}, {".date()", TRANSFORM_DATE}};
	size_t length = strlen(column->path);

	for (size_t i = 0; i < sizeof(transforms) / sizeof(transforms[0]); i++) {
		size_t size = strlen(transforms[i].text);

		if (length > size &&
			strcmp(column->path + length - size, transforms[i].text) == 0) {
			column->path[length - size] = '\0';
			column->transform = transforms[i].transform;
			return;
		}
	}
}

static int add_column(struct smd_format *format, char *text)
{
	char *label = strstr(text, LABEL);
	struct table_column *column = &format->columns[format->count];

	if (label) {
		*label = '\0';
	}
	column->path = text;
	take_transform(column);
	smd_key_path_respell(column->path);
	if (label) {
		column->label = strdup(label + sizeof(LABEL) - 1);
	} else {
		set_label(column);
	}
	format->count++;
	if (!column->label) {
		return -ENOMEM;
	}
	smd_printable(column->label);
	return is_path(text) ? 0 : -EINVAL;
}

/* "KEY,KEY)" */
static int add_columns(struct smd_format *format, const char *text)
{
	size_t length = strlen(text);
	char *rest;
	char *key;
	int ret = 0;

	if (length < 2 || text[length - 1] != ')') {
		return -EINVAL;
	}
	format->text = strndup(text, length - 1);
	format->columns = calloc(length, sizeof(*format->columns));
	if (!format->text || !format->columns) {
		return -ENOMEM;
	}
	rest = format->text;
	while (!ret && (key = strsep(&rest, ","))) {
		key += strspn(key, " ");
		ret = add_column(format, key);
	}
	return ret;
}

static int parse(struct smd_format *format, const char *text)
{
	static const char table[] = "table(";
	static const char value[] = "value(";

	if (!text || strcmp(text, "json") == 0) {
		format->kind = FORMAT_JSON;
		return 0;
	}
	if (strcmp(text, "yaml") == 0) {
		format->kind = FORMAT_YAML;
		return 0;
	}
	if (strncmp(text, table, sizeof(table) - 1) == 0) {
		format->kind = FORMAT_TABLE;
		return add_columns(format, text + sizeof(table) - 1);
	}
	if (strncmp(text, value, sizeof(value) - 1) == 0) {
		format->kind = FORMAT_VALUE;
		return add_columns(format, text + sizeof(value) - 1);
	}
	return -EINVAL;
}

int smd_format_parse(const char *text, struct smd_format **out, struct smd_error *error)
{
	struct smd_format *format = calloc(1, sizeof(*format));
	int ret = format ? parse(format, text) : -ENOMEM;

	if (ret) {
		smd_format_free(format);
		return ret == -EINVAL ? smd_error_set(error, EINVAL, "must be " SMD_FORMAT_METAVAR)
				      : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	*out = format;
	return 0;
}

void smd_format_free(struct smd_format *format)
{
	if (!format) {
		return;
	}
	for (size_t i = 0; i < format->count; i++) {
		free(format->columns[i].label);
	}
	free(format->columns);
	free(format->text);
	free(format);
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

static int write_path(const json_t *json, const char *path, FILE *out);

/* "[N]..." or "[]...": one element, or all with semicolons between. */
static int write_elements(const json_t *json, const char *path, FILE *out)
{
	const char *end = strchr(path, ']') + 1;
	size_t index;
	json_t *value;
	int ret = 0;

	if (end == path + 2) {
		json_array_foreach (json, index, value) {
			if (index > 0) {
				fputc(';', out);
			}
			ret = ret ? ret : write_path(value, end, out);
		}
		return ret;
	}
	return write_path(json_array_get(json, strtoul(path + 1, NULL, 10)), end, out);
}

static int write_path(const json_t *json, const char *path, FILE *out)
{
	char *name;
	size_t length;
	int ret;

	path += *path == '.';
	if (!json) {
		return 0;
	}
	if (!*path) {
		return write_scalar(json, out);
	}
	if (*path == '[') {
		return write_elements(json, path, out);
	}
	length = strcspn(path, ".[");
	name = strndup(path, length);
	if (!name) {
		return -ENOMEM;
	}
	ret = write_path(json_object_get(json, name), path + length, out);
	free(name);
	return ret;
}

/* A resource name's last part; a time's seconds. */
static void transform(char *text, enum transform transform)
{
	char *slash = strrchr(text, '/');
	char *point = strchr(text, '.');

	if (transform == TRANSFORM_BASENAME && slash) {
		memmove(text, slash + 1, strlen(slash));
	} else if (transform == TRANSFORM_DATE && point) {
		*point = '\0';
	}
}

/* The text of what is no text. */
static char *write_cell(const json_t *row, const char *path)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int ret;

	if (!out) {
		return NULL;
	}
	ret = write_path(row, path, out);
	if (fclose(out) || ret) {
		free(text);
		return NULL;
	}
	return text;
}

/* The text of a cell as it is printed: a line break in it would end the line. */
static char *finish_cell(char *text, const struct table_column *column)
{
	if (!text) {
		return NULL;
	}
	transform(text, column->transform);
	for (char *c = text; *c; c++) {
		*c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
	}
	smd_printable(text);
	return text;
}

/* For the caller to free. Most are texts of the row itself. */
static char *cell_of(const json_t *row, const struct table_column *column)
{
	const char *own = json_string_value(json_object_get(row, column->path));

	return finish_cell(own ? strdup(own) : write_cell(row, column->path), column);
}

static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++) {
		width += ((unsigned char)*text & 0xC0) != 0x80;
	}
	return width;
}

static void print_cell(const char *text, size_t width, int is_last, FILE *out)
{
	fputs(text, out);
	if (is_last) {
		fputc('\n', out);
		return;
	}
	for (size_t at = width_of(text); at < width + GAP_WIDTH; at++) {
		putc_unlocked(' ', out);
	}
}

static const json_t *row_of(const json_t *json, size_t row)
{
	return json_is_array(json) ? json_array_get(json, row) : json;
}

/* The column's cells are `step` apart. */
static void set_width(struct table_column *column, char *const *cells, size_t rows, size_t step)
{
	column->width = width_of(column->label);
	for (size_t row = 0; row < rows; row++) {
		size_t width = width_of(cells[row * step]);

		column->width = width > column->width ? width : column->width;
	}
}

static void print_cells(const struct smd_format *format, char *const *cells, size_t rows, FILE *out)
{
	size_t count = format->count;

	if (format->kind == FORMAT_VALUE) {
		for (size_t i = 0; i < rows * count; i++) {
			fprintf(out, "%s%c", cells[i], i % count + 1 < count ? '\t' : '\n');
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		set_width(&format->columns[i], cells + i, rows, count);
	}
	for (size_t row = 0; row <= rows; row++) {
		for (size_t i = 0; i < count; i++) {
			print_cell(
				row == 0 ? format->columns[i].label : cells[(row - 1) * count + i],
				format->columns[i].width, i + 1 == count, out);
		}
	}
}

/* Prints the cells, as far as they could be made, and frees them. 0 or -ENOMEM. */
static int finish_cells(const struct smd_format *format, char **cells, size_t rows, FILE *out)
{
	size_t count = rows * format->count;
	size_t made = 0;

	while (cells && made < count && cells[made]) {
		made++;
	}
	if (cells && made == count) {
		print_cells(format, cells, rows, out);
	}
	for (size_t i = 0; i < made; i++) {
		free(cells[i]);
	}
	free(cells);
	return cells && made == count ? 0 : -ENOMEM;
}

static int print_columns(const struct smd_format *format, const json_t *json, FILE *out)
{
	size_t rows = json_is_array(json) ? json_array_size(json) : 1;
	size_t count = rows * format->count;
	char **cells = calloc(count + 1, sizeof(*cells));

	for (size_t i = 0; cells && i < count; i++) {
		cells[i] = cell_of(
			row_of(json, i / format->count), &format->columns[i % format->count]);
		if (!cells[i]) {
			break;
		}
	}
	return finish_cells(format, cells, rows, out);
}

int smd_format_print_texts(const struct smd_format *format, size_t rows, smd_format_text_fn *text,
	void *arg, FILE *out)
{
	size_t count = rows * format->count;
	char **cells = calloc(count + 1, sizeof(*cells));

	for (size_t i = 0; cells && i < count; i++) {
		const struct table_column *column = &format->columns[i % format->count];
		char buffer[SMD_FORMAT_TEXT_SIZE];
		const char *own = text(arg, i / format->count, column->path, buffer);

		cells[i] = finish_cell(strdup(own ? own : ""), column);
		if (!cells[i]) {
			break;
		}
	}
	return finish_cells(format, cells, rows, out);
}

int smd_format_is_of_texts(const struct smd_format *format, int (*is_text)(const char *key))
{
	for (size_t i = 0; i < format->count; i++) {
		if (!is_text(format->columns[i].path)) {
			return 0;
		}
	}
	return format->kind == FORMAT_TABLE || format->kind == FORMAT_VALUE;
}

int smd_format_is_within(const struct smd_format *format, const char *const *keys)
{
	for (size_t i = 0; i < format->count; i++) {
		size_t length = strcspn(format->columns[i].path, ".[");
		const char *const *key = keys;

		while (*key &&
			(strncmp(*key, format->columns[i].path, length) != 0 || (*key)[length])) {
			key++;
		}
		if (!*key) {
			return 0;
		}
	}
	return format->kind == FORMAT_TABLE || format->kind == FORMAT_VALUE;
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

int smd_format_print(const struct smd_format *format, const json_t *json, FILE *out)
{
	char *text;

	switch (format->kind) {
	case FORMAT_JSON:
		text = smd_shown_json(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		if (!text) {
			return -ENOMEM;
		}
		fprintf(out, "%s\n", text);
		free(text);
		return 0;
	case FORMAT_YAML:
		return json_is_array(json) ? print_documents(json, out) : smd_yaml_print(json, out);
	case FORMAT_TABLE:
	case FORMAT_VALUE:
		break;
	}
	return print_columns(format, json, out);
}
