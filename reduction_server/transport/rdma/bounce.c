/* Cuts registered slabs into slots, and hands these out. */
#include "reduction_server/transport/rdma/bounce.h"

#include <assert.h>
#include <stdlib.h>

#include "reduction_server/base/pages.h"

#define SLOTS_MOST (SMD_RDMA_BOUNCE_SLAB / SMD_RDMA_BOUNCE_LEAST)

struct smd_rdma_bounce_slab {
	struct smd_pages pages;
	struct smd_rdma_keys keys;
	size_t bytes;
	size_t slot_bytes;
	unsigned count; /* slots */
	unsigned nfree;
	LIST_ENTRY(smd_rdma_bounce_slab) link;
	struct smd_rdma_region *free[SLOTS_MOST]; /* a stack */
	struct smd_rdma_region regions[SLOTS_MOST];
};

/* All its slots are free. */
static void slab_cut(struct smd_rdma_bounce_slab *slab, size_t slot_bytes)
{
	slab->slot_bytes = slot_bytes;
	slab->count = (unsigned)(slab->bytes / slot_bytes);
	slab->nfree = slab->count;
	for (unsigned i = 0; i < slab->count; i++) {
		slab->regions[i] = (struct smd_rdma_region){
			.keys = slab->keys,
			.slot = slab->pages.memory + i * slot_bytes,
			.slab = slab,
		};
		slab->free[slab->count - 1 - i] = &slab->regions[i];
	}
}

static void slab_destroy(struct smd_rdma_bounce *bounce, struct smd_rdma_bounce_slab *slab)
{
	assert(slab->nfree == slab->count);
	bounce->config->dereg(bounce->config->owner, slab->keys.handle);
	bounce->counts->deregistrations++;
	bounce->counts->pinned -= slab->bytes;
	smd_pages_unmap(&slab->pages);
	free(slab);
}

/* NULL: out of memory, or of memory that may be locked. */
static struct smd_rdma_bounce_slab *slab_create(struct smd_rdma_bounce *bounce, size_t bytes)
{
	const struct smd_rdma_memory_config *config = bounce->config;
	struct smd_rdma_bounce_slab *slab = malloc(sizeof(*slab));

	if (!slab || smd_pages_map_near(&slab->pages, bytes, config->node)) {
		free(slab);
		return NULL;
	}
	if (config->reg(config->owner, slab->pages.memory, bytes, SMD_RDMA_WRITE, &slab->keys)) {
		smd_pages_unmap(&slab->pages);
		free(slab);
		return NULL;
	}
	slab->bytes = bytes;
	bounce->counts->registrations++;
	bounce->counts->pinned += bytes;
	return slab;
}

void smd_rdma_bounce_create(struct smd_rdma_bounce *bounce,
	const struct smd_rdma_memory_config *config, struct smd_rdma_memory_counts *counts)
{
	bounce->config = config;
	bounce->counts = counts;
	bounce->bytes = 0;
	LIST_INIT(&bounce->slabs);
}

void smd_rdma_bounce_destroy(struct smd_rdma_bounce *bounce)
{
	while (!LIST_EMPTY(&bounce->slabs)) {
		struct smd_rdma_bounce_slab *slab = LIST_FIRST(&bounce->slabs);

		LIST_REMOVE(slab, link);
		slab_destroy(bounce, slab);
	}
}

/* One with a free slot of that size; else one that nobody uses and that is long enough, which is
 * cut anew. */
static struct smd_rdma_bounce_slab *bounce_find(struct smd_rdma_bounce *bounce, size_t slot_bytes)
{
	struct smd_rdma_bounce_slab *unused = NULL;
	struct smd_rdma_bounce_slab *slab;

	LIST_FOREACH (slab, &bounce->slabs, link) {
		if (slab->slot_bytes == slot_bytes && slab->nfree) {
			return slab;
		}
		if (slab->nfree == slab->count && slab->bytes >= slot_bytes) {
			unused = slab;
		}
	}
	if (unused) {
		slab_cut(unused, slot_bytes);
	}
	return unused;
}

/* One more, while there may be more and they can be had. The last has what is left for it. */
static struct smd_rdma_bounce_slab *bounce_grow(struct smd_rdma_bounce *bounce, size_t slot_bytes)
{
	const uint64_t left = bounce->config->bounce_max - bounce->bytes;
	const size_t bytes = left < SMD_RDMA_BOUNCE_SLAB ? (size_t)left : SMD_RDMA_BOUNCE_SLAB;
	struct smd_rdma_bounce_slab *slab = NULL;

	if (bytes >= slot_bytes) {
		bounce->bytes += bytes; /* for good: it is not asked for again */
		slab = slab_create(bounce, bytes);
	}
	if (slab) {
		slab_cut(slab, slot_bytes);
		LIST_INSERT_HEAD(&bounce->slabs, slab, link);
	}
	return slab;
}

/* Cut anew for the first payload. */
void smd_rdma_bounce_prepare(struct smd_rdma_bounce *bounce)
{
	if (LIST_EMPTY(&bounce->slabs)) {
		(void)bounce_grow(bounce, SMD_RDMA_BOUNCE_LEAST);
	}
}

struct smd_rdma_region *smd_rdma_bounce_take(struct smd_rdma_bounce *bounce, size_t length)
{
	size_t slot_bytes = SMD_RDMA_BOUNCE_LEAST;
	struct smd_rdma_bounce_slab *slab;

	while (slot_bytes < length && slot_bytes < SMD_RDMA_BOUNCE_SLAB) {
		slot_bytes *= 2;
	}
	if (slot_bytes < length) {
		return NULL;
	}
	slab = bounce_find(bounce, slot_bytes);
	if (!slab) {
		slab = bounce_grow(bounce, slot_bytes);
	}
	if (!slab) {
		return NULL;
	}
	bounce->counts->bounced++;
	return slab->free[--slab->nfree];
}

void smd_rdma_bounce_give(struct smd_rdma_bounce *bounce, struct smd_rdma_region *region)
{
	struct smd_rdma_bounce_slab *slab = region->slab;

	slab->free[slab->nfree++] = region;
	LIST_REMOVE(slab, link); /* what caches have is used first */
	LIST_INSERT_HEAD(&bounce->slabs, slab, link);
}
