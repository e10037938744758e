/* Calls each version's tables by their own types. */
#include "tests/nccl_proxy/collnet.h"

#include <string.h>

#include "tests/nccl_proxy/fleet.h"
#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"

#define PARTS_MAX 8

const int collnet_versions[] = {6, 8, 9, 10, 11, 12};
const int collnet_nversions = sizeof(collnet_versions) / sizeof(collnet_versions[0]);

void collnet_find(struct collnet *collnet, void *library, int version)
{
	collnet->version = version;
	collnet->begun = false;
	collnet->net.any = library_table(library, "ncclNetPlugin", version);
	collnet->coll.any = library_table(library, "ncclCollNetPlugin", version);
	CHECK(collnet->net.any);
	CHECK(collnet->coll.any);
	CHECK(collnet->net.v6->name && collnet->coll.v6->name);
}

/* ---- init and finalize ---- */

static int net_init(const struct collnet *collnet, uint64_t comm_id, void **ctx)
{
	struct nccl_comm_config config = {.traffic_class = -1};

	switch (collnet->version) {
	case 6:
		return collnet->net.v6->init(logbook_write);
	case 8:
		return collnet->net.v8->init(logbook_write);
	case 9:
		return collnet->net.v9->init(logbook_write);
	case 10:
		return collnet->net.v10->init(logbook_write, NULL);
	case 11:
		return collnet->net.v11->init(ctx, comm_id, &config, logbook_write, NULL);
	default:
		return collnet->net.v12->init(ctx, comm_id, &config, logbook_write, NULL);
	}
}

static int coll_init(const struct collnet *collnet, uint64_t comm_id, void **ctx)
{
	switch (collnet->version) {
	case 6:
		return collnet->coll.v6->init(logbook_write);
	case 8:
		return collnet->coll.v8->init(logbook_write);
	case 9:
	case 10:
		return collnet->coll.v9->init(logbook_write);
	case 11:
		return collnet->coll.v11->init(ctx, comm_id, logbook_write);
	default:
		return collnet->coll.v12->init(ctx, comm_id, logbook_write);
	}
}

static int net_finalize(const struct collnet *collnet, void *ctx)
{
	return collnet->version == 11 ? collnet->net.v11->finalize(ctx)
				      : collnet->net.v12->finalize(ctx);
}

static int coll_finalize(const struct collnet *collnet, void *ctx)
{
	return collnet->version == 11 ? collnet->coll.v11->finalize(ctx)
				      : collnet->coll.v12->finalize(ctx);
}

int collnet_begin(struct collnet *collnet, uint64_t comm_id, struct collnet_contexts *contexts)
{
	int result = NCCL_SUCCESS;

	*contexts = (struct collnet_contexts){NULL, NULL};
	if (collnet->version <= 10 && collnet->begun) {
		return NCCL_SUCCESS;
	}
	result = net_init(collnet, comm_id, &contexts->net);
	if (result == NCCL_SUCCESS) {
		result = coll_init(collnet, comm_id, &contexts->coll);
	}
	collnet->begun = result == NCCL_SUCCESS;
	return result;
}

void collnet_end(struct collnet *collnet, const struct collnet_contexts *contexts)
{
	if (collnet->version > 10) {
		CHECK_EQUAL(net_finalize(collnet, contexts->net), NCCL_SUCCESS);
		CHECK_EQUAL(coll_finalize(collnet, contexts->coll), NCCL_SUCCESS);
	}
}

int collnet_listen(const struct collnet *collnet, const struct collnet_contexts *contexts, int dev,
	void *handle, void **listen_comm)
{
	switch (collnet->version) {
	case 6:
		return collnet->coll.v6->listen(dev, handle, listen_comm);
	case 8:
		return collnet->coll.v8->listen(dev, handle, listen_comm);
	case 9:
	case 10:
		return collnet->coll.v9->listen(dev, handle, listen_comm);
	case 11:
		return collnet->coll.v11->listen(contexts->coll, dev, handle, listen_comm);
	default:
		return collnet->coll.v12->listen(contexts->coll, dev, handle, listen_comm);
	}
}

/* ---- properties ---- */

/* All that any version has; 0 where one has less. */
struct props {
	const char *name;
	const char *pci_path;
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
	int ndevs;
	int first;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request_size;
	int rail;
	int plane;
};

