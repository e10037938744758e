/* What a sender does: with what it has to send, and with what the other end says. */
#ifndef SMD_NCCL_PLUGIN_NET_SEND_H
#define SMD_NCCL_PLUGIN_NET_SEND_H

#include "worker/nccl_plugin/net/comm.h"

/* Sends what can be sent now. */
void smd_net_pump(struct smd_net_comm *comm);
/* A frame of the other end. */
int smd_net_sender_on_header(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error);
int smd_net_sender_on_frame(
	struct smd_net_lane *lane, const struct smd_frame *frame, struct smd_error *error);

#endif
