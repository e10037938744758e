/* Copies bytes into and out of rings, and checks what the other end says of them. */
#include "reduction_server/transport/shm/ring.h"

#include <errno.h>
#include <string.h>

struct shm_ring smd_shm_ring_of(struct shm_words *words, uint8_t *bytes, uint32_t size)
{
	return (struct shm_ring){.words = words, .bytes = bytes, .size = size};
}

/* To the end of the bytes, and on from their begin. */
static uint32_t before_end(const struct shm_ring *ring, uint32_t n)
{
	uint32_t left = ring->size - (ring->at & (ring->size - 1));

	return n < left ? n : left;
}

/* ---- the writer ---- */

int smd_shm_ring_room(struct shm_ring *ring, uint32_t wanted, uint32_t *room)
{
	*room = ring->size - (ring->at - ring->other);
	if (*room < wanted) {
		uint32_t tail = atomic_load_explicit(&ring->words->tail, memory_order_acquire);

		if (ring->at - tail > ring->size) {
			return -EPROTO;
		}
		ring->other = tail;
		*room = ring->size - (ring->at - tail);
	}
	return 0;
}

void smd_shm_ring_write(struct shm_ring *ring, const void *bytes, uint32_t n)
{
	uint32_t first = before_end(ring, n);

	memcpy(ring->bytes + (ring->at & (ring->size - 1)), bytes, first);
	memcpy(ring->bytes, (const uint8_t *)bytes + first, n - first);
	ring->at += n;
}

void smd_shm_ring_publish(struct shm_ring *ring)
{
	atomic_store_explicit(&ring->words->head, ring->at, memory_order_release);
}

uint32_t smd_shm_ring_unread(const struct shm_ring *ring)
{
	return ring->at - atomic_load_explicit(&ring->words->tail, memory_order_relaxed);
}

/* ---- the reader ---- */

int smd_shm_ring_held(struct shm_ring *ring, uint32_t *held)
{
	uint32_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);

	if (head - ring->at > ring->size) {
		return -EPROTO;
	}
	*held = head - ring->at;
	return 0;
}

void smd_shm_ring_read(struct shm_ring *ring, void *bytes, uint32_t n)
{
	uint32_t first = before_end(ring, n);

	memcpy(bytes, ring->bytes + (ring->at & (ring->size - 1)), first);
	memcpy((uint8_t *)bytes + first, ring->bytes, n - first);
	ring->at += n;
}

void smd_shm_ring_release(struct shm_ring *ring)
{
	atomic_store_explicit(&ring->words->tail, ring->at, memory_order_release);
}

/* ---- sleep ---- */

void smd_shm_word_say(_Atomic uint32_t *word)
{
	atomic_store_explicit(word, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

void smd_shm_word_take_back(_Atomic uint32_t *word)
{
	atomic_store_explicit(word, 0, memory_order_relaxed);
}

bool smd_shm_word_taken(_Atomic uint32_t *word)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(word, memory_order_relaxed)) {
		return false;
	}
	atomic_store_explicit(word, 0, memory_order_relaxed);
	return true;
}
