/* Calls net tables of every version. */
#include "tests/nccl_proxy/net_call.h"

#include <limits.h>
#include <string.h>

const int net_versions[NET_VERSIONS] = {6, 8, 9, 10, 11, 12};

#define RECEIVES_MAX 8

static const struct nccl_net_v6 *v6(const struct net *net)
{
	return net->table;
}

static const struct nccl_net_v8 *v8(const struct net *net)
{
	return net->table;
}

static const struct nccl_net_v9 *v9(const struct net *net)
{
	return net->table;
}

static const struct nccl_net_v10 *v10(const struct net *net)
{
	return net->table;
}

static const struct nccl_net_v11 *v11(const struct net *net)
{
	return net->table;
}

int net_init(struct net *net, nccl_logger *log)
{
	struct nccl_comm_config config = {0};

	if (net->version >= 11) {
		return v11(net)->init(&net->ctx, 1, &config, log, NULL);
	}
	return net->version == 10 ? v10(net)->init(log, NULL) : v6(net)->init(log);
}

int net_finalize(struct net *net)
{
	return net->version >= 11 ? v11(net)->finalize(net->ctx) : NCCL_SUCCESS;
}

int net_devices(const struct net *net, int *ndev)
{
	return v6(net)->devices(ndev);
}

/* All versions begin with name, PCI path and GUID; the rest is taken field by field. */
#define TAKE(version)                                                                              \
	do {                                                                                       \
		struct nccl_props_##version own;                                                   \
		memset(&own, 0x5a, sizeof(own));                                                   \
		ret = ((const struct nccl_net_##version *)net->table)->getProperties(dev, &own);   \
		props->name = own.name;                                                            \
		props->pci_path = own.pci_path;                                                    \
		props->guid = own.guid;                                                            \
		props->ptr_support = own.ptr_support;                                              \
		props->speed = own.speed;                                                          \
		props->port = own.port;                                                            \
		props->latency = own.latency;                                                      \
		props->max_comms = own.max_comms;                                                  \
		props->max_recvs = own.max_recvs;                                                  \
	} while (0)

int net_properties(const struct net *net, int dev, struct nccl_props_v12 *props)
{
	int ret;

	memset(props, 0, sizeof(*props));
	switch (net->version) {
	case 6:
		TAKE(v6);
		return ret;
	case 8:
		TAKE(v8);
		return ret;
	case 9:
	case 10: /* the same properties, at the same place */
		return v9(net)->getProperties(dev, (struct nccl_props_v9 *)props);
	case 11:
		return v11(net)->getProperties(dev, (struct nccl_props_v11 *)props);
	default:
		return ((const struct nccl_net_v12 *)net->table)->getProperties(dev, props);
	}
}

int net_listen(const struct net *net, int dev, void *handle, void **comm)
{
	return net->version >= 11 ? v11(net)->listen(net->ctx, dev, handle, comm)
				  : v6(net)->listen(dev, handle, comm);
}

int net_connect(const struct net *net, int dev, void *handle, void **comm)
{
	struct nccl_comm_config config = {0};
	struct nccl_device_handle *device = NULL;

	if (net->version >= 11) {
		return v11(net)->connect(net->ctx, dev, handle, comm, &device);
	}
	if (net->version == 10) {
		return v10(net)->connect(dev, &config, handle, comm, &device);
	}
	return net->version >= 8 ? v8(net)->connect(dev, handle, comm, &device)
				 : v6(net)->connect(dev, handle, comm);
}

int net_accept(const struct net *net, void *listen, void **comm)
{
	struct nccl_device_handle *device = NULL;

	return net->version >= 8 ? v8(net)->accept(listen, comm, &device)
				 : v6(net)->accept(listen, comm);
}

int net_register(const struct net *net, void *comm, void *data, size_t size, void **mhandle)
{
	return net->version >= 8 ? v8(net)->regMr(comm, data, size, NCCL_PTR_HOST, mhandle)
				 : v6(net)->regMr(comm, data, (int)size, NCCL_PTR_HOST, mhandle);
}

int net_deregister(const struct net *net, void *comm, void *mhandle)
{
	return v6(net)->deregMr(comm, mhandle);
}

int net_isend(const struct net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
	void **request)
{
	if (net->version >= 10) {
		return v10(net)->isend(comm, data, size, tag, mhandle, NULL, request);
	}
	return net->version == 9 ? v9(net)->isend(comm, data, size, tag, mhandle, request)
				 : v6(net)->isend(comm, data, (int)size, tag, mhandle, request);
}

int net_irecv(const struct net *net, void *comm, int n, void **data, const size_t *sizes,
	const int *tags, void **mhandles, void **request)
{
	size_t wide[RECEIVES_MAX];
	int narrow[RECEIVES_MAX];
	int own[RECEIVES_MAX];
	void *phandles[RECEIVES_MAX] = {NULL};

	for (int i = 0; i < n && i < RECEIVES_MAX; i++) {
		wide[i] = sizes[i];
		narrow[i] = (int)sizes[i];
		own[i] = tags[i];
	}
	if (net->version >= 10) {
		return v10(net)->irecv(comm, n, data, wide, own, mhandles, phandles, request);
	}
	return net->version == 9 ? v9(net)->irecv(comm, n, data, wide, own, mhandles, request)
				 : v6(net)->irecv(comm, n, data, narrow, own, mhandles, request);
}

int net_iflush(const struct net *net, void *comm, int n, void **data, const size_t *sizes,
	void **mhandles, void **request)
{
	int narrow[RECEIVES_MAX];

	for (int i = 0; i < n && i < RECEIVES_MAX; i++) {
		narrow[i] = (int)sizes[i];
	}
	return v6(net)->iflush(comm, n, data, narrow, mhandles, request);
}

int net_test(const struct net *net, void *request, int *done, int *sizes)
{
	return v6(net)->test(request, done, sizes);
}

int net_close_send(const struct net *net, void *comm)
{
	return v6(net)->closeSend(comm);
}

int net_close_receive(const struct net *net, void *comm)
{
	return v6(net)->closeRecv(comm);
}

int net_close_listen(const struct net *net, void *comm)
{
	return v6(net)->closeListen(comm);
}
