/* Offers and joins both ends of a lane, over a carrier that is played. */
#include "tests/unit/rdma/halves.h"

#include <errno.h>
#include <string.h>

static void carrier_set_owner(
	struct smd_lane *lane, const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct carrier *carrier = (struct carrier *)lane;

	carrier->callbacks = callbacks;
	carrier->owner = owner;
}

static bool carrier_local_address(const struct smd_lane *lane, uint8_t address[16])
{
	memcpy(address, ((const struct carrier *)lane)->address, 16);
	return true;
}

static const char *carrier_peer_name(const struct smd_lane *lane)
{
	(void)lane;
	return "10.0.0.9:7";
}

static void carrier_keepalive_only(struct smd_lane *lane, unsigned patience_ms)
{
	((struct carrier *)lane)->patience_ms = patience_ms;
}

static void carrier_close(struct smd_lane *lane)
{
	struct carrier *carrier = (struct carrier *)lane;

	assert_false(carrier->closed);
	carrier->closed = true;
}

static const struct smd_transport_ops carrier_ops = {
	.name = "carrier",
	.set_owner = carrier_set_owner,
	.local_address = carrier_local_address,
	.peer_name = carrier_peer_name,
	.keepalive_only = carrier_keepalive_only,
	.close = carrier_close,
};

/* ---- two ends ---- */

void half_begin(struct half *half, struct link *link, struct end *end)
{
	*half = (struct half){.end = end, .carrier = {.lane = {.ops = &carrier_ops}}};
	*end = (struct end){.base = link->base, .room = end->room};
	memcpy(half->carrier.address, script.ports[0].gid, 16);
}

int half_offer(struct half *half, struct link *link, const struct smd_offer *other,
	struct smd_error *error)
{
	int ret = smd_transport_rdma.offer(link->base, &half->carrier.lane, 5, other, half->kinds,
		half->callbacks ? half->callbacks : &link_callbacks, half->end, &half->end->lane,
		&half->offer, error);

	half->lane = ret ? NULL : rdma_lane_of(half->end->lane);
	return ret;
}

int half_join(struct half *half, const struct half *other, struct smd_error *error)
{
	return smd_transport_rdma.join(
		half->end->lane, &half->carrier.lane, &other->offer, error);
}

void halves_begin(struct halves *halves, struct link *link)
{
	halves->link = link;
	half_begin(&halves->first, link, &link->far);
	half_begin(&halves->second, link, &link->near);
}

void halves_offer(struct halves *halves, struct link *link)
{
	struct smd_error error = {""};

	halves_begin(halves, link);
	assert_int_equal(half_offer(&halves->first, link, NULL, &error), 0);
	assert_int_equal(half_offer(&halves->second, link, &halves->first.offer, &error), 0);
	assert_int_equal(half_join(&halves->second, &halves->first, &error), 0);
}

void halves_open(struct halves *halves, struct link *link)
{
	struct smd_error error = {""};

	halves_offer(halves, link);
	assert_int_equal(half_join(&halves->first, &halves->second, &error), 0);
	stage_turn(link);
	assert_int_equal(link->far.opened, 1);
	assert_int_equal(link->near.opened, 1);
}

void halves_close(struct halves *halves)
{
	struct half *both[] = {&halves->first, &halves->second};

	for (int i = 0; i < 2; i++) {
		if (both[i]->end->lane) {
			end_close(both[i]->end);
		}
	}
	stage_turn(halves->link);
}

void forget_loop(struct link *link)
{
	if (link->listener) {
		smd_listener_close(link->listener);
	}
	link->listener = NULL;
	stage_turn(link);
}

void two_cards(void)
{
	script.nports = 2;
	script.ports[0].network_bits = 96 + 24;
	script.ports[1] = script.ports[0];
	strcpy(script.ports[1].name, "script1");
	script.ports[1].gid[15] = 2;
}

void carriers_come_from_elsewhere(struct halves *halves)
{
	static const uint8_t elsewhere[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 9};

	memcpy(halves->first.carrier.address, elsewhere, 16);
	memcpy(halves->second.carrier.address, elsewhere, 16);
}

void carrier_end(struct half *half, int err, const char *reason)
{
	half->carrier.callbacks->on_closed(half->carrier.owner, err, reason);
}

void carriers_tell(struct halves *halves)
{
	struct half *both[] = {&halves->first, &halves->second};

	for (int i = 0; i < 2; i++) {
		const struct half *other = both[!i];
		bool has_one = both[i]->carrier.callbacks && !both[i]->carrier.closed;

		if (has_one && both[i]->end->lane && !other->end->lane) {
			carrier_end(both[i], -ECONNRESET, "the other end closed the connection");
		}
	}
}
