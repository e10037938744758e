/* Cuts large operations, and counts what has ended of them. */
#include "worker/libsummand/segment.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGNED 64u /* elements: a segment's memory begins where the whole's might */

static const uint8_t *at(const uint8_t *memory, size_t offset)
{
	return memory ? memory + offset : NULL;
}

/* So many elements from that one on; where narrow ones are sent each has twice the room there. */
static void cut(struct smd_request *segment, struct smd_request *whole, size_t first, size_t count)
{
	size_t stride = whole->bytes / whole->count;

	*segment = *whole;
	segment->whole = whole;
	segment->segments = NULL;
	segment->nsegments = 0;
	segment->numbered = false;
	segment->fence = NULL; /* the whole's: smd_operation_fence() */
	segment->send = at(whole->send, first * stride);
	segment->recv = (uint8_t *)at(whole->recv, first * stride);
	segment->wide = at(whole->wide, first * stride);
	segment->count = count;
	segment->bytes = count * stride;
}

int smd_segments_make(struct smd_request *request)
{
	size_t most = request->comm->context->segment_bytes;
	size_t each;
	size_t n;

	if (request->bytes <= most) {
		return 0;
	}
	n = (request->bytes + most - 1) / most;
	each = ((request->count + n - 1) / n + ALIGNED - 1) / ALIGNED * ALIGNED;
	n = (request->count + each - 1) / each;
	request->segments = calloc(n, sizeof(*request->segments));
	if (!request->segments) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		size_t left = request->count - i * each;

		cut(&request->segments[i], request, i * each, left < each ? left : each);
	}
	request->nsegments = n;
	return 0;
}

void smd_request_free(struct smd_request *request)
{
	if (request) {
		free(request->segments);
	}
	free(request);
}

struct smd_request *smd_segments_next(struct smd_request *whole)
{
	if (whole->begun == 0 && whole->path->begin) {
		whole->path->begin(whole);
	}
	whole->comm->segments++;
	return &whole->segments[whole->begun++];
}

struct smd_request *smd_segment_end(struct smd_request *segment, int *err)
{
	struct smd_request *whole = segment->whole;

	segment->err = *err;
	whole->comm->segments--;
	whole->failed = whole->failed ? whole->failed : *err;
	if (++whole->ended < whole->nsegments) {
		return NULL;
	}
	if (whole->path->end) {
		whole->path->end(whole);
	}
	*err = whole->failed;
	return whole;
}
