/*
 * A connection's lane of a transport whose lanes are made over another's (PAIR,
 * specs/design/nccl-net.md): the other one is connected, says GREET, and carries both ends' offers.
 * Such a connection has one lane.
 */
#ifndef SMD_NCCL_PLUGIN_NET_PAIR_H
#define SMD_NCCL_PLUGIN_NET_PAIR_H

#include "worker/nccl_plugin/net/comm.h"
#include "worker/nccl_plugin/net/options.h"

/* `window` of GREET: what its lane is. */
enum { SMD_NET_GREET_LANE, SMD_NET_GREET_CARRIES };

/* What is connected for a lane of that transport: itself, or its carrier. */
const struct smd_transport_ops *smd_net_connects_over(
	const struct smd_net_options *options, const struct smd_transport_ops *ops);

/* The transport of the options whose lanes are made over that one; NULL: none is. */
const struct smd_transport_ops *smd_net_carried_by(
	const struct smd_net_options *options, const struct smd_transport_ops *carrier);

/* Makes the receiver's half of a lane, and says so on the lane that is there. 0 or -errno with a
 * text. */
int smd_net_pair_offer(struct smd_net_lane *lane, const struct smd_transport_ops *ops,
	const struct smd_lane_callbacks *callbacks, void *owner, struct smd_lane **made,
	struct smd_error *error);

/* The sender's: PAIR, which the lane has got, is answered, and the lane is the one that it makes from
 * now on. 0 or -errno with a text. */
int smd_net_pair_answer(struct smd_net_lane *lane, const struct smd_transport_ops *ops,
	const struct smd_frame *frame, const struct smd_lane_callbacks *callbacks,
	struct smd_error *error);

/* The receiver's: the answer has come on the lane, which belongs to the half that was made from now
 * on. 0 or -errno with a text. */
int smd_net_pair_join(struct smd_net_lane *lane, struct smd_lane *made,
	const struct smd_frame *frame, struct smd_error *error);

#endif
