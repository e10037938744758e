/* Makes what a lane has on a device, however its ends find each other: buffers and a queue pair. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/rdma.h"

#define MEMORY_ALIGNMENT 4096

struct rdma_lane *smd_rdma_lane_create(void)
{
	struct rdma_lane *lane = calloc(1, sizeof(*lane));

	if (lane) {
		lane->lane.ops = &smd_transport_rdma;
		lane->pair.ops = &smd_rdma_lane_pair;
		TAILQ_INIT(&lane->tx);
		LIST_INIT(&lane->advertisements);
		LIST_INIT(&lane->idle_advertisements);
	}
	return lane;
}

static int lane_make_buffers(struct rdma_lane *lane, struct smd_error *error)
{
	size_t bytes = 2 * (size_t)RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE;
	void *memory = NULL;
	int ret;

	lane->receive_buffers = RDMA_BUFFERS;
	lane->posted = calloc(lane->depth, sizeof(*lane->posted));
	if (!lane->posted || posix_memalign(&memory, MEMORY_ALIGNMENT, bytes) != 0) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	lane->memory = memory;
	memset(memory, 0, bytes);
	ret = smd_verbs_region_create(lane->device->domain, memory, bytes,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &lane->region);
	return ret ? smd_rdma_explain(error, -ret, "register memory") : 0;
}

/* With as much inline room as can be had: cards refuse what is too much, and do not say what is
 * not. */
static int lane_create_pair(struct rdma_lane *lane)
{
	/* 96 is bnxt_re's, and irdma has 101: a header of 80 bytes fits. */
	static const uint32_t wanted[] = {256, 128, 96, 0};
	int ret = 0;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		lane->inline_bytes = wanted[i];
		ret = smd_verbs_pair_create(lane->id, lane->device->domain, &lane->device->queue,
			lane->depth, RDMA_RECEIVES, &lane->inline_bytes, &lane->pair.qp);
		if (ret == 0) {
			break;
		}
	}
	return ret;
}

/* The device is known: makes the queue pair and what belongs to it. */
int smd_rdma_lane_make_pair(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	struct smd_error *error)
{
	int ret = smd_rdma_device_get(lane->loop, context, port, RDMA_DEPTH + RDMA_RECEIVES,
		&lane->device, error);

	if (ret) {
		return ret;
	}
	/* A power of 2, so that the ring of messages is one where their count begins anew. */
	lane->depth = RDMA_DEPTH;
	while (lane->depth > lane->device->limits.queue_depth) {
		lane->depth /= 2;
	}
	ret = lane_make_buffers(lane, error);
	if (ret) {
		return ret;
	}
	ret = smd_rdma_device_add(lane->device, &lane->pair, lane->depth + RDMA_RECEIVES);
	if (ret) {
		return smd_error_set(error, -ret,
			"rdma: the device has no room for the completions of one more lane");
	}
	ret = lane_create_pair(lane);
	if (ret == 0 && !lane->id) { /* the connection manager does this itself */
		ret = smd_verbs_pair_init(lane->pair.qp, port);
		if (ret) {
			smd_verbs_pair_destroy(NULL, lane->pair.qp);
		}
	}
	if (ret) {
		smd_rdma_device_remove(lane->device, &lane->pair, lane->depth + RDMA_RECEIVES);
		return ret == -EOPNOTSUPP
			       ? smd_error_set(error, EOPNOTSUPP,
					 "rdma: %s must have reliable connections, as InfiniBand "
					 "and RoCE have",
					 ibv_get_device_name(context->device))
			       : smd_rdma_explain(error, -ret, "make a queue pair");
	}
	lane->paired = true;
	lane->rx_owed = RDMA_RECEIVES;
	ret = smd_rdma_post_receives(lane);
	return ret ? smd_error_set(error, -ret, "rdma: cannot post receives: %s", strerror(-ret))
		   : 0;
}

struct smd_rdma_greeting smd_rdma_lane_greeting(const struct rdma_lane *lane)
{
	return (struct smd_rdma_greeting){
		.shard = (uint16_t)lane->shard,
		.receive_buffers = (uint16_t)lane->receive_buffers,
		.key = lane->region->rkey,
		.address = (uintptr_t)lane->memory,
	};
}
