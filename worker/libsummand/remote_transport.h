/*
 * Which of the transports that may be used a remote's lane is tried over: the first of the list that is not
 * known to be nowhere, and that other lanes of its server were not in vain over.
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
 * what happened passes, or the next one. False: there is none.
 */
bool smd_remote_try_next(struct smd_remote *remote, int err, const char *reason);

#endif
