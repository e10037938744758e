/*
 * How a context comes to its first servers: it connects to all of them, tries those again that are lost
 * meanwhile, and begins when it has reached all, or without some where others of its job run.
 *
 * All of it is for the owner of the progress engine (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_CONNECTING_H
#define SMD_LIBSUMMAND_CONTEXT_CONNECTING_H

#include <event2/util.h>

#include "worker/libsummand/context.h"

/* Begins to connect to the servers of the configuration. 0 or -ENOMEM. */
int smd_context_create_targets(struct smd_context *context);

/* Before the context has begun: a shard has said WELCOME; or a server was lost, or replaced. */
void smd_context_welcomed(struct smd_context *context, struct smd_remote *remote);
void smd_context_connect_again(
	struct smd_context *context, struct smd_target *target, const char *text);

/* Timers of the context: it has tried to connect for long enough; and others run, so this process
 * begins without what it cannot reach. */
void smd_context_deadline(evutil_socket_t fd, short what, void *arg);
void smd_context_begin_without(evutil_socket_t fd, short what, void *arg);

/* It connects still, and the shard has said whether other ranks of the job run: if so, the process
 * gives what cannot be reached a moment only, since the others may be without it, and wait for this
 * rank. */
void smd_context_hurry(struct smd_context *context, const struct smd_remote *remote);

/* Of the deal, with the processes that the servers are now; 0: it is without some. */
uint64_t smd_context_deal_hash(struct smd_context *context);

#endif
