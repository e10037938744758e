/* Finds the verb that a word names, or says which words there are. */
#include "orchestrator/cli/verbs.h"

#include <stdio.h>
#include <string.h>

#include "reduction_server/base/options.h"
#include "reduction_server/base/printable.h"

#define VERBS_MAX 16

static void print_help(const struct smd_verbs *verbs)
{
	printf("Usage: %s COMMAND [ARGUMENT...]\n\n%s\n\nCommands:\n", verbs->prefix,
		verbs->summary);
	for (size_t i = 0; i < verbs->count; i++) {
		printf("  %-14s %s\n", verbs->list[i].name, verbs->list[i].summary);
	}
	printf("\n`%s COMMAND --help` tells more about one.\n", verbs->prefix);
	if (verbs->epilog) {
		printf("\n%s\n", verbs->epilog);
	}
}

static int refuse(const struct smd_verbs *verbs, const char *word)
{
	const char *names[VERBS_MAX];
	const char *near;
	size_t n = 0;

	for (const struct smd_absent_verb *verb = verbs->absent; verb->name; verb++) {
		if (strcmp(word, verb->name) == 0) {
			smd_print_line(stderr, "summand: %s: %s\n", word, verb->instead);
			return SMD_EXIT_USAGE;
		}
	}
	for (; n < verbs->count && n < VERBS_MAX; n++) {
		names[n] = verbs->list[n].name;
	}
	near = smd_suggest(word, names, n);
	if (near) {
		smd_print_line(stderr, "summand: %s: unknown command; did you mean `%s %s`?\n",
			word, verbs->prefix, near);
	} else {
		smd_print_line(stderr, "summand: %s: unknown command; `%s --help` lists them\n",
			word, verbs->prefix);
	}
	return SMD_EXIT_USAGE;
}

int smd_verbs_run(const struct smd_verbs *verbs, int argc, char **argv)
{
	if (argc < 2) {
		smd_print_line(stderr, "summand: a command is needed; `%s --help` lists them\n",
			verbs->prefix);
		return SMD_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0) {
		print_help(verbs);
		return SMD_EXIT_OK;
	}
	for (size_t i = 0; i < verbs->count; i++) {
		if (strcmp(argv[1], verbs->list[i].name) == 0) {
			return verbs->list[i].run(argc - 1, argv + 1);
		}
	}
	return refuse(verbs, argv[1]);
}
