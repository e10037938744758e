/*
 * What a lane advertises: memory that the other end's card may write one payload to, and the key
 * that says so.
 *
 * By default that is the key of the registered memory, good until the lane or the registration
 * ends. With memory windows it is one of a window of type 2B, which is bound to this memory and
 * this queue pair in the same queue before the frame that tells of it, and is taken back by the
 * other end with the frame that the memory is for (SEND WITH INVALIDATE); or where none comes any
 * more by this end, by a work request of its own, which is waited for (specs/design/rdma.md).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/rdma.h"

#define REMOTES_FIRST 64
/* Made with the lane, for the places of one communicator of a shard; more are made as they are
 * needed, where that is. */
#define WINDOWS_FIRST 8

static struct rdma_advertisement *of_base(struct smd_advertisement *base)
{
	return (struct rdma_advertisement *)base;
}

/* ---- what is told with the next frames ---- */

static struct rdma_remote *remote_at(const struct rdma_lane *lane, uint32_t place)
{
	return &lane->remotes[place % lane->remotes_room];
}

static int lane_make_room(struct rdma_lane *lane)
{
	uint32_t room = lane->remotes_room ? 2 * lane->remotes_room : REMOTES_FIRST;
	struct rdma_remote *remotes = calloc(room, sizeof(*remotes));

	if (!remotes) {
		return -ENOMEM;
	}
	for (uint32_t i = lane->remotes_begin; i != lane->remotes_end; i++) {
		remotes[i % room] = *remote_at(lane, i);
	}
	free(lane->remotes);
	lane->remotes = remotes;
	lane->remotes_room = room;
	return 0;
}

/* NULL: a buffer of no length, so that those after it keep their places. */
static void lane_tell(struct rdma_lane *lane, struct rdma_advertisement *advertisement)
{
	struct rdma_remote *remote;

	if (lane->remotes_end - lane->remotes_begin == lane->remotes_room && lane_make_room(lane)) {
		smd_rdma_lane_fail(lane, -ENOMEM, "out of memory");
		return;
	}
	remote = remote_at(lane, lane->remotes_end);
	*remote = (struct rdma_remote){.advertisement = NULL};
	if (advertisement) {
		remote->buffer = (struct smd_remote_buffer){
			(uintptr_t)smd_rdma_region_at(advertisement->region, advertisement->memory),
			advertisement->key, advertisement->length};
	}
	if (advertisement && advertisement->window) {
		remote->advertisement = advertisement;
		advertisement->place = lane->remotes_end;
	}
	lane->remotes_end++;
}

/* ---- windows ---- */

static int advertisement_create(struct rdma_lane *lane, struct rdma_advertisement **out)
{
	struct rdma_advertisement *made = calloc(1, sizeof(*made));
	int ret = made ? 0 : -ENOMEM;

	if (ret == 0 && lane->device->windows) {
		ret = smd_verbs_window_create(lane->device->domain, &made->window);
	}
	if (ret) {
		free(made);
		return ret;
	}
	*out = made;
	return 0;
}

int smd_rdma_lane_make_windows(struct rdma_lane *lane)
{
	int ret = smd_verbs_window_create(lane->device->domain, &lane->window_of_buffers);

	if (ret == 0) {
		lane->key = ibv_inc_rkey(lane->window_of_buffers->rkey);
	}
	for (int i = 0; i < WINDOWS_FIRST && ret == 0; i++) {
		struct rdma_advertisement *made;

		ret = advertisement_create(lane, &made);
		if (ret == 0) {
			LIST_INSERT_HEAD(&lane->idle_advertisements, &made->base, link);
		}
	}
	return ret;
}

void smd_rdma_lane_destroy_windows(struct rdma_lane *lane)
{
	struct smd_advertisement *lists[] = {
		LIST_FIRST(&lane->advertisements), LIST_FIRST(&lane->idle_advertisements)};

	if (lane->window_of_buffers) {
		smd_verbs_window_destroy(lane->window_of_buffers);
		lane->window_of_buffers = NULL;
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (struct smd_advertisement *at = lists[i]; at; at = LIST_NEXT(at, link)) {
			if (of_base(at)->window) {
				smd_verbs_window_destroy(of_base(at)->window);
				of_base(at)->window = NULL;
			}
		}
	}
}

