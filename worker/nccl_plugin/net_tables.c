/* The tables of functions that NCCL looks up for its network, of each version. */
#include <stdatomic.h>

#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/version.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/net/net.h"
#include "worker/nccl_plugin/plugin.h"

/* ---- calls that differ from version to version ---- */

static int net_init_v6(nccl_logger *log)
{
	return smd_plugin_begin(log);
}

/* NCCL 2.20 to 2.23 take v8. */
static int net_init_v8(nccl_logger *log)
{
	if (smd_nccl_version(log) >= SMD_NCCL_UNHEARD_FROM) {
		smd_loss_is_unheard();
	}
	return smd_plugin_begin(log);
}

/* Only NCCL 2.24 and 2.25 take v9. */
static int net_init_v9(nccl_logger *log)
{
	smd_loss_is_unheard();
	return smd_plugin_begin(log);
}

/* Only NCCL 2.26 and 2.27 take v10. */
static int net_init_v10(nccl_logger *log, nccl_profiler *profiler)
{
	(void)profiler;
	return net_init_v9(log);
}

static atomic_uint contexts; /* that are not finalized; each is known by this address alone */

static int net_init_v11(void **ctx, uint64_t comm_id, struct nccl_comm_config *config,
	nccl_logger *log, nccl_profiler *profiler)
{
	int ret = smd_plugin_begin(log);

	(void)comm_id;
	(void)config;
	(void)profiler;
	*ctx = NULL; /* which NCCL finalizes, too */
	if (ret == NCCL_SUCCESS) {
		contexts++;
		*ctx = &contexts;
	}
	return ret;
}

static int net_devices(int *ndev)
{
	*ndev = smd_nccl_devices();
	return NCCL_SUCCESS;
}

static int net_listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
	(void)ctx;
	return smd_net_listen(dev, handle, listen_comm);
}

static int net_connect_v8(
	int dev, void *handle, void **send_comm, struct nccl_device_handle **device)
{
	(void)device; /* the processor sends */
	return smd_net_connect(dev, handle, send_comm);
}

static int net_connect_v10(int dev, struct nccl_comm_config *config, void *handle, void **send_comm,
	struct nccl_device_handle **device)
{
	(void)config;
	(void)device;
	return smd_net_connect(dev, handle, send_comm);
}

static int net_connect_v11(
	void *ctx, int dev, void *handle, void **send_comm, struct nccl_device_handle **device)
{
	(void)ctx;
	(void)device;
	return smd_net_connect(dev, handle, send_comm);
}

static int net_accept_v8(void *listen_comm, void **recv_comm, struct nccl_device_handle **device)
{
	(void)device;
	return smd_net_accept(listen_comm, recv_comm);
}

static int net_register_v6(void *comm, void *data, int size, int type, void **mhandle)
{
	return size < 0 ? NCCL_INVALID_ARGUMENT
			: smd_net_register(comm, data, (size_t)size, type, mhandle);
}

static int net_send_v6(
	void *send_comm, void *data, int size, int tag, void *mhandle, void **request)
{
	return size < 0 ? NCCL_INVALID_ARGUMENT
			: smd_net_send(send_comm, data, (size_t)size, tag, mhandle, request);
}

static int net_send_v10(void *send_comm, void *data, size_t size, int tag, void *mhandle,
	void *phandle, void **request)
{
	(void)phandle;
	return smd_net_send(send_comm, data, size, tag, mhandle, request);
}

static int net_receive_v6(
	void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
	size_t wide[SMD_NET_RECVS_MAX] = {0};

	if (smd_nccl_lacks("irecv", "sizes", sizes)) {
		return NCCL_INVALID_ARGUMENT;
	}
	for (int i = 0; i < n && i < SMD_NET_RECVS_MAX; i++) {
		if (sizes[i] < 0) {
			return NCCL_INVALID_ARGUMENT;
		}
		wide[i] = (size_t)sizes[i];
	}
	return smd_net_receive(recv_comm, n, data, wide, tags, mhandles, request);
}

