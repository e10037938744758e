/*
 * NCCL's point-to-point network: connections from a sender to a receiver that carry messages, on
 * the same lanes as everything else here (transport.h), so over TCP and over verbs.
 *
 * The calls are those of the newest interface (nccl_abi.h); net_tables.c adapts the older ones.
 * Values are NCCL results. A comm and its requests are used by one thread at a time, but for
 * registering: that may come on another one meanwhile.
 */
#ifndef SMD_NCCL_PLUGIN_NET_NET_H
#define SMD_NCCL_PLUGIN_NET_NET_H

#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/device/device.h"

/* Writes a handle of at most NCCL_HANDLE_BYTES. */
int smd_net_listen(int dev, void *handle, void **listen_comm);
/* Neither blocks: *comm stays NULL until called again and again it is there. */
int smd_net_connect(int dev, void *handle, void **send_comm);
int smd_net_accept(void *listen_comm, void **recv_comm);
/* No handle that connect() has not made a comm of will be asked for any more. */
void smd_net_forget_attempts(void);

int smd_net_register(void *comm, void *data, size_t size, int type, void **mhandle);
int smd_net_register_dmabuf(
	void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mhandle);
int smd_net_deregister(void *comm, void *mhandle);

int smd_net_send(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request);
int smd_net_receive(void *recv_comm, int n, void **data, const size_t *sizes, const int *tags,
	void **mhandles, void **request);
int smd_net_flush(
	void *recv_comm, int n, void **data, const int *sizes, void **mhandles, void **request);
/* sizes[n] of a receive, sizes[0] of a send; may be NULL. */
int smd_net_test(void *request, int *done, int *sizes);

int smd_net_close_send(void *send_comm);
int smd_net_close_receive(void *recv_comm);
int smd_net_close_listen(void *listen_comm);

#endif