static void request_bind(struct ibv_send_wr *request, struct ibv_mw *window, uint32_t key,
	struct ibv_mr *region, const void *memory, uint64_t length)
{
	request->opcode = IBV_WR_BIND_MW;
	request->bind_mw.mw = window;
	request->bind_mw.rkey = key;
	request->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = region,
		.addr = (uintptr_t)memory,
		.length = length,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
}

void smd_rdma_window_bind(struct rdma_advertisement *advertisement, struct ibv_send_wr *request)
{
	request_bind(request, advertisement->window, advertisement->key,
		advertisement->region->keys.handle,
		smd_rdma_region_at(advertisement->region, advertisement->memory),
		advertisement->length);
	advertisement->bound = true;
}

int smd_rdma_bind_buffers(struct rdma_lane *lane)
{
	struct ibv_send_wr request = {.next = NULL};

	if (!lane->window_of_buffers) {
		return 0;
	}
	request.wr_id = smd_rdma_wr_id(&lane->pair, ++lane->requests);
	request_bind(&request, lane->window_of_buffers, lane->key, lane->region, lane->memory,
		lane->receive_buffers * (uint64_t)SMD_RDMA_BUFFER_SIZE);
	return smd_verbs_post_send(lane->pair.qp, &request);
}

void smd_rdma_window_close(struct rdma_advertisement *advertisement, struct ibv_send_wr *request)
{
	request->opcode = IBV_WR_LOCAL_INV;
	request->invalidate_rkey = advertisement->key;
}

/* Its next binding must have another key than this one. */
static void window_is_closed(struct rdma_advertisement *advertisement)
{
	if (advertisement->bound && advertisement->window) {
		advertisement->window->rkey = advertisement->key;
	}
	advertisement->bound = false;
	advertisement->base.held = false;
}

int smd_rdma_window_returned(struct rdma_lane *lane, uint32_t key, struct smd_error *error)
{
	struct smd_advertisement *at;

	LIST_FOREACH (at, &lane->advertisements, link) {
		if (of_base(at)->key == key && of_base(at)->bound) {
			window_is_closed(of_base(at));
			return 0;
		}
	}
	return smd_error_set(error, EPROTO,
		"message: must give back the key of a memory window that is open, got %#x", key);
}

/* ---- the life of one ---- */

static struct rdma_advertisement *lane_take_advertisement(struct rdma_lane *lane)
{
	struct smd_advertisement *idle = LIST_FIRST(&lane->idle_advertisements);
	struct rdma_advertisement *made;

	if (idle) {
		LIST_REMOVE(idle, link);
		return of_base(idle);
	}
	return advertisement_create(lane, &made) ? NULL : made;
}

static void lane_begin_advertisement(struct rdma_lane *lane,
	struct rdma_advertisement *advertisement, void *memory, uint32_t length)
{
	LIST_INSERT_HEAD(&lane->advertisements, &advertisement->base, link);
	advertisement->memory = memory;
	advertisement->length = length;
	advertisement->base.beside = advertisement->region->slot != NULL;
	advertisement->base.held = advertisement->window != NULL;
	advertisement->key = advertisement->window ? ibv_inc_rkey(advertisement->window->rkey)
						   : advertisement->region->keys.rkey;
}

struct smd_advertisement *smd_rdma_advertise(
	struct smd_lane *outer, void *memory, uint32_t length, struct smd_extent extent)
{
	struct rdma_lane *lane = rdma_lane_of(outer);
	struct rdma_advertisement *advertisement = NULL;

