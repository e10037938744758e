/*
 * The CollNet tables of all versions: thin adaptors around collnet.h. What is cast here is what the
 * versions differ in; where they do not, they share a function.
 */
#include <stdlib.h>

#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/plugin.h"

/* ---- all versions ---- */

static int init(nccl_logger *log)
{
	return smd_plugin_begin(log);
}

static int devices(int *ndev)
{
	*ndev = smd_nccl_devices();
	return NCCL_SUCCESS;
}

static int listen_on(int dev, void *handle, void **listen_comm)
{
	return smd_collnet_listen(dev, handle, listen_comm);
}

static int connect_all(void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm)
{
	return smd_collnet_connect(handles, nranks, rank, listen_comm, coll_comm);
}

static int flush(void *coll_comm, void *data, int size, void *mhandle, void **request)
{
	(void)data;
	(void)size;
	return smd_collnet_flush(coll_comm, mhandle, request);
}

/* ---- v6, v8: sizes were int ---- */

static int register_v6(void *coll_comm, void *data, int size, int type, void **mhandle)
{
	return size < 0 ? NCCL_INVALID_ARGUMENT
			: smd_collnet_register(coll_comm, data, (size_t)size, type, mhandle);
}

static int allreduce_v6(void *coll_comm, void *send, void *recv, int count, int dtype, int op,
	void *send_mhandle, void *recv_mhandle, void **request)
{
	return count < 0 ? NCCL_INVALID_ARGUMENT
			 : smd_collnet_allreduce(coll_comm, send, recv, (size_t)count, dtype, op,
				   send_mhandle, recv_mhandle, request);
}

/* The parts as they are today; NULL: out of memory. */
static struct nccl_sge_v9 *parts_from_v8(int nparts, const struct nccl_sge_v8 *parts)
{
	struct nccl_sge_v9 *out = calloc(nparts > 0 ? (size_t)nparts : 1, sizeof(*out));

	for (int i = 0; out && parts && i < nparts; i++) {
		out[i] = (struct nccl_sge_v9){parts[i].mhandle, parts[i].address, parts[i].size};
	}
	return out;
}

static int allgather_v8(void *coll_comm, void *send, int nparts, struct nccl_sge_v8 *parts,
	size_t bytes_per_rank, size_t offset, size_t bytes, void *send_mhandle, void **request)
{
	struct nccl_sge_v9 *today = parts_from_v8(nparts, parts);
	int result = today ? smd_collnet_allgather(coll_comm, send, nparts, today, bytes_per_rank,
				     offset, bytes, send_mhandle, request)
			   : NCCL_SYSTEM_ERROR;

	free(today);
	return result;
}

static int reducescatter_v8(void *coll_comm, int nparts, struct nccl_sge_v8 *parts, void *recv,
	size_t bytes_per_rank, size_t offset, size_t bytes, int dtype, int op, void *recv_mhandle,
	void **request)
{
	struct nccl_sge_v9 *today = parts_from_v8(nparts, parts);
	int result =
		today ? smd_collnet_reducescatter(coll_comm, nparts, today, recv, bytes_per_rank,
				offset, bytes, dtype, op, recv_mhandle, request)
		      : NCCL_SYSTEM_ERROR;

	free(today);
	return result;
}

/* ---- v11, v12: a context for each of NCCL's communicators ---- */

/* There is nothing to keep: the pool is shared by all (shared_context.h). */
static int init_v11(void **ctx, uint64_t comm_id, nccl_logger *log)
{
	(void)comm_id;
	*ctx = NULL;
	return smd_plugin_begin(log);
}

static int listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
	(void)ctx;
	return smd_collnet_listen(dev, handle, listen_comm);
}

static int finalize(void *ctx)
{
	(void)ctx;
	return NCCL_SUCCESS;
}

/* ---- the tables ---- */

#define SINCE_V6                                                                                   \
	.name = SMD_NCCL_NAME, .devices = devices, .connect = connect_all,                         \
	.reduceSupport = smd_collnet_reduce_support, .regMrDmaBuf = smd_collnet_register_dmabuf,   \
	.deregMr = smd_collnet_deregister, .iflush = flush, .test = smd_collnet_test,              \
	.closeColl = smd_collnet_close, .closeListen = smd_collnet_close_listen

#define SINCE_V9                                                                                   \
	SINCE_V6, .regMr = smd_collnet_register, .iallreduce = smd_collnet_allreduce,              \
		  .iallgather = smd_collnet_allgather, .ireducescatter = smd_collnet_reducescatter

extern const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
extern const struct nccl_collnet_v8 ncclCollNetPlugin_v8;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v9;
extern const struct nccl_collnet_v9 ncclCollNetPlugin_v10;
extern const struct nccl_collnet_v11 ncclCollNetPlugin_v11;
extern const struct nccl_collnet_v12 ncclCollNetPlugin_v12;

const struct nccl_collnet_v6 ncclCollNetPlugin_v6 = {
	SINCE_V6,
	.init = init,
	.getProperties = smd_nccl_device_props_v6,
	.listen = listen_on,
	.regMr = register_v6,
	.iallreduce = allreduce_v6,
};

const struct nccl_collnet_v8 ncclCollNetPlugin_v8 = {
	SINCE_V6,
	.init = init,
	.getProperties = smd_nccl_device_props_v8,
	.listen = listen_on,
	.regMr = smd_collnet_register,
	.iallreduce = allreduce_v6,
	.iallgather = allgather_v8,
	.ireducescatter = reducescatter_v8,
};

const struct nccl_collnet_v9 ncclCollNetPlugin_v9 = {
	SINCE_V9,
	.init = init,
	.getProperties = smd_nccl_device_props_v9,
	.listen = listen_on,
};

const struct nccl_collnet_v9 ncclCollNetPlugin_v10 = {
	SINCE_V9,
	.init = init,
	.getProperties = smd_nccl_device_props_v9,
	.listen = listen_on,
};

const struct nccl_collnet_v11 ncclCollNetPlugin_v11 = {
	SINCE_V9,
	.init = init_v11,
	.getProperties = smd_nccl_device_props_v11,
	.listen = listen_v11,
	.finalize = finalize,
};

const struct nccl_collnet_v12 ncclCollNetPlugin_v12 = {
	SINCE_V9,
	.init = init_v11,
	.getProperties = smd_nccl_device_props_v12,
	.listen = listen_v11,
	.finalize = finalize,
};
