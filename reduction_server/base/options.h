/*
 * A command line described by a table: the same rows parse it and write its --help.
 *
 * Options are long ones: --name=VALUE or --name VALUE; a row without metavar is a switch: --name
 * and --no-name, also --name=true|false and --name true|false. Options and operands may be mixed;
 * "--" ends the options. In names "_" is the same as "-". An unknown option is an error that
 * suggests the nearest name. -h is --help, and -q is --quiet where there is one; there are no other
 * short options. A metavar says what values there are, to readers and to completion:
 * on|off, FILE, DIR.
 */
#ifndef SMD_BASE_OPTIONS_H
#define SMD_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

struct smd_option {
	const char *name; /* without the dashes; NULL: a group begins, of which help is the name */
	const char *metavar; /* NULL: a switch */
	const char *help;    /* one sentence; NULL: its group's name says all */
	/* Takes the value ("true" for a bare switch) into target. On -errno it has written what
	 * must hold ("must be 1 to 64"); the parser puts the option's name before it and the value
	 * after, before a hint ("; did you mean 32?"). */
	int (*set)(void *target, const char *value, struct smd_error *error);
	void *target;
};

/* A row of its own, before those of the group. */
#define SMD_OPTION_GROUP(name_)                                                                    \
	{                                                                                          \
		NULL, NULL, (name_), NULL, NULL                                                    \
	}

/* Ready-made setters. The value of a string stays in argv and is not copied. */
int smd_option_set_string(
	void *target, const char *value, struct smd_error *error); /* const char ** */
int smd_option_set_path(
	void *target, const char *value, struct smd_error *error); /* the same, not empty */
int smd_option_set_bool(void *target, const char *value, struct smd_error *error); /* int * */
int smd_option_set_int(void *target, const char *value, struct smd_error *error);  /* int *, >= 0 */
int smd_option_set_size(
	void *target, const char *value, struct smd_error *error); /* uint64_t *, bytes */
int smd_option_set_bandwidth(
	void *target, const char *value, struct smd_error *error); /* uint64_t *, Mbit/s */

struct smd_command {
	const char *synopsis; /* "summand-perf allreduce [OPTION...]" */
	const char *summary;  /* one sentence: what the command does */
	const struct smd_option *options;
	size_t noptions;
	int ends_with_operand; /* what follows the first operand is not for us, as with env */
	size_t nelsewhere;     /* of the options, the last ones: another page has them */
	const char *elsewhere; /* which one, or NULL */
	const char *epilog;    /* printed after the options in --help, or NULL */
	const char *exits;     /* the exit codes, printed last, or NULL */
	int is_topic;          /* nothing to run: it only has a page */
};

/*
 * Parses argv[1..]. Operands are moved to the front of argv, from argv[1] on, in their order;
 * *noperands says how many. Returns 0; -ENOEXEC when --help was asked for and has been printed to
 * standard output; -EINVAL with a text.
 */
int smd_options_parse(const struct smd_command *command, int argc, char **argv, int *noperands,
	struct smd_error *error);

/* Prints the page that --help prints (help_page.h). */
void smd_command_print_help(const struct smd_command *command);

/* From now on a command of which help is asked is given to `take`, and nothing is printed: so its
 * table is had without running it. NULL: as before. */
void smd_command_divert_help(
	void (*take)(void *context, const struct smd_command *command), void *context);

/* The candidate nearest to `word` by edit distance, else one that begins as it does; NULL when none
 * is near enough to suggest. */
const char *smd_suggest(const char *word, const char *const *candidates, size_t ncandidates);

#endif