	if (lane->device && !lane->ended && length) {
		advertisement = lane_take_advertisement(lane);
	}
	if (advertisement && smd_rdma_memory_find(lane->device->memory, memory, length, extent.base,
				     extent.length, SMD_RDMA_WRITE, &advertisement->region)) {
		LIST_INSERT_HEAD(&lane->idle_advertisements, &advertisement->base, link);
		advertisement = NULL;
	}
	if (advertisement) {
		lane_begin_advertisement(lane, advertisement, memory, length);
	}
	lane_tell(lane, advertisement);
	return advertisement ? &advertisement->base : NULL;
}

/* It is in the ring, and in no frame so far. Of a frame that was cancelled it is not any more, and
 * another may be in its place. */
static bool lane_is_to_tell(
	const struct rdma_lane *lane, const struct rdma_advertisement *advertisement)
{
	return advertisement->place - lane->remotes_begin <
		       lane->remotes_end - lane->remotes_begin &&
	       remote_at(lane, advertisement->place)->advertisement == advertisement;
}

/* Nobody can write there by it any more. */
static void lane_end_advertisement(struct rdma_lane *lane, struct rdma_advertisement *advertisement)
{
	smd_withdrawn *gone = advertisement->gone;

	if (lane_is_to_tell(lane, advertisement)) {
		*remote_at(lane, advertisement->place) =
			(struct rdma_remote){.advertisement = NULL};
	}
	window_is_closed(advertisement);
	smd_rdma_region_put(advertisement->region);
	LIST_REMOVE(&advertisement->base, link);
	LIST_INSERT_HEAD(&lane->idle_advertisements, &advertisement->base, link);
	advertisement->gone = NULL;
	if (gone) {
		gone(advertisement->gone_owner, advertisement->memory);
	}
}

void smd_rdma_withdraw(
	struct smd_lane *outer, struct smd_advertisement *base, smd_withdrawn *gone, void *owner)
{
	struct rdma_lane *lane = rdma_lane_of(outer);
	struct rdma_advertisement *advertisement = of_base(base);

	advertisement->gone = gone;
	advertisement->gone_owner = owner;
	if (!advertisement->bound) {
		lane_end_advertisement(lane, advertisement);
		return;
	}
	STAILQ_INSERT_TAIL(&lane->closing, advertisement, closing_link);
	smd_rdma_device_wake(lane->device, &lane->pair);
}

void smd_rdma_revoke(struct smd_lane *outer, struct smd_advertisement *base)
{
	smd_rdma_withdraw(outer, base, NULL, NULL);
}

void smd_rdma_claim(struct smd_lane *outer, struct smd_advertisement *base, uint32_t length)
{
	const struct rdma_advertisement *advertisement = of_base(base);

	if (advertisement->region->slot) {
		memcpy(advertisement->memory, advertisement->region->slot, length);
	}
	smd_rdma_revoke(outer, base);
}

bool smd_rdma_settle_closed(struct rdma_lane *lane)
{
	const bool closing = lane->closed;

	while (!STAILQ_EMPTY(&lane->closed_windows)) {
		struct rdma_advertisement *first = STAILQ_FIRST(&lane->closed_windows);

		if ((int32_t)(lane->completed - first->closed_at) < 0) {
			break;
		}
		STAILQ_REMOVE_HEAD(&lane->closed_windows, closing_link);
		lane_end_advertisement(lane, first);
		if (lane->closed != closing) {
			return false;
		}
	}
	return true;
}

void smd_rdma_lane_forget_advertisements(struct rdma_lane *lane)
{
	STAILQ_INIT(&lane->closing);
	STAILQ_INIT(&lane->closed_windows);
	while (!LIST_EMPTY(&lane->advertisements)) {
		lane_end_advertisement(lane, of_base(LIST_FIRST(&lane->advertisements)));
	}
}

void smd_rdma_lane_free_advertisements(struct rdma_lane *lane)
{
	while (!LIST_EMPTY(&lane->idle_advertisements)) {
		struct smd_advertisement *advertisement = LIST_FIRST(&lane->idle_advertisements);

		LIST_REMOVE(advertisement, link);
		free(advertisement);
	}
	free(lane->remotes);
}
