/*
 * The environment of a process on this machine: the caller's own, with a replica's over it.
 */
#ifndef SMD_AGENT_HOST_VARIABLES_H
#define SMD_AGENT_HOST_VARIABLES_H

#include "orchestrator/contract/environment.h"

/* "NAME=value" texts, ended by NULL: what of `inherited` reaches a replica (contract/caller.h),
 * overridden by `environment`, and SUMMAND_NOTIFY_FD. program_dir is put at the front of PATH, and
 * library_dir, if not NULL, at the front of LD_LIBRARY_PATH; at the end, where `environment` sets
 * the variable itself. The caller frees it with smd_argv_free(). NULL: out of memory. */
char **smd_variables_merge(char *const *inherited, const struct smd_environment *environment,
	const char *program_dir, const char *library_dir, int notify_fd);

#endif
