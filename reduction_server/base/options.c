/* Parses a command line by its table of options. */
#include "reduction_server/base/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "reduction_server/base/help_page.h"
#include "reduction_server/base/parse.h"

#define WORD_MAX      64
#define OPTIONS_MAX   192 /* that are suggested */
#define BEGINNING_MIN 3
#define NO            "no-"

/* Who is given commands of which help is asked. */
static struct {
	void (*take)(void *context, const struct smd_command *command);
	void *context;
} diverted;

int smd_option_set_string(void *target, const char *value, struct smd_error *error)
{
	(void)error;
	*(const char **)target = value;
	return 0;
}

int smd_option_set_path(void *target, const char *value, struct smd_error *error)
{
	if (!*value) {
		return smd_error_set(error, EINVAL, "must not be empty");
	}
	return smd_option_set_string(target, value, error);
}

/* As shells, YAML and Python write them. */
static int is_truth_value(const char *word)
{
	return strcasecmp(word, "true") == 0 || strcasecmp(word, "false") == 0;
}

int smd_option_set_bool(void *target, const char *value, struct smd_error *error)
{
	if (is_truth_value(value) || strcmp(value, "0") == 0 || strcmp(value, "1") == 0) {
		*(int *)target = strchr("tT1", value[0]) != NULL;
		return 0;
	}
	return smd_error_set(error, EINVAL, "must be true or false");
}

int smd_option_set_int(void *target, const char *value, struct smd_error *error)
{
	uint64_t number;

	if (smd_parse_number(value, 0, INT_MAX, &number)) {
		return smd_error_set(error, EINVAL, "must be a whole number, 0 or more");
	}
	*(int *)target = (int)number;
	return 0;
}

int smd_option_set_size(void *target, const char *value, struct smd_error *error)
{
	if (smd_parse_size(value, target)) {
		return smd_error_set(error, EINVAL, "must be a size such as 65536, 64K, 1M or 4G");
	}
	return 0;
}

int smd_option_set_bandwidth(void *target, const char *value, struct smd_error *error)
{
	if (smd_parse_bandwidth(value, target)) {
		return smd_error_set(
			error, EINVAL, "must be a bandwidth such as 25gbps or 750mbps");
	}
	return 0;
}

static size_t edit_distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1];
	size_t la = strlen(a);
	size_t lb = strlen(b);

	if (la > WORD_MAX || lb > WORD_MAX) {
		return WORD_MAX;
	}
	for (size_t j = 0; j <= lb; j++) {
		row[j] = j;
	}
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t above = row[j];
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (above + 1 < best) {
				best = above + 1;
			}
			if (row[j - 1] + 1 < best) {
				best = row[j - 1] + 1;
			}
			row[j] = best;
			diagonal = above;
		}
	}
	return row[lb];
}

/* Whether the shorter one is where the longer one begins, up to a "-" or "_": env, env-vars. */
static int is_beginning(const char *a, const char *b)
{
	const char *shorter = strlen(a) < strlen(b) ? a : b;
	const char *longer = shorter == a ? b : a;
	size_t length = strlen(shorter);

	return length >= BEGINNING_MIN && strncmp(longer, shorter, length) == 0 &&
	       (longer[length] == '-' || longer[length] == '_');
}

const char *smd_suggest(const char *word, const char *const *candidates, size_t ncandidates)
{
	size_t limit = strlen(word) / 3 + 1;
	const char *best = NULL;
	const char *beginning = NULL;

	if (strlen(word) > WORD_MAX) {
		return NULL; /* not one of ours is nearly so long */
	}
	for (size_t i = 0; i < ncandidates; i++) {
		size_t distance = edit_distance(word, candidates[i]);

		beginning =
			!beginning && is_beginning(word, candidates[i]) ? candidates[i] : beginning;
		if (distance <= limit) {
			limit = distance;
			best = candidates[i];
			if (distance == 0) {
				break;
			}
			limit--; /* a later one must be strictly nearer */
		}
		if (limit == 0) {
			break;
		}
	}
	return best ? best : beginning;
}

/* torchrun's and Python's options are often written with "_". */
static int is_name_of(const struct smd_option *option, const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (option->name[i] != (name[i] == '_' ? '-' : name[i])) {
			return 0;
		}
	}
	return option->name[length] == '\0';
}

static const struct smd_option *find_option(
	const struct smd_command *command, const char *name, size_t length)
{
	for (size_t i = 0; i < command->noptions; i++) {
		if (command->options[i].name && is_name_of(&command->options[i], name, length)) {
			return &command->options[i];
		}
	}
	return NULL;
}

