/*
 * A copy on a host of what this build has for a job: summand-agent, and the programs and libraries
 * that the job's own pools need. It is in a folder below the user's cache there, whose name has the
 * version and a hash of all, so that another build is another copy.
 */
#ifndef SMD_ENGINE_SSH_COPY_H
#define SMD_ENGINE_SSH_COPY_H

#include "orchestrator/engine/engine.h"

/* A line for this machine's shell, which runs ssh up to three times: to look for the copy, to make
 * it where there is none, and to run its agent on its own standard input and output. The host, then
 * ssh's words are its operands. The caller frees it. 0, or -errno with a text. */
int smd_copy_make_script(
	char **out, const struct smd_ssh_options *options, struct smd_error *error);

#endif
