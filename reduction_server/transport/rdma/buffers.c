/* Cuts huge pages into places for lanes' messages. */
#include "reduction_server/transport/rdma/buffers.h"

#include <stdbool.h>
#include <stdlib.h>

#include "reduction_server/base/pages.h"
#include "reduction_server/transport/rdma/rdma.h"

#define PLACE  (((size_t)SMD_RDMA_BUFFERS_BYTES + 4095) & ~(size_t)4095)
#define PLACES (unsigned)(SMD_PAGES_HUGE / PLACE) /* of a slab */

struct rdma_slab {
	struct smd_pages pages;
	uint32_t taken; /* a bit for each place */
	unsigned ntaken;
	LIST_ENTRY(rdma_slab) link;
};

static struct rdma_slab *slab_create(struct rdma_buffers *buffers)
{
	struct rdma_slab *slab = calloc(1, sizeof(*slab));

	if (slab && smd_pages_map_near(&slab->pages, SMD_PAGES_HUGE, buffers->node)) {
		free(slab);
		slab = NULL;
	}
	if (slab) {
		LIST_INSERT_HEAD(&buffers->slabs, slab, link);
	}
	return slab;
}

static void slab_destroy(struct rdma_slab *slab)
{
	LIST_REMOVE(slab, link);
	smd_pages_unmap(&slab->pages);
	free(slab);
}

uint8_t *smd_rdma_buffers_take(struct rdma_buffers *buffers)
{
	struct rdma_slab *slab;
	unsigned place = 0;

	LIST_FOREACH (slab, &buffers->slabs, link) {
		if (slab->ntaken < PLACES) {
			break;
		}
	}
	if (!slab) {
		slab = slab_create(buffers);
	}
	if (!slab) {
		return NULL;
	}
	while (slab->taken & 1u << place) {
		place++;
	}
	slab->taken |= 1u << place;
	slab->ntaken++;
	return slab->pages.memory + place * PLACE;
}

static bool slab_has(const struct rdma_slab *slab, const uint8_t *place)
{
	return place >= slab->pages.memory && place < slab->pages.memory + SMD_PAGES_HUGE;
}

/* One that is empty is kept: lanes that go are mostly followed by others. */
void smd_rdma_buffers_put(struct rdma_buffers *buffers, uint8_t *place)
{
	struct rdma_slab *slab = LIST_FIRST(&buffers->slabs);

	while (!slab_has(slab, place)) {
		slab = LIST_NEXT(slab, link);
	}
	slab->taken &= ~(1u << (size_t)(place - slab->pages.memory) / PLACE);
	if (--slab->ntaken == 0 && slab != LIST_FIRST(&buffers->slabs)) {
		slab_destroy(slab);
	}
}

void smd_rdma_buffers_free(struct rdma_buffers *buffers)
{
	while (!LIST_EMPTY(&buffers->slabs)) {
		slab_destroy(LIST_FIRST(&buffers->slabs));
	}
}
