/*
 * The environment of a process on this machine: the caller's own, with a replica's over it.
 */
#ifndef SMD_ENGINE_VARIABLES_H
#define SMD_ENGINE_VARIABLES_H

#include "orchestrator/contract/environment.h"

/* "NAME=value" texts, ended by NULL: `inherited`, overridden by `environment`, with
 * SUMMAND_NOTIFY_FD, and with program_dir at the front of PATH, or at its end when `environment`
 * itself sets PATH. The caller frees it with smd_argv_free(). NULL: out of memory. */
char **smd_variables_merge(char *const *inherited, const struct smd_environment *environment,
	const char *program_dir, int notify_fd);

#endif
