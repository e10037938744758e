/* A table of requests that only grows, and a list of its free places. */
#include "worker/libsummand/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "worker/libsummand/segment.h"

#define INDEX_BITS  24 /* place + 1, so that no number is 0 */
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)
#define FIRST_BITS  10 /* the first slab's places; each slab after it has as many as all before */
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

/* The first slab goes when the library is unloaded. Others, of programs with very many requests in
 * flight, stay: nobody knows whether a thread is using them while a process ends. */
static struct handle_place first_slab[FIRST_COUNT];
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
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

	return atomic_load(&slabs[slab]) + (index - slab_begin(slab));
}

/* Whether there is a place of that index; a caller may have made it up. */
static bool place_exists(uint32_t index)
{
	unsigned slab = slab_of(index);

	return slab < SLABS && atomic_load(&slabs[slab]);
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

/* A slab's places, each before the next one in the list. */
static void link_places(struct handle_place *places, unsigned slab)
{
	uint32_t begin = slab_begin(slab);

	for (uint32_t i = 0; i + 1 < slab_count(slab); i++) {
		atomic_init(&places[i].next, begin + i + 2);
	}
}

static void publish(unsigned slab)
{
	atomic_store(&nslabs, slab + 1);
	push(slab_begin(slab), slab_begin(slab) + slab_count(slab) - 1);
}

static void prepare(void)
{
	link_places(first_slab, 0);
	atomic_store(&slabs[0], first_slab);
	publish(0);
}

/* Another thread may be faster. False: out of memory, or of numbers. */
static bool grow(void)
{
	uint32_t slab = atomic_load(&nslabs);
	struct handle_place *expected = NULL;
	struct handle_place *places;

	if (slab == SLABS) {
		return false;
	}
	places = calloc(slab_count(slab), sizeof(*places));
	if (!places) {
		return false;
	}
	link_places(places, slab);
	if (!atomic_compare_exchange_strong(&slabs[slab], &expected, places)) {
		free(places);
		return true;
	}
	publish(slab);
	return true;
}

/* ---- numbers ---- */

smd_request *smd_handle_make(struct smd_request *operation)
{
	struct handle_place *place;
	int64_t index;
	uint64_t handle;

	pthread_once(&prepared, prepare);
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
	struct handle_place *place =
		number && place_exists(number - 1) ? place_at(number - 1) : NULL;

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
			smd_request_free(smd_handle_take((smd_request *)(uintptr_t)handle));
		}
	}
}
