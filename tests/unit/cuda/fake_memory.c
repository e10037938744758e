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
	LIST_ENTRY(allocation) link;
};

static LIST_HEAD(, allocation) allocations = LIST_HEAD_INITIALIZER(allocations);

static uint64_t last_id;

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
	REQUIRE(bytes <= one->bytes - offset);
	return one->shadow + offset;
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

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
	struct allocation *one;
	uint8_t *mapping;

	ENTER("cuMemAlloc", true);
	one = allocate(bytes, true);
	one->ordinal = fake_context()->ordinal;
	one->fd = memfd_create("device memory", MFD_CLOEXEC);
	REQUIRE(one->fd >= 0 && ftruncate(one->fd, (off_t)(MARGIN + bytes)) == 0);
	mapping = mmap(NULL, MARGIN + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, one->fd, 0);
	REQUIRE(mapping != MAP_FAILED);
	one->shadow = mapping + MARGIN;
	memset(one->shadow, POISON, bytes);
	*out = (CUdeviceptr)one->address;
	return fake_leave(CUDA_SUCCESS);
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
	return fake_leave(CUDA_SUCCESS);
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
	bool pinned = is_pinned(host, bytes);

	fake_enqueue(stream, &work);
	if (!pinned) {
		fake_drain(stream);
	}
	return fake_leave(pinned ? CUDA_SUCCESS : stream->context->broken);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	ENTER("cuMemcpyDtoHAsync", true);
	stream = fake_stream(stream);
	return copy(stream, to, fake_shadow(from, bytes, stream->context), to, bytes);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	ENTER("cuMemcpyHtoDAsync", true);
	stream = fake_stream(stream);
	return copy(stream, fake_shadow(to, bytes, stream->context), from, from, bytes);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
	struct work work = {.kind = FILL, .value = value, .bytes = count * sizeof(value)};

	ENTER("cuMemsetD32Async", true);
	stream = fake_stream(stream);
	work.to = fake_shadow(to, work.bytes, stream->context);
	fake_enqueue(stream, &work);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuPointerGetAttributes(
	unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer)
{
	const struct allocation *one;

	ENTER("cuPointerGetAttributes", false);
	one = find((const void *)pointer);
	for (unsigned i = 0; i < n; i++) {
		bool device = one && one->ordinal >= 0;

		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned *)values[i] =
				device ? CU_MEMORYTYPE_DEVICE : (one ? CU_MEMORYTYPE_HOST : 0);
			break;
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
			*(unsigned *)values[i] = one && one->managed;
			break;
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			*(CUcontext *)values[i] = device ? &fake_contexts[one->ordinal] : NULL;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(int *)values[i] = device ? one->ordinal : -2;
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
			*(unsigned long long *)values[i] = one ? one->id : 0;
			break;
		case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
			*(bool *)values[i] = device && fake_facts[SMD_FAKE_WHOLE];
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
	fake_shadow(pointer, 1, fake_context());
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
