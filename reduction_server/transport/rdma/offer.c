/*
 * Makes RDMA lanes over a carrier: a lane of another transport whose two ends know each other by
 * now. Each tells over it where its queue pair is, and connects it to the other's without the
 * connection manager.
 *
 * The end that has offered first connects last, and so can send first: its trial (send.c) goes to a
 * queue pair that is ready. The other answers by its own. A lane is open for an end when the other
 * end's trial has come. The carrier stays, says nothing more, and ends when the other end's process
 * does, which a queue pair would find out much later. It may cross another network than the queue
 * pair: when that is silent the lane goes on alone.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/transport/rdma/listing.h"
#include "reduction_server/transport/rdma/rdma.h"
#include "reduction_server/wire/message.h"

#define NUMBER_MASK 0xffffffu
/* A carrier's patience with a silent network: longer than outages last, because an end that gives
 * up before the other resets the other's carrier when the network is back. */
#define CARRIER_SILENT_MS 3600000u

_Static_assert(SMD_RDMA_OFFER_SIZE <= SMD_OFFER_MAX, "an offer has room");

const char *smd_rdma_carrier(void)
{
	struct smd_rdma_settings settings;

	if (smd_rdma_settings_read(&settings, NULL)) {
		return NULL; /* connecting says what is wrong with them */
	}
	return settings.by_manager ? NULL : "tcp";
}

int smd_rdma_check(const char *address, struct smd_error *error)
{
	struct smd_error why = {""};
	int ret = smd_verbs_check(error);

	/* Devices are on the network, and who listens on loopback is not. */
	if (ret == 0 && smd_address_stays_here(address, &why) == 1) {
		return smd_error_set(error, EADDRNOTAVAIL,
			"%s: loopback is not an address of an RDMA device", address);
	}
	return ret;
}

unsigned smd_rdma_making_s(void)
{
	struct smd_rdma_settings settings;

	return smd_rdma_settings_read(&settings, NULL) ? 0 : settings.connect_s;
}

uint16_t smd_rdma_kinds(void)
{
	struct smd_rdma_settings settings;
	struct smd_verbs_port *ports;
	uint16_t kinds;
	int n;

	if (smd_rdma_settings_read(&settings, NULL)) {
		return 0;
	}
	n = smd_verbs_ports("", &ports);
	kinds = smd_rdma_port_kinds(ports, n > 0 ? (unsigned)n : 0, settings.devices);
	free(ports);
	return kinds;
}

/* ---- the carrier, which has nothing more to say ---- */

static int carrier_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	(void)owner;
	(void)payload;
	return smd_error_set(error, EPROTO, "%s: must cross the queue pair, and came beside it",
		smd_frame_kind_name(frame->kind));
}

static int carrier_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	return carrier_on_header(owner, frame, &payload, error);
}

/* What the lane's own card and its owner's heartbeat say of the other end is all from now on. The
 * carrier is closed with the lane, as that would tell the other end. */
static void lane_go_on_alone(const struct rdma_lane *lane, const char *reason)
{
	if (lane->closed) {
		return; /* it drains, for a moment */
	}
	smd_log_peer(SMD_LOG_INFO, "rdma", lane->peer,
		"%s is silent over %s (%s): its lane goes on over RDMA, which alone tells of its "
		"end",
		lane->peer, lane->carrier->ops->name, reason);
}

static void carrier_on_closed(void *owner, int err, const char *reason)
{
	const struct smd_verbs_event disconnected = {.type = RDMA_CM_EVENT_DISCONNECTED};
	struct rdma_lane *lane = owner;

	if (smd_transport_error_is_silence(err)) {
		lane_go_on_alone(lane, reason);
	} else if (lane->closed) { /* to what drains it: as the connection manager says it */
		lane->endpoint.on_event(&lane->endpoint, &disconnected);
	} else {
		smd_rdma_lane_disconnected(lane, err, reason);
	}
}

static const struct smd_lane_callbacks carrier_callbacks = {
	.on_header = carrier_on_header,
	.on_frame = carrier_on_frame,
	.on_closed = carrier_on_closed,
};

/* ---- offers ---- */

/* With the other end. Who answers tries again, and gives up first (RDMA_LATER_S). */
static unsigned lane_patience_s(const struct rdma_lane *lane)
{
	return lane->loop->settings.connect_s + (lane->answers ? 0 : RDMA_LATER_S);
}

