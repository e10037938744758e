/*
 * Makes lanes in shared memory over a carrier, whose ends know each other by now: the one that
 * offers first listens on a Unix socket, the other passes memory to it.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/available.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/shm/shm.h"
#include "reduction_server/transport/shm/wire.h"

const char *smd_shm_carrier(void)
{
	return "tcp";
}

int smd_shm_check(const char *address, struct smd_error *error)
{
	int here = smd_address_is_here(address, error);

	if (here > 0 && !smd_memory_overcommits(SMD_OVERCOMMIT_FILE)) {
		return smd_error_set(error, ENODEV,
			"the kernel may refuse pages when they are first written "
			"(vm.overcommit_memory is 2)");
	}
	return here > 0    ? 0
	       : here == 0 ? smd_error_set(error, EXDEV, "%s is not on this host", address)
			   : here;
}

/* ---- the first offer ---- */

static int lane_invite(struct shm_lane *lane, struct smd_error *error)
{
	const struct timeval patience = {SMD_SHM_PATIENCE_S, 0};
	struct shm_offer offer = {.ring = lane->ring};

	if (evtimer_add(lane->patience, &patience) != 0) {
		return smd_error_set(error, ENOMEM, "shm: out of memory");
	}
	lane->listener = smd_shm_meeting_open(&lane->meeting, error);
	if (lane->listener < 0) {
		return lane->listener;
	}
	offer.meeting = lane->meeting;
	smd_shm_offer_encode(&offer, &lane->offer);
	return 0;
}

/* ---- the answer ---- */

static void lane_use(struct shm_lane *lane, bool maker)
{
	lane->tx = smd_shm_memory_ring_of(&lane->memory, !maker);
	lane->rx = smd_shm_memory_ring_of(&lane->memory, maker);
	smd_forks_close(&lane->forked, lane->fd);
}

static int lane_answer(
	struct shm_lane *lane, const struct smd_offer *other, struct smd_error *error)
{
	struct shm_offer theirs;
	struct shm_offer own = {.answers = true};
	int ret = smd_shm_offer_decode(other, false, &theirs, error);

	if (ret) {
		return ret;
	}
	own.ring = lane->ring < theirs.ring ? lane->ring : theirs.ring;
	ret = smd_shm_memory_make(&lane->memory, own.ring, error);
	if (ret) {
		return ret;
	}
	lane->fd = smd_shm_meeting_pass(&theirs.meeting, lane->memory.file, error);
	if (lane->fd < 0) {
		return lane->fd;
	}
	smd_shm_memory_passed(&lane->memory);
	lane_use(lane, true);
	smd_shm_offer_encode(&own, &lane->offer);
	return 0;
}

/* ---- offers ---- */

static struct shm_lane *lane_create(struct event_base *base)
{
	struct shm_lane *lane = calloc(1, sizeof(*lane));

	if (!lane) {
		return NULL;
	}
	lane->lane.ops = &smd_transport_shm;
	lane->base = base;
	lane->listener = -1;
	lane->fd = -1;
	TAILQ_INIT(&lane->queue);
	lane->turn = evtimer_new(base, smd_shm_on_turn, lane);
	lane->patience = evtimer_new(base, smd_shm_on_patience, lane);
	if (!lane->turn || !lane->patience) {
		smd_shm_discard(lane);
		return NULL;
	}
	return lane;
}

/* What keeps a lane from shared memory does not keep it from another transport. */
static int explain(int ret)
{
	return ret == -EPROTO ? ret : -EHOSTUNREACH;
}

int smd_shm_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error)
{
	struct shm_lane *lane = lane_create(base);
	int ret;

	(void)shard;
	(void)kinds;
	if (!lane) {
		return smd_error_set(error, ENOMEM, "shm: out of memory");
	}
	lane->callbacks = callbacks;
	lane->owner = owner;
	lane->ring = smd_shm_memory_reserve(&lane->memory);
	snprintf(lane->peer, sizeof(lane->peer), "%s", smd_lane_peer_name(carrier));
	if (lane->ring == 0) {
		ret = smd_error_set(error, ENOMEM, "shm: there is too little memory for rings");
	} else {
		ret = other ? lane_answer(lane, other, error) : lane_invite(lane, error);
	}
	if (ret) {
		smd_shm_discard(lane);
		return explain(ret);
	}
	lane->state = SHM_OFFERED;
	if (callbacks->on_offered) {
		lane->state = SHM_OFFERS;
		smd_shm_turn_soon(lane);
	} else {
		*own = lane->offer;
	}
	*out = &lane->lane;
	return 0;
}

/* ---- joining ---- */

static int lane_take(struct shm_lane *lane, const struct smd_offer *other, struct smd_error *error)
{
	struct shm_offer theirs;
	int memory;
	int ret = smd_shm_offer_decode(other, true, &theirs, error);

	if (ret == 0 && theirs.ring > lane->ring) {
		ret = smd_error_set(error, EPROTO, "shm: rings must be of %u bytes at most, got %u",
			lane->ring, theirs.ring);
	}
	if (ret) {
		return ret;
	}
	lane->fd = smd_shm_meeting_take(&lane->meeting, lane->listener, &memory, error);
	if (lane->fd < 0) {
		return lane->fd;
	}
	ret = smd_shm_memory_take(&lane->memory, theirs.ring, memory, error);
	close(memory);
	if (ret) {
		close(lane->fd);
		lane->fd = -1;
		return ret;
	}
	close(lane->listener);
	lane->listener = -1;
	lane_use(lane, false);
	return 0;
}

static int lane_watch(struct shm_lane *lane, struct smd_error *error)
{
	lane->woken = event_new(lane->base, lane->fd, EV_READ | EV_PERSIST, smd_shm_on_woken, lane);
	return lane->woken && event_add(lane->woken, NULL) == 0
		       ? 0
		       : smd_error_set(error, ENOMEM, "shm: out of memory");
}

int smd_shm_join(struct smd_lane *outer, struct smd_lane *carrier, const struct smd_offer *other,
	struct smd_error *error)
{
	struct shm_lane *lane = shm_lane_of(outer);
	int ret = lane->listener >= 0 ? lane_take(lane, other, error) : 0;

	if (ret == 0) {
		ret = lane_watch(lane, error);
	}
	if (ret) {
		return explain(ret);
	}
	event_del(lane->patience);
	lane->carrier = carrier;
	carrier->ops->set_owner(carrier, &smd_shm_carrier_callbacks, lane);
	lane->state = SHM_OPENS;
	smd_shm_turn_soon(lane);
	return 0;
}
