/*
 * The library's CollNet tables of one version, called as NCCL calls that version: with its types,
 * and once per process (v6 to v10) or once per communicator (from v11 on). NCCL asks net first.
 */
#ifndef TESTS_NCCL_PROXY_COLLNET_H
#define TESTS_NCCL_PROXY_COLLNET_H

#include <stdbool.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define COLLNET_NEWEST 12

struct collnet {
	int version;
	bool begun; /* v6 to v10: init() has been called */
	union {
		const void *any;
		const struct nccl_net_v6 *v6;
		const struct nccl_net_v8 *v8;
		const struct nccl_net_v9 *v9;
		const struct nccl_net_v10 *v10;
		const struct nccl_net_v11 *v11;
		const struct nccl_net_v12 *v12;
	} net;
	union {
		const void *any;
		const struct nccl_collnet_v6 *v6;
		const struct nccl_collnet_v8 *v8;
		const struct nccl_collnet_v9 *v9;
		const struct nccl_collnet_v11 *v11;
		const struct nccl_collnet_v12 *v12;
	} coll;
};

/* What init() gives for a communicator. */
struct collnet_contexts {
	void *net;
	void *coll;
};

/* A function whose parameters differ between versions in the width of integers alone. */
#define COLLNET_CALL(c, function, ...)                                                             \
	((c)->version == 6          ? (c)->coll.v6->function(__VA_ARGS__)                          \
		: (c)->version == 8 ? (c)->coll.v8->function(__VA_ARGS__)                          \
		: (c)->version < 11 ? (c)->coll.v9->function(__VA_ARGS__)                          \
		: (c)->version < 12 ? (c)->coll.v11->function(__VA_ARGS__)                         \
				    : (c)->coll.v12->function(__VA_ARGS__))

/* Every version there is. */
extern const int collnet_versions[];
extern const int collnet_nversions;

/* Finds the tables; fails when one is not there. */
void collnet_find(struct collnet *collnet, void *library, int version);

/* init() of net, and then of CollNet, for a communicator. The first result that is none of success.
 */
int collnet_begin(struct collnet *collnet, uint64_t comm_id, struct collnet_contexts *contexts);
void collnet_end(struct collnet *collnet, const struct collnet_contexts *contexts);

/* Checks that net and CollNet have the same devices, and every property of each. */
void collnet_check_devices(const struct collnet *collnet);

int collnet_listen(const struct collnet *collnet, const struct collnet_contexts *contexts, int dev,
	void *handle, void **listen_comm);

/* Of v8 and later. */
int collnet_iallgather(const struct collnet *collnet, void *coll, void *send, int nparts,
	const struct nccl_sge_v9 *parts, size_t bytes_per_rank, size_t offset, size_t bytes,
	void *mhandle, void **request);
int collnet_ireducescatter(const struct collnet *collnet, void *coll, int nparts,
	const struct nccl_sge_v9 *parts, void *recv, size_t bytes_per_rank, size_t offset,
	size_t bytes, int dtype, int op, void *mhandle, void **request);

#endif
