/*
 * The servers of a context that has begun (context_connecting.h): its communicators hear of those that
 * are lost, rest, or are there again.
 *
 * All of it is for the owner of the progress engine (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_SERVERS_H
#define SMD_LIBSUMMAND_CONTEXT_SERVERS_H

#include "worker/libsummand/context.h"

/* What its remotes tell it. */
extern const struct smd_remote_owner_ops smd_context_remote_ops;

void smd_context_free_remotes(struct smd_context *context);

#endif
