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

#define SMD_KNOWN_MEMORY_BITS 8u

struct smd_known_memory {
	pthread_mutex_t lock;
	struct smd_known_range {
		uintptr_t at;
		size_t bytes; /* 0: none */
		bool writable;
	} ranges[1u << SMD_KNOWN_MEMORY_BITS];
};

/* Nothing is known. What is zeroed is so, too, but for its lock. */
void smd_known_memory_create(struct smd_known_memory *known);
void smd_known_memory_destroy(struct smd_known_memory *known);

/*
 * Whether a buffer may be read, or written, without a signal: a processor looks for zeros in it,
 * sums it, and fills in what comes. From any thread.
 *
 * Both ends are asked for each time (host_memory.h). Of one with more than a page, all that is
 * between is brought in by the kernel the first time, 0.04 us for each page; after that it is only
 * asked whether something is not mapped any more, 0.2 us. What was passed before, and had a page in
 * its middle protected since, is not found so.
 */
bool smd_known_memory_is_readable(struct smd_known_memory *known, const void *memory, size_t bytes);
bool smd_known_memory_is_writable(struct smd_known_memory *known, void *memory, size_t bytes);

#endif
