/*
 * The memory of a lane: two rings and their words, in a file that is in no file system (memfd) and
 * that nobody can make shorter.
 */
#ifndef SMD_TRANSPORT_SHM_MEMORY_H
#define SMD_TRANSPORT_SHM_MEMORY_H

#include "reduction_server/base/error.h"
#include "reduction_server/transport/shm/ring.h"

struct shm_memory {
	uint8_t *bytes; /* NULL: there is none */
	size_t length;
	size_t counted; /* in what this process shares (shared_bytes.h) */
	uint32_t ring;  /* bytes of one */
	int file;       /* of who made it, until it is passed; -1: none */
};

/* How long a ring may be where so much memory is left and lanes have taken so much; 0: there is too
 * little for one. */
uint32_t smd_shm_memory_ring(uint64_t available, uint64_t taken);

/* The same now, and counts memory of such rings as taken until it is made or free: many lanes may
 * begin at once. */
uint32_t smd_shm_memory_reserve(struct shm_memory *memory);

/* Whether a ring may be so long. */
bool smd_shm_memory_is_ring(uint32_t bytes);

/* Makes memory, and keeps the descriptor that stands for it. 0 or -errno with a text. */
int smd_shm_memory_make(struct shm_memory *memory, uint32_t ring, struct smd_error *error);
/* The other process has the descriptor, which is closed here. */
void smd_shm_memory_passed(struct shm_memory *memory);

/* Maps what another process has made, and closes nothing. 0 or -errno with a text: -EPROTO if it is
 * not what it must be. */
int smd_shm_memory_take(struct shm_memory *memory, uint32_t ring, int fd, struct smd_error *error);

/* Nothing for memory that is all zeros. */
void smd_shm_memory_free(struct shm_memory *memory);

/* The ring of the end that made the memory to the other one, or back. */
struct shm_ring smd_shm_memory_ring_of(const struct shm_memory *memory, bool back);

#endif