static int unknown_option(
	const struct smd_command *command, const char *name, size_t length, struct smd_error *error)
{
	const char *names[OPTIONS_MAX];
	char word[WORD_MAX];
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < command->noptions && n < OPTIONS_MAX; i++) {
		if (command->options[i].name) {
			names[n++] = command->options[i].name;
		}
	}
	snprintf(word, sizeof(word), "%.*s", (int)length, name);
	near = smd_suggest(word, names, n);
	if (near) {
		return smd_error_set(
			error, EINVAL, "--%s: unknown option; did you mean --%s?", word, near);
	}
	return smd_error_set(error, EINVAL, "--%s: unknown option; --help lists them%s", word,
		strstr(command->synopsis, "-- ") ? ", and those of your program come after --"
						 : "");
}

static int apply_option(const struct smd_option *option, const char *value, struct smd_error *error)
{
	struct smd_error reason = {""};
	int ret = option->set(option->target, value, &reason);

	if (ret) {
		int rule = (int)strcspn(reason.text, ";");

		return smd_error_set(error, EINVAL, "--%s: %.*s, got \"%s\"%s", option->name, rule,
			reason.text, value, reason.text + rule);
	}
	return 0;
}

/* Takes one "--name[=value]" at argv[*at]; may consume the next word as its value. */
static int parse_option(
	const struct smd_command *command, int argc, char **argv, int *at, struct smd_error *error)
{
	const char *name = argv[*at] + 2;
	const char *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	const struct smd_option *option = find_option(command, name, length);

	if (!option && !equals && strncmp(name, NO, sizeof(NO) - 1) == 0) {
		option = find_option(command, name + sizeof(NO) - 1, length - (sizeof(NO) - 1));
		if (option && !option->metavar) {
			return apply_option(option, "false", error);
		}
		option = NULL;
	}
	if (!option) {
		return unknown_option(command, name, length, error);
	}
	if (equals) {
		return apply_option(option, equals + 1, error);
	}
	if (!option->metavar && (*at + 1 >= argc || !is_truth_value(argv[*at + 1]))) {
		return apply_option(option, "true", error);
	}
	if (*at + 1 >= argc) {
		return smd_error_set(error, EINVAL, "--%s: needs a value: --%s=%s", option->name,
			option->name, option->metavar);
	}
	*at += 1;
	return apply_option(option, argv[*at], error);
}

static int is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* -q is --quiet, where there is one. -ENOENT: none of ours, which is for the command if what
 * follows is another program's. */
static int parse_short_option(
	const struct smd_command *command, const char *word, struct smd_error *error)
{
	const struct smd_option *quiet =
		strcmp(word, "-q") == 0 ? find_option(command, "quiet", strlen("quiet")) : NULL;

	if (quiet && !quiet->metavar) {
		return apply_option(quiet, "true", error);
	}
	return command->ends_with_operand ? -ENOENT
					  : smd_error_set(error, EINVAL,
						    "%s: unknown option; --help lists them", word);
}

int smd_options_parse(const struct smd_command *command, int argc, char **argv, int *noperands,
	struct smd_error *error)
{
	int operands = 0;
	int only_operands = 0;

	for (int i = 1; i < argc; i++) {
		/* A lone "-" is an operand: standard input. */
		int is_option = !only_operands && argv[i][0] == '-' && argv[i][1];
		int ret = 0;

		if (is_option && strcmp(argv[i], "--") == 0) {
			only_operands = 1;
			continue;
		}
		if (is_option && is_help(argv[i])) {
			smd_command_print_help(command);
			return -ENOEXEC;
		}
		if (is_option) {
			ret = argv[i][1] == '-' ? parse_option(command, argc, argv, &i, error)
						: parse_short_option(command, argv[i], error);
		}
		if (!is_option || ret == -ENOENT) {
			argv[1 + operands++] = argv[i];
			only_operands |= command->ends_with_operand;
		} else if (ret) {
			return ret;
		}
	}
	*noperands = operands;
	return 0;
}

void smd_command_divert_help(
	void (*take)(void *context, const struct smd_command *command), void *context)
{
	diverted.take = take;
	diverted.context = context;
}

void smd_command_print_help(const struct smd_command *command)
{
	if (diverted.take) {
		diverted.take(diverted.context, command);
	} else {
		smd_help_page(stdout, smd_help_width(stdout), command);
	}
}
