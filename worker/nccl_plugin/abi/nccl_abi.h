/*
 * The binary interface between NCCL and its network and tuner plugins, in our own words.
 *
 * NCCL looks a table of functions up by its name, of the newest version that it knows first:
 * ncclNetPlugin_v6, _v8 to _v12 (point to point), ncclCollNetPlugin_v6, _v8 to _v12 (collectives
 * done in the network) and ncclTunerPlugin_v2 to _v5. What is here was read in NCCL's
 * src/include/plugin/net/net_vN.h, src/include/plugin/tuner/tuner_vN.h and
 * src/include/nccl_common.h (2.13 to 2.30); sizes and offsets are asserted for 64-bit machines.
 * Which NCCL knows which version is in specs/guide/nccl.md.
 *
 * Common to all versions:
 *   dev      index of a device, below what devices() has said
 *   handle   NCCL_HANDLE_BYTES that listen() writes and NCCL carries to where connect() is called
 *   mhandle  what regMr() has made of a buffer
 *   request  of an operation that has begun; set to NULL where it could not begin now, which is no
 *            error: NCCL asks again. test() ends it when it sets *done to 1
 *   type     NCCL_PTR_HOST, _CUDA or _DMABUF
 * All calls may come from another thread than the one before. On one comm regMr and deregMr may
 * come while another thread is in isend, irecv or test, where several peers share the comm
 * (maxRecvs above 1); no others at once.
 */
#ifndef SMD_NCCL_PLUGIN_ABI_NCCL_ABI_H
#define SMD_NCCL_PLUGIN_ABI_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ncclResult_t */
enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2, /* a call to the system failed here */
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6, /* another process ended or cannot be reached */
	NCCL_RESULT_END        /* the enumeration is as wide as NCCL's either way: an int */
};

/* ncclDataType_t; the numbers are enum smd_dtype's too. */
enum nccl_dtype {
	NCCL_INT8 = 0,
	NCCL_UINT8 = 1,
	NCCL_INT32 = 2,
	NCCL_UINT32 = 3,
	NCCL_INT64 = 4,
	NCCL_UINT64 = 5,
	NCCL_FLOAT16 = 6,
	NCCL_FLOAT32 = 7,
	NCCL_FLOAT64 = 8,
	NCCL_BFLOAT16 = 9,
	NCCL_FLOAT8E4M3 = 10, /* from 2.24 on */
	NCCL_FLOAT8E5M2 = 11,
	NCCL_DTYPE_COUNT,
	NCCL_DTYPES_UNTIL_2_23 = NCCL_FLOAT8E4M3 /* how many */
};

/* ncclRedOp_t, as far as a network sees it: NCCL itself does the rest of an average. */
enum nccl_op { NCCL_SUM = 0, NCCL_PROD = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_OP_COUNT };

#define NCCL_HANDLE_BYTES  128
#define NCCL_NET_REQUESTS  32                /* in flight on one comm, each of maxRecvs receives */
#define NCCL_NET_BYTES_MAX ((size_t)1 << 40) /* maxP2pBytes, maxCollBytes: at most */

#define NCCL_PTR_HOST   1
#define NCCL_PTR_CUDA   2
#define NCCL_PTR_DMABUF 4

/* irecv()'s *request may come with this in it: nobody waits for the completion (LL, LL128). */
#define NCCL_OPTIONAL_RECV_COMPLETION ((void *)0x1)

/* ---- the log ---- */

enum nccl_log_level {
	NCCL_LOG_NONE = 0,
	NCCL_LOG_VERSION = 1,
	NCCL_LOG_WARN = 2,
	NCCL_LOG_INFO = 3,
	NCCL_LOG_ABORT = 4,
	NCCL_LOG_TRACE = 5
};

enum nccl_log_subsystem {
	NCCL_SUB_INIT = 0x1,
	NCCL_SUB_COLL = 0x2,
	NCCL_SUB_NET = 0x10,
	NCCL_SUB_TUNING = 0x40,
	NCCL_SUB_ALL = ~0
};

/* file is the function's name for INFO, by NCCL's own habit. */
typedef void nccl_logger(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...);

/* Events for NCCL's profiler; we have none to report. */
typedef int nccl_profiler(void **event, int type, void *phandle, int64_t plugin, void *data);

/* ---- properties of a device ---- */

#define NCCL_DEVICE_HOST 0 /* netDeviceType: the processor sends and receives */

