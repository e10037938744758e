/*
 * Memory that the caller keeps mapped until it says otherwise, as NCCL does between regMr() and
 * deregMr(). Lanes over rdma then register it once, without watching it; which matters where it
 * cannot be watched, as memory of a driver's. Other memory needs no such word.
 *
 * Memory of a device can be kept too, for which a dma-buf stands. What an operation has in there
 * network cards read and write themselves or nobody does: nothing is copied, the driver is not
 * asked, and no stream is followed, since it would not be safe to wait for a device whose kernels
 * may be waiting for the operation. What a card has written the device sees when the caller has
 * seen to that. Where a chunk cannot go that way the communicator fails. The other buffer of the
 * operation must then be kept too, or the host's.
 */
#ifndef SMD_LIBSUMMAND_KEPT_H
#define SMD_LIBSUMMAND_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct smd_context;

/* A dma-buf that stands for memory of a device, from the offset on. */
struct smd_dmabuf {
	int fd; /* may be closed afterwards */
	uint64_t offset;
};

struct smd_kept {
	void *base;
	size_t length;
	unsigned users; /* how often it was kept */
	bool device;
	LIST_ENTRY(smd_kept) link;
};
LIST_HEAD(smd_kept_list, smd_kept);

/*
 * From any thread. To keep the same memory again is counted. What overlaps other kept memory is
 * treated as if nothing had been said. 0 or -ENOMEM; of a device's memory (dmabuf is not NULL) also
 * what the first lane said whose card does not take it, -ENOTSUP where there is no such card.
 */
int smd_context_keep(
	struct smd_context *context, void *base, size_t length, const struct smd_dmabuf *dmabuf);

/* From any thread: whether the memory is part of a device's that is kept. */
bool smd_context_keeps_device(struct smd_context *context, const void *memory, size_t bytes);

/* No operation in flight may use it. */
void smd_context_keep_no_longer(struct smd_context *context, void *base, size_t length);

/* When the lanes are closed. */
void smd_kept_destroy(struct smd_kept_list *list);

#endif
