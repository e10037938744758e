/*
 * A CollNet communicator: a communicator of libsummand for each of its loops, and the requests that
 * NCCL holds of it.
 *
 * NCCL's progress thread begins operations and tests them, and alone writes requests; its service
 * thread looks which of them use memory that it gives back. So what writes requests, and who is not
 * that thread, holds the lock; that thread needs none to see that an operation is not done, which
 * it asks all the time. Nothing that is called with the lock comes back here, so it is taken before
 * any of libsummand's.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_COMM_H
#define SMD_NCCL_PLUGIN_COLLNET_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/nccl_plugin/collnet/capacity.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/collnet/loops.h"

/*
 * One call of NCCL's: one operation of libsummand's, or one for each node that has a part in it.
 * Its memory is the communicator's, so that a late test() finds something.
 */
struct smd_coll_request {
	struct smd_coll *coll;
	bool used;
	bool asked;     /* test() has been called for it, */
	unsigned ndone; /* and has found so many parts done, from the first on */
	unsigned nparts;
	smd_request *only;   /* room for one, which is mostly enough */
	smd_request **parts; /* [nparts]: &only, or allocated */
	size_t bytes;        /* what test() says */

	/* What regMr() gave for the caller's memory that it uses; NULL: none. */
	const void *send;
	const void *recv;
	uint8_t *between;            /* our own, where the caller's is in several parts, */
	struct nccl_sge_v9 *scatter; /* [nscatter]: where what came must go */
	unsigned nscatter;
};

struct smd_coll {
	unsigned nnodes;
	unsigned node;
	struct smd_loops loops;
	struct smd_capacity *capacity; /* of its servers; NULL: the tuner has been told */
	pthread_mutex_t lock;          /* of all that follows, as is said above */
	int err;                       /* -errno once an operation has failed */
	struct smd_coll_request requests[SMD_COLLNET_REQUESTS];
	unsigned next; /* where to look for a free one first */
};

struct smd_coll *smd_coll_create(unsigned nnodes, unsigned node);

/* Ends what is in flight, leaves, and gives the pool back. Nobody else uses it any more. */
void smd_coll_destroy(struct smd_coll *coll);

/* What follows is called with the lock. */

/* A free one, empty; NULL: all are in flight. */
struct smd_coll_request *smd_coll_take(struct smd_coll *coll);
/* Its parts must have been waited for. */
void smd_coll_give(struct smd_coll_request *request);

/* Blocks until all of its parts are done, which are gone then; 0, or -errno of the first that
 * failed. */
int smd_coll_wait(struct smd_coll_request *request);

/* What came in one piece is put where it must go, once; of one that failed that is anything. */
void smd_coll_scatter(struct smd_coll_request *request);

/*
 * If operations in flight were begun with that registration (NULL: whatever they use), the
 * communicator fails; returns when nobody touches its memory any more. Whether it did fail. The
 * requests wait for test().
 */
bool smd_coll_abandon(struct smd_coll *coll, const void *registration);

/* All of that, whatever they use, and frees all requests: on the thread that tests them. */
void smd_coll_clear(struct smd_coll *coll);

#endif
