/*
 * What of the caller's environment reaches a replica: all but what says whose process the caller
 * is.
 *
 * A rank, a cluster or a run that another launcher has told the caller would tell a replica the
 * wrong thing wherever its own contract is silent.
 */
#ifndef SMD_CONTRACT_CALLER_H
#define SMD_CONTRACT_CALLER_H

#include "orchestrator/contract/environment.h"

/*
 * Whether the caller's variable ("NAME=value") is kept from a process with that environment.
 * Addresses and the token of reduction servers that are not the job's own are the caller's setting,
 * unless the caller is a replica itself: then they are those of its job.
 */
int smd_caller_withholds(
	char *const *caller, const char *variable, const struct smd_environment *environment);

/* The length of what can be shown of the caller's reduction servers, which a process with that
 * environment is told of; `*out` is where it begins. 0: it is told of none of the caller's. */
int smd_caller_servers(
	char *const *caller, const struct smd_environment *environment, const char **out);

/* The same for a shell: a case of $1 whose status is 0 for what is kept from processes, addresses of
 * reduction servers too if the job has its own. */
void smd_caller_print_case(int has_servers, FILE *out);

#endif
