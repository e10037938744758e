/* The fake driver's memory: its addresses, what is behind them, and copies. */
#include <sys/mman.h>

#include "tests/unit/cuda/fake.h"

#define POISON 0xa5

struct allocation {
	uint8_t *address; /* as the program sees it */
	uint8_t *shadow;  /* where the bytes are; NULL: at the address */
	size_t bytes;
	int ordinal; /* -1: host memory */
	bool managed;
	LIST_ENTRY(allocation) link;
};

static LIST_HEAD(, allocation) allocations = LIST_HEAD_INITIALIZER(allocations);

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

static struct allocation *allocate(size_t bytes, int protection)
{
	struct allocation *one = calloc(1, sizeof(*one));

	REQUIRE(one && bytes);
	one->bytes = bytes;
	one->address = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(one->address != MAP_FAILED);
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
	munmap(one->address, one->bytes);
	free(one->shadow);
	free(one);
	fake_live--;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
	struct allocation *one;

	ENTER("cuMemAlloc", true);
	one = allocate(bytes, PROT_NONE);
	one->ordinal = fake_context()->ordinal;
	one->shadow = malloc(bytes);
	REQUIRE(one->shadow);
	memset(one->shadow, POISON, bytes);
	*out = (CUdeviceptr)one->address;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	struct allocation *one;

	ENTER("cuMemAllocManaged", true);
	(void)flags;
	one = allocate(bytes, PROT_READ | PROT_WRITE);
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
	*out = allocate(bytes, PROT_READ | PROT_WRITE)->address;
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
		default:
			REQUIRE(!"an attribute that the fake knows");
		}
	}
	return fake_leave(CUDA_SUCCESS);
}
