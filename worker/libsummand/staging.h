/*
 * The pool of *stages* that the staged path copies device memory through, each pinned memory for
 * one chunk; and the devices themselves, with the fences that their streams' work is awaited by.
 *
 * The pool is bounded. It is made when the first operation on device memory comes, and grows when
 * one comes that needs more, or when others have found no stage. About half of the stages may hold
 * chunks to send, so that some are left for results. Most of these may be *places*, where cards write
 * results: they are held while other ranks are waited for, so nobody waits for one, and one stage
 * is never a place.
 *
 * Work on devices that is under way is watched for its end (device.h) while the owner turns the
 * loop.
 */
#ifndef SMD_LIBSUMMAND_STAGING_H
#define SMD_LIBSUMMAND_STAGING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "worker/libsummand/allocation_cache.h"
#include "worker/libsummand/deal.h"
#include "worker/libsummand/device.h"
#include "worker/libsummand/progress.h"
#include "worker/libsummand/registration.h"

struct smd_flow;
struct smd_flow_send;
struct smd_request;

struct smd_stage {
	struct smd_notice notice; /* first: of the copy */
	uint8_t *memory;
	struct smd_request *operation;
	struct smd_flow *flow;      /* whose */
	struct smd_flow_send *send; /* the chunk that is read; NULL: a result */
	bool failed;                /* to be read: the communicator will too, soon */
	bool reading;               /* from the device, now: */
	size_t offset;              /* from there in the operation, */
	size_t bytes;               /* so many */
	SLIST_ENTRY(smd_stage) link;
};

/* Who is called when a stage may be free. */
struct smd_stage_waiter {
	void (*resume)(struct smd_stage_waiter *waiter);
	bool waits;
	TAILQ_ENTRY(smd_stage_waiter) link;
};
TAILQ_HEAD(smd_stage_waiter_queue, smd_stage_waiter);

/* Stages that were pinned together. */
struct smd_stage_slab {
	struct smd_task task; /* first: hands them over to the owner */
	struct smd_staging *staging;
	struct smd_device *device; /* that pinned them */
	uint8_t *memory;
	size_t count;
	SLIST_ENTRY(smd_stage_slab) link;
	struct smd_stage stages[];
};

struct smd_staging {
	const struct smd_device_ops *ops; /* NULL: all memory is the host's */
	struct smd_progress *progress;
	struct smd_registrations *registrations; /* of slabs: cards read and write stages */
	const struct smd_deal *deal; /* says how large a chunk is, once all servers are known */
	uint64_t bytes;              /* of pinned memory, at most */

	/* Callers: of devices, and of making the pool. The driver may wait for a device with it, so
	 * the owner never takes it. */
	pthread_mutex_t making;
	pthread_mutex_t idle; /* for a moment: of fences that nobody uses */
	SLIST_HEAD(, smd_device) devices;
	SLIST_HEAD(, smd_stage_slab) slabs;
	size_t pinned;      /* stages */
	atomic_bool scarce; /* the owner has found none free since */

	/* The owner's (progress.h): */
	struct smd_allocations allocations;
	struct smd_watch watch;
	struct smd_notice_queue notices; /* of work that is under way */
	uint64_t asked_ns;               /* when devices were asked whether they have failed */
	SLIST_HEAD(, smd_stage) free;
	size_t count;         /* stages */
	unsigned sending;     /* stages that hold chunks to send */
	unsigned sending_max; /* so that some are left for results, */
	unsigned places;      /* and of these so many are places, */
	unsigned places_max;  /* at most */
	struct smd_stage_waiter_queue waiting;
	struct smd_task resume; /* calls those that wait */
	bool resuming;
};

void smd_staging_create(struct smd_staging *staging, const struct smd_device_ops *ops,
	struct smd_progress *progress, const struct smd_deal *deal,
	const struct smd_remotes *remotes, struct smd_registrations *registrations, uint64_t bytes);
/* When no operation is in flight, and before the progress is destroyed. */
void smd_staging_destroy(struct smd_staging *staging);

/*
 * On a caller's thread: the device at that location, and a fence on it (NULL: none is needed). The
 * pool is there for what the caller posts next, and large enough for an operation of so many
 * bytes, if it may be. 0 or -errno with a text.
 */
int smd_staging_take_device(struct smd_staging *staging, const struct smd_device_location *location,
	size_t bytes, struct smd_device **out, struct smd_fence **fence, struct smd_error *error);
/* On any thread. */
void smd_staging_put_fence(struct smd_staging *staging, struct smd_fence *fence);

/* ---- on the owner of the progress engine ---- */

/* A stage for a result. NULL: none is free. */
struct smd_stage *smd_staging_take(struct smd_staging *staging, struct smd_request *operation);
void smd_staging_free(struct smd_staging *staging, struct smd_stage *stage);

/* A stage for a chunk to send. NULL: none is free for that. */
struct smd_stage *smd_staging_take_send(struct smd_staging *staging, struct smd_request *operation);
void smd_staging_free_send(struct smd_staging *staging, struct smd_stage *stage);

/* A stage that a card may write a result to. NULL: none is free for that. */
struct smd_stage *smd_staging_take_place(
	struct smd_staging *staging, struct smd_request *operation);
/* No card writes to it any more. */
void smd_staging_free_place(struct smd_staging *staging, struct smd_stage *stage);
/* The result is there: it is held as one that has come otherwise. */
void smd_staging_keep_place(struct smd_staging *staging);

/* Calls the notice's ended() when its work is over, from a turn of the loop. */
void smd_staging_watch(struct smd_staging *staging, struct smd_notice *notice);

/* Calls the waiter, once, when a stage may be free. */
void smd_staging_wait(struct smd_staging *staging, struct smd_stage_waiter *waiter);
void smd_staging_wait_no_longer(struct smd_staging *staging, struct smd_stage_waiter *waiter);

#endif