struct nccl_props_v6 {
	char *name;
	char *pci_path; /* in /sys; NULL: not on a PCI bus */
	uint64_t guid;
	int ptr_support;
	int speed; /* Mbit/s */
	int port;
	float latency; /* microseconds */
	int max_comms;
	int max_recvs;
};

struct nccl_props_v8 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
};

#define NCCL_VDEVS_V9  4 /* devices that one virtual device is made of; to v11 */
#define NCCL_VDEVS_V12 8

struct nccl_vdevice_v9 {
	int ndevs;
	int devs[NCCL_VDEVS_V9];
};

struct nccl_vdevice_v12 {
	int ndevs;
	int devs[NCCL_VDEVS_V12];
};

struct nccl_props_v9 { /* and v10 */
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_vdevice_v9 vprops;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
};

struct nccl_props_v11 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_vdevice_v9 vprops;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request_size;
};

struct nccl_props_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	struct nccl_vdevice_v12 vprops;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request_size;
	int16_t rail; /* -1: unknown */
	int16_t plane;
};

/* ---- point to point ---- */

struct nccl_comm_config { /* v10 to v12 */
	int traffic_class;
};

struct nccl_comm_attributes {
	int32_t max_concurrent_peers;
	int32_t min_concurrent_peers;
	int32_t max_flows_per_peer;
	int32_t min_flows_per_peer;
};

struct nccl_net_attributes { /* v11, v12 */
	struct nccl_comm_attributes send;
	struct nccl_comm_attributes receive;
	uint32_t op;
	uint32_t algo;
	uint32_t proto;
};

struct nccl_device_handle; /* of networks that GPUs drive; never ours */

struct nccl_net_v6 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v6 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	int (*connect)(int dev, void *handle, void **send_comm);
	int (*accept)(void *listen_comm, void **recv_comm);
	int (*regMr)(void *comm, void *data, int size, int type, void **mhandle);
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
		void **mhandle);
	int (*deregMr)(void *comm, void *mhandle);
	int (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle, void **request);
	int (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
		void **request);
	int (*iflush)(
		void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*closeSend)(void *send_comm);
	int (*closeRecv)(void *recv_comm);
	int (*closeListen)(void *listen_comm);
};

struct nccl_net_v8 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v8 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	int (*connect)(int dev, void *handle, void **send_comm, struct nccl_device_handle **device);
	int (*accept)(void *listen_comm, void **recv_comm, struct nccl_device_handle **device);
	int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
		void **mhandle);
	int (*deregMr)(void *comm, void *mhandle);
	int (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle, void **request);
	int (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
		void **request);
	int (*iflush)(
		void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*closeSend)(void *send_comm);
	int (*closeRecv)(void *recv_comm);
	int (*closeListen)(void *listen_comm);
	int (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);
	int (*irecvConsumed)(void *recv_comm, int n, void *request);
};

struct nccl_net_v9 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v9 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	int (*connect)(int dev, void *handle, void **send_comm, struct nccl_device_handle **device);
	int (*accept)(void *listen_comm, void **recv_comm, struct nccl_device_handle **device);
	int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
		void **mhandle);
	int (*deregMr)(void *comm, void *mhandle);
	int (*isend)(
		void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request);
	int (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
		void **request);
	int (*iflush)(
		void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*closeSend)(void *send_comm);
	int (*closeRecv)(void *recv_comm);
	int (*closeListen)(void *listen_comm);
	int (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);
	int (*irecvConsumed)(void *recv_comm, int n, void *request);
	int (*makeVDevice)(int *dev, struct nccl_vdevice_v9 *props);
};

struct nccl_net_v10 {
	const char *name;
	int (*init)(nccl_logger *log, nccl_profiler *profiler);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v9 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	int (*connect)(int dev, struct nccl_comm_config *config, void *handle, void **send_comm,
		struct nccl_device_handle **device);
	int (*accept)(void *listen_comm, void **recv_comm, struct nccl_device_handle **device);
	int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
		void **mhandle);
	int (*deregMr)(void *comm, void *mhandle);
	int (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle,
		void *phandle, void **request);
	int (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
		void **phandles, void **request);
	int (*iflush)(
		void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*closeSend)(void *send_comm);
	int (*closeRecv)(void *recv_comm);
	int (*closeListen)(void *listen_comm);
	int (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);
	int (*irecvConsumed)(void *recv_comm, int n, void *request);
	int (*makeVDevice)(int *dev, struct nccl_vdevice_v9 *props);
};

