/*
 * A CollNet communicator: a communicator of libsummand for each of its loops, and the requests that NCCL holds of it.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_COMM_H
#define SMD_NCCL_PLUGIN_COLLNET_COMM_H

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
	bool asked; /* test() has been called for it */
	unsigned nparts;
	unsigned ndone;      /* of them, from the first on */
	smd_request *only;   /* room for one, which is mostly enough */
	smd_request **parts; /* [nparts]: &only, or allocated */
	int err;             /* -errno of the first part that failed */
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
	int err; /* -errno once an operation has failed */
	struct smd_coll_request requests[SMD_COLLNET_REQUESTS];
	unsigned next; /* where to look for a free one first */
};

struct smd_coll *smd_coll_create(unsigned nnodes, unsigned node);

/* Ends what is in flight, leaves, and gives the pool back. */
void smd_coll_destroy(struct smd_coll *coll);

/* A free one, empty; NULL: all are in flight. */
struct smd_coll_request *smd_coll_take(struct smd_coll *coll);
/* Its parts must have been waited for. */
void smd_coll_give(struct smd_coll_request *request);

/* Blocks until the next part is done; how it ended, which the request keeps. */
int smd_coll_wait_part(struct smd_coll_request *request);

/*
 * If operations in flight were begun with that registration (NULL: whatever they use), the
 * communicator fails; returns when nobody touches its memory any more. Whether it did fail. With
 * NULL all requests are free afterwards; else they wait for test().
 */
bool smd_coll_abandon(struct smd_coll *coll, const void *registration);

#endif
