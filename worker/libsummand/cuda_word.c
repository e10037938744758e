/* Has streams write words of pinned memory, and reads them. */
#include "worker/libsummand/cuda_word.h"

#include <errno.h>
#include <stdlib.h>

#define STRIDE 64u   /* bytes; no two words share a line of a cache */
#define BLOCK  4096u /* that are pinned at a time */

struct smd_device_words {
	struct smd_device_words *next;
	uint8_t *memory;
	size_t used;
};

static int words_add_block(struct smd_device *device, struct smd_error *error)
{
	struct smd_device_words *words = calloc(1, sizeof(*words));
	void *memory;
	int ret;

	if (!words) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = CUDA(error, cuMemHostAlloc, &memory, BLOCK, CU_MEMHOSTALLOC_PORTABLE);
	if (ret) {
		free(words);
		return ret;
	}
	words->memory = memory;
	words->next = device->words;
	device->words = words;
	return 0;
}

int smd_cuda_word_take(struct smd_device *device, uint32_t **out, struct smd_error *error)
{
	int ret = 0;

	if (!device->words || device->words->used == BLOCK) {
		ret = words_add_block(device, error);
	}
	if (ret == 0) {
		*out = (uint32_t *)(device->words->memory + device->words->used);
		**out = 0;
		device->words->used += STRIDE;
	}
	return ret;
}

void smd_cuda_words_free(struct smd_device *device)
{
	while (device->words) {
		struct smd_device_words *words = device->words;

		device->words = words->next;
		smd_cuda.cuMemFreeHost(words->memory);
		free(words);
	}
}

int smd_cuda_word_try(
	struct smd_device *device, CUstream stream, uint32_t *word, struct smd_error *error)
{
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (smd_cuda.cuStreamWriteValue32) {
		result = smd_cuda.cuStreamWriteValue32(
			stream, (CUdeviceptr)word, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
	}
	device->calls_back = result == CUDA_ERROR_NOT_SUPPORTED;
	return device->calls_back ? 0 : smd_cuda_result(result, "cuStreamWriteValue32", error);
}

/* After an error the notice may be over by now and somebody else's. */
static void CUDA_CB word_on_done(CUstream stream, CUresult status, void *arg)
{
	const struct smd_notice *notice = arg;

	(void)stream;
	if (status == CUDA_SUCCESS) {
		__atomic_store_n(notice->word, notice->number, __ATOMIC_RELEASE);
	}
}

int smd_cuda_word_write(CUstream stream, struct smd_notice *notice, struct smd_error *error)
{
	if (notice->device->calls_back) {
		return CUDA(error, cuStreamAddCallback, stream, word_on_done, notice, 0);
	}
	return CUDA(error, cuStreamWriteValue32, stream, (CUdeviceptr)notice->word, notice->number,
		CU_STREAM_WRITE_VALUE_DEFAULT);
}

/* A context that has failed answers every call with its error. */
static CUresult word_ask_context(struct smd_notice *notice)
{
	const struct smd_device *device = notice->device;
	CUstreamCaptureMode mode = smd_cuda_relax();
	CUresult result = smd_cuda.cuCtxPushCurrent(device->context);
	CUcontext context;

	if (result == CUDA_SUCCESS) {
		result = smd_cuda.cuStreamQuery(device->reading.stream);
		smd_cuda.cuCtxPopCurrent(&context);
	} else {
		notice->what = "cuCtxPushCurrent";
	}
	smd_cuda_restore(mode);
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

bool smd_cuda_over(struct smd_notice *notice, bool thoroughly)
{
	uint32_t done = __atomic_load_n(notice->word, __ATOMIC_ACQUIRE);

	notice->status = CUDA_SUCCESS;
	if ((int32_t)(done - notice->number) >= 0) {
		return true;
	}
	if (thoroughly) {
		notice->status = (int)word_ask_context(notice);
	}
	return notice->status != CUDA_SUCCESS;
}
