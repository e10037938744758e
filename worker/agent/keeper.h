/*
 * The keeper of one command: it leaves nothing of it behind (specs/design/runner.md, "The keeper").
 */
#ifndef SMD_AGENT_KEEPER_H
#define SMD_AGENT_KEEPER_H

#define SMD_KEEPER_GRACE_DEFAULT_S 30

struct smd_keeper_options {
	const char *exit_record; /* the file that gets it; NULL: none */
	int record_fd;           /* gets it too; -1: none */
	const char *cleanup;     /* a shell's command; NULL or "": none */
	int grace_s;             /* from SIGTERM to SIGKILL */
	int linger_s;            /* for the command to end by itself when its starter has died */
	int has_terminal;        /* standard input is the command's controlling terminal */
};

/* Runs the command in a child with the caller's environment, and keeps it until nothing of it is
 * left. The process has no other children, and its signals are the keeper's from now on. The exit
 * code: the command's, or one of exit_record.h. */
int smd_keeper_run(const struct smd_keeper_options *options, char *const *argv);

#endif
