/* Where Summand's own programs and libraries are. */
#ifndef SMD_AGENT_PROGRAM_H
#define SMD_AGENT_PROGRAM_H

#include "reduction_server/base/error.h"

/* summand-agent's path, which the caller frees: beside the running program, or in bin/ beside its
 * folder. 0, or -errno with a text. */
int smd_program_find_agent(char **out, struct smd_error *error);

/* The folder of a path; the caller frees it. NULL: out of memory. */
char *smd_program_folder(const char *path);

/* The folder of NCCL's plugin, for programs in that folder: they are siblings, in a build tree and in
 * an installed copy. *out is NULL where it is not installed; the caller frees it. 0 or -ENOMEM. */
int smd_program_find_plugin(const char *program_dir, char **out);

#endif
