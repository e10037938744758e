/* Keeps inputs while a network card may write over them, and writes them back. */
#include "worker/libsummand/undo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/libsummand/deal.h"

#define ALIGNMENT 4096u

void smd_undos_create(struct smd_undos *undos, const struct smd_deal *deal, uint64_t bytes)
{
	*undos = (struct smd_undos){.deal = deal, .bytes = bytes};
	SLIST_INIT(&undos->idle);
}

void smd_undos_destroy(struct smd_undos *undos)
{
	if (undos->memory) {
		munmap(undos->memory, undos->mapped);
	}
	free(undos->records);
}

static size_t undos_stride(const struct smd_undos *undos)
{
	return (undos->deal->chunk_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What is never used takes no page and counts as no memory. */
static void undos_make(struct smd_undos *undos)
{
	unsigned most = (unsigned)(undos->bytes / undos_stride(undos));
	size_t bytes = most * undos_stride(undos);
	void *memory;

	undos->bytes = 0; /* it is tried once */
	if (most == 0) {
		return;
	}
	undos->records = calloc(most, sizeof(*undos->records));
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (undos->records && memory != MAP_FAILED) {
		undos->memory = memory;
		undos->mapped = bytes;
		undos->most = most;
	} else if (memory != MAP_FAILED) {
		munmap(memory, bytes);
	}
}

static struct smd_undo *undos_take(struct smd_undos *undos)
{
	struct smd_undo *undo = SLIST_FIRST(&undos->idle);

	if (undos->bytes) {
		undos_make(undos);
	}
	if (undo) {
		SLIST_REMOVE_HEAD(&undos->idle, link);
	} else if (undos->made < undos->most) {
		undo = &undos->records[undos->made];
		undo->copy = undos->memory + undos->made * undos_stride(undos);
		undos->made++;
	}
	return undo;
}

struct smd_undo *smd_undo_keep(struct smd_undos *undos, void *place, size_t length)
{
	struct smd_undo *undo = undos_take(undos);

	if (undo) {
		undo->place = place;
		undo->length = length;
		memcpy(undo->copy, place, length);
		undos->kept += length;
		if (undos->kept > undos->kept_most) {
			undos->kept_most = undos->kept;
		}
	}
	return undo;
}

void smd_undo_drop(struct smd_undos *undos, struct smd_undo *undo)
{
	undos->kept -= undo->length;
	SLIST_INSERT_HEAD(&undos->idle, undo, link);
}

void smd_undo_restore(struct smd_undos *undos, struct smd_undo *undo)
{
	memcpy(undo->place, undo->copy, undo->length);
	smd_undo_drop(undos, undo);
}
