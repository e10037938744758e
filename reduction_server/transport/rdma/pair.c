/*
 * Makes what a lane has on a device, however its ends find each other: buffers and a queue pair. The
 * driver's part of it takes long, and may be done by the loop's maker (maker.h).
 */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/rdma/rdma.h"

struct rdma_lane *smd_rdma_lane_create(void)
{
	struct rdma_lane *lane = calloc(1, sizeof(*lane));

	if (lane) {
		lane->lane.ops = &smd_transport_rdma;
		lane->pair.ops = &smd_rdma_lane_pair;
		TAILQ_INIT(&lane->tx);
		LIST_INIT(&lane->advertisements);
		LIST_INIT(&lane->idle_advertisements);
		STAILQ_INIT(&lane->closing);
		STAILQ_INIT(&lane->closed_windows);
	}
	return lane;
}

/* ---- what the loop does before ---- */

static int lane_make_room(struct rdma_lane *lane, struct smd_error *error)
{
	lane->receive_buffers = RDMA_BUFFERS;
	lane->posted = calloc(lane->depth, sizeof(*lane->posted));
	lane->memory = smd_rdma_buffers_take(&lane->device->buffers);
	return lane->posted && lane->memory ? 0
					    : smd_error_set(error, ENOMEM, "rdma: out of memory");
}

/* The device is known: a place on it, and memory. */
static int lane_begin_pair(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	struct smd_error *error)
{
	bool windows =
		lane->loop->settings.windows && !(lane->callbacks && lane->callbacks->trusting);
	int ret = smd_rdma_device_get(lane->loop, context, port, windows,
		RDMA_DEPTH + RDMA_RECEIVES, &lane->device, error);

	if (ret) {
		return ret;
	}
	/* A power of 2, so that the ring of messages is one where their count begins anew. */
	lane->depth = RDMA_DEPTH;
	while (lane->depth > lane->device->limits.queue_depth) {
		lane->depth /= 2;
	}
	if (windows && lane->depth < RDMA_DEPTH) {
		return smd_error_set(error, EOPNOTSUPP,
			"rdma: for SUMMAND_RDMA_WINDOWS=1 %s must take %u work requests of a queue "
			"pair, and takes %u",
			ibv_get_device_name(context->device), RDMA_DEPTH,
			lane->device->limits.queue_depth);
	}
	lane->making.port = port;
	lane->lane.windows = windows;
	ret = lane_make_room(lane, error);
	if (ret) {
		return ret;
	}
	ret = smd_rdma_device_add(lane->device, &lane->pair, lane->depth + RDMA_RECEIVES);
	if (ret) {
		return smd_error_set(error, -ret,
			"rdma: the device has no room for the completions of one more lane");
	}
	lane->placed = true;
	if (lane->loop->prepared) { /* or the pool's registrations would go with its last lane */
		smd_rdma_device_keep(lane->device);
	}
	return 0;
}

/* ---- what the driver does, on this thread or on the maker's ---- */

static int lane_register_buffers(struct rdma_lane *lane, struct smd_error *error)
{
	int ret;

	memset(lane->memory, 0, SMD_RDMA_BUFFERS_BYTES);
	ret = smd_verbs_region_create(lane->device->domain, lane->memory, SMD_RDMA_BUFFERS_BYTES,
		smd_rdma_device_access(lane->device), &lane->region);
	if (ret) {
		return smd_rdma_explain(error, -ret, "register memory");
	}
	lane->key = lane->region->rkey;
	return 0;
}

/* With as much inline room as can be had: cards refuse what is too much, and do not say what is
 * not. */
static int lane_create_pair(struct rdma_lane *lane)
{
	/* 96 is bnxt_re's, and irdma has 101: a header fits, of 80 bytes, or 96 with a buffer that
	 * it advertises. */
	static const uint32_t wanted[] = {256, 128, 96, 0};
	int ret = 0;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		lane->inline_bytes = wanted[i];
		ret = smd_verbs_pair_create(lane->device->domain, &lane->device->queue, lane->depth,
			RDMA_RECEIVES, &lane->inline_bytes, &lane->making.qp);
		if (ret == 0) {
			break;
		}
	}
	return ret;
}

