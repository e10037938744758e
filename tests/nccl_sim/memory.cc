/* The memory of the simulated GPU, and what copies and fills it. Device and pinned memory are both
 * the host's; a map tells which is which, as NCCL asks. */
#include "memory.h"

#include "stream.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

static std::mutex lock;
static std::map<uintptr_t, smd_range> ranges;

static cudaError_t allocate(void **pointer, size_t size, cudaMemoryType type)
{
	constexpr size_t PAGE = 65536; /* what IPC and registration may take for granted */

	size = (size + PAGE - 1) / PAGE * PAGE;
	if (posix_memalign(pointer, PAGE, size ? size : PAGE)) {
		return cudaErrorMemoryAllocation;
	}
	memset(*pointer, 0xa5, size); /* zeros would hide what is read before it is written */
	std::lock_guard<std::mutex> hold(lock);
	ranges[(uintptr_t)*pointer] = {(uintptr_t)*pointer, size, type};
	return cudaSuccess;
}

static cudaError_t release(void *pointer)
{
	if (!pointer) {
		return cudaSuccess;
	}
	{
		std::lock_guard<std::mutex> hold(lock);

		if (!ranges.erase((uintptr_t)pointer)) {
			return cudaErrorInvalidValue;
		}
	}
	free(pointer);
	return cudaSuccess;
}

bool smd_memory_find(const void *pointer, smd_range *range)
{
	std::lock_guard<std::mutex> hold(lock);
	auto next = ranges.upper_bound((uintptr_t)pointer);

	if (next == ranges.begin()) {
		return false;
	}
	*range = (--next)->second;
	return (uintptr_t)pointer < range->base + range->size;
}

cudaError_t cudaMalloc(void **pointer, size_t size)
{
	return allocate(pointer, size, cudaMemoryTypeDevice);
}

cudaError_t cudaFree(void *pointer)
{
	return release(pointer);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned)
{
	return allocate(pointer, size, cudaMemoryTypeHost);
}

cudaError_t cudaFreeHost(void *pointer)
{
	return release(pointer);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *)
{
	static char only;

	*pool = (cudaMemPool_t)&only;
	return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t, cudaStream_t)
{
	return allocate(pointer, size, cudaMemoryTypeDevice);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
	smd_stream_add(stream, [=] { release(pointer); });
	return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
	*device = host;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
{
	smd_range range;

	memset(attributes, 0, sizeof(*attributes));
	attributes->devicePointer = attributes->hostPointer = (void *)pointer;
	attributes->type =
		smd_memory_find(pointer, &range) ? range.type : cudaMemoryTypeUnregistered;
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t stream)
{
	smd_range range;

	if (smd_memory_find(from, &range)) {
		smd_stream_add(stream, [=] { memcpy(to, from, size); });
		return cudaSuccess;
	}
	/* As CUDA does: pageable memory is read before the call returns. */
	auto copy =
		std::make_shared<std::vector<char>>((const char *)from, (const char *)from + size);

	smd_stream_add(stream, [=] { memcpy(to, copy->data(), size); });
	return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
	cudaMemcpyAsync(to, from, size, kind, nullptr);
	return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
	smd_stream_add(stream, [=] { memset(to, value, size); });
	return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
	cudaMemsetAsync(to, value, size, nullptr);
	return cudaStreamSynchronize(nullptr);
}
