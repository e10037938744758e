/*
 * Callers' buffers: whether their memory may be used, asked dearly of one that is new and cheaply
 * of one that was passed before, since programs pass the same again and again.
 */
#ifndef SMD_LIBSUMMAND_KNOWN_MEMORY_H
#define SMD_LIBSUMMAND_KNOWN_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smd_known_memory {
	pthread_mutex_t lock;
	struct smd_known_range *ranges; /* first those to be read, then those to be written */
};

/* Nothing is known. Without memory to remember it in nothing ever is, which costs time alone. */
void smd_known_memory_create(struct smd_known_memory *known);
void smd_known_memory_destroy(struct smd_known_memory *known);

/*
 * Whether a buffer may be read, or written, without a signal: a processor looks for zeros in it,
 * sums it, and fills in what comes. From any thread.
 *
 * Both ends are asked for each time (host_memory.h). Of one with more than a page, all that is
 * between is brought in by the kernel the first time; after that it is only asked whether something
 * is not mapped any more, 0.2 us, and so it is of fewer bytes from there. What was passed before,
 * and had a page in its middle protected since, is not found so.
 */
bool smd_known_memory_is_readable(struct smd_known_memory *known, const void *memory, size_t bytes);
bool smd_known_memory_is_writable(struct smd_known_memory *known, void *memory, size_t bytes);

#endif
