/*
 * Memory that its caller registers because it stays mapped until it is deregistered, as NCCL's
 * does between regMr() and deregMr(). Lanes over rdma register it with the network card once and
 * need not watch it, which matters for memory that cannot be watched, such as a driver's. Other
 * memory needs no such call: the transport's registration cache finds it.
 *
 * Memory of a device can be registered by a dma-buf that stands for it. Operations on it take the
 * direct path or fail: the network cards read and write the device's memory themselves, nothing is
 * copied, the driver is not asked, and no stream is followed, because waiting for a device whose
 * kernels may be waiting for the operation is not safe. The caller makes the device see what a card
 * has written. A chunk that cannot go directly fails the communicator. The other buffer of the
 * operation must be registered too, or be the host's.
 */
#ifndef SMD_LIBSUMMAND_REGISTRATION_H
#define SMD_LIBSUMMAND_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "worker/libsummand/remote.h"

/* A dma-buf that stands for memory of a device, from the offset on. */
struct smd_dmabuf {
	int fd; /* may be closed afterwards: whoever needs it later keeps one of its own */
	uint64_t offset;
};

struct smd_registration {
	const void *user; /* the communicator, or whoever else has registered it */
	void *base;
	size_t length;
	unsigned times; /* that the user has */
	bool device;
	bool there; /* lanes have it; false: they were to take it anew, and one has not */
	struct smd_dmabuf dmabuf; /* of a device's memory, for lanes that come later */
	TAILQ_ENTRY(smd_registration) link;
};

struct smd_registrations {
	TAILQ_HEAD(smd_registration_list, smd_registration) list; /* the owner's; changed under the progress's lock too; those that came last first */
	struct smd_progress *progress;
	const struct smd_remotes *remotes;
};

void smd_registrations_create(struct smd_registrations *registrations,
	struct smd_progress *progress, const struct smd_remotes *remotes);
/* When the lanes are closed. */
void smd_registrations_destroy(struct smd_registrations *registrations);

/*
 * From any thread. A user that registers the same memory again is counted. Where it is another
 * user's too, its address may stand for other memory by now, which NCCL has freed and been given
 * again: the cards register it anew. So it may where a device's memory overlaps other such: what
 * came last is what is there. The host's memory that overlaps other registered memory is treated as
 * if it had not been registered. 0 or -ENOMEM; of a device's memory (dmabuf is not NULL) also what
 * the first lane said whose card does not take it, -ENOTSUP where there is no such card. Where it
 * was to be registered anew no lane has it then, for whichever user, until it is registered again:
 * what the cards had may be other memory.
 */
int smd_registrations_add(struct smd_registrations *registrations, const void *user, void *base,
	size_t length, const struct smd_dmabuf *dmabuf);

/* The same on the owner, of the host's memory. */
int smd_registrations_declare(
	struct smd_registrations *registrations, const void *user, void *base, size_t length);

/* From any thread. No operation in flight may use it. -ENOENT: the user has not registered it. */
int smd_registrations_remove(
	struct smd_registrations *registrations, const void *user, void *base, size_t length);

/* On the owner: all of it, with a lane that is there again, or of a server that is. 0, or what its
 * card says of a device's memory. */
int smd_registrations_restore(struct smd_registrations *registrations, struct smd_lane *lane);

/* From any thread: whether part of it is registered, and it is not the same. */
bool smd_registrations_overlap(
	struct smd_registrations *registrations, const void *base, size_t length);

/* From any thread: whether the memory lies in registered memory of a device, which lanes have. */
bool smd_registrations_cover_device(
	struct smd_registrations *registrations, const void *memory, size_t bytes);

#endif