#define TAKE_V6(to, from)                                                                          \
	(to)->name = (from)->name;                                                                 \
	(to)->pci_path = (from)->pci_path;                                                         \
	(to)->guid = (from)->guid;                                                                 \
	(to)->ptr_support = (from)->ptr_support;                                                   \
	(to)->speed = (from)->speed;                                                               \
	(to)->port = (from)->port;                                                                 \
	(to)->latency = (from)->latency;                                                           \
	(to)->max_comms = (from)->max_comms;                                                       \
	(to)->max_recvs = (from)->max_recvs

#define TAKE_V8(to, from)                                                                          \
	TAKE_V6(to, from);                                                                         \
	(to)->reg_is_global = (from)->reg_is_global;                                               \
	(to)->device_type = (from)->device_type;                                                   \
	(to)->device_version = (from)->device_version

#define TAKE_V9(to, from)                                                                          \
	TAKE_V8(to, from);                                                                         \
	(to)->force_flush = (from)->force_flush;                                                   \
	(to)->ndevs = (from)->vprops.ndevs;                                                        \
	(to)->first = (from)->vprops.devs[0];                                                      \
	(to)->max_p2p_bytes = (from)->max_p2p_bytes;                                               \
	(to)->max_coll_bytes = (from)->max_coll_bytes

#define TAKE_V11(to, from)                                                                         \
	TAKE_V9(to, from);                                                                         \
	(to)->max_multi_request_size = (from)->max_multi_request_size

#define TAKE_V12(to, from)                                                                         \
	TAKE_V11(to, from);                                                                        \
	(to)->rail = (from)->rail;                                                                 \
	(to)->plane = (from)->plane

/* Into a struct full of `garbage`, with more of it behind, which must be there after the call. */
#define DEFINE_GET(version, props_version, nets, colls)                                            \
	static void get_v##version(const struct collnet *collnet, bool net, int dev,               \
		unsigned char garbage, struct props *to)                                           \
	{                                                                                          \
		struct {                                                                           \
			struct nccl_props_v##props_version props;                                  \
			unsigned char behind[256];                                                 \
		} room;                                                                            \
                                                                                                   \
		memset(&room, garbage, sizeof(room));                                              \
		CHECK_EQUAL(net ? collnet->net.nets->getProperties(dev, &room.props)               \
				: collnet->coll.colls->getProperties(dev, &room.props),            \
			NCCL_SUCCESS);                                                             \
		for (size_t i = 0; i < sizeof(room.behind); i++) {                                 \
			CHECK_EQUAL(room.behind[i], garbage);                                      \
		}                                                                                  \
		memset(to, 0, sizeof(*to));                                                        \
		TAKE_V##props_version(to, &room.props);                                            \
	}

DEFINE_GET(6, 6, v6, v6)
DEFINE_GET(8, 8, v8, v8)
DEFINE_GET(9, 9, v9, v9)
DEFINE_GET(10, 9, v10, v9)
DEFINE_GET(11, 11, v11, v11)
DEFINE_GET(12, 12, v12, v12)

/* Twice: what the call leaves out differs. */
static struct props get_properties(const struct collnet *collnet, bool net, int dev)
{
	static void (*const get[])(
		const struct collnet *, bool, int, unsigned char, struct props *) = {[6] = get_v6,
		[8] = get_v8,
		[9] = get_v9,
		[10] = get_v10,
		[11] = get_v11,
		[12] = get_v12};
	struct props once;
	struct props again;

	get[collnet->version](collnet, net, dev, 0xa5, &once);
	get[collnet->version](collnet, net, dev, 0x5a, &again);
	CHECK(memcmp(&once, &again, sizeof(once)) == 0);
	return once;
}

