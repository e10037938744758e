/* Finds what may stand at the end of a command line, by walking through the tables of verbs. */
#include "orchestrator/cli/completion.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/completed_job.h"
#include "orchestrator/cli/completion_scripts.h"
#include "orchestrator/frontend/job_flags.h"
#include "reduction_server/base/printable.h"

#define WORDS     "words"
#define NAME_SIZE 128

/* The words before the cursor, of which the last is being typed, and how many verbs have taken. */
struct completion {
	char **words;
	int count;
	int taken;
};

static const char *typed(const struct completion *completion)
{
	return completion->words[completion->count - 1];
}

/* One candidate, if it begins as what was typed; it is for a terminal. */
static void offer(const struct completion *completion, const char *before, const char *candidate,
	const char *text)
{
	size_t length = strlen(before);
	const char *word = typed(completion);

	if (strncmp(word, before, length) == 0 &&
		strncmp(candidate, word + length, strlen(word + length)) == 0) {
		smd_print_line(stdout, "%s%s\t%s\n", before, candidate, text);
	}
}

static int is_literal(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
			text[i] != '-') {
			return 0;
		}
	}
	return length > 0;
}

/* Whose jobs a command means: the group's that it is of. */
static enum smd_stored_kind kind_of(const struct completion *completion)
{
	for (int i = 0; i < completion->count - 1; i++) {
		if (strcmp(completion->words[i], smd_stored_kind_group(SMD_STORED_TUNING_JOB)) ==
			0) {
			return SMD_STORED_TUNING_JOB;
		}
	}
	return SMD_STORED_CUSTOM_JOB;
}

/* Values of a metavar: on|off, SIZE|none, FILE, DIR,...; what was typed begins with `before`. */
static void offer_values(
	const struct completion *completion, const char *before, const char *metavar)
{
	char value[NAME_SIZE];

	if (strncmp(metavar, "FILE", 4) == 0 || strncmp(metavar, "SPEC", 4) == 0 ||
		strncmp(metavar, "SCRIPT", 6) == 0) {
		puts(":files");
	} else if (strncmp(metavar, "DIR", 3) == 0) {
		puts(":dirs");
	} else if (strcmp(metavar, "JOB") == 0 || strcmp(metavar, "JOB...") == 0) {
		smd_completed_jobs_print(kind_of(completion), typed(completion));
	}
	while (*metavar) {
		size_t length = strcspn(metavar, "|");

		if (is_literal(metavar, length) && length < sizeof(value)) {
			snprintf(value, sizeof(value), "%.*s", (int)length, metavar);
			offer(completion, before, value, "");
		}
		metavar += length + (metavar[length] == '|');
	}
}

static const struct smd_option *find_option(
	const struct smd_command *command, const char *name, size_t length)
{
	for (size_t i = 0; i < command->noptions; i++) {
		const struct smd_option *option = &command->options[i];

		if (option->name && strlen(option->name) == length &&
			strncmp(option->name, name, length) == 0) {
			return option;
		}
	}
	return NULL;
}

/* What has no effect is offered to those who begin to type it. */
static void offer_options(const struct completion *completion, const struct smd_command *command)
{
	int has_begun = strlen(typed(completion)) > 2;
	char name[NAME_SIZE];

	for (size_t i = 0; i < command->noptions; i++) {
		const struct smd_option *option = &command->options[i];

		if (!option->name || (!option->help && !has_begun)) {
			continue;
		}
		snprintf(name, sizeof(name), "%s%s", option->name, option->metavar ? "=" : "");
		offer(completion, "--", name, option->help ? option->help : "without effect here");
		if (!option->metavar && strncmp(typed(completion), "--no", 4) == 0) {
			offer(completion, "--no-", option->name, "");
		}
	}
	offer(completion, "--", "help", "print the page of this command");
}

/* What stands for the operand in the synopsis: SPEC|FLAG..., JOB, JOB...; NULL: there is none. */
static const char *operand_of(const struct smd_command *command, char operand[NAME_SIZE])
{
	const char *text = command->synopsis;

	while (*text) {
		size_t length = strcspn(text, " ");

		if (*text != '[' && (isupper((unsigned char)*text) || memchr(text, '|', length))) {
			snprintf(operand, NAME_SIZE, "%.*s", (int)length, text);
			return operand;
		}
		text += length + (text[length] == ' ');
	}
	return NULL;
}

/* How far the command line is. */
enum cursor_place {
	AT_OPERAND, /* the first one, or an option */
	BEHIND_OPERAND,
	AT_VALUE,  /* of the option before */
	AT_PROGRAM /* whose words are not ours */
};

