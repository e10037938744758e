/*
 * The environment of a process on this machine: the caller's own, with a replica's over it.
 */
#ifndef SMD_ENGINE_LOCAL_VARIABLES_H
#define SMD_ENGINE_LOCAL_VARIABLES_H

#include "orchestrator/contract/environment.h"

/* "NAME=value" texts, ended by NULL: `inherited`, overridden by `environment`, with
 * SUMMAND_NOTIFY_FD, and with program_dir at the front of PATH and library_dir, if there is one, at
 * that of LD_LIBRARY_PATH, or at the end of what `environment` itself sets these to. The caller
 * frees it with smd_argv_free(). NULL: out of memory. */
char **smd_variables_merge(char *const *inherited, const struct smd_environment *environment,
	const char *program_dir, const char *library_dir, int notify_fd);

#endif
