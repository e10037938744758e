/*
 * A copy of summand-agent on a host: in a folder of its own below the user's cache there, whose
 * name has the version and a hash of the program, so that another build is another copy.
 */
#ifndef SMD_ENGINE_SSH_COPY_H
#define SMD_ENGINE_SSH_COPY_H

#include "reduction_server/base/error.h"

/* A line for this machine's shell, which runs ssh up to three times: to look for the copy, to make
 * it where there is none, and to run it on its own standard input and output. The host, then ssh's
 * words are its operands. The caller frees it. 0, or -errno with a text. */
int smd_copy_make_script(char **out, const char *agent, struct smd_error *error);

#endif