static enum cursor_place find_place(const struct completion *completion,
	const struct smd_command *command, const struct smd_option **option)
{
	enum cursor_place place = AT_OPERAND;

	*option = NULL;
	for (int i = completion->taken; i < completion->count - 1; i++) {
		const char *word = completion->words[i];

		if (*option && (*option)->metavar) {
			*option = NULL; /* this was its value */
		} else if (strcmp(word, "--") == 0) {
			return AT_PROGRAM;
		} else if (strncmp(word, "--", 2) == 0) {
			*option = strchr(word, '=')
					  ? NULL
					  : find_option(command, word + 2, strlen(word + 2));
		} else if (command->ends_with_operand) {
			return AT_PROGRAM;
		} else {
			place = BEHIND_OPERAND;
		}
	}
	return *option && (*option)->metavar ? AT_VALUE : place;
}

/* --name=VALUE, which is being typed. */
static void offer_assigned(const struct completion *completion, const struct smd_command *command)
{
	const char *word = typed(completion);
	size_t length = strcspn(word, "=");
	const struct smd_option *option = find_option(command, word + 2, length - 2);
	char before[NAME_SIZE];

	if (option && length + 1 < sizeof(before)) {
		snprintf(before, sizeof(before), "%.*s", (int)length + 1, word);
		offer_values(completion, before, option->metavar ? option->metavar : "true|false");
	}
}

static void complete_command(void *context, const struct smd_command *command)
{
	const struct completion *completion = context;
	const struct smd_option *option;
	enum cursor_place place = find_place(completion, command, &option);
	char operand[NAME_SIZE];

	if (place == AT_PROGRAM) {
		puts(":files");
	} else if (place == AT_VALUE) {
		offer_values(completion, "", option->metavar);
	} else if (typed(completion)[0] != '-') {
		if (place == AT_OPERAND && operand_of(command, operand)) {
			offer_values(completion, "", operand);
		}
	} else if (strchr(typed(completion), '=')) {
		offer_assigned(completion, command);
	} else {
		offer_options(completion, command);
	}
}

static void complete_verbs(void *context, const struct smd_verbs *verbs)
{
	struct completion *completion = context;
	const struct smd_verb_taker taker = {complete_verbs, complete_command, completion};
	const struct smd_verb *verb;

	if (completion->taken == completion->count - 1) {
		for (size_t i = 0; i < verbs->count; i++) {
			if (verbs->list[i].name) {
				offer(completion, "", verbs->list[i].name, verbs->list[i].summary);
			}
		}
		offer(completion, "--", "help", "print the page of these commands");
		return;
	}
	verb = smd_verbs_find(verbs, completion->words[completion->taken]);
	if (verb) {
		completion->taken++;
		smd_verb_ask(verb, &taker);
	}
}

/* The words of a command line after the program's name. */
static int answer(const struct smd_verbs *verbs, int count, char **words)
{
	struct completion completion = {.words = words, .count = count};

	if (count > 1 && strcmp(words[0], "ai") == 0) {
		completion.taken++;
	}
	if (count - completion.taken > 1 && strcmp(words[completion.taken], "help") == 0) {
		completion.taken++;
		if (count - completion.taken == 1) {
			offer(&completion, "", SMD_JOB_FLAGS_TOPIC, "the flags that describe jobs");
		}
	}
	if (count > 0) {
		complete_verbs(&completion, verbs);
	}
	return SMD_EXIT_OK;
}

static int print_script(const char *shell)
{
	for (size_t i = 0; i < smd_ncompletion_scripts; i++) {
		if (strcmp(shell, smd_completion_scripts[i].shell) == 0) {
			fputs(smd_completion_scripts[i].text, stdout);
			return SMD_EXIT_OK;
		}
	}
	smd_print_line(
		stderr, "summand: completion: must be bash, zsh or fish, got \"%s\"\n", shell);
	return SMD_EXIT_USAGE;
}

int smd_completion_run(const struct smd_verbs *verbs, int argc, char **argv)
{
	static const struct smd_command command = {
		.synopsis = "summand completion bash|zsh|fish",
		.summary = "Prints the script by which a shell completes commands, options, their "
			   "values and jobs.",
		.epilog =
			"Examples:\n"
			"  source <(summand completion bash)       in ~/.bashrc\n"
			"  source <(summand completion zsh)        in ~/.zshrc, after compinit\n"
			"  summand completion fish | source        in ~/.config/fish/config.fish\n"
			"\n"
			"`cmake --install` puts the scripts where the shells find them by "
			"themselves.",
		.exits = SMD_EXITS,
	};
	struct smd_error error = {""};
	int noperands;
	int ret;

	if (argc > 2 && strcmp(argv[1], WORDS) == 0 && strcmp(argv[2], "--") == 0) {
		return answer(verbs, argc - 3, argv + 3);
	}
	ret = smd_options_parse(&command, argc, argv, &noperands, &error);
	if (ret == -ENOEXEC) {
		return SMD_EXIT_OK;
	}
	if (!ret && noperands != 1) {
		ret = smd_error_set(&error, EINVAL, "one shell is needed, got %d: %s", noperands,
			command.synopsis);
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_USAGE;
	}
	return print_script(argv[1]);
}
