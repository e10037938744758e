/*
 * A reduction server that is told by its command, [summand-reduction-server, OPTION...], whatever
 * its image is called.
 */
#ifndef SMD_FRONTEND_SERVER_COMMAND_H
#define SMD_FRONTEND_SERVER_COMMAND_H

#include "orchestrator/document/document.h"
#include "orchestrator/job/job.h"

/* Whether a containerSpec starts one: by its command, or by its args where it has no command; with
 * the program's path or without, by itself or in a shell. */
int smd_server_command_is_of(const struct smd_node *container);

/* Of a pool that does: what stands behind the program becomes its args, and it has no command, as
 * one that is told by its image. 0, -ENOMEM, or -EINVAL: it is a shell's text with more in it than
 * the program and its options. */
int smd_server_command_take(struct smd_job_pool *pool);

#endif
