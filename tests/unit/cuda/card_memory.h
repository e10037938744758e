/*
 * The memory that a card knows: that of the device by its dma-buf, and what of the host's has been
 * registered. Whoever calls holds the lock of all cards.
 */
#ifndef SMD_TESTS_CARD_MEMORY_H
#define SMD_TESTS_CARD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "reduction_server/transport/transport.h"
#include "tests/unit/cuda/card.h"

/* What users of rdma must not do, or what a card cannot go on without. */
#define CARD_REQUIRE(condition)                                                                    \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "card: %s must hold in %s\n", #condition, __func__);       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define CARD_HOST_MAX 64

/* Of the device. */
struct card_memory {
	struct smd_extent extent;
	uint8_t *mapping; /* of the whole dma-buf so far */
	size_t mapped;
	uint64_t offset;
	unsigned users; /* advertisements */
	bool deregistered;
	LIST_ENTRY(card_memory) link;
};

struct card_memories {
	LIST_HEAD(, card_memory) device;
	unsigned registered;
	struct smd_extent host[CARD_HOST_MAX]; /* without a base: free */
};

void card_memories_add_device(struct card_memories *memories, struct smd_extent extent, int fd,
	uint64_t offset, struct card_counts *counts);
void card_memories_add_host(
	struct card_memories *memories, struct smd_extent extent, struct card_counts *counts);
/* Of either kind. What has users stays until the last has left. */
void card_memories_remove(
	struct card_memories *memories, struct smd_extent extent, struct card_counts *counts);
void card_memories_clear(struct card_memories *memories, struct card_counts *counts);

/* NULL: it is not the device's. */
struct card_memory *card_memories_find(
	const struct card_memories *memories, const uint8_t *pointer, uint32_t length);
/* Where the card finds it. */
uint8_t *card_memory_at(const struct card_memory *memory, const uint8_t *pointer);
void card_memory_leave(
	struct card_memories *memories, struct card_memory *memory, struct card_counts *counts);

#endif
