/*
 * Memory of the host or of the fake GPU, alike to the tests of the NCCL plugin. That of the GPU has
 * no access rights: whoever touches it ends the program.
 */
#ifndef SMD_TESTS_GDR_MEMORY_H
#define SMD_TESTS_GDR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	bool device;
	size_t bytes;
	uint8_t *data;
	void *mhandle;
};

uint8_t memory_pattern(size_t i, unsigned seed);
void memory_create(struct memory *memory, bool device, size_t bytes);
void memory_free(struct memory *memory);
void memory_put(struct memory *memory, size_t at, const void *from, size_t bytes);
void memory_get(const struct memory *memory, size_t at, void *to, size_t bytes);
/* All of it with the pattern. */
void memory_fill(struct memory *memory, unsigned seed);

/* As NCCL does it: the descriptor is closed as soon as this has returned. */
#define REGISTER(table, comm, memory) memory_register(table.regMr, table.regMrDmaBuf, comm, memory)

int memory_register(int (*reg)(void *, void *, size_t, int, void **),
	int (*reg_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **), void *comm,
	struct memory *memory);

#endif
