/* Expands the expressions of a command. */
#include "orchestrator/frontend/azureml/azure_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/options.h"

#define NAMES_MAX       64
#define NAME_SIZE       128
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* Where outputs without a path go. */
#define OUTPUT_DIR "$SUMMAND_OUTPUT_DIR/"

struct command_expansion {
	const struct smd_azure_command *command;
	struct smd_decoder *decoder;
	const struct smd_node *line;
	FILE *out;
	int optional; /* within $[[...]]: a value that is not there drops the part */
	int dropped;
};

char *smd_azure_path(const char *directory, const char *path)
{
	static const char *const prefixes[] = {"azureml:", "/"};
	char *here;
	char *full = NULL;
	int is_whole = strstr(path, "://") != NULL;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		is_whole = is_whole || strncmp(path, prefixes[i], strlen(prefixes[i])) == 0;
	}
	if (is_whole) {
		return strdup(path);
	}
	path += strncmp(path, "./", 2) == 0 ? 2 : 0;
	here = directory[0] == '/' ? strdup("") : getcwd(NULL, 0);
	if (!here || asprintf(&full, "%s%s%s/%s", here, *here ? "/" : "", directory, path) < 0) {
		full = NULL;
	}
	free(here);
	return full;
}

static void refuse_name(struct command_expansion *expansion, const struct smd_node *map,
	const char *kind, const char *name)
{
	const char *names[NAMES_MAX];
	const char *near;
	size_t n = 0;

	for (const struct smd_node *node = map ? map->first : NULL; node && n < NAMES_MAX;
		node = node->next) {
		names[n++] = node->key;
	}
	near = smd_suggest(name, names, n);
	smd_error_at_value(expansion->decoder->diagnostics, expansion->line,
		"must use %s that there are, got ${{%s.%s}}%s%s%s", kind, kind, name,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static const struct smd_node *find(const struct smd_node *map, const char *name)
{
	for (const struct smd_node *node = map ? map->first : NULL; node; node = node->next) {
		if (strcmp(node->key, name) == 0) {
			return node;
		}
	}
	return NULL;
}

static void write_path(struct command_expansion *expansion, const char *path)
{
	char *full = smd_azure_path(expansion->command->directory, path);

	if (!full) {
		expansion->decoder->ret = -ENOMEM;
		return;
	}
	fputs(full, expansion->out);
	free(full);
}

static void write_literal(struct command_expansion *expansion, const struct smd_node *value)
{
	char text[SMD_NODE_TEXT_MAX];

	switch (value->type) {
	case SMD_NODE_STRING:
		fputs(value->string, expansion->out);
		break;
	case SMD_NODE_BOOLEAN:
		fputs(value->number.boolean ? "True" : "False", expansion->out);
		break;
	case SMD_NODE_INTEGER:
	case SMD_NODE_REAL:
		smd_node_value_text(value, text);
		fputs(text, expansion->out);
		break;
	case SMD_NODE_NULL:
	case SMD_NODE_ARRAY:
	case SMD_NODE_OBJECT:
		break;
	}
}

/* A literal, or an object that describes the input: its path, else its default, is the value. */
static void expand_input(struct command_expansion *expansion, const char *name)
{
	const struct smd_node *input = find(expansion->command->inputs, name);
	const struct smd_node *path = input ? smd_node_member(input, "path") : NULL;
	const struct smd_node *literal = input;

	if (input && input->type == SMD_NODE_OBJECT) {
		literal = smd_node_member(input, "default");
	}
	if (!input) {
		refuse_name(expansion, expansion->command->inputs, "inputs", name);
	} else if (path && path->type == SMD_NODE_STRING) {
		write_path(expansion, path->string);
	} else if (literal && literal->type != SMD_NODE_NULL) {
		write_literal(expansion, literal);
	} else if (expansion->optional) {
		expansion->dropped = 1;
	} else {
		smd_error_at_value(expansion->decoder->diagnostics, expansion->line,
			"must have a value for ${{inputs.%s}}, a path or default of /inputs/%s; or "
			"have it within $[[...]], which is left out where there is none",
			name, name);
	}
}

static void expand_output(struct command_expansion *expansion, const char *name)
{
	const struct smd_node *value = find(expansion->command->outputs, name);
	const struct smd_node *path = value ? smd_node_member(value, "path") : NULL;

	if (!value) {
		refuse_name(expansion, expansion->command->outputs, "outputs", name);
	} else if (path && path->type == SMD_NODE_STRING) {
		write_path(expansion, path->string);
	} else {
		fprintf(expansion->out, "%s%s", OUTPUT_DIR, name);
	}
}

/* "inputs.x" without white space around it. */
static void expand_name(struct command_expansion *expansion, const char *text, size_t length)
{
	static const char inputs[] = "inputs.";
	static const char outputs[] = "outputs.";
	char name[NAME_SIZE];

	while (length > 0 && text[0] == ' ') {
		text++;
		length--;
	}
	while (length > 0 && text[length - 1] == ' ') {
		length--;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(length < NAME_SIZE ? length : NAME_SIZE - 1),
		text);
	if (strncmp(name, inputs, sizeof(inputs) - 1) == 0) {
		expand_input(expansion, name + sizeof(inputs) - 1);
	} else if (strncmp(name, outputs, sizeof(outputs) - 1) == 0) {
		expand_output(expansion, name + sizeof(outputs) - 1);
	} else {
		smd_error_at_value(expansion->decoder->diagnostics, expansion->line,
			"must have ${{inputs.NAME}} and ${{outputs.NAME}} only, got ${{%s}}", name);
	}
}

static void expand_text(struct command_expansion *expansion, const char *text, const char *end);

/* $[[...]] at text; what is behind it. */
static const char *expand_optional(
	struct command_expansion *expansion, const char *text, const char *end)
{
	const char *close = memmem(text, (size_t)(end - text), "]]", 2);
	struct command_expansion part = *expansion;
	char *inner = NULL;
	size_t length;

	if (!close) {
		smd_error_at_value(
			expansion->decoder->diagnostics, expansion->line, "must end $[[ with ]]");
		return end;
	}
	part.optional = 1;
	part.dropped = 0;
	part.out = open_memstream(&inner, &length);
	if (!part.out) {
		expansion->decoder->ret = -ENOMEM;
		return end;
	}
	expand_text(&part, text + 3, close);
	if (fclose(part.out)) {
		expansion->decoder->ret = -ENOMEM;
	} else if (!part.dropped) {
		fputs(inner, expansion->out);
	}
	free(inner);
	return close + 2;
}

/* ${{...}} at text; what is behind it. */
static const char *expand_expression(
	struct command_expansion *expansion, const char *text, const char *end)
{
	const char *close = memmem(text, (size_t)(end - text), "}}", 2);

	if (!close) {
		smd_error_at_value(
			expansion->decoder->diagnostics, expansion->line, "must end ${{ with }}");
		return end;
	}
	expand_name(expansion, text + 3, (size_t)(close - text - 3));
	return close + 2;
}

static void expand_text(struct command_expansion *expansion, const char *text, const char *end)
{
	while (text < end) {
		if (end - text > 2 && memcmp(text, "${{", 3) == 0) {
			text = expand_expression(expansion, text, end);
		} else if (end - text > 2 && memcmp(text, "$[[", 3) == 0 && !expansion->optional) {
			text = expand_optional(expansion, text, end);
		} else {
			fputc(*text++, expansion->out);
		}
	}
}

/* Programs find the folders of their outputs made. */
static void make_outputs(struct command_expansion *expansion)
{
	const struct smd_node *outputs = expansion->command->outputs;

	for (const struct smd_node *node = outputs ? outputs->first : NULL; node;
		node = node->next) {
		if (node->key[strspn(node->key, NAME_CHARACTERS)] || !*node->key) {
			smd_error_at_name(expansion->decoder->diagnostics, node,
				"an output's name must be letters, digits, _ and -");
		} else if (!smd_node_member(node, "path")) {
			fprintf(expansion->out, "mkdir -p \"%s%s\" || exit\n", OUTPUT_DIR,
				node->key);
		}
	}
}

char *smd_azure_command_expand(const struct smd_azure_command *command, struct smd_decoder *decoder,
	const struct smd_node *line)
{
	struct command_expansion expansion = {.command = command, .decoder = decoder, .line = line};
	char *text = NULL;
	char *result = NULL;
	size_t length;

	expansion.out = open_memstream(&text, &length);
	if (!expansion.out) {
		decoder->ret = -ENOMEM;
		return NULL;
	}
	make_outputs(&expansion);
	expand_text(&expansion, line->string, line->string + strlen(line->string));
	if (!fclose(expansion.out)) {
		result = smd_reference_escape(text);
	}
	if (!result) {
		decoder->ret = -ENOMEM;
	}
	free(text);
	return result;
}
