/*
 * Half of a lane in shared memory: a ring of bytes from one process to another.
 *
 * Each end has a ring of its own over the same words and bytes. It never reads its own index from
 * there, and checks the other end's each time: that end may be anybody, and write what it likes.
 */
#ifndef SMD_TRANSPORT_SHM_RING_H
#define SMD_TRANSPORT_SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_SHM_RING_LEAST (64u << 10)
#define SMD_SHM_RING_MOST  (1u << 20)
#define SMD_SHM_LINE       64

/* What both ends see, each word on a cache line of its own. Head and tail count bytes. */
struct shm_words {
	alignas(SMD_SHM_LINE) _Atomic uint32_t head;          /* the writer's */
	alignas(SMD_SHM_LINE) _Atomic uint32_t tail;          /* the reader's */
	alignas(SMD_SHM_LINE) _Atomic uint32_t reader_sleeps; /* 1: wants to be woken by bytes, */
	alignas(SMD_SHM_LINE) _Atomic uint32_t writer_waits;  /* by room */
};

struct shm_ring {
	struct shm_words *words;
	uint8_t *bytes;
	uint32_t size;  /* a power of 2 */
	uint32_t at;    /* the own index: the writer's head, the reader's tail */
	uint32_t other; /* the other end's, as it was last seen and was right */
};

/* Both ends begin at 0, in memory that is zeros. */
struct shm_ring smd_shm_ring_of(struct shm_words *words, uint8_t *bytes, uint32_t size);

/* ---- the writer ---- */

/* How many bytes there is room for, of which `wanted` are wanted. -EPROTO: the other end's index
 * makes no sense. */
int smd_shm_ring_room(struct shm_ring *ring, uint32_t wanted, uint32_t *room);
/* At most as many as there is room for. They are not the reader's before smd_shm_ring_publish(). */
void smd_shm_ring_write(struct shm_ring *ring, const void *bytes, uint32_t n);
void smd_shm_ring_publish(struct shm_ring *ring);
/* So many bytes the other end says that it has not read; anything, if it lies. */
uint32_t smd_shm_ring_unread(const struct shm_ring *ring);

/* ---- the reader ---- */

/* How many bytes there are. -EPROTO as above. */
int smd_shm_ring_held(struct shm_ring *ring, uint32_t *held);
/* At most as many as there are. Their room is not the writer's before smd_shm_ring_release(). */
void smd_shm_ring_read(struct shm_ring *ring, void *bytes, uint32_t n);
void smd_shm_ring_release(struct shm_ring *ring);

/* ---- sleep ---- */

/*
 * Who is to sleep says so, and looks once more afterwards; who has changed the index looks for the
 * word afterwards. So one of them sees what the other has done.
 */
void smd_shm_word_say(_Atomic uint32_t *word);
void smd_shm_word_take_back(_Atomic uint32_t *word);
/* After a change: whether the other end sleeps. It is then taken for woken. */
bool smd_shm_word_taken(_Atomic uint32_t *word);

#endif