static uint64_t lane_patience_ns(const struct rdma_lane *lane)
{
	return lane_patience_s(lane) * SMD_SECOND_NS;
}

static void lane_on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct rdma_lane *lane = arg;
	const unsigned patience_s = lane_patience_s(lane);
	struct smd_error error = {""};
	int ret;

	(void)fd;
	(void)what;
	if (lane->making.under_way) {
		if (smd_rdma_lane_check_making(lane, &error)) {
			smd_rdma_lane_end(lane, -ETIMEDOUT, error.text);
		}
		return;
	}
	ret = lane->state == RDMA_LANE_TRYING
		      ? smd_rdma_lane_untried(lane, patience_s, &error)
		      : smd_error_set(
				&error, ETIMEDOUT, "no answer about RDMA within %u s", patience_s);
	smd_rdma_lane_end(lane, ret, error.text);
}

/* Who offers is a shard, and prepared for its own card. Who answers has lanes to shards of many
 * servers, mostly of the same few numbers. Lanes of no shard (NCCL's) were led to a card by who
 * asked for them. */
static int lane_choose_port(struct rdma_lane *lane, const struct smd_lane *carrier,
	const struct smd_rdma_offer *other, uint16_t kinds, struct smd_error *error)
{
	uint8_t local[16];
	bool known = smd_lane_local_address(carrier, local);
	bool sharded = lane->shard != (unsigned)SMD_SHARD_UNKNOWN;
	const struct smd_rdma_wish wish = {
		.devices = lane->loop->settings.devices,
		.local = known ? local : NULL,
		.other = other,
		.kinds = kinds,
		.turn = other || !sharded ? lane->loop->turn++ : lane->shard,
		.first = lane->loop->first,
		.anywhere = lane->loop->anywhere,
		.stays = !sharded,
	};

	if (known && smd_address_bytes_stay_here(local)) { /* and devices are on the network */
		return smd_error_set(error, EADDRNOTAVAIL,
			"rdma: loopback is not an address of an RDMA device");
	}
	return smd_rdma_listing_choose(lane->loop, &wish, &lane->path.port, error);
}

static int lane_begin_patience(struct rdma_lane *lane, struct smd_error *error)
{
	const unsigned first_s =
		lane->later ? lane->loop->settings.connect_s : lane_patience_s(lane);

	lane->patience = evtimer_new(lane->loop->base, lane_on_patience, lane);
	return lane->patience && smd_rdma_lane_be_patient(lane, first_s * SMD_SECOND_NS) == 0
		       ? 0
		       : smd_error_set(error, ENOMEM, "rdma: out of memory");
}

/* What is not guessed by whoever has seen other lanes, as packets are told apart by it. */
static int lane_draw_first_packet(struct rdma_lane *lane, struct smd_error *error)
{
	uint32_t drawn;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
		return smd_error_set(error, EIO, "rdma: no random numbers are there");
	}
	lane->path.own_first_packet = drawn & NUMBER_MASK;
	return 0;
}

static void lane_tell_offer(const struct rdma_lane *lane, struct smd_offer *own)
{
	const struct smd_verbs_port *port = &lane->path.port;
	struct smd_rdma_offer offer = {
		.greeting = smd_rdma_lane_greeting(lane),
		.number = lane->pair.qp->qp_num,
		.first_packet = lane->path.own_first_packet,
		.lid = port->lid,
		.mtu = (uint8_t)port->mtu,
		.ethernet = port->ethernet,
	};

	memcpy(offer.gid, port->gid, sizeof(offer.gid));
	smd_rdma_offer_encode(&offer, own->bytes);
	own->length = SMD_RDMA_OFFER_SIZE;
}

static void lane_on_offered(struct rdma_lane *lane, int ret, const char *text)
{
	struct smd_offer own = {.length = 0};

	if (ret) {
		smd_rdma_lane_end(lane, ret, text);
		return;
	}
	lane_tell_offer(lane, &own);
	/* with the other end, from now on */
	smd_rdma_lane_be_patient(lane, lane_patience_ns(lane));
	lane->callbacks->on_offered(lane->owner, &own);
}

