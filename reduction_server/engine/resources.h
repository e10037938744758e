/*
 * What a shard shares among its communicators and slots: memory, limits, and what they count.
 *
 * It is passed down, so nothing below the shard reaches into the shard. The shard's thread alone
 * uses it.
 */
#ifndef SMD_ENGINE_RESOURCES_H
#define SMD_ENGINE_RESOURCES_H

#include <stdint.h>

#include "reduction_server/engine/buffer_pool.h"

struct smd_resources {
	const char *name; /* the shard's, for messages: "shard 0" */
	struct smd_buffer_pool pool;
	uint32_t chunk_bytes;  /* largest chunk */
	uint32_t piece_bytes;  /* shortest piece of a result that is not whole yet (piece.h) */
	unsigned window;       /* slots that a communicator gets while there are enough */
	size_t job_buffers;    /* that one job may be promised */
	unsigned job_lanes;    /* that one job may have in groups */
	unsigned late_s;       /* a rank that the others wait for so long is named */
	unsigned forming_s;    /* a communicator that is not complete by then is over */
	unsigned busy_slots;   /* of all communicators */
	unsigned parting; /* lanes that are closed, and buffers that were withdrawn, which cards may
			     still use */
	unsigned short_looks;  /* somebody would have had a larger window: looks for idle ones to
				  come */
	uint64_t chunks;       /* reduced */
	uint64_t pieces;       /* of results that left before these were whole */
	uint64_t operations;   /* that chunks of were reduced */
	uint64_t late_reports; /* how often late ranks were named */
};

#endif
