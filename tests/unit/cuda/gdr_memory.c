/* Makes memory, fills and reads it, and registers it as NCCL does. */
#include "tests/unit/cuda/gdr_memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cuda/device_pool.h"
#include "tests/unit/cuda/gpu.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"

uint8_t memory_pattern(size_t i, unsigned seed)
{
	return (uint8_t)(i * 7 + i / 251 + seed);
}

void memory_create(struct memory *memory, bool device, size_t bytes)
{
	*memory = (struct memory){.device = device, .bytes = bytes};
	memory->data = device ? gpu_alloc(bytes) : malloc(bytes);
}

void memory_free(struct memory *memory)
{
	if (memory->device) {
		gpu_free(memory->data);
	} else {
		free(memory->data);
	}
}

void memory_put(struct memory *memory, size_t at, const void *from, size_t bytes)
{
	if (memory->device && bytes) {
		gpu_upload(memory->data + at, from, bytes);
	} else if (bytes) {
		memcpy(memory->data + at, from, bytes);
	}
}

void memory_get(const struct memory *memory, size_t at, void *to, size_t bytes)
{
	if (memory->device && bytes) {
		gpu_download(to, memory->data + at, bytes);
	} else if (bytes) {
		memcpy(to, memory->data + at, bytes);
	}
}

void memory_fill(struct memory *memory, unsigned seed)
{
	uint8_t *bytes = malloc(memory->bytes);

	for (size_t i = 0; i < memory->bytes; i++) {
		bytes[i] = memory_pattern(i, seed);
	}
	memory_put(memory, 0, bytes, memory->bytes);
	free(bytes);
}

int memory_register(int (*reg)(void *, void *, size_t, int, void **),
	int (*reg_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **), void *comm,
	struct memory *memory)
{
	uint64_t offset;
	int result;
	int fd;

	if (!memory->device) {
		return reg(comm, memory->data, memory->bytes, NCCL_PTR_HOST, &memory->mhandle);
	}
	fd = gpu_export(memory->data, memory->bytes, &offset);
	result = reg_dmabuf(
		comm, memory->data, memory->bytes, NCCL_PTR_CUDA, offset, fd, &memory->mhandle);
	close(fd);
	return result;
}
