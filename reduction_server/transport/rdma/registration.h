/*
 * Which registered memory region covers a piece of memory: registered memory, that of devices too,
 * and a bounded cache of what callers' buffers were registered as.
 *
 * A network card reads and writes the memory that was registered with it, which costs much more
 * than to send a chunk; so what was registered is kept for the next operation. It is kept only
 * while the memory watch covers it: a registration holds on to the old memory when addresses are
 * unmapped and mapped anew, and would send and receive what nobody sees. Memory that cannot be
 * watched is not: its bytes are copied through bounce slots (bounce.h), or, without a free one, it
 * is registered for one use.
 *
 * Before a buffer that a caller has just given is looked up, smd_rdma_memory_invalidate() drops
 * what has been unmapped until then: once per operation, or once for all that have been given since
 * it was last called. From there to its end an operation's buffers stay mapped, as in MPI or NCCL.
 *
 * One thread uses a cache, which takes no lock; each event loop and device has its own. It must not
 * be used in a child after fork().
 */
#ifndef SMD_TRANSPORT_RDMA_REGISTRATION_H
#define SMD_TRANSPORT_RDMA_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/rdma/region_index.h"

#define SMD_RDMA_MEMORY_ENTRIES_DEFAULT 256
/* A buffer is registered in pieces, each of which begins so far after the one before... */
#define SMD_RDMA_MEMORY_PIECE (32u << 20)
/* ...and goes on so far into the next: a range of this size lies in one of them. */
#define SMD_RDMA_MEMORY_OVERLAP (16u << 20)

struct smd_rdma_memory;
struct smd_rdma_bounce_slab;

/* What memory is used for. What may be written may be read too. */
enum smd_rdma_access {
	SMD_RDMA_READ, /* the source of a send, perhaps in read-only memory */
	SMD_RDMA_WRITE /* the other end may write to it */
};

/* What a registration is to the card. */
struct smd_rdma_keys {
	void *handle;
	uint32_t lkey;
	uint32_t rkey;
};

/* A registered region, from smd_rdma_memory_find() until smd_rdma_region_put(). */
struct smd_rdma_region {
	struct smd_rdma_keys keys;
	/* What the card reads and writes in the memory's place; the user of the region copies. NULL:
	 * the memory itself. */
	uint8_t *slot;
	/* The rest is the cache's: */
	struct smd_rdma_memory *memory;
	struct smd_region_node node; /* where it is, and what for (enum smd_rdma_access) */
	unsigned references;
	bool kept; /* may be found again: in the list of regions, or a piece of registered memory */
	struct smd_rdma_bounce_slab *slab; /* of the slot */
	TAILQ_ENTRY(smd_rdma_region) link;
};

struct smd_rdma_memory_config {
	/* Registers; -errno. Never called for an empty range. */
	int (*reg)(void *owner, void *address, size_t length, enum smd_rdma_access access,
		struct smd_rdma_keys *out);
	/* The same for memory of a device, which the dma-buf stands for; for writing. NULL: none.
	 */
	int (*reg_device)(void *owner, void *address, size_t length, int fd, uint64_t offset,
		struct smd_rdma_keys *out);
	void (*dereg)(void *owner, void *handle);
	void *owner;
	/* What may be kept of callers' buffers while nothing uses it; in use there may be more. */
	unsigned entries_max; /* 0: SMD_RDMA_MEMORY_ENTRIES_DEFAULT */
	uint64_t bytes_max;   /* 0: no limit */
	uint64_t bounce_max;  /* bytes of bounce slots; 0: none */
	int node; /* NUMA node that these come from; -1: any */
};

struct smd_rdma_memory_counts {
	uint64_t hits;   /* found registered */
	uint64_t misses; /* the others, refused ones too */
	uint64_t registrations;
	uint64_t deregistrations;
	uint64_t evictions; /* of regions that were still good */
	uint64_t stale;     /* regions whose memory was unmapped */
	uint64_t refusals;  /* failed registrations */
	uint64_t bounced;   /* regions that were a slot */
	uint64_t pinned;    /* bytes registered now; those in two regions count twice */
};

/* NULL: out of memory. */
struct smd_rdma_memory *smd_rdma_memory_create(const struct smd_rdma_memory_config *config);

/* Deregisters everything; no region may be in use. NULL is allowed. */
void smd_rdma_memory_destroy(struct smd_rdma_memory *memory);

/*
 * Long-lived memory of our own: a slot pool, for instance. It is registered for reading and writing
 * in pieces of `piece` bytes when these are first used, and stays so until it is revoked. Ranges
 * of up to `largest` bytes are found in it; longer ones are treated as callers' buffers. To
 * register it again changes nothing. -ENOMEM, -EINVAL for an empty one and for a piece of 0 bytes,
 * -EEXIST for one that overlaps another.
 */
int smd_rdma_memory_register(
	struct smd_rdma_memory *memory, void *base, size_t length, size_t piece, size_t largest);
/* Its pieces that begin in these bytes, now and not at their first use. 0; -ENOENT: none of it is
 * registered so; or -errno of the first that is refused. */
int smd_rdma_memory_prepare(struct smd_rdma_memory *memory, const void *base, size_t length);
/* Nothing can be watched: the first bounce slots are registered now and not for a payload. */
void smd_rdma_memory_prepare_bounce(struct smd_rdma_memory *memory);
/*
 * Memory of a device, which the dma-buf stands for from `offset` on: registered now and as a whole,
 * until it is deregistered. To register it again changes nothing. Where it overlaps other memory of a
 * device, it is found before that. -ENOTSUP, what the registration said, or an error as above.
 */
int smd_rdma_memory_register_device(
	struct smd_rdma_memory *memory, void *base, size_t length, int fd, uint64_t offset);
/* Whether all of this is in one registered memory of a device. */
bool smd_rdma_memory_has_device(struct smd_rdma_memory *memory, const void *address, size_t length);
/* That memory, if it is registered. What is in use is deregistered when it no longer is. */
void smd_rdma_memory_deregister(struct smd_rdma_memory *memory, const void *base, size_t length);

/* Drops what has been unmapped; see above. */
void smd_rdma_memory_invalidate(struct smd_rdma_memory *memory);

/*
 * A region that contains `length` (at least 1) bytes at `address`, to be given back with
 * smd_rdma_region_put(). They lie in the buffer of `extent_length` bytes at `extent`, which is
 * registered in pieces as they are asked for; NULL and 0 when only the range itself is known. Who
 * sends from a buffer and receives into it asks for SMD_RDMA_WRITE both times, or it is registered
 * twice.
 *
 * A region with a slot is the caller's alone.
 *
 * -ENOMEM, or what the registration said; then the same buffer is refused without asking again
 * until something is deregistered, or for a second.
 */
int smd_rdma_memory_find(struct smd_rdma_memory *memory, const void *address, size_t length,
	const void *extent, size_t extent_length, enum smd_rdma_access access,
	struct smd_rdma_region **out);
void smd_rdma_region_put(struct smd_rdma_region *region);
/* Where the card reads and writes what is at `address`. */
static inline void *smd_rdma_region_at(const struct smd_rdma_region *region, const void *address)
{
	return region->slot ? region->slot : (void *)(uintptr_t)address;
}

/* The memory in this range is about to be something else: nothing registered of it is found again.
 */
void smd_rdma_memory_forget(struct smd_rdma_memory *memory, const void *address, size_t length);

const struct smd_rdma_memory_counts *smd_rdma_memory_counts(const struct smd_rdma_memory *memory);

#endif
