/* The memory of the simulated GPU, and what copies and fills it. Device and pinned memory are both
 * the host's; a map tells which is which, as NCCL asks. Other processes may map device memory by its handle. */
#include "memory.h"

#include "stream.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

static std::mutex lock;
static std::map<uintptr_t, smd_range> ranges;

constexpr size_t PAGE = 65536; /* what IPC and registration may take for granted */

static cudaError_t map(void **pointer, int file, size_t size)
{
	*pointer = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return *pointer == MAP_FAILED ? cudaErrorMemoryAllocation : cudaSuccess;
}

static cudaError_t allocate(void **pointer, size_t size, cudaMemoryType type)
{
	int file = memfd_create("simulated GPU", MFD_CLOEXEC);
	cudaError_t error;

	size = size ? (size + PAGE - 1) / PAGE * PAGE : PAGE;
	if (file == -1 || ftruncate(file, (off_t)size)) {
		return cudaErrorMemoryAllocation;
	}
	error = map(pointer, file, size);
	if (error != cudaSuccess) {
		return error;
	}
	memset(*pointer, 0xa5, size); /* zeros would hide what is read before it is written */
	if (type != cudaMemoryTypeDevice) { /* whose handles nobody asks for */
		close(file);
		file = -1;
	}
	std::lock_guard<std::mutex> hold(lock);
	ranges[(uintptr_t)*pointer] = {(uintptr_t)*pointer, size, type, file};
	return cudaSuccess;
}

static cudaError_t release(void *pointer)
{
	smd_range range;

	if (!pointer) {
		return cudaSuccess;
	}
	{
		std::lock_guard<std::mutex> hold(lock);
		auto found = ranges.find((uintptr_t)pointer);

		if (found == ranges.end()) {
			return cudaErrorInvalidValue;
		}
		range = found->second;
		ranges.erase(found);
	}
	munmap(pointer, range.size);
	if (range.file != -1) {
		close(range.file);
	}
	return cudaSuccess;
}

/* What a handle says: which file of which process. */
struct shared_range {
	pid_t process;
	int file;
	size_t size;
};

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
	smd_range range;
	shared_range shared = {};

	if (!smd_memory_find(pointer, &range) || range.file == -1) {
		return cudaErrorInvalidValue;
	}
	shared = {getpid(), range.file, range.size};
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &shared, sizeof(shared));
	return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned)
{
	shared_range shared;
	char path[64];
	int file;
	cudaError_t error;

	memcpy(&shared, &handle, sizeof(shared));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)shared.process, shared.file);
	file = open(path, O_RDWR | O_CLOEXEC);
	error = file == -1 ? cudaErrorMapBufferObjectFailed : map(pointer, file, shared.size);
	if (file != -1) {
		close(file);
	}
	if (error == cudaSuccess) {
		std::lock_guard<std::mutex> hold(lock);

		ranges[(uintptr_t)*pointer] = {
			(uintptr_t)*pointer, shared.size, cudaMemoryTypeDevice, -1};
	}
	return error;
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
	return release(pointer);
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
