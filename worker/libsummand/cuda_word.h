/*
 * Words of pinned memory by which streams say how far they have come.
 *
 * cuStreamWriteValue32() puts a write into a stream; when the word has the number, what was in the
 * stream before it is done. To read a word takes no call of the driver's, no lock of its and no
 * stream: a fence in a stream of its own would keep a hardware queue waiting, and there are eight,
 * so with eight fences nothing could be copied any more. Where a device's streams cannot write, a
 * host function (cuStreamAddCallback()) writes the word.
 *
 * After an error in the context no word is written any more, so now and then the driver is asked.
 */
#ifndef SMD_LIBSUMMAND_CUDA_WORD_H
#define SMD_LIBSUMMAND_CUDA_WORD_H

#include "worker/libsummand/cuda_driver.h"

/* A word that is 0; it is the device's. With its context. Calls on one device must not overlap. */
int smd_cuda_word_take(struct smd_device *device, uint32_t **out, struct smd_error *error);
/* All that were taken, which nothing writes any more. With the device's context. */
void smd_cuda_words_free(struct smd_device *device);

/* Finds out whether the stream can write the word, which it does, and with the device's context. */
int smd_cuda_word_try(
	struct smd_device *device, CUstream stream, uint32_t *word, struct smd_error *error);

/* The word will have the notice's number when what is in the stream is done. With its context. */
int smd_cuda_word_write(CUstream stream, struct smd_notice *notice, struct smd_error *error);

/* What device.h says of it. */
bool smd_cuda_over(struct smd_notice *notice, bool thoroughly);

#endif
