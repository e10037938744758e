/*
 * Words that choose what to do: `summand custom-jobs validate` goes through two tables of them.
 */
#ifndef SMD_CLI_VERBS_H
#define SMD_CLI_VERBS_H

#include <stddef.h>

enum smd_exit_code {
	SMD_EXIT_OK = 0,
	SMD_EXIT_FAILED = 1, /* the job failed, or this machine did not let us go on */
	SMD_EXIT_USAGE = 2   /* the command line or the spec is wrong; nothing was started */
};

struct smd_verb {
	const char *name;
	const char *summary;               /* one line */
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

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

#endif
