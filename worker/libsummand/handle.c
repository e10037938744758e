/* A table of requests that only grows, and a list of its free places. */
#include "worker/libsummand/handle.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "worker/libsummand/operation.h"

#define INDEX_BITS  24 /* place + 1, so that no number is 0 */
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)
#define FIRST_BITS  8 /* the first slab's places; each slab after it has as many as all before */
#define FIRST_COUNT (1u << FIRST_BITS)
#define SLABS       (INDEX_BITS - FIRST_BITS)

_Static_assert(sizeof(uintptr_t) == 8, "a number has 40 bits for how often a place was used");

struct handle_place {
	_Atomic uint64_t handle; /* 0: it is free */
	_Atomic(struct smd_request *) operation;
	_Atomic(const struct smd_comm *) comm; /* the operation's */
	uint64_t uses;                         /* of whoever has taken the place from the list */
	_Atomic uint32_t next;                 /* in the list: place + 1; 0: it is the last */
};

static _Atomic(struct handle_place *) slabs[SLABS];
static _Atomic uint32_t nslabs;
/* The first free place + 1 and, above it, how often the list has changed: so that a list that has
 * come to look as it did before is not taken for the same. */
static _Atomic uint64_t free_list;

/* ---- places ---- */

static unsigned slab_of(uint32_t index)
{
	unsigned slab = 0;

	while (index >> (FIRST_BITS + slab)) {
		slab++;
	}
	return slab;
}

static uint32_t slab_begin(unsigned slab)
{
	return slab ? FIRST_COUNT << (slab - 1) : 0;
}

static uint32_t slab_count(unsigned slab)
{
	return slab ? FIRST_COUNT << (slab - 1) : FIRST_COUNT;
}

static struct handle_place *place_at(uint32_t index)
{
	unsigned slab = slab_of(index);
	struct handle_place *places = slab < SLABS ? atomic_load(&slabs[slab]) : NULL;

	return places ? &places[index - slab_begin(slab)] : NULL;
}

static void push(uint32_t first, uint32_t last)
{
	uint64_t head = atomic_load(&free_list);
	uint64_t changed;

	do {
		atomic_store(&place_at(last)->next, (uint32_t)head);
		changed = ((head >> 32) + 1) << 32 | (first + 1);
	} while (!atomic_compare_exchange_weak(&free_list, &head, changed));
}

/* A free place; -1: there is none. */
static int64_t pop(void)
{
	uint64_t head = atomic_load(&free_list);

	while ((uint32_t)head) {
		uint32_t index = (uint32_t)head - 1;
		uint32_t next = atomic_load(&place_at(index)->next);
		uint64_t changed = ((head >> 32) + 1) << 32 | next;

		if (atomic_compare_exchange_weak(&free_list, &head, changed)) {
			return index;
		}
	}
	return -1;
}

/* Another thread may be faster. False: out of memory, or of numbers. */
static bool grow(void)
{
	uint32_t slab = atomic_load(&nslabs);
	struct handle_place *expected = NULL;
	struct handle_place *places;
	uint32_t begin = slab_begin(slab);
	uint32_t count = slab_count(slab);

	if (slab == SLABS) {
		return false;
	}
	places = calloc(count, sizeof(*places));
	if (!places) {
		return false;
	}
	for (uint32_t i = 0; i + 1 < count; i++) {
		atomic_init(&places[i].next, begin + i + 2);
	}
	if (!atomic_compare_exchange_strong(&slabs[slab], &expected, places)) {
		free(places);
		return true;
	}
	atomic_store(&nslabs, slab + 1);
	push(begin, begin + count - 1);
	return true;
}

/* ---- numbers ---- */

smd_request *smd_handle_make(struct smd_request *operation)
{
	struct handle_place *place;
	int64_t index;
	uint64_t handle;

	while ((index = pop()) < 0) {
		if (!grow()) {
			return NULL;
		}
	}
	place = place_at((uint32_t)index);
	place->uses++;
	handle = place->uses << INDEX_BITS | ((uint64_t)index + 1);
	atomic_store(&place->operation, operation);
	atomic_store(&place->comm, operation->comm);
	atomic_store(&place->handle, handle);
	return (smd_request *)(uintptr_t)handle;
}

static struct handle_place *find(uint64_t handle)
{
	uint32_t number = (uint32_t)(handle & INDEX_MASK);
	struct handle_place *place = number ? place_at(number - 1) : NULL;

	return place && atomic_load(&place->handle) == handle ? place : NULL;
}

struct smd_request *smd_handle_find(const smd_request *handle)
{
	struct handle_place *place = find((uintptr_t)handle);

	return place ? atomic_load(&place->operation) : NULL;
}

struct smd_request *smd_handle_take(const smd_request *handle)
{
	uint64_t number = (uintptr_t)handle;
	struct handle_place *place = find(number);
	uint32_t index = (uint32_t)(number & INDEX_MASK) - 1;
	struct smd_request *operation;

	if (!place || !atomic_compare_exchange_strong(&place->handle, &number, 0)) {
		return NULL;
	}
	operation = atomic_load(&place->operation);
	push(index, index);
	return operation;
}

void smd_handles_drop(const struct smd_comm *comm)
{
	uint32_t count = atomic_load(&nslabs);

	for (uint32_t index = 0; count && index < slab_begin(count); index++) {
		struct handle_place *place = place_at(index);
		uint64_t handle = atomic_load(&place->handle);

		if (handle && atomic_load(&place->comm) == comm) {
			free(smd_handle_take((smd_request *)(uintptr_t)handle));
		}
	}
}
