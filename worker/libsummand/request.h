/*
 * What the library's own parts ask of operations beside the public calls (summand.h).
 */
#ifndef SMD_LIBSUMMAND_REQUEST_H
#define SMD_LIBSUMMAND_REQUEST_H

#include "worker/summand.h"

/* As smd_broadcast_start(), but every rank gets the root's elements in `recv`, the root too. */
int smd_broadcast_out_of_place_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, int root, smd_request **out);

#endif
