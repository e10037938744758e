/* The fake driver's memory: its addresses, what is behind them, and copies. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cuda/fake.h"
#include "tests/unit/cuda/fake_cuda.h"

#define POISON 0xa5
/* Device memory begins so far in its first page: allocations need not be whole pages. */
#define MARGIN 512

struct allocation {
	uint8_t *address; /* as the program sees it */
	uint8_t *shadow;  /* where the bytes are; NULL: at the address */
	size_t bytes;
	size_t margin; /* so far before them the mappings begin, */
	int fd;        /* of this file, which is the device's memory */
	uint64_t id;
	int ordinal; /* -1: host memory */
	bool managed;
	size_t piece;    /* mapped in pieces of so many bytes, each with an id; 0: it is one */
	size_t pieces;   /* that are mapped */
	bool pooled;     /* of cuMemAllocAsync() */
	uint8_t ready;   /* it is there; atomic, because a stream sets it */
	CUstream stream; /* where it is before */
	LIST_ENTRY(allocation) link;
};

static LIST_HEAD(, allocation) allocations = LIST_HEAD_INITIALIZER(allocations);

static uint64_t last_id;
static unsigned long pinned;

/* Where device memory was. The next of its size is there again, that freed last first. */
struct vacancy {
	uint8_t *mapping;
	size_t length;
	LIST_ENTRY(vacancy) link;
};
static LIST_HEAD(, vacancy) vacancies = LIST_HEAD_INITIALIZER(vacancies);

static struct allocation *find(const void *pointer)
{
	const uint8_t *address = pointer;
	struct allocation *one;

	LIST_FOREACH (one, &allocations, link) {
		if (address >= one->address && address < one->address + one->bytes) {
			return one;
		}
	}
	return NULL;
}

uint8_t *fake_shadow(CUdeviceptr pointer, size_t bytes, CUcontext context)
{
	struct allocation *one = find((const void *)pointer);
	size_t offset;

	REQUIRE(one && one->shadow && one->ordinal == context->ordinal);
	offset = (size_t)((uint8_t *)pointer - one->address);
	REQUIRE(bytes <= (one->piece ? one->pieces * one->piece : one->bytes) - offset);
	return one->shadow + offset;
}

uint8_t *fake_word(CUdeviceptr pointer, CUcontext context)
{
	struct allocation *one = find((const void *)pointer);

	REQUIRE(one && pointer % sizeof(uint32_t) == 0 && !one->managed);
	return one->shadow ? fake_shadow(pointer, sizeof(uint32_t), context) : (uint8_t *)pointer;
}

/* Memory of a pool is nobody's before its stream has come to it, but that stream's. */
static bool is_there(CUdeviceptr pointer, CUstream stream)
{
	const struct allocation *one = find((const void *)pointer);

	return !one || __atomic_load_n(&one->ready, __ATOMIC_ACQUIRE) || one->stream == stream;
}

