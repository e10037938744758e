/* Puts the flags of files where --flags-file stands. */
#include "orchestrator/frontend/flags_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/document/source.h"
#include "reduction_server/base/printable.h"

#define FLAG "--flags-file"
/* Parts the items of a list: no flag's text has it. */
#define UNIT     '\x1f'
#define UNIT_SET "^\x1f^"

static int append(struct smd_flags_file *file, char *word)
{
	char **words = realloc(file->words, ((size_t)file->argc + 1) * sizeof(*words));

	if (!words || !word) {
		free(word);
		file->words = words ? words : file->words;
		return -ENOMEM;
	}
	file->words = words;
	words[file->argc++] = word;
	return 0;
}

static void write_scalar(const struct smd_node *node, FILE *out)
{
	switch (node->type) {
	case SMD_NODE_BOOLEAN:
		fputs(node->number.boolean ? "true" : "false", out);
		break;
	case SMD_NODE_INTEGER:
		fprintf(out, "%lld", (long long)node->number.integer);
		break;
	case SMD_NODE_REAL:
		fprintf(out, "%.17g", node->number.real);
		break;
	case SMD_NODE_STRING:
		fputs(node->string, out);
		break;
	case SMD_NODE_NULL:
	case SMD_NODE_ARRAY:
	case SMD_NODE_OBJECT:
		break;
	}
}

static int is_container(const struct smd_node *node)
{
	return node->type == SMD_NODE_ARRAY || node->type == SMD_NODE_OBJECT;
}

static int has_unit(const struct smd_node *node)
{
	return (node->key && strchr(node->key, UNIT)) ||
	       (node->type == SMD_NODE_STRING && strchr(node->string, UNIT));
}

/* "--flag=value"; lists and dictionaries as flag_items.h reads them. */
static int write_flag(const struct smd_node *node, struct smd_diagnostics *diagnostics, FILE *out)
{
	fputs(node->key, out);
	if (node->type == SMD_NODE_NULL) {
		return 0;
	}
	fputc('=', out);
	if (!is_container(node)) {
		write_scalar(node, out);
		return 0;
	}
	fputs(node->count ? UNIT_SET : "", out);
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (is_container(child) || has_unit(child)) {
			smd_error_at_value(diagnostics, child,
				"must be a scalar without the character U+001F");
			return -EINVAL;
		}
		if (child->index > 0) {
			fputc(UNIT, out);
		}
		if (child->key) {
			fprintf(out, "%s=", child->key);
		}
		write_scalar(child, out);
	}
	return 0;
}

static int add_flag(struct smd_flags_file *file, const struct smd_node *node,
	struct smd_diagnostics *diagnostics)
{
	char *word = NULL;
	size_t length;
	FILE *out;
	int ret;

	if (strncmp(node->key, "--", 2) != 0 || !node->key[2] || strchr(node->key, '=') ||
		strcmp(node->key, FLAG) == 0) {
		smd_error_at_name(diagnostics, node, "must be a flag such as --args");
		return 0;
	}
	out = open_memstream(&word, &length);
	if (!out) {
		return -ENOMEM;
	}
	ret = write_flag(node, diagnostics, out);
	if (fclose(out) || ret) {
		free(word);
		return ret == -EINVAL ? 0 : -ENOMEM;
	}
	return append(file, word);
}

static int add_flags(struct smd_flags_file *file, const struct smd_node *object,
	struct smd_diagnostics *diagnostics)
{
	int ret = 0;

	if (object->type != SMD_NODE_OBJECT) {
		smd_error_at_value(diagnostics, object, "must be an object of flags");
		return 0;
	}
	for (const struct smd_node *node = object->first; node && !ret; node = node->next) {
		ret = add_flag(file, node, diagnostics);
	}
	return ret;
}

static int add_document(struct smd_flags_file *file, const struct smd_source *source,
	struct smd_diagnostics *diagnostics)
{
	struct smd_node *document;
	int ret = smd_document_parse(
		source->name, source->text, source->length, diagnostics, &document);

	if (ret) {
		return ret;
	}
	if (document->type != SMD_NODE_ARRAY) {
		ret = add_flags(file, document, diagnostics);
	} else {
		for (const struct smd_node *node = document->first; node && !ret;
			node = node->next) {
			ret = add_flags(file, node, diagnostics);
		}
	}
	smd_node_free(document);
	return ret ? ret : diagnostics->found[SMD_SEVERITY_ERROR] ? -EINVAL : 0;
}

static int add_file(struct smd_flags_file *file, const char *path)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	struct smd_error error = {""};
	struct smd_source source;
	int ret = diagnostics ? smd_source_read(path, &source, &error) : -ENOMEM;

	if (ret) {
		smd_print_line(stderr, "summand: " FLAG ": %s\n",
			error.text[0] ? error.text : strerror(-ret));
		free(diagnostics);
		return ret;
	}
	ret = add_document(file, &source, diagnostics);
	smd_diagnostics_print(diagnostics, path, SMD_SEVERITY_WARNING, stderr);
	if (ret && !diagnostics->found[SMD_SEVERITY_ERROR]) {
		smd_print_line(stderr, "summand: " FLAG ": %s: %s\n", path, strerror(-ret));
	}
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	smd_source_free(&source);
	return ret;
}

/* The path of a --flags-file at argv[*at], whose value may be the next word; else NULL. */
static const char *path_at(int argc, char **argv, int *at)
{
	static const size_t length = sizeof(FLAG) - 1;

	if (strncmp(argv[*at], FLAG, length) != 0) {
		return NULL;
	}
	if (argv[*at][length] == '=') {
		return argv[*at] + length + 1;
	}
	if (argv[*at][length] || *at + 1 >= argc) {
		return NULL;
	}
	return argv[++*at];
}

int smd_flags_file_expand(int argc, char **argv, struct smd_flags_file *out)
{
	struct smd_flags_file file = {.argc = 0};
	int only_words = 0;
	int ret = 0;

	for (int i = 0; i < argc && !ret; i++) {
		const char *path = only_words ? NULL : path_at(argc, argv, &i);

		only_words = only_words || strcmp(argv[i], "--") == 0;
		ret = path ? add_file(&file, path) : append(&file, strdup(argv[i]));
	}
	if (!ret) {
		file.argv = calloc((size_t)file.argc + 1, sizeof(*file.argv));
		ret = file.argv ? 0 : -ENOMEM;
	}
	for (int i = 0; !ret && i < file.argc; i++) {
		file.argv[i] = file.words[i];
	}
	if (ret) {
		if (ret == -ENOMEM) {
			smd_print_line(stderr, "summand: %s\n", strerror(ENOMEM));
		}
		smd_flags_file_free(&file);
		return ret;
	}
	*out = file;
	return 0;
}

void smd_flags_file_free(struct smd_flags_file *file)
{
	for (int i = 0; i < file->argc; i++) {
		free(file->words[i]);
	}
	free(file->words);
	free(file->argv);
	*file = (struct smd_flags_file){.argc = 0};
}
