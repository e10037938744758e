/*
 * Says which ranges of this process's memory have been unmapped, so that nothing keeps on using
 * what was registered of them.
 *
 * Memory is unmapped by any thread, in ways that nobody can intercept (munmap(), mremap(),
 * madvise(), the heap's own trimming), and the same addresses may then be other memory. The kernel
 * tells it through userfaultfd(2): memory is registered there in write-protect mode with nothing
 * protected, so that no access is ever trapped, and one thread of the process reads the events. It
 * lasts as long as the process does: whoever unmaps watched memory waits until its event is read.
 *
 * There is one watch and any number of readers, each of which has its own cursor in what was told.
 * A reader that falls behind too far is told that everything may have been unmapped.
 *
 * A reader must know of an unmapping before it uses what was mapped at these addresses afterwards.
 * munmap() first unmaps and then tells; meanwhile another thread may have got the addresses anew.
 * So it is enough, and necessary, to call smd_memory_watch_settle() between the moment when a
 * caller gave its buffer and the first use of a registration for it.
 *
 * What is not seen: a file of shared memory that is truncated or punched through its descriptor,
 * and shmat() with SHM_REMAP. After fork() the child has no watch until it starts its own. What is
 * watched in part only can be mremap()ed in these parts only; realloc() copies then.
 */
#ifndef SMD_TRANSPORT_RDMA_MEMORY_WATCH_H
#define SMD_TRANSPORT_RDMA_MEMORY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

/* A reader falls behind too far when so many ranges were unmapped since it last asked. */
#define SMD_MEMORY_WATCH_TOLD 1024

struct smd_memory_range {
	uintptr_t begin;
	uintptr_t end; /* the first address after it */
};

static inline bool smd_memory_range_contains(
	struct smd_memory_range outer, struct smd_memory_range inner)
{
	return outer.begin <= inner.begin && inner.end <= outer.end;
}

/*
 * Starts the watch unless this process has one. -ENOSYS, -EPERM or what else the kernel says where
 * it is not to be had, with a text that tells how to get it.
 */
int smd_memory_watch_start(struct smd_error *error);

/*
 * From now on it is told when any of this memory is unmapped; the whole pages around it are
 * watched, until they are unmapped. -errno when that cannot be: -ENOSYS without a watch, -EINVAL
 * for holes and for mapped files that are not in memory (static data too), -EPERM for shared memory
 * that may not be written, -EBUSY when another userfaultfd has it.
 */
int smd_memory_watch_add(const void *address, size_t length);

/*
 * Returns when readers can be told of all that was unmapped before the call. A system call, and a
 * wait only while watched memory is being unmapped. False: that goes on and on, and a reader must
 * take everything for unmapped.
 */
bool smd_memory_watch_settle(void);

/*
 * The next range that was unmapped, in pages; false when there is none. No system call. A reader
 * that has registered nothing yet begins at 0.
 */
bool smd_memory_watch_next(uint64_t *cursor, struct smd_memory_range *range);

#endif