static int lane_make(struct rdma_lane *lane, struct smd_error *error)
{
	const uint16_t pkey = lane->loop->settings.pkey;
	int ret = lane_register_buffers(lane, error);

	if (ret) {
		return ret;
	}
	ret = lane_create_pair(lane);
	if (ret == 0) {
		ret = lane->id ? smd_verbs_pair_init_as(lane->making.qp, lane->id, pkey)
			       : smd_verbs_pair_init(lane->making.qp, lane->making.port, pkey);
		if (ret) {
			smd_verbs_pair_destroy(lane->making.qp);
			lane->making.qp = NULL;
		}
	}
	if (ret == -EOPNOTSUPP) {
		return smd_error_set(error, EOPNOTSUPP,
			"rdma: %s must have reliable connections, as InfiniBand and RoCE have",
			ibv_get_device_name(lane->device->context->device));
	}
	if (ret) {
		return smd_rdma_explain(error, -ret, "make a queue pair");
	}
	ret = lane->device->windows ? smd_rdma_lane_make_windows(lane) : 0;
	return ret ? smd_rdma_explain(error, -ret, "make memory windows") : 0;
}

/* To join it the kernel looks for the way to the other end, on Ethernet for its hardware address:
 * for a second, where nobody answers. A path that is not there is one over which nothing comes. */
static int join_error(int ret)
{
	return smd_transport_error_is_silence(ret) ? ETIMEDOUT : -ret;
}

static int lane_join(struct rdma_lane *lane, struct smd_error *error)
{
	const struct smd_rdma_settings *settings = &lane->loop->settings;
	int ret;

	if (lane->other.windows && !lane->device->limits.invalidates) {
		return smd_error_set(error, ENOTSUP,
			"rdma: the other end has memory windows (SUMMAND_RDMA_WINDOWS=1), and %s "
			"cannot give their keys back",
			ibv_get_device_name(lane->device->context->device));
	}
	lane->path.service_level = settings->service_level;
	lane->path.traffic_class = settings->traffic_class;
	lane->path.patience = settings->patience;
	ret = lane->id ? smd_verbs_pair_join_as(lane->pair.qp, lane->id, &lane->path)
		       : smd_verbs_pair_join(lane->pair.qp, &lane->path);
	if (ret == 0) {
		ret = smd_rdma_bind_buffers(lane);
	}
	return ret ? smd_error_set(error, join_error(ret),
			     "rdma: the queue pair on %s cannot be connected: %s",
			     ibv_get_device_name(lane->device->context->device), strerror(-ret))
		   : 0;
}

/* ---- what the loop does afterwards ---- */

/* The pair, if there is one, is the lane's. */
static int lane_end_pair(struct rdma_lane *lane, struct smd_error *error)
{
	int ret;

	if (!lane->making.qp) {
		return 0;
	}
	lane->pair.qp = lane->making.qp;
	lane->paired = true;
	lane->rx_owed = RDMA_RECEIVES;
	ret = smd_rdma_post_receives(lane);
	return ret ? smd_error_set(error, -ret, "rdma: cannot post receives: %s", strerror(-ret))
		   : 0;
}

int smd_rdma_lane_make_pair(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	struct smd_error *error)
{
	int ret = lane_begin_pair(lane, context, port, error);

	struct smd_error receives = {""};
	int made;

	if (ret) {
		return ret;
	}
	ret = lane_make(lane, error);
	/* Where the pair alone was made, too: whoever closes the lane must know of it. */
	made = lane_end_pair(lane, &receives);
	return ret || made == 0 ? ret : smd_error_set(error, -made, "%s", receives.text);
}

int smd_rdma_lane_join_pair(struct rdma_lane *lane, struct smd_error *error)
{
	return lane_join(lane, error);
}

/* ---- the same by the maker ---- */

static struct rdma_lane *lane_of_job(struct rdma_job *job)
{
	return (struct rdma_lane *)((char *)job - offsetof(struct rdma_lane, making.job));
}

static void job_make(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);

	lane->making.ret = lane->making.unwanted ? -ECANCELED : lane_make(lane, &lane->making.error);
}

static void job_join(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);

	lane->making.ret = lane->making.unwanted ? -ECANCELED : lane_join(lane, &lane->making.error);
}

static void lane_on_job(struct rdma_lane *lane)
{
	lane->making.under_way = false;
	if (lane->closed) {
		smd_rdma_close_made(lane);
	} else if (!lane->ended) {
		lane->making.made(lane, lane->making.ret, lane->making.error.text);
	}
}

