/* Scenarios of the net tables in which something fails. */
#ifndef TESTS_NCCL_PROXY_NET_FAILURES_H
#define TESTS_NCCL_PROXY_NET_FAILURES_H

#include "tests/nccl_proxy/fleet.h"
#include "tests/nccl_proxy/net_call.h"

void too_long(struct fleet_node *node, struct net *net);
void killed_peer(struct fleet_node *node, struct net *net);
void strangers(struct fleet_node *node, struct net *net);
void close_pending(struct fleet_node *node, struct net *net);
void nobody(struct fleet_node *node, struct net *net);

#endif
