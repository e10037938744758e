/* Prints cells as a table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/cells.h"
#include "reduction_server/base/printable.h"

#define GAP_WIDTH 2

/* A line break in a cell would end the line. */
static void make_line(char *text)
{
	for (char *c = text; *c; c++) {
		*c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
	}
	smd_printable(text);
}

static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++) {
		width += ((unsigned char)*text & 0xC0) != 0x80;
	}
	return width;
}

static void repeat(char c, size_t count, FILE *out)
{
	while (count-- > 0) {
		putc_unlocked(c, out);
	}
}

static const char *cell_of(const struct smd_cells *cells, size_t row, size_t column)
{
	return cells->texts[row * cells->columns->count + column];
}

static size_t column_width(const struct smd_cells *cells, size_t column, int has_heading)
{
	size_t most = has_heading ? width_of(cells->columns->keys[column].label) : 0;

	for (size_t row = 0; row < cells->rows; row++) {
		size_t width = width_of(cell_of(cells, row, column));

		most = width > most ? width : most;
	}
	return most;
}

static void print_rule(const size_t *widths, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		putc_unlocked('+', out);
		repeat('-', widths[i] + 2, out);
	}
	fputs("+\n", out);
}

static void print_cell(const char *text, size_t width, int is_last, int has_box, FILE *out)
{
	fputs(has_box ? "| " : "", out);
	fputs(text, out);
	if (has_box || !is_last) {
		repeat(' ', width - width_of(text) + (has_box ? 1 : GAP_WIDTH), out);
	}
	if (is_last) {
		fputs(has_box ? "|\n" : "\n", out);
	}
}

static void print_heading(
	const struct smd_cells *cells, const size_t *widths, int has_box, FILE *out)
{
	size_t count = cells->columns->count;

	for (size_t i = 0; i < count; i++) {
		print_cell(cells->columns->keys[i].label, widths[i], i + 1 == count, has_box, out);
	}
	if (has_box) {
		print_rule(widths, count, out);
	}
}

int smd_table_print(
	const struct smd_cells *cells, const struct smd_format_attributes *attributes, FILE *out)
{
	size_t count = cells->columns->count;
	size_t *widths = calloc(count, sizeof(*widths));

	if (!widths) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < cells->rows * count; i++) {
		make_line(cells->texts[i]);
	}
	for (size_t i = 0; i < count; i++) {
		widths[i] = column_width(cells, i, !attributes->no_heading);
	}
	if (attributes->box) {
		print_rule(widths, count, out);
	}
	if (!attributes->no_heading) {
		print_heading(cells, widths, attributes->box, out);
	}
	for (size_t i = 0; i < cells->rows * count; i++) {
		print_cell(cells->texts[i], widths[i % count], i % count + 1 == count,
			attributes->box, out);
	}
	if (attributes->box) {
		print_rule(widths, count, out);
	}
	free(widths);
	return 0;
}
