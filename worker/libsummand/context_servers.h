/*
 * The servers of a context: it connects to all shards, builds the table that chunks are dealt by,
 * and has its communicators hear of servers that are lost, rest, or are there again.
 *
 * All of it is for the owner of the progress engine (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_SERVERS_H
#define SMD_LIBSUMMAND_CONTEXT_SERVERS_H

#include <event2/util.h>

#include "worker/libsummand/context.h"

/* What its remotes tell it. */
extern const struct smd_remote_owner_ops smd_context_remote_ops;

/* Begins to connect to the servers of the configuration. 0 or -ENOMEM. */
int smd_context_create_targets(struct smd_context *context);
void smd_context_free_remotes(struct smd_context *context);

/* The context is of no further use, its communicators fail, and every later call says the text, and
 * those that come after it. */
void smd_context_fail(struct smd_context *context, int err, const char *text);

/* Timers of the context: it has tried to connect for long enough; what was lost of one cause is
 * known; and others run, so this process begins without what it cannot reach. */
void smd_context_deadline(evutil_socket_t fd, short what, void *arg);
void smd_context_settled(evutil_socket_t fd, short what, void *arg);
void smd_context_begin_without(evutil_socket_t fd, short what, void *arg);

#endif
