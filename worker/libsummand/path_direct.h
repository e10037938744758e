/*
 * The direct path: registered memory of a device (registration.h), which the lane's network card
 * reads and writes itself. Where a chunk cannot go that way the communicator fails.
 */
#ifndef SMD_LIBSUMMAND_PATH_DIRECT_H
#define SMD_LIBSUMMAND_PATH_DIRECT_H

#include "worker/libsummand/operation.h"

/* On the caller's thread: whether a buffer of the operation is such memory, so that this is its
 * path now. */
bool smd_path_direct_takes(struct smd_request *operation);

#endif
