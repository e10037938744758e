/* What a receiver does with DATA. */
#ifndef SMD_NCCL_PLUGIN_NET_RECEIVE_H
#define SMD_NCCL_PLUGIN_NET_RECEIVE_H

#include "worker/nccl_plugin/net/comm.h"

int smd_net_receiver_on_header(struct smd_net_lane *lane, const struct smd_frame *frame,
	void **payload, struct smd_error *error);
int smd_net_receiver_on_frame(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error);

#endif
