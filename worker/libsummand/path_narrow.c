/* Narrows what is sent and widens what is received. */
#include "worker/libsummand/path_narrow.h"

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/log.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/wire/collective.h"
#include "worker/libsummand/flow.h"

/* Where the chunk begins, and behind the last one where that ends, in elements. */
static size_t narrow_first_element(const struct smd_request *operation, uint64_t chunk)
{
	size_t element = (chunk - operation->first_chunk) * operation->chunk_elements;

	return element < operation->count ? element : operation->count;
}

static void narrow_narrow(struct smd_request *operation, size_t begin, size_t end)
{
	smd_narrow_find(operation->dtype)(operation->recv + begin * operation->element_bytes,
		operation->wide + begin * sizeof(float), end - begin);
}

/* Chunks go to several shards, and not quite in their order: what is before this one is narrowed
 * first. */
static void narrow_prepare(struct smd_request *operation, uint64_t chunk)
{
	size_t end = narrow_first_element(operation, chunk + 1);

	if (end > operation->narrowed) {
		narrow_narrow(operation, operation->narrowed, end);
		operation->narrowed = end;
	}
}

/* The caller's input is still there. */
static void narrow_restore(struct smd_request *operation, uint64_t chunk)
{
	narrow_narrow(operation, narrow_first_element(operation, chunk),
		narrow_first_element(operation, chunk + 1));
}

/* Whether the chunk's result is widened when it comes: none of it is where the lanes' buffer is. */
static bool narrow_widens_early(const struct smd_request *operation, size_t first_element)
{
	return first_element >= operation->count - operation->count / 2;
}

static void narrow_widen(struct smd_request *operation, size_t begin, size_t end)
{
	smd_widen_find(operation->dtype)(operation->recv + begin * sizeof(float),
		operation->recv + begin * operation->element_bytes, end - begin);
}

static bool narrow_received(struct smd_flow *flow, struct smd_request *operation, bool direct)
{
	size_t begin = narrow_first_element(operation, flow->rx_chunk);

	(void)direct;
	if (narrow_widens_early(operation, begin)) {
		narrow_widen(operation, begin, narrow_first_element(operation, flow->rx_chunk + 1));
	}
	return true;
}

static const struct smd_path path_narrow = {
	.name = "narrow",
	.host = true,
	.prepare = narrow_prepare,
	.received = narrow_received,
	.restore = narrow_restore,
};

/* The narrow input is written over the caller's. */
static const struct smd_path path_narrow_in_place = {
	.name = "narrow",
	.host = true,
	.prepare = narrow_prepare,
	.received = narrow_received,
};

static void narrow_tell(struct smd_comm *comm)
{
	if (!comm->wire_told) {
		comm->wire_told = true;
		smd_log(SMD_LOG_WARN, "wire",
			"group %s: SUMMAND_WIRE: only memory of the host is sent as %s; memory of "
			"a "
			"device is sent as float32",
			comm->group, smd_dtype_name(comm->wire_dtype));
	}
}

void smd_path_narrow_choose(struct smd_request *operation)
{
	unsigned dtype = operation->comm->wire_dtype;

	if (operation->collective != SMD_COLLECTIVE_ALLREDUCE || operation->dtype != SMD_FLOAT32 ||
		dtype == SMD_FLOAT32 || operation->count < SMD_WIRE_LEAST) {
		return;
	}
	if (!operation->path->host) {
		narrow_tell(operation->comm);
		return;
	}
	operation->path = operation->send == operation->recv ? &path_narrow_in_place : &path_narrow;
	operation->wide = operation->send;
	operation->send = operation->recv;
	operation->dtype = dtype;
	operation->element_bytes = smd_dtype_bytes(dtype);
}

/* All of it where ranks have done it among themselves, which leaves no chunks (exchange.h): what
 * servers had to take over is widened again. */
static void narrow_widen_rest(struct smd_request *operation)
{
	size_t end = operation->count;

	for (uint64_t chunk = operation->first_chunk + operation->nchunks;
		chunk > operation->first_chunk &&
		narrow_widens_early(operation, narrow_first_element(operation, chunk - 1));
		chunk--) {
		end = narrow_first_element(operation, chunk - 1);
	}
	narrow_widen(operation, 0, end);
}

static bool narrow_finish_segments(struct smd_request *whole)
{
	bool finished = true;

	for (size_t i = 0; i < whole->nsegments; i++) {
		finished &= smd_path_narrow_finish(&whole->segments[i]);
	}
	return finished;
}

bool smd_path_narrow_finish(struct smd_request *operation)
{
	struct smd_progress *progress = &operation->comm->context->progress;
	enum smd_widening before;

	if (!operation->wide || operation->err) {
		return true;
	}
	if (operation->nsegments) {
		return narrow_finish_segments(operation);
	}
	smd_progress_lock(progress);
	before = operation->widening;
	if (before == SMD_NARROW) {
		operation->widening = SMD_WIDENING;
	}
	smd_progress_unlock(progress);
	if (before == SMD_NARROW) {
		narrow_widen_rest(operation);
		smd_progress_lock(progress);
		operation->widening = SMD_WIDE;
		smd_progress_unlock(progress);
	}
	return before != SMD_WIDENING;
}
