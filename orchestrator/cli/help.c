/* Finds the page that words name. */
#include "orchestrator/cli/help.h"

#include <stdio.h>
#include <string.h>

#include "orchestrator/frontend/job_flags.h"

#define WORDS_MAX 8

static const char *const topics[] = {SMD_JOB_FLAGS_TOPIC};

static int print_topic(void)
{
	if (smd_job_flags_print_help()) {
		fprintf(stderr, "summand: out of memory\n");
		return SMD_EXIT_FAILED;
	}
	return SMD_EXIT_OK;
}

int smd_help_run(const struct smd_verbs *verbs, int argc, char **argv)
{
	char program[] = "summand";
	char help[] = "--help";
	char *words[WORDS_MAX] = {program};
	int n = 1;
	int first = argc > 1 && strcmp(argv[1], "ai") == 0 ? 2 : 1;

	if (argc > first && argv[first][0] != '-' && !smd_verbs_find(verbs, argv[first])) {
		const struct smd_verb *group = smd_verbs_find_within(verbs, argv[first]);

		if (strcmp(argv[first], topics[0]) == 0) {
			return print_topic();
		}
		if (smd_suggest(argv[first], topics, 1)) {
			fprintf(stderr,
				"summand: %s: unknown topic; did you mean `summand help "
				"%s`?\n",
				argv[first], topics[0]);
			return SMD_EXIT_USAGE;
		}
		if (group) { /* `help describe` is `help custom-jobs describe` */
			words[n++] = (char *)group->name;
		}
	}
	for (int i = first; i < argc && n < WORDS_MAX - 2; i++) {
		words[n++] = argv[i];
	}
	words[n++] = help;
	return smd_verbs_run(verbs, n, words);
}
