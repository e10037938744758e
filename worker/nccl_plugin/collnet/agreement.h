/*
 * All nodes of a CollNet communicator say yes, or all hear no (specs/design/collnet.md, "All or none").
 *
 * They meet at a TCP socket of node 0. Blocking, on the calling thread.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_AGREEMENT_H
#define SMD_NCCL_PLUGIN_COLLNET_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"
#include "worker/nccl_plugin/device/device.h"

#define SMD_AGREEMENT_NAME_MAX  127
#define SMD_AGREEMENT_GROUP_MAX 64

/* Where nodes may meet, if this becomes node 0; the others set out from theirs. */
struct smd_agreement_place;

/* Writes the handle that others need, NCCL_HANDLE_BYTES. The device stays. 0 or -errno with a text.
 */
int smd_agreement_listen(const struct smd_nccl_device *device, void *handle,
	struct smd_agreement_place **out, struct smd_error *error);
const struct smd_nccl_device *smd_agreement_device(const struct smd_agreement_place *place);
void smd_agreement_unlisten(struct smd_agreement_place *place);

struct smd_agreement;

struct smd_agreement_side {
	unsigned nnodes;
	unsigned node;
	const char *name; /* of this node, in messages */
	uint64_t pool;    /* equal where the servers are, and what else must be */
	const char *servers;
};

/* handle: node 0's. The place is this node's own, and must outlive the agreement. */
int smd_agreement_begin(struct smd_agreement_place *place, const void *handle,
	const struct smd_agreement_side *side, struct smd_agreement **out, struct smd_error *error);

/* "nccl-0123...": the same on all nodes, and on no others. */
const char *smd_agreement_group(const struct smd_agreement *agreement);

/* What a node has for the communicator; and then what all of them have. */
struct smd_agreement_terms {
	unsigned loops;       /* the least of any node's */
	uint32_t server_mbps; /* that servers carry together; 0: it is not known. Those that know
				 must know the same */
};

/*
 * Tells the others whether this node can go on (own = 0, or -errno with its reason in own_error)
 * and by which terms, and hears whether all can, and by which. 0, or -errno with the reason of the
 * first node that cannot. On every node the same, as long as node 0 lives. Votes count until the
 * deadline on node 0's clock; the others wait grace_ns longer for the verdict, since they may have
 * begun earlier than node 0. Called at most twice: before and after joining.
 */
int smd_agreement_vote(struct smd_agreement *agreement, int own, const struct smd_error *own_error,
	struct smd_agreement_terms *terms, uint64_t deadline_ns, uint64_t grace_ns,
	struct smd_error *error);

void smd_agreement_end(struct smd_agreement *agreement);

#endif