/* v11 and v12 differ in their properties and virtual devices alone. */
#define NCCL_NET_FROM_V11(PROPS, VDEVICE)                                                          \
	const char *name;                                                                          \
	int (*init)(void **ctx, uint64_t comm_id, struct nccl_comm_config *config,                 \
		nccl_logger *log, nccl_profiler *profiler);                                        \
	int (*devices)(int *ndev);                                                                 \
	int (*getProperties)(int dev, struct PROPS *props);                                        \
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);                       \
	int (*connect)(void *ctx, int dev, void *handle, void **send_comm,                         \
		struct nccl_device_handle **device);                                               \
	int (*accept)(void *listen_comm, void **recv_comm, struct nccl_device_handle **device);    \
	int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);               \
	int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, \
		void **mhandle);                                                                   \
	int (*deregMr)(void *comm, void *mhandle);                                                 \
	int (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle,             \
		void *phandle, void **request);                                                    \
	int (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,                \
		void **mhandles, void **phandles, void **request);                                 \
	int (*iflush)(                                                                             \
		void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **request); \
	int (*test)(void *request, int *done, int *sizes);                                         \
	int (*closeSend)(void *send_comm);                                                         \
	int (*closeRecv)(void *recv_comm);                                                         \
	int (*closeListen)(void *listen_comm);                                                     \
	int (*getDeviceMr)(void *comm, void *mhandle, void **device_mhandle);                      \
	int (*irecvConsumed)(void *recv_comm, int n, void *request);                               \
	int (*makeVDevice)(int *dev, struct VDEVICE *props);                                       \
	int (*finalize)(void *ctx);                                                                \
	int (*setNetAttr)(void *ctx, struct nccl_net_attributes *attributes)

struct nccl_net_v11 {
	NCCL_NET_FROM_V11(nccl_props_v11, nccl_vdevice_v9);
};

struct nccl_net_v12 {
	NCCL_NET_FROM_V11(nccl_props_v12, nccl_vdevice_v12);
};

/* ---- collectives in the network ---- */

/* A part of a buffer. */
struct nccl_sge_v8 {
	void *mhandle;
	void *address;
	uint32_t size;
};

struct nccl_sge_v9 { /* to v12 */
	void *mhandle;
	void *address;
	size_t size;
};

struct nccl_collnet_v6 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v6 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	int (*connect)(void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm);
	int (*reduceSupport)(int dtype, int op, int *supported);
	int (*regMr)(void *coll_comm, void *data, int size, int type, void **mhandle);
	int (*regMrDmaBuf)(void *coll_comm, void *data, size_t size, int type, uint64_t offset,
		int fd, void **mhandle);
	int (*deregMr)(void *coll_comm, void *mhandle);
	int (*iallreduce)(void *coll_comm, void *send, void *recv, int count, int dtype, int op,
		void *send_mhandle, void *recv_mhandle, void **request);
	int (*iflush)(void *coll_comm, void *data, int size, void *mhandle, void **request);
	int (*test)(void *request, int *done, int *size);
	int (*closeColl)(void *coll_comm);
	int (*closeListen)(void *listen_comm);
};

/* Of all-gather and reduce-scatter: the bytes [offset, offset + bytes) of the nranks *
 * bytes_per_rank that all ranks have together. */
#define NCCL_COLLNET_FROM_V8(COUNT, SGE)                                                           \
	int (*connect)(                                                                            \
		void *handles[], int nranks, int rank, void *listen_comm, void **coll_comm);       \
	int (*reduceSupport)(int dtype, int op, int *supported);                                   \
	int (*regMr)(void *coll_comm, void *data, size_t size, int type, void **mhandle);          \
	int (*regMrDmaBuf)(void *coll_comm, void *data, size_t size, int type, uint64_t offset,    \
		int fd, void **mhandle);                                                           \
	int (*deregMr)(void *coll_comm, void *mhandle);                                            \
	int (*iallreduce)(void *coll_comm, void *send, void *recv, COUNT count, int dtype, int op, \
		void *send_mhandle, void *recv_mhandle, void **request);                           \
	int (*iallgather)(void *coll_comm, void *send, int nparts, struct SGE *parts,              \
		size_t bytes_per_rank, size_t offset, size_t bytes, void *send_mhandle,            \
		void **request);                                                                   \
	int (*ireducescatter)(void *coll_comm, int nparts, struct SGE *parts, void *recv,          \
		size_t bytes_per_rank, size_t offset, size_t bytes, int dtype, int op,             \
		void *recv_mhandle, void **request);                                               \
	int (*iflush)(void *coll_comm, void *data, int size, void *mhandle, void **request);       \
	int (*test)(void *request, int *done, int *size);                                          \
	int (*closeColl)(void *coll_comm);                                                         \
	int (*closeListen)(void *listen_comm)

