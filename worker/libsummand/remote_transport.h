/*
 * Which of the transports that may be used a remote's lane is tried over: the first of the list
 * that is not known to be nowhere, and over which its server's lanes have not failed for want of an
 * answer.
 *
 * All on the progress thread.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_TRANSPORT_H
#define SMD_LIBSUMMAND_REMOTE_TRANSPORT_H

#include "worker/libsummand/remote.h"

/* From the one that it is at, or that its server's lanes begin with; as many as there are: none. */
unsigned smd_remote_first_transport(const struct smd_remote *remote);

/*
 * The lane cannot be had over the transport that was tried: says why, and tries that once more, if
 * what happened passes, or the next one. `asked`: both ends had made their halves of it, or,
 * where it connects by itself, this end had. False: there is none.
 */
bool smd_remote_try_next(struct smd_remote *remote, int err, const char *reason, bool asked);

/* The shard has said WELCOME over it. */
void smd_remote_transport_works(struct smd_remote *remote);

/* A server that was lost is tried again: over all, if lanes to it were once made. */
void smd_remote_transport_returns(struct smd_target *target);

#endif
