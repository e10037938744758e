/* Writes the page of a command from its table of options. */
#include "reduction_server/base/help_page.h"

#include <string.h>
#include <sys/ioctl.h>

#define WIDTH_DEFAULT 80
#define WIDTH_MIN     40
#define WIDTH_MAX     100 /* longer lines are hard to read */
#define LEFT_WIDTH    28
#define LEFT_INDENT   2
#define NAME_SIZE     128
#define BLANKS        " \n"

/* Words on their way into lines. */
struct flow {
	FILE *out;
	int width;
	int indent; /* of every line but the first */
	int column;
};

int smd_help_width(FILE *file)
{
	struct winsize size = {.ws_col = 0};

	if (ioctl(fileno(file), TIOCGWINSZ, &size) || size.ws_col == 0) {
		return WIDTH_DEFAULT;
	}
	return size.ws_col < WIDTH_MIN   ? WIDTH_MIN
	       : size.ws_col > WIDTH_MAX ? WIDTH_MAX
					 : size.ws_col;
}

static void put_word(struct flow *flow, const char *word, int length)
{
	if (flow->column > flow->indent && flow->column + 1 + length > flow->width) {
		fprintf(flow->out, "\n%*s", flow->indent, "");
		flow->column = flow->indent;
	} else if (flow->column > flow->indent) {
		fputc(' ', flow->out);
		flow->column++;
	}
	fprintf(flow->out, "%.*s", length, word);
	flow->column += length;
}

static void put_words(struct flow *flow, const char *text, const char *end)
{
	while (text < end) {
		size_t length = strcspn(text, BLANKS);

		if (text + length > end) {
			length = (size_t)(end - text);
		}
		if (length > 0) {
			put_word(flow, text, (int)length);
		}
		text += length + 1;
	}
}

/* What is behind the line. */
static const char *end_of_line(const char *text)
{
	text += strcspn(text, "\n");
	return text + (*text == '\n');
}

void smd_help_text(FILE *out, int width, const char *text)
{
	while (*text) {
		struct flow flow = {.out = out, .width = width};
		const char *end = end_of_line(text);

		if (*text == ' ' || *text == '\n') {
			fprintf(out, "%.*s", (int)strcspn(text, "\n"), text);
		} else {
			while (*end && *end != '\n' && *end != ' ') {
				end = end_of_line(end);
			}
			put_words(&flow, text, end);
		}
		fputc('\n', out);
		text = end;
	}
}

void smd_help_row(FILE *out, int width, int left, const char *name, const char *text)
{
	struct flow flow = {.out = out, .width = width, .indent = LEFT_INDENT + left + 1};

	fprintf(out, "%*s%s", LEFT_INDENT, "", name);
	flow.column = LEFT_INDENT + (int)strlen(name);
	if (flow.column >= flow.indent) {
		fputc('\n', out);
		flow.column = 0;
	}
	fprintf(out, "%*s", flow.indent - flow.column, "");
	flow.column = flow.indent;
	put_words(&flow, text, text + strlen(text));
	fputc('\n', out);
}

/* The column is narrower where the terminal is. */
static int left_width(int width)
{
	return LEFT_WIDTH < width * 2 / 5 ? LEFT_WIDTH : width * 2 / 5;
}

static void write_name(const struct smd_option *option, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "--%s%s%s", option->name, option->metavar ? "=" : "",
		option->metavar ? option->metavar : "");
}

/* Rows without help, of which their group says all: one after the other. Returns the next row. */
static size_t write_names(FILE *out, int width, const struct smd_command *command, size_t row)
{
	struct flow flow = {.out = out, .width = width, .indent = LEFT_INDENT};
	char name[NAME_SIZE];

	fprintf(out, "%*s", LEFT_INDENT, "");
	flow.column = LEFT_INDENT;
	while (row < command->noptions && command->options[row].name &&
		!command->options[row].help) {
		write_name(&command->options[row++], name);
		put_word(&flow, name, (int)strlen(name));
	}
	fputc('\n', out);
	return row;
}

static void write_options(FILE *out, int width, const struct smd_command *command)
{
	size_t count = command->noptions - command->nelsewhere;
	char name[NAME_SIZE];

	if (count > 0 && command->options[0].name) {
		fputs("\nOptions:\n", out);
	}
	for (size_t i = 0; i < count;) {
		const struct smd_option *option = &command->options[i];

		if (!option->name) {
			fprintf(out, "\n%s:\n", option->help);
			i++;
		} else if (!option->help) {
			i = write_names(out, width, command, i);
		} else {
			write_name(option, name);
			smd_help_row(out, width, left_width(width), name, option->help);
			i++;
		}
	}
}

static void write_paragraph(FILE *out, int width, const char *text)
{
	if (text) {
		fputc('\n', out);
		smd_help_text(out, width, text);
	}
}

void smd_help_page(FILE *out, int width, const struct smd_command *command)
{
	struct flow usage = {.out = out, .width = width, .indent = (int)sizeof("Usage: ") - 1};

	fputs("Usage: ", out);
	usage.column = usage.indent;
	put_words(&usage, command->synopsis, command->synopsis + strlen(command->synopsis));
	fputc('\n', out);
	write_paragraph(out, width, command->summary);
	write_options(out, width, command);
	if (!command->is_topic) {
		fputs(command->noptions ? "\n" : "\nOptions:\n", out);
		smd_help_row(out, width, left_width(width), "--help", "print this page");
	}
	write_paragraph(out, width, command->elsewhere);
	write_paragraph(out, width, command->epilog);
	write_paragraph(out, width, command->exits);
}