struct nccl_collnet_v8 {
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v8 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	NCCL_COLLNET_FROM_V8(int, nccl_sge_v8);
};

struct nccl_collnet_v9 { /* and v10 */
	const char *name;
	int (*init)(nccl_logger *log);
	int (*devices)(int *ndev);
	int (*getProperties)(int dev, struct nccl_props_v9 *props);
	int (*listen)(int dev, void *handle, void **listen_comm);
	NCCL_COLLNET_FROM_V8(size_t, nccl_sge_v9);
	int (*makeVDevice)(int *dev, struct nccl_vdevice_v9 *props);
};

#define NCCL_COLLNET_FROM_V11(PROPS, VDEVICE)                                                      \
	const char *name;                                                                          \
	int (*init)(void **ctx, uint64_t comm_id, nccl_logger *log);                               \
	int (*devices)(int *ndev);                                                                 \
	int (*getProperties)(int dev, struct PROPS *props);                                        \
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);                       \
	NCCL_COLLNET_FROM_V8(size_t, nccl_sge_v9);                                                 \
	int (*makeVDevice)(int *dev, struct VDEVICE *props);                                       \
	int (*finalize)(void *ctx)

struct nccl_collnet_v11 {
	NCCL_COLLNET_FROM_V11(nccl_props_v11, nccl_vdevice_v9);
};

struct nccl_collnet_v12 {
	NCCL_COLLNET_FROM_V11(nccl_props_v12, nccl_vdevice_v12);
};

/* ---- the tuner ---- */

/* ncclFunc_t */
enum nccl_function {
	NCCL_FUNC_BROADCAST = 0,
	NCCL_FUNC_REDUCE = 1,
	NCCL_FUNC_ALLGATHER = 2,
	NCCL_FUNC_REDUCESCATTER = 3,
	NCCL_FUNC_ALLREDUCE = 4
};

enum nccl_algorithm {
	NCCL_ALGO_TREE = 0,
	NCCL_ALGO_RING = 1,
	NCCL_ALGO_COLLNET_DIRECT = 2,
	NCCL_ALGO_COLLNET_CHAIN = 3,
	NCCL_ALGO_NVLS = 4,
	NCCL_ALGO_NVLS_TREE = 5,
	NCCL_ALGO_PAT = 6
};

enum nccl_protocol { NCCL_PROTO_LL = 0, NCCL_PROTO_LL128 = 1, NCCL_PROTO_SIMPLE = 2 };

#define NCCL_COST_IGNORE (-1.0f) /* in a table of costs: this pair cannot be used */

struct nccl_nvl_domain_v5 {
	int ndomains;
	int min_ranks;
	int max_ranks;
};

struct nccl_tuner_constants_v5; /* left as they are */

struct nccl_tuner_v2 {
	const char *name;
	int (*init)(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx);
	int (*getCollInfo)(void *ctx, int function, size_t bytes, int collnet_support,
		int nvls_support, int npipe, int *algorithm, int *protocol, int *nchannels);
	int (*destroy)(void *ctx);
};

/* costs: in truth float[nalgorithms][nprotocols], in microseconds */
struct nccl_tuner_v3 {
	const char *name;
	int (*init)(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx);
	int (*getCollInfo)(void *ctx, int function, size_t bytes, int npipe, float **costs,
		int nalgorithms, int nprotocols, int *nchannels);
	int (*destroy)(void *ctx);
};

struct nccl_tuner_v4 {
	const char *name;
	int (*init)(size_t nranks, size_t nnodes, nccl_logger *log, void **ctx);
	int (*getCollInfo)(void *ctx, int function, size_t bytes, int npipe, float **costs,
		int nalgorithms, int nprotocols, int registered, int *nchannels);
	int (*destroy)(void *ctx);
};

struct nccl_tuner_v5 {
	const char *name;
	int (*init)(void **ctx, uint64_t comm_id, size_t nranks, size_t nnodes, nccl_logger *log,
		struct nccl_nvl_domain_v5 *domain, struct nccl_tuner_constants_v5 *constants);
	int (*getCollInfo)(void *ctx, int function, size_t bytes, int npipe, float **costs,
		int nalgorithms, int nprotocols, int registered, int *nchannels);
	int (*finalize)(void *ctx);
};

#include "worker/nccl_plugin/abi/nccl_abi_layout.h"

#endif
