/*
 * The end of a context: no server is left, or what went wrong is this process's own. For the owner of
 * the progress engine (progress.h).
 */
#ifndef SMD_LIBSUMMAND_CONTEXT_FAILURE_H
#define SMD_LIBSUMMAND_CONTEXT_FAILURE_H

#include <event2/util.h>

#include "worker/libsummand/context.h"

/* The context is of no further use, its communicators fail, and every later call says the text, and
 * those that come after it. */
void smd_context_fail(struct smd_context *context, int err, const char *text);

/* A timer of the context: what was lost of one cause is known. */
void smd_context_settled(evutil_socket_t fd, short what, void *arg);

#endif
