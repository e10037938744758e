/* The driver's memory objects, as far as NCCL sets up NVLS with them: files, which processes map and hand to each other. What is
 * bound to a multicast object is not there when that is read: NVLS is set up so, and nothing can be summed by it.
 */
#include "multicast.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

constexpr size_t GRANULARITY = 65536;

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size)
{
	int file = memfd_create("simulated multicast", MFD_CLOEXEC);

	if (file == -1 || ftruncate(file, (off_t)size)) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = (CUmemGenericAllocationHandle)file;
	return CUDA_SUCCESS;
}

static CUresult memory_create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *, unsigned long long)
{
	return create(handle, size);
}

static CUresult multicast_create(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties)
{
	return create(handle, properties->size);
}

static CUresult memory_release(CUmemGenericAllocationHandle handle)
{
	return close((int)handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult memory_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType, unsigned long long)
{
	*(int *)out = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
	return *(int *)out == -1 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult memory_import(CUmemGenericAllocationHandle *handle, void *file, CUmemAllocationHandleType)
{
	int own = fcntl((int)(intptr_t)file, F_DUPFD_CLOEXEC, 0);

	*handle = (CUmemGenericAllocationHandle)own;
	return own == -1 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult granularity(size_t *size)
{
	*size = GRANULARITY;
	return CUDA_SUCCESS;
}

static CUresult memory_granularity(size_t *size, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)
{
	return granularity(size);
}

static CUresult multicast_granularity(size_t *size, const CUmulticastObjectProp *, CUmulticastGranularity_flags)
{
	return granularity(size);
}

static CUresult place(void *where, size_t size, int protection, int flags, int file)
{
	void *got = mmap(where, size, protection, flags, file, 0);

	return got == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult address_reserve(CUdeviceptr *pointer, size_t size, size_t, CUdeviceptr, unsigned long long)
{
	void *got = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*pointer = (CUdeviceptr)got;
	return got == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr pointer, size_t size)
{
	return munmap((void *)pointer, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult memory_map(CUdeviceptr pointer, size_t size, size_t, CUmemGenericAllocationHandle handle, unsigned long long)
{
	return place((void *)pointer, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle);
}

static CUresult memory_unmap(CUdeviceptr pointer, size_t size)
{
	return place((void *)pointer, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
}

static CUresult memory_access(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)
{
	return CUDA_SUCCESS;
}

static CUresult multicast_add(CUmemGenericAllocationHandle, CUdevice)
{
	return CUDA_SUCCESS;
}

static CUresult multicast_bind(
	CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)
{
	return CUDA_SUCCESS;
}

static CUresult multicast_unbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t)
{
	return CUDA_SUCCESS;
}

const std::map<std::string, void *> smd_multicast_functions = {
	{"cuMemCreate", (void *)memory_create},
	{"cuMemRelease", (void *)memory_release},
	{"cuMemExportToShareableHandle", (void *)memory_export},
	{"cuMemImportFromShareableHandle", (void *)memory_import},
	{"cuMemGetAllocationGranularity", (void *)memory_granularity},
	{"cuMemAddressReserve", (void *)address_reserve},
	{"cuMemAddressFree", (void *)address_free},
	{"cuMemMap", (void *)memory_map},
	{"cuMemUnmap", (void *)memory_unmap},
	{"cuMemSetAccess", (void *)memory_access},
	{"cuMulticastCreate", (void *)multicast_create},
	{"cuMulticastGetGranularity", (void *)multicast_granularity},
	{"cuMulticastAddDevice", (void *)multicast_add},
	{"cuMulticastBindMem", (void *)multicast_bind},
	{"cuMulticastUnbind", (void *)multicast_unbind},
};
