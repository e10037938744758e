/* Keeps the list of what is registered with one card. */
#include "tests/unit/cuda/card_memory.h"

#include <sys/mman.h>

static bool same(struct smd_extent one, struct smd_extent other)
{
	return one.base == other.base && one.length == other.length;
}

struct card_memory *card_memories_find(
	const struct card_memories *memories, const uint8_t *pointer, uint32_t length)
{
	struct card_memory *memory;

	LIST_FOREACH (memory, &memories->device, link) {
		const uint8_t *base = memory->extent.base;

		if (!memory->deregistered && pointer >= base &&
			pointer + length <= base + memory->extent.length) {
			return memory;
		}
	}
	return NULL;
}

uint8_t *card_memory_at(const struct card_memory *memory, const uint8_t *pointer)
{
	return memory->mapping + memory->offset + (pointer - (uint8_t *)memory->extent.base);
}

static void memory_free(
	struct card_memories *memories, struct card_memory *memory, struct card_counts *counts)
{
	LIST_REMOVE(memory, link);
	munmap(memory->mapping, memory->mapped);
	free(memory);
	memories->registered--;
	counts->registered--;
}

void card_memory_leave(
	struct card_memories *memories, struct card_memory *memory, struct card_counts *counts)
{
	if (--memory->users == 0 && memory->deregistered) {
		memory_free(memories, memory, counts);
	}
}

void card_memories_add_device(struct card_memories *memories, struct smd_extent extent, int fd,
	uint64_t offset, struct card_counts *counts)
{
	struct card_memory *memory;

	LIST_FOREACH (memory, &memories->device, link) {
		CARD_REQUIRE(memory->deregistered || !same(memory->extent, extent));
	}
	memory = calloc(1, sizeof(*memory));
	CARD_REQUIRE(memory && extent.length);
	memory->extent = extent;
	memory->offset = offset;
	memory->mapped = offset + extent.length;
	memory->mapping = mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CARD_REQUIRE(memory->mapping != MAP_FAILED);
	LIST_INSERT_HEAD(&memories->device, memory, link);
	counts->registered++;
	if (++memories->registered > counts->registered_most) {
		counts->registered_most = memories->registered;
	}
}

static struct smd_extent *host_find(struct card_memories *memories, const void *base)
{
	for (unsigned i = 0; i < CARD_HOST_MAX; i++) {
		if (memories->host[i].base == base) {
			return &memories->host[i];
		}
	}
	return NULL;
}

void card_memories_add_host(
	struct card_memories *memories, struct smd_extent extent, struct card_counts *counts)
{
	struct smd_extent *place;

	CARD_REQUIRE(!host_find(memories, extent.base));
	place = host_find(memories, NULL);
	CARD_REQUIRE(place);
	*place = extent;
	counts->host_registered++;
	counts->host_registrations++;
}

void card_memories_remove(
	struct card_memories *memories, struct smd_extent extent, struct card_counts *counts)
{
	struct smd_extent *host = host_find(memories, extent.base);
	struct card_memory *memory;

	if (host) {
		CARD_REQUIRE(host->length == extent.length);
		*host = (struct smd_extent){NULL, 0};
		counts->host_registered--;
	}
	LIST_FOREACH (memory, &memories->device, link) {
		if (!memory->deregistered && same(memory->extent, extent)) {
			break;
		}
	}
	if (memory) {
		memory->deregistered = true;
		if (memory->users == 0) {
			memory_free(memories, memory, counts);
		}
	}
}

void card_memories_clear(struct card_memories *memories, struct card_counts *counts)
{
	while (!LIST_EMPTY(&memories->device)) {
		memory_free(memories, LIST_FIRST(&memories->device), counts);
	}
}
