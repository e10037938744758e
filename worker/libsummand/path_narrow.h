/*
 * The narrow path: float32 in the caller's buffers, two bytes an element on the wire
 * (SUMMAND_WIRE).
 *
 * For the servers, other ranks and whatever is lost and repaired it is an operation of the narrow
 * type, in place, in the first half of `recv`. So it needs no memory of its own:
 *
 *     send, float32   |aaaa|bbbb|cccc|dddd|   narrowed from the front, as chunks are sent
 *     recv            |a|b|c|d|           |   the operation's buffer: inputs first, then results
 *     recv            |a|b|c|d| |CCCC|DDDD|   results of the second half are widened as they come,
 *     recv, float32   |AAAA|BBBB|CCCC|DDDD|   the others when the operation is done, from the back
 *
 * What ranks do among themselves (exchange.h) is small, and all of it is widened in the end.
 *
 * What is narrowed never reaches inputs that are not read yet, if send is recv; what is widened
 * early never reaches what the lanes still use.
 */
#ifndef SMD_LIBSUMMAND_PATH_NARROW_H
#define SMD_LIBSUMMAND_PATH_NARROW_H

#include "worker/libsummand/operation.h"

/* On the caller's thread, before the operation starts, with a path: makes this its path if its
 * communicator asks for that and it is an all-reduce of at least SMD_WIRE_LEAST of float32. Of
 * memory of a device it is not, and the log says so once. */
void smd_path_narrow_choose(struct smd_request *operation);

/* On a caller's thread, when it is finished: recv is what the caller asked for. False: it will be
 * in a moment, another thread is at it. */
bool smd_path_narrow_finish(struct smd_request *operation);

#endif