/* What the other end has offered, and how its queue pair is reached. */
static void lane_know_other(struct rdma_lane *lane, const struct smd_rdma_offer *theirs)
{
	struct smd_verbs_path *path = &lane->path;

	lane->other = theirs->greeting;
	path->number = theirs->number;
	path->first_packet = theirs->first_packet;
	path->lid = theirs->lid;
	memcpy(path->gid, theirs->gid, sizeof(path->gid));
	path->mtu = theirs->mtu < path->port.mtu ? (enum ibv_mtu)theirs->mtu : path->port.mtu;
}

/* A driver that is late tells of its card, which has much to do, and not of the fabric, which
 * nothing has crossed yet: who hears of silence spares other lanes their tries. */
static int make_error(int ret)
{
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}

/* Its queue pair, or that is begun. */
static int lane_make_half(struct rdma_lane *lane, const struct smd_lane *carrier,
	const struct smd_rdma_offer *other, uint16_t kinds, struct smd_error *error)
{
	const struct smd_verbs_port *port = &lane->path.port;
	int ret = lane_choose_port(lane, carrier, other, kinds, error);

	if (ret == 0) {
		ret = lane_draw_first_packet(lane, error);
	}
	if (ret == 0) {
		ret = lane_begin_patience(lane, error);
	}
	if (ret == 0) {
		ret = lane->later
			      ? smd_rdma_lane_make_pair_later(
					lane, port->device, port->number, lane_on_offered, error)
			      : smd_rdma_lane_make_pair(lane, port->device, port->number, error);
	}
	return make_error(ret);
}

static int lane_offer(struct rdma_lane *lane, const struct smd_lane *carrier,
	const struct smd_offer *other, uint16_t kinds, struct smd_offer *own,
	struct smd_error *error)
{
	struct smd_rdma_offer theirs;
	int ret = 0;

	if (other) {
		lane->answers = true;
		ret = smd_rdma_offer_decode(other->bytes, other->length, &theirs, error);
	}
	if (ret == 0) {
		ret = lane_make_half(lane, carrier, other ? &theirs : NULL, kinds, error);
	}
	if (ret || lane->later) {
		return ret;
	}
	if (other) { /* its trial comes as soon as it has heard the answer */
		lane_know_other(lane, &theirs);
		ret = smd_rdma_lane_join_pair(lane, error);
	}
	if (ret == 0) {
		lane_tell_offer(lane, own);
	}
	return ret;
}

int smd_rdma_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error)
{
	struct rdma_lane *lane = smd_rdma_lane_create();
	int ret;

	if (!lane) {
		return smd_error_set(error, ENOMEM, "rdma: out of memory");
	}
	lane->state = RDMA_LANE_OFFERED;
	lane->shard = shard;
	lane->callbacks = callbacks;
	lane->owner = owner;
	snprintf(lane->peer, sizeof(lane->peer), "%s", smd_lane_peer_name(carrier));
	ret = smd_rdma_loop_get(base, &lane->loop, error);
	if (ret == 0) {
		lane->later = callbacks->on_offered != NULL;
		ret = lane_offer(lane, carrier, other, kinds, own, error);
	}
	if (ret) {
		smd_lane_close(&lane->lane);
		return ret;
	}
	*out = &lane->lane;
	return 0;
}

/* ---- joining ---- */

static void lane_on_joined(struct rdma_lane *lane, int ret, const char *text)
{
	if (ret) {
		smd_rdma_lane_end(lane, ret, text);
	} else {
		smd_rdma_lane_be_patient(lane, lane_patience_ns(lane)); /* with its trial */
		smd_rdma_lane_try(lane);
	}
}

int smd_rdma_join(struct smd_lane *outer, struct smd_lane *carrier, const struct smd_offer *other,
	struct smd_error *error)
{
	struct rdma_lane *lane = (struct rdma_lane *)outer;
	struct smd_rdma_offer theirs;
	int ret = smd_rdma_offer_decode(other->bytes, other->length, &theirs, error);

	if (ret) {
		return ret;
	}
	if (!lane->answers || lane->later) { /* else it was joined before it was offered */
		lane_know_other(lane, &theirs);
		ret = lane->later ? 0 : smd_rdma_lane_join_pair(lane, error);
	}
	if (ret) {
		return ret;
	}
	lane->carrier = carrier;
	smd_lane_set_owner(carrier, &carrier_callbacks, lane);
	smd_lane_keepalive_only(carrier, CARRIER_SILENT_MS);
	if (lane->later) {
		smd_rdma_lane_join_pair_later(lane, lane_on_joined);
	} else {
		smd_rdma_lane_try(lane);
	}
	return 0;
}
