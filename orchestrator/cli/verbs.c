/* Finds the verb that a word names, or says which words there are. */
#include "orchestrator/cli/verbs.h"

#include <stdio.h>
#include <string.h>

#include "reduction_server/base/help_page.h"
#include "reduction_server/base/printable.h"

#define VERBS_MAX  32
#define LEFT_WIDTH 15

/* Who is told of tables instead of the reader; NULL: nobody. */
static const struct smd_verb_taker *taker_now;

static void print_help(const struct smd_verbs *verbs)
{
	int width = smd_help_width(stdout);

	printf("Usage: %s COMMAND [ARGUMENT...]\n\n", verbs->prefix);
	smd_help_text(stdout, width, verbs->summary);
	fputs(verbs->count > 0 && verbs->list[0].name ? "\nCommands:\n" : "", stdout);
	for (size_t i = 0; i < verbs->count; i++) {
		const struct smd_verb *verb = &verbs->list[i];

		if (verb->name) {
			smd_help_row(stdout, width, LEFT_WIDTH, verb->name, verb->summary);
		} else {
			printf("\n%s:\n", verb->summary);
		}
	}
	printf("\n`%s COMMAND --help` tells more about one.\n", verbs->prefix);
	if (verbs->epilog) {
		fputc('\n', stdout);
		smd_help_text(stdout, width, verbs->epilog);
	}
}

const struct smd_verb *smd_verbs_find(const struct smd_verbs *verbs, const char *name)
{
	for (size_t i = 0; i < verbs->count; i++) {
		if (verbs->list[i].name && strcmp(name, verbs->list[i].name) == 0) {
			return &verbs->list[i];
		}
	}
	return NULL;
}

/* The name of a verb of the table that is meant; NULL: none is near. */
static const char *suggest(const struct smd_verbs *verbs, const char *word)
{
	const char *names[VERBS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < verbs->count && n < VERBS_MAX; i++) {
		if (verbs->list[i].name) {
			names[n++] = verbs->list[i].name;
		}
	}
	return smd_suggest(word, names, n);
}

void smd_verb_ask(const struct smd_verb *verb, const struct smd_verb_taker *taker)
{
	char help[] = "--help";
	char *argv[] = {(char *)verb->name, help, NULL};

	taker_now = taker;
	smd_command_divert_help(taker->take_command, taker->context);
	verb->run(2, argv);
	smd_command_divert_help(NULL, NULL);
	taker_now = NULL;
}

/* A word that is looked for in tables. */
struct search {
	const char *word;
	int has_found;    /* the word itself, not only one near to it */
	const char *near; /* or itself; NULL: none */
	char prefix[64];  /* of its table */
};

static void find_in(void *context, const struct smd_verbs *verbs)
{
	struct search *search = context;

	const struct smd_verb *verb = smd_verbs_find(verbs, search->word);

	if (verb && !search->has_found) {
		search->has_found = 1;
		search->near = verb->name;
	} else if (!search->near) {
		search->near = suggest(verbs, search->word);
	} else {
		return;
	}
	if (search->near) {
		snprintf(search->prefix, sizeof(search->prefix), "%s", verbs->prefix);
	}
}

static void ignore_command(void *context, const struct smd_command *command)
{
	(void)context;
	(void)command;
}

const struct smd_verb *smd_verbs_find_within(const struct smd_verbs *verbs, const char *name)
{
	struct search search = {.word = name};
	const struct smd_verb_taker taker = {find_in, ignore_command, &search};

	for (size_t i = 0; i < verbs->count; i++) {
		if (verbs->list[i].name) {
			smd_verb_ask(&verbs->list[i], &taker);
		}
		if (search.has_found) {
			return &verbs->list[i];
		}
	}
	return NULL;
}

/* The one in this table, or in those behind its verbs. */
static void find_near(const struct smd_verbs *verbs, struct search *search)
{
	const struct smd_verb_taker taker = {find_in, ignore_command, search};

	find_in(search, verbs);
	for (size_t i = 0; i < verbs->count && !search->has_found; i++) {
		if (verbs->list[i].name) {
			smd_verb_ask(&verbs->list[i], &taker);
		}
	}
}

static int refuse(const struct smd_verbs *verbs, const char *word)
{
	const char *noun = *word == '-' ? "option" : "command";
	struct search search = {.word = word};

	for (const struct smd_absent_verb *verb = verbs->absent; verb->name; verb++) {
		if (strcmp(word, verb->name) == 0) {
			smd_print_line(stderr, "summand: %s: %s\n", word, verb->instead);
			return SMD_EXIT_USAGE;
		}
	}
	if (*word != '-') {
		find_near(verbs, &search);
	}
	if (search.near) {
		smd_print_line(stderr, "summand: %s: unknown command; did you mean `%s %s`?\n",
			word, search.prefix, search.near);
	} else {
		smd_print_line(stderr, "summand: %s: unknown %s; `%s --help` lists them\n", word,
			noun, verbs->prefix);
	}
	return SMD_EXIT_USAGE;
}

int smd_verbs_run(const struct smd_verbs *verbs, int argc, char **argv)
{
	const struct smd_verb *verb;

	if (argc < 2) {
		smd_print_line(stderr, "summand: a command is needed; `%s --help` lists them\n",
			verbs->prefix);
		return SMD_EXIT_USAGE;
	}
	verb = smd_verbs_find(verbs, argv[1]);
	if (verb) {
		return verb->run(argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2 && smd_verbs_find(verbs, argv[2])) {
		char help[] = "--help";
		char *words[] = {argv[2], help, NULL};

		return smd_verbs_find(verbs, argv[2])->run(2, words);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0) {
		if (taker_now) {
			taker_now->take_verbs(taker_now->context, verbs);
		} else {
			print_help(verbs);
		}
		return SMD_EXIT_OK;
	}
	return refuse(verbs, argv[1]);
}
