/* Prints cells as records: CSV (RFC 4180), or values with tabs between. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/cells.h"
#include "reduction_server/base/printable.h"

struct record_form {
	const char *separator;
	const char *terminator;
	int is_csv;
	int quotes;
};

static int needs_quotes(const char *text, const struct record_form *form)
{
	size_t length = strlen(text);

	return length > 0 &&
	       (strpbrk(text, "\"\r\n") || (*form->separator && strstr(text, form->separator)) ||
		       (*form->terminator && strstr(text, form->terminator)) ||
		       isspace((unsigned char)*text) || isspace((unsigned char)text[length - 1]));
}

static void print_quoted(const char *text, FILE *out)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"') {
			putc('"', out);
		}
		putc(*text, out);
	}
	putc('"', out);
}

static void print_field(const char *text, int is_last, const struct record_form *form, FILE *out)
{
	if (form->quotes && needs_quotes(text, form)) {
		print_quoted(text, out);
	} else {
		fputs(text, out);
	}
	fputs(is_last ? form->terminator : form->separator, out);
}

/* In quotes a line may end; else it would end the record. */
static void make_field(char *text, const struct record_form *form)
{
	if (form->quotes) {
		smd_printable_lines(text);
		return;
	}
	for (char *c = text; *c; c++) {
		*c = *c == '\n' || *c == '\r' || (!form->is_csv && *c == '\t') ? ' ' : *c;
	}
	smd_printable(text);
}

/* gcloud heads CSV in small letters. */
static int print_heading(
	const struct smd_format_keys *columns, const struct record_form *form, FILE *out)
{
	for (size_t i = 0; i < columns->count; i++) {
		char *label = strdup(columns->keys[i].label);

		if (!label) {
			return -ENOMEM;
		}
		for (char *c = label; *c; c++) {
			*c = (char)tolower((unsigned char)*c);
		}
		print_field(label, i + 1 == columns->count, form, out);
		free(label);
	}
	return 0;
}

int smd_values_print(const struct smd_cells *cells, enum smd_format_kind kind,
	const struct smd_format_attributes *attributes, FILE *out)
{
	int is_csv = kind == SMD_FORMAT_CSV;
	const struct record_form form = {
		.separator = attributes->separator ? attributes->separator
			     : is_csv              ? ","
						   : "\t",
		.terminator = attributes->terminator ? attributes->terminator : "\n",
		.is_csv = is_csv,
		.quotes = is_csv ? !attributes->no_quote : attributes->quote,
	};
	size_t count = cells->columns->count;

	if (is_csv && !attributes->no_heading && print_heading(cells->columns, &form, out)) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < cells->rows * count; i++) {
		make_field(cells->texts[i], &form);
		print_field(cells->texts[i], i % count + 1 == count, &form, out);
	}
	return 0;
}
