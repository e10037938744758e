/*
 * NCCL's collectives in the network: all-reduce, all-gather and reduce-scatter through the pool
 * (specs/design/collnet.md).
 *
 * The calls are those of the newest interface (nccl_abi.h); collnet_tables.c adapts the older ones.
 * Values are NCCL results. Of a communicator one thread at a time begins and tests operations;
 * meanwhile others may register and deregister memory, as NCCL's service thread does.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_COLLNET_H
#define SMD_NCCL_PLUGIN_COLLNET_COLLNET_H

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define SMD_COLLNET_REQUESTS  128               /* in flight on one communicator */
#define SMD_COLLNET_BYTES_MAX ((size_t)1 << 30) /* of one operation */

int smd_collnet_listen(int dev, void *handle, void **listen_comm);

/*
 * Blocks until all nodes agree, at most SUMMAND_CONNECT_TIMEOUT. When it fails, listen_comm is
 * freed (NCCL does not close it then); when it succeeds, NCCL closes it.
 */
int smd_collnet_connect(void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm);
int smd_collnet_close_listen(void *listen_comm);

/* From now on no types of 8 bits are summed: RCCL's may be others (FNUZ) than the servers' (OCP). */
void smd_collnet_leave_float8(void);
int smd_collnet_reduce_support(int dtype, int op, int *supported);

int smd_collnet_register(void *coll_comm, void *data, size_t size, int type, void **mhandle);
/* Memory of a GPU, which the dma-buf stands for from the offset on. */
int smd_collnet_register_dmabuf(void *coll_comm, void *data, size_t size, int type, uint64_t offset,
	int fd, void **mhandle);
int smd_collnet_deregister(void *coll_comm, void *mhandle);

/* The handles are of the memory, and tell when it goes; NULL: it does not, while this goes on. */
int smd_collnet_allreduce(void *coll_comm, void *send, void *recv, size_t count, int dtype, int op,
	void *send_mhandle, void *recv_mhandle, void **request);

/* send: the bytes of this rank that lie in the window; the parts together are the window. */
int smd_collnet_allgather(void *coll_comm, void *send, int nparts, struct nccl_sge_v9 *parts,
	size_t bytes_per_rank, size_t offset, size_t bytes, void *send_mhandle, void **request);

/* The parts together are the window; recv: the bytes of this rank that lie in it. */
int smd_collnet_reducescatter(void *coll_comm, int nparts, struct nccl_sge_v9 *parts, void *recv,
	size_t bytes_per_rank, size_t offset, size_t bytes, int dtype, int op, void *recv_mhandle,
	void **request);

/* What has come into the memory of that handle is seen by its GPU. */
int smd_collnet_flush(void *coll_comm, void *mhandle, void **request);
int smd_collnet_test(void *request, int *done, int *size);
int smd_collnet_close(void *coll_comm);

#endif