static int net_receive_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
	void **mhandles, void **request)
{
	return smd_net_receive(recv_comm, n, data, sizes, tags, mhandles, request);
}

static int net_receive_v10(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
	void **mhandles, void **phandles, void **request)
{
	(void)phandles;
	return smd_net_receive(recv_comm, n, data, sizes, tags, mhandles, request);
}

static int net_flush(
	void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
	return smd_net_flush(recv_comm, n, data, sizes, mhandles, request);
}

static int net_finalize(void *ctx)
{
	if (ctx && --contexts == 0) {
		smd_net_forget_attempts();
	}
	return NCCL_SUCCESS;
}

static int net_set_attributes(void *ctx, struct nccl_net_attributes *attributes)
{
	(void)ctx;
	(void)attributes;
	return NCCL_SUCCESS;
}

/* ---- the tables ---- */

/* What no version has changed. getDeviceMr, irecvConsumed and makeVDevice stay NULL: there is
 * nothing on the GPU that sends, and no device is made of several. */
#define NET_COMMON                                                                                 \
	.name = SMD_NCCL_NAME, .devices = net_devices, .regMrDmaBuf = smd_net_register_dmabuf,     \
	.deregMr = smd_net_deregister, .iflush = net_flush, .test = smd_net_test,                  \
	.closeSend = smd_net_close_send, .closeRecv = smd_net_close_receive,                       \
	.closeListen = smd_net_close_listen

const struct nccl_net_v6 ncclNetPlugin_v6 = {
	NET_COMMON,
	.init = net_init_v6,
	.getProperties = smd_nccl_device_props_v6,
	.listen = smd_net_listen,
	.connect = smd_net_connect,
	.accept = smd_net_accept,
	.regMr = net_register_v6,
	.isend = net_send_v6,
	.irecv = net_receive_v6,
};

const struct nccl_net_v8 ncclNetPlugin_v8 = {
	NET_COMMON,
	.init = net_init_v8,
	.getProperties = smd_nccl_device_props_v8,
	.listen = smd_net_listen,
	.connect = net_connect_v8,
	.accept = net_accept_v8,
	.regMr = smd_net_register,
	.isend = net_send_v6,
	.irecv = net_receive_v6,
};

const struct nccl_net_v9 ncclNetPlugin_v9 = {
	NET_COMMON,
	.init = net_init_v9,
	.getProperties = smd_nccl_device_props_v9,
	.listen = smd_net_listen,
	.connect = net_connect_v8,
	.accept = net_accept_v8,
	.regMr = smd_net_register,
	.isend = smd_net_send,
	.irecv = net_receive_v9,
};

const struct nccl_net_v10 ncclNetPlugin_v10 = {
	NET_COMMON,
	.init = net_init_v10,
	.getProperties = smd_nccl_device_props_v9,
	.listen = smd_net_listen,
	.connect = net_connect_v10,
	.accept = net_accept_v8,
	.regMr = smd_net_register,
	.isend = net_send_v10,
	.irecv = net_receive_v10,
};

/* v11 and v12 differ in their properties alone. */
#define NET_FROM_V11                                                                               \
	NET_COMMON, .init = net_init_v11, .listen = net_listen_v11, .connect = net_connect_v11,    \
		    .accept = net_accept_v8, .regMr = smd_net_register, .isend = net_send_v10,     \
		    .irecv = net_receive_v10, .finalize = net_finalize,                            \
		    .setNetAttr = net_set_attributes

const struct nccl_net_v11 ncclNetPlugin_v11 = {
	NET_FROM_V11,
	.getProperties = smd_nccl_device_props_v11,
};

const struct nccl_net_v12 ncclNetPlugin_v12 = {
	NET_FROM_V11,
	.getProperties = smd_nccl_device_props_v12,
};