static void job_on_made(struct rdma_job *job)
{
	struct rdma_lane *lane = lane_of_job(job);
	int ret = lane_end_pair(lane, &lane->making.error);

	if (lane->making.ret == 0) {
		lane->making.ret = ret;
	}
	lane_on_job(lane);
}

static void job_on_joined(struct rdma_job *job)
{
	lane_on_job(lane_of_job(job));
}

static void lane_give(struct rdma_lane *lane, struct rdma_job job, rdma_made *made)
{
	lane->making.job = job;
	lane->making.made = made;
	lane->making.under_way = true;
	smd_rdma_maker_give(lane->loop->maker, &lane->making.job);
}

int smd_rdma_lane_make_pair_later(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	rdma_made *made, struct smd_error *error)
{
	int ret = smd_rdma_loop_open_maker(lane->loop);

	if (ret) {
		return smd_error_set(
			error, -ret, "rdma: cannot start a thread: %s", strerror(-ret));
	}
	ret = lane_begin_pair(lane, context, port, error);
	if (ret == 0) {
		lane_give(lane,
			(struct rdma_job){
				.what = "make a queue pair", .run = job_make, .done = job_on_made},
			made);
	}
	return ret;
}

void smd_rdma_lane_join_pair_later(struct rdma_lane *lane, rdma_made *made)
{
	const struct rdma_job job = {.what = "connect a queue pair",
		.run = job_join,
		.done = job_on_joined,
		.urgent = true};

	lane_give(lane, job, made);
}

/* ---- how long that may take ---- */

int smd_rdma_lane_be_patient(struct rdma_lane *lane, uint64_t ns)
{
	const struct timeval patience = {
		(time_t)(ns / SMD_SECOND_NS), (suseconds_t)(ns % SMD_SECOND_NS / 1000)};

	return evtimer_add(lane->patience, &patience);
}

/* The one that the maker has, or has next. */
static const struct rdma_job *lane_job(const struct rdma_lane *lane)
{
	return lane->accepting.under_way ? &lane->accepting.job : &lane->making.job;
}

/* What is with the maker is timed from when the maker has taken it up: others may be before it, and
 * with hundreds of workers are. But where the driver does not come back from one of those, nobody
 * waits longer for that. 0: it has had its time. */
static uint64_t lane_time_left(const struct rdma_lane *lane)
{
	uint64_t taken_ns = atomic_load(&lane_job(lane)->taken_ns);
	uint64_t now_ns = smd_clock_ns();
	uint64_t until_ns;

	if (taken_ns == 0) {
		taken_ns = smd_rdma_maker_busy_since(lane->loop->maker);
	}
	until_ns = (taken_ns ? taken_ns : now_ns) + lane->loop->settings.connect_s * SMD_SECOND_NS;
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

int smd_rdma_lane_check_making(struct rdma_lane *lane, struct smd_error *error)
{
	uint64_t left_ns = lane_time_left(lane);

	if (left_ns) {
		smd_rdma_lane_be_patient(lane, left_ns);
		return 0;
	}
	return smd_error_set(error, ETIMEDOUT, "the device has %s within %u s",
		lane_job(lane)->urgent ? "not connected the queue pair" : "made no queue pair",
		lane->loop->settings.connect_s);
}

/* ---- the trial ---- */

void smd_rdma_lane_try(struct rdma_lane *lane)
{
	lane->state = RDMA_LANE_TRYING;
	if (!lane->answers) {
		smd_rdma_post_trial(lane);
	}
}

int smd_rdma_lane_untried(
	const struct rdma_lane *lane, unsigned patience_s, struct smd_error *error)
{
	return smd_error_set(error, ETIMEDOUT,
		"no message of %u bytes has come over RDMA within %u s: the path must pass packets "
		"of an MTU of %u",
		(unsigned)SMD_RDMA_BUFFER_SIZE, patience_s, 128u << lane->path.mtu);
}

struct smd_rdma_greeting smd_rdma_lane_greeting(const struct rdma_lane *lane)
{
	return (struct smd_rdma_greeting){
		.shard = (uint16_t)lane->shard,
		.receive_buffers = (uint16_t)lane->receive_buffers,
		.windows = lane->device->windows,
		.key = lane->key,
		.address = (uintptr_t)lane->memory,
	};
}
