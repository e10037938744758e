/*
 * A net table of any version, called as one: what an older one lacks is left out, and what it takes
 * in a narrower type is narrowed.
 */
#ifndef TESTS_NCCL_PROXY_NET_CALL_H
#define TESTS_NCCL_PROXY_NET_CALL_H

#include <stddef.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define NET_VERSIONS 6
extern const int net_versions[NET_VERSIONS];

struct net {
	int version;
	const void *table;
	void *ctx; /* from v11 on */
};

/* Each is a call of the table, and its result. */
int net_init(struct net *net, nccl_logger *log);
int net_finalize(struct net *net);
int net_devices(const struct net *net, int *ndev);
/* As the newest version has them; zeros where there was nothing. */
int net_properties(const struct net *net, int dev, struct nccl_props_v12 *props);
int net_listen(const struct net *net, int dev, void *handle, void **comm);
int net_connect(const struct net *net, int dev, void *handle, void **comm);
int net_accept(const struct net *net, void *listen, void **comm);
int net_register(const struct net *net, void *comm, void *data, size_t size, void **mhandle);
int net_deregister(const struct net *net, void *comm, void *mhandle);
int net_isend(const struct net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
	void **request);
int net_irecv(const struct net *net, void *comm, int n, void **data, const size_t *sizes,
	const int *tags, void **mhandles, void **request);
int net_iflush(const struct net *net, void *comm, int n, void **data, const size_t *sizes,
	void **mhandles, void **request);
int net_test(const struct net *net, void *request, int *done, int *sizes);
int net_close_send(const struct net *net, void *comm);
int net_close_receive(const struct net *net, void *comm);
int net_close_listen(const struct net *net, void *comm);

#endif
