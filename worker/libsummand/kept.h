/*
 * Memory that the caller keeps mapped until it says otherwise, as NCCL does between regMr() and
 * deregMr(). Lanes over rdma then register it once, without watching it; which matters where it
 * cannot be watched, as memory of a driver's. Other memory needs no such word.
 */
#ifndef SMD_LIBSUMMAND_KEPT_H
#define SMD_LIBSUMMAND_KEPT_H

#include <stddef.h>
#include <sys/queue.h>

struct smd_context;

struct smd_kept {
	void *base;
	size_t length;
	unsigned users; /* how often it was kept */
	LIST_ENTRY(smd_kept) link;
};
LIST_HEAD(smd_kept_list, smd_kept);

/*
 * From any thread. To keep the same memory again is counted. What overlaps other kept memory is
 * treated as if nothing had been said. 0 or -ENOMEM.
 */
int smd_context_keep(struct smd_context *context, void *base, size_t length);

/* No operation in flight may use it. */
void smd_context_keep_no_longer(struct smd_context *context, void *base, size_t length);

/* When the lanes are closed. */
void smd_kept_destroy(struct smd_kept_list *list);

#endif