static uint8_t *map_device(size_t length)
{
	struct vacancy *vacancy;
	uint8_t *mapping;

	LIST_FOREACH (vacancy, &vacancies, link) {
		if (vacancy->length == length) {
			mapping = vacancy->mapping;
			LIST_REMOVE(vacancy, link);
			free(vacancy);
			return mapping;
		}
	}
	return mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* It stays mapped, and nobody may touch it. */
static void unmap_device(uint8_t *mapping, size_t length)
{
	struct vacancy *vacancy = malloc(sizeof(*vacancy));

	REQUIRE(vacancy);
	vacancy->mapping = mapping;
	vacancy->length = length;
	LIST_INSERT_HEAD(&vacancies, vacancy, link);
}

static struct allocation *allocate(size_t bytes, bool device)
{
	struct allocation *one = calloc(1, sizeof(*one));
	size_t margin = device ? MARGIN : 0;
	uint8_t *mapping = device ? map_device(margin + bytes)
				  : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(one && bytes && mapping != MAP_FAILED);
	one->bytes = bytes;
	one->margin = margin;
	one->address = mapping + margin;
	one->fd = -1;
	one->id = ++last_id;
	one->ordinal = -1;
	one->ready = 1;
	LIST_INSERT_HEAD(&allocations, one, link);
	fake_live++;
	return one;
}

static CUresult release(void *pointer, bool device)
{
	struct allocation *one;

	fake_enter_end();
	one = find(pointer);
	REQUIRE(one && one->address == pointer && (one->shadow || one->managed) == device);
	LIST_REMOVE(one, link);
	pinned -= one->ordinal < 0 ? one->bytes : 0;
	if (one->shadow) {
		unmap_device(one->address - one->margin, one->margin + one->bytes);
		munmap(one->shadow - one->margin, one->margin + one->bytes);
		close(one->fd); /* who has it too still reads and writes, but not what comes next */
	} else {
		munmap(one->address, one->bytes);
	}
	free(one);
	fake_live--;
	return fake_leave(CUDA_SUCCESS);
}

static struct allocation *allocate_device(size_t bytes)
{
	struct allocation *one = allocate(bytes, true);
	uint8_t *mapping;

	one->ordinal = fake_context()->ordinal;
	one->fd = memfd_create("device memory", MFD_CLOEXEC);
	REQUIRE(one->fd >= 0 && ftruncate(one->fd, (off_t)(MARGIN + bytes)) == 0);
	mapping = mmap(NULL, MARGIN + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, one->fd, 0);
	REQUIRE(mapping != MAP_FAILED);
	one->shadow = mapping + MARGIN;
	memset(one->shadow, POISON, bytes);
	return one;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
	ENTER("cuMemAlloc", true);
	*out = (CUdeviceptr)allocate_device(bytes)->address;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	struct work work = {.kind = ALLOCATE};
	struct allocation *one;

	ENTER("cuMemAllocAsync", true);
	one = allocate_device(bytes);
	one->pooled = true;
	one->ready = 0;
	one->stream = fake_stream(stream);
	work.to = &one->ready;
	*out = (CUdeviceptr)one->address;
	return fake_leave(fake_enqueue(one->stream, &work));
}

/* ---- addresses, and what is mapped there; here pieces of one file ---- */

CUresult cuMemGetAllocationGranularity(
	size_t *out, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags flags)
{
	(void)flags;
	REQUIRE(properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
	*out = 65536;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
	unsigned long long flags)
{
	struct allocation *one;

	ENTER("cuMemAddressReserve", true);
	REQUIRE(alignment == 0 && wanted == 0 && flags == 0);
	one = allocate_device(bytes);
	one->piece = bytes; /* until something is mapped */
	*out = (CUdeviceptr)one->address;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
	const CUmemAllocationProp *properties, unsigned long long flags)
{
	ENTER("cuMemCreate", true);
	REQUIRE(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && flags == 0 && bytes);
	fake_live++;
	*out = ++last_id;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	fake_enter_end();
	REQUIRE(handle);
	fake_live--;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct allocation *one;

	ENTER("cuMemMap", true);
	one = find((const void *)pointer);
	REQUIRE(one && one->piece && offset == 0 && handle && flags == 0);
	one->piece = bytes;
	REQUIRE((uint8_t *)pointer == one->address + one->pieces * bytes);
	one->pieces++;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(
	CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	const struct allocation *one;

	ENTER("cuMemSetAccess", true);
	one = find((const void *)pointer);
	REQUIRE(one && bytes == one->pieces * one->piece && count == 1);
	REQUIRE(access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
	struct allocation *one;

	ENTER("cuMemUnmap", true);
	one = find((const void *)pointer);
	REQUIRE(one && bytes == one->pieces * one->piece);
	one->pieces = 0;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
	(void)bytes;
	return release((void *)pointer, true);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	struct allocation *one;

	ENTER("cuMemAllocManaged", true);
	(void)flags;
	one = allocate(bytes, false);
	one->ordinal = fake_context()->ordinal;
	one->managed = true;
	*out = (CUdeviceptr)one->address;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemFree(CUdeviceptr pointer)
{
	return release((void *)pointer, true);
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	ENTER("cuMemHostAlloc", true);
	(void)flags;
	*out = allocate(bytes, false)->address;
	pinned += bytes;
	return fake_leave(CUDA_SUCCESS);
}

unsigned long smd_fake_pinned(void)
{
	unsigned long bytes;

	fake_lock();
	bytes = pinned;
	fake_leave(CUDA_SUCCESS);
	return bytes;
}

CUresult cuMemFreeHost(void *pointer)
{
	return release(pointer, false);
}

static bool is_pinned(const void *pointer, size_t bytes)
{
	const struct allocation *one = find(pointer);

	return one && !one->shadow && !one->managed &&
	       bytes <= one->bytes - (size_t)((const uint8_t *)pointer - one->address);
}

/* Memory that is not pinned is copied before the call returns. */
static CUresult copy(
	CUstream stream, uint8_t *to, const uint8_t *from, const void *host, size_t bytes)
{
	struct work work = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
	bool in_place = is_pinned(host, bytes);
	CUresult result = fake_enqueue(stream, &work);

	if (result == CUDA_SUCCESS && !in_place) {
		fake_drain(stream);
		result = stream->context->broken;
	}
	return fake_leave(result);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	ENTER("cuMemcpyDtoHAsync", true);
	stream = fake_stream(stream);
	REQUIRE(is_there(from, stream));
	return copy(stream, to, fake_shadow(from, bytes, stream->context), to, bytes);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	ENTER("cuMemcpyHtoDAsync", true);
	stream = fake_stream(stream);
	REQUIRE(is_there(to, stream));
	return copy(stream, fake_shadow(to, bytes, stream->context), from, from, bytes);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
	struct work work = {.kind = FILL, .value = value, .bytes = count * sizeof(value)};

	ENTER("cuMemsetD32Async", true);
	stream = fake_stream(stream);
	work.to = fake_shadow(to, work.bytes, stream->context);
	REQUIRE(is_there(to, stream));
	return fake_leave(fake_enqueue(stream, &work));
}

static uint64_t id_at(const struct allocation *one, CUdeviceptr pointer)
{
	size_t offset = (size_t)((uint8_t *)pointer - one->address);

	return one->id + (one->piece ? (offset / one->piece) << 32 : 0);
}

CUresult cuPointerGetAttributes(
	unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer)
{
	const struct allocation *one;

	ENTER("cuPointerGetAttributes", false);
	one = find((const void *)pointer);
	if (!fake_context() && fake_facts[SMD_FAKE_BLIND] == 1) {
		return fake_leave(CUDA_ERROR_INVALID_CONTEXT);
	}
	if (!fake_context() && fake_facts[SMD_FAKE_BLIND] == 2) {
		one = NULL;
	}
	for (unsigned i = 0; i < n; i++) {
		bool device = one && one->ordinal >= 0;
		bool whole = device && !one->piece && !one->pooled;

		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned *)values[i] =
				device ? CU_MEMORYTYPE_DEVICE : (one ? CU_MEMORYTYPE_HOST : 0);
			break;
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
			*(unsigned *)values[i] = one && one->managed;
			break;
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			*(CUcontext *)values[i] = whole ? &fake_contexts[one->ordinal] : NULL;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(int *)values[i] = device ? one->ordinal : -2;
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
			*(unsigned long long *)values[i] = one ? id_at(one, pointer) : 0;
			break;
		case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
			*(bool *)values[i] = whole && fake_facts[SMD_FAKE_WHOLE];
			break;
		default:
			REQUIRE(!"an attribute that the fake knows");
		}
	}
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	ENTER("cuPointerSetAttribute", true);
	(void)fake_shadow(pointer, 1, fake_context());
	REQUIRE(attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned *)value == 1);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
	const struct allocation *one;

	ENTER("cuMemGetAddressRange", true);
	one = find((const void *)pointer);
	REQUIRE(one && one->shadow);
	*base = (CUdeviceptr)one->address;
	*bytes = one->bytes;
	return fake_leave(CUDA_SUCCESS);
}

#ifndef FAKE_OLD
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr begin, size_t bytes,
	CUmemRangeHandleType type, unsigned long long flags)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct allocation *one;

	ENTER("cuMemGetHandleForAddressRange", true);
	REQUIRE(begin % page == 0 && bytes % page == 0 && bytes && flags == 0);
	REQUIRE(type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
	REQUIRE(fake_facts[SMD_FAKE_DMA_BUF]);
	one = find((const void *)(begin + MARGIN));
	REQUIRE(one && one->shadow && one->ordinal == fake_context()->ordinal);
	REQUIRE(one->address - one->margin == (const uint8_t *)begin);
	REQUIRE(bytes < one->margin + one->bytes + page);
	*(int *)handle = dup(one->fd);
	REQUIRE(*(int *)handle >= 0);
	return fake_leave(CUDA_SUCCESS);
}
#endif
