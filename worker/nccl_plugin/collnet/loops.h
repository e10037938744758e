/*
 * The loops of a CollNet communicator: the threads that move its bytes.
 *
 * NCCL's own thread, while it tests, moves those of the first loop; over a fast network it is the
 * limit, and not the wire. So large operations take turns over several loops, each with a
 * context, a thread and lanes of its own (specs/design/collnet.md, "Several loops"). All nodes have
 * the same number.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_LOOPS_H
#define SMD_NCCL_PLUGIN_COLLNET_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

#include "reduction_server/base/error.h"
#include "worker/libsummand/config.h"
#include "worker/libsummand/registration.h"
#include "worker/nccl_plugin/collnet/shared_context.h"

#define SMD_LOOPS_VARIABLE "SUMMAND_NCCL_LOOPS"

struct smd_loops {
	unsigned nodes;  /* of the communicator */
	unsigned wanted; /* by this node */
	unsigned wire;   /* as smd_comm_set_wire() takes it, on all nodes */
	unsigned count;  /* that operations take turns over; 0: the pool was not reached */
	unsigned held;   /* that have contexts */
	unsigned turn;   /* of the next large operation */
	struct {
		struct smd_shared_context *shared;
		smd_comm *comm; /* NULL: it was not joined */
		unsigned long long operations; /* that it began */
	} each[SMD_LOOPS_MAX];
};

/* One for each four processors that a rank has for itself (processors.h), 1 to 4. */
unsigned smd_loops_default(unsigned processors);

/* SUMMAND_NCCL_LOOPS; *wanted is 0 where it is not set. 0, or -EINVAL with a text. */
int smd_loops_read(unsigned *wanted, struct smd_error *error);

/* In which type SUMMAND_WIRE has all-reduces cross. Not in that where NCCL may give memory of GPUs,
 * which is not narrowed: NCCL decides by GPU and card whose memory its buffers are, so nodes would
 * send different types. */
unsigned smd_loops_wire(const struct smd_config *config);

/* Whether something crosses in fewer bytes. */
bool smd_loops_narrow(unsigned wire);

/* That sums are rounded, or why not, for who has set the variable for another program of the job;
 * empty: it is not set. */
void smd_loops_describe_wire(const struct smd_config *config, char *text, size_t size);

/* Finds out how many are wanted: by that, or by the default. 0, or -EINVAL with a text. */
int smd_loops_want(struct smd_loops *loops, unsigned nodes, struct smd_error *error);

/*
 * Has the contexts of so many loops over the device, or fewer if no more can be had in time, and one where cards or
 * shared memory move the bytes. 0, or -errno with a text if there is none.
 */
int smd_loops_hold(struct smd_loops *loops, const struct smd_nccl_device *device, unsigned timeout_s,
	struct smd_error *error);

/* Joins the group by the first `count` of them, or by fewer, as servers may refuse all but the first where memory is
 * short: loops->count. 0, or -errno with a text if by none. */
int smd_loops_join(struct smd_loops *loops, unsigned count, const char *group, unsigned node,
	unsigned timeout_s, struct smd_error *error);

/* Has no more than the first `count`: leaves the groups of the others, and gives their contexts back. */
void smd_loops_keep(struct smd_loops *loops, unsigned count);

/* An operation has failed, or is given up: so do all others, on all nodes. */
void smd_loops_fail(struct smd_loops *loops, int err, const char *text);

/* The memory of `user`, with the lanes of all of them (libsummand's registration.h). */
int smd_loops_register(struct smd_loops *loops, const void *user, void *base, size_t length,
	const struct smd_dmabuf *dmabuf);
void smd_loops_deregister(struct smd_loops *loops, const void *user, void *base, size_t length);

/* For the next operation, which all nodes begin in the same order. */
smd_comm *smd_loops_next(struct smd_loops *loops, size_t bytes);

/* Leaves the group, gives the contexts back, and says what each had to do. */
void smd_loops_leave(struct smd_loops *loops);

#endif
