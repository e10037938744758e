/*
 * Operations of more than a *segment* are done in some of about the same size, one after the other,
 * each an operation of its own: a table begins with a later operation, and so never waits for long
 * (specs/design/epochs.md). What the caller has is then the *whole*, which ends with its last
 * segment and has no chunks itself.
 *
 * All ranks cut alike, by the bytes of the caller's elements.
 */
#ifndef SMD_LIBSUMMAND_SEGMENT_H
#define SMD_LIBSUMMAND_SEGMENT_H

#include "worker/libsummand/operation.h"

#define SMD_SEGMENT_BYTES    (16u << 20) /* a context's, but for tests; a multiple of 64 */
/* Of a communicator: one comes in, the next goes out, a third waits for HELD to go round. */
#define SMD_SEGMENTS_AT_ONCE 3u

/* Of a request that is made and not begun, on its caller's thread: cuts it, if it is large. 0 or
 * -ENOMEM. */
int smd_segments_make(struct smd_request *request);

/* The request, and its segments. */
void smd_request_free(struct smd_request *request);

/* On the owner: the next one to begin, of a whole that not all have begun of. */
struct smd_request *smd_segments_next(struct smd_request *whole);

static inline bool smd_segments_have_begun(const struct smd_request *whole)
{
	return whole->begun == whole->nsegments;
}

/* On the owner: it has ended, in that way. Its whole if that has ended too, whose error is *err;
 * else NULL. */
struct smd_request *smd_segment_end(struct smd_request *segment, int *err);

#endif
