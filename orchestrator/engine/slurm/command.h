/*
 * One of Slurm's commands as a child of the runner, which waits for none: what it prints and how it
 * ends come as calls from the loop.
 */
#ifndef SMD_ENGINE_SLURM_COMMAND_H
#define SMD_ENGINE_SLURM_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

struct event_base;
struct smd_slurm_command;

struct smd_slurm_command_options {
	struct event_base *base;
	char *const *argv; /* found on PATH */
	char *const *environment;
	const char *input; /* its standard input, at most 64 KiB; NULL: none */
	int outlives;      /* it has SIGHUP, and not SIGKILL, when the runner dies */
	/* A line of standard error, without its end. NULL: the last ones are kept. */
	void (*on_line)(void *owner, char *line);
	/* All that it has printed so far, each time that there is more; or NULL. */
	void (*on_print)(void *owner, const char *output);
	/* It has ended with a wait status; what it printed is borrowed. The command is freed
	 * afterwards. */
	void (*on_end)(void *owner, int status, char *output, char *words);
	void *owner;
};

/* 0 or -errno. */
int smd_slurm_command_start(
	struct smd_slurm_command **out, const struct smd_slurm_command_options *options);
void smd_slurm_command_signal(const struct smd_slurm_command *command, int signo);

/* Kills it and waits; no call comes. NULL is nothing. */
void smd_slurm_command_abandon(struct smd_slurm_command *command);

/* "ended with status 1", "was killed by signal 9 (Killed)". */
void smd_slurm_command_describe(int status, char *text, size_t size);

#endif