static void check_properties(const struct collnet *collnet, const struct props *props, int dev)
{
	CHECK(props->name && props->name[0]);
	CHECK(props->ptr_support & NCCL_PTR_HOST);
	CHECK(props->speed > 0);
	CHECK(props->max_comms > 0);
	CHECK(props->max_recvs >= 1);
	CHECK(props->latency >= 0);
	CHECK_EQUAL(props->device_type, NCCL_DEVICE_HOST);
	if (collnet->version >= 9) {
		CHECK_EQUAL(props->ndevs, 1);
		CHECK_EQUAL(props->first, dev);
		CHECK(props->max_p2p_bytes > 0 && props->max_p2p_bytes <= NCCL_NET_BYTES_MAX);
		CHECK(props->max_coll_bytes > 0 && props->max_coll_bytes <= NCCL_NET_BYTES_MAX);
	}
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

void collnet_check_devices(const struct collnet *collnet)
{
	int nnet = -1;
	int ncoll = -1;

	CHECK_EQUAL(collnet->net.v6->devices(&nnet), NCCL_SUCCESS);
	CHECK_EQUAL(COLLNET_CALL(collnet, devices, &ncoll), NCCL_SUCCESS);
	CHECK(nnet > 0);
	CHECK_EQUAL(ncoll, nnet);
	for (int dev = 0; dev < nnet; dev++) {
		struct props net = get_properties(collnet, true, dev);
		struct props coll = get_properties(collnet, false, dev);

		check_properties(collnet, &net, dev);
		check_properties(collnet, &coll, dev);
		CHECK(same(net.name, coll.name));
		CHECK(same(net.pci_path, coll.pci_path));
		CHECK_EQUAL(net.guid, coll.guid);
		CHECK_EQUAL(net.speed, coll.speed);
		CHECK_EQUAL(net.port, coll.port);
		for (int other = 0; other < dev; other++) {
			CHECK(get_properties(collnet, false, other).guid != coll.guid);
		}
	}
}

/* ---- gather and scatter ---- */

static void narrow(const struct nccl_sge_v9 *parts, int nparts, struct nccl_sge_v8 *to)
{
	CHECK(nparts <= PARTS_MAX);
	for (int i = 0; i < nparts; i++) {
		to[i].mhandle = parts[i].mhandle;
		to[i].address = parts[i].address;
		to[i].size = (uint32_t)parts[i].size;
	}
}

/* The parts are the caller's, on its stack: copies, so that keeping them shows. */
int collnet_iallgather(const struct collnet *collnet, void *coll, void *send, int nparts,
	const struct nccl_sge_v9 *parts, size_t bytes_per_rank, size_t offset, size_t bytes,
	void *mhandle, void **request)
{
	struct nccl_sge_v8 narrows[PARTS_MAX];
	struct nccl_sge_v9 wides[PARTS_MAX];
	int result;

	narrow(parts, nparts, narrows);
	memcpy(wides, parts, (size_t)nparts * sizeof(*parts));
	if (collnet->version == 8) {
		result = collnet->coll.v8->iallgather(coll, send, nparts, narrows, bytes_per_rank,
			offset, bytes, mhandle, request);
	} else if (collnet->version < 11) {
		result = collnet->coll.v9->iallgather(
			coll, send, nparts, wides, bytes_per_rank, offset, bytes, mhandle, request);
	} else {
		result = (collnet->version == 11 ? collnet->coll.v11->iallgather
						 : collnet->coll.v12->iallgather)(
			coll, send, nparts, wides, bytes_per_rank, offset, bytes, mhandle, request);
	}
	memset(narrows, 0xa5, sizeof(narrows));
	memset(wides, 0xa5, sizeof(wides));
	return result;
}

int collnet_ireducescatter(const struct collnet *collnet, void *coll, int nparts,
	const struct nccl_sge_v9 *parts, void *recv, size_t bytes_per_rank, size_t offset,
	size_t bytes, int dtype, int op, void *mhandle, void **request)
{
	struct nccl_sge_v8 narrows[PARTS_MAX];
	struct nccl_sge_v9 wides[PARTS_MAX];
	int result;

	narrow(parts, nparts, narrows);
	memcpy(wides, parts, (size_t)nparts * sizeof(*parts));
	if (collnet->version == 8) {
		result = collnet->coll.v8->ireducescatter(coll, nparts, narrows, recv,
			bytes_per_rank, offset, bytes, dtype, op, mhandle, request);
	} else if (collnet->version < 11) {
		result = collnet->coll.v9->ireducescatter(coll, nparts, wides, recv, bytes_per_rank,
			offset, bytes, dtype, op, mhandle, request);
	} else {
		result = (collnet->version == 11 ? collnet->coll.v11->ireducescatter
						 : collnet->coll.v12->ireducescatter)(coll, nparts,
			wides, recv, bytes_per_rank, offset, bytes, dtype, op, mhandle, request);
	}
	memset(narrows, 0xa5, sizeof(narrows));
	memset(wides, 0xa5, sizeof(wides));
	return result;
}
