/*
 * Words that choose what to do: `summand custom-jobs validate` goes through two tables of them.
 */
#ifndef SMD_CLI_VERBS_H
#define SMD_CLI_VERBS_H

#include <stddef.h>

#include "reduction_server/base/options.h"

enum smd_exit_code {
	SMD_EXIT_OK = 0,
	SMD_EXIT_FAILED = 1, /* the job failed, or this machine did not let us go on */
	SMD_EXIT_USAGE = 2   /* the command line or the spec is wrong; nothing was started */
};

/* For --help. */
#define SMD_EXITS                                                                                  \
	"Exit codes: 0 done, 1 it could not be done, 2 the command line or the spec is wrong."

struct smd_verb {
	const char *name;                  /* NULL: a group begins, of which summary is the name */
	const char *summary;               /* one sentence */
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

/* A row of its own, before those of the group. */
#define SMD_VERB_GROUP(name_)                                                                      \
	{                                                                                          \
		NULL, (name_), NULL                                                                \
	}

/* A verb of other command lines, and what is here in its place. */
struct smd_absent_verb {
	const char *name;
	const char *instead;
};

struct smd_verbs {
	const char *prefix; /* the words before: "summand custom-jobs" */
	const char *summary;
	const struct smd_verb *list;
	size_t count;
	const struct smd_absent_verb *absent; /* ends with a name of NULL */
	const char *epilog;                   /* the end of --help, or NULL */
};

/* Runs the verb that argv[1] names; prints the table for --help. */
int smd_verbs_run(const struct smd_verbs *verbs, int argc, char **argv);

/* NULL: there is none of that name. */
const struct smd_verb *smd_verbs_find(const struct smd_verbs *verbs, const char *name);

/* Who is told what is behind a verb, verbs again or a command; the tables are valid for the call.
 */
struct smd_verb_taker {
	void (*take_verbs)(void *context, const struct smd_verbs *verbs);
	void (*take_command)(void *context, const struct smd_command *command);
	void *context;
};

/* Tells what is behind the verb, without running it. */
void smd_verb_ask(const struct smd_verb *verb, const struct smd_verb_taker *taker);

/* The verb whose table has a verb of that name: "custom-jobs" for "describe"; the first one. NULL:
 * none has. */
const struct smd_verb *smd_verbs_find_within(const struct smd_verbs *verbs, const char *name);

#endif
