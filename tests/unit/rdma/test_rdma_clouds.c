/*
 * What a device like those of each row of the guide's table of clouds is taken for: a lane is made
 * on it, or the reason why TCP takes its place is said in one sentence, and nothing is left of it.
 */
#include <errno.h>
#include <string.h>

#include "reduction_server/wire/message.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/peer.h"

static bool local_address(const struct smd_lane *lane, uint8_t address[16])
{
	(void)lane;
	memcpy(address, script.ports[0].gid, 16);
	return true;
}

static const char *peer_name(const struct smd_lane *lane)
{
	(void)lane;
	return "10.0.0.9:7";
}

static const struct smd_transport_ops carrier_ops = {
	.name = "carrier", .local_address = local_address, .peer_name = peer_name};

/* Makes half of a lane, as both ends do after the handshake. */
static void assert_offer(struct link *link, int err, const char *reason)
{
	struct smd_lane carrier = {.ops = &carrier_ops};
	struct smd_error error = {""};
	struct smd_offer offer;
	struct smd_lane *lane = NULL;
	int ret = smd_transport_rdma.offer(link->base, &carrier, 0, NULL, 0, &link_callbacks,
		&link->near, &lane, &offer, &error);

	assert_int_equal(ret, err);
	assert_string_equal(error.text, reason);
	if (ret == 0) {
		smd_lane_close(lane);
	}
	stage_turn(link);
}

static void infiniband_and_roce_are_taken(void **state)
{
	assert_offer(*state, 0, "");
	script.ports[0].ethernet = !script.ports[0].ethernet;
	assert_offer(*state, 0, "");
}

/* CPU sizes at Azure and Google: a gVNIC, or accelerated networking alone. */
static void a_host_without_a_device_says_so(void **state)
{
	struct script_call *check = &script.calls[SCRIPT_check];
	struct smd_error error = {""};

	(void)state;
	check->err = -ENODEV;
	check->fail_at = check->count + 1;
	assert_int_equal(smd_transport_rdma.check("10.0.0.5:1", &error), -ENODEV);
	assert_string_not_equal(error.text, "");
}

/* MANA where only raw packets are let through, and cards whose cable is out. */
static void a_device_without_an_address_says_so(void **state)
{
	script.nports = 0;
	assert_offer(*state, -ENETDOWN,
		"no RDMA device has a port that is up and has an address");
}

/* AWS and iWARP: the kernel says of what kind devices are. */
static void devices_of_other_kinds_say_so(void **state)
{
	struct script_call *ports = &script.calls[SCRIPT_ports];

	ports->err = -EPROTONOSUPPORT;
	ports->fail_at = ports->count + 1;
	assert_offer(*state, -EPROTONOSUPPORT,
		"no RDMA device is InfiniBand or RoCE (iWARP's have no immediate data, EFA's no "
		"reliable connections)");
}

/* A server, at its start: once, however many shards it has. */
static void a_server_with_devices_of_other_kinds_says_so(void **state)
{
	static const struct smd_extent nowhere = {NULL, 0};
	struct script_call *ports = &script.calls[SCRIPT_ports];
	struct link *link = *state;

	capture_begin();
	for (unsigned shard = 0; shard < 3; shard++) {
		ports->err = -EPROTONOSUPPORT;
		ports->fail_at = ports->count + 1;
		smd_transport_rdma.prepare(link->base, "10.0.0.1:7", shard, nowhere, 1 << 16);
	}
	assert_int_equal(capture_count("info  rdma: no workers over rdma at 10.0.0.1:7: no RDMA "
				       "device is InfiniBand or"),
		1);
	capture_end();
}

/* A driver that says it was an adapter, with queue pairs of its own kind alone. */
static void a_device_without_reliable_connections_says_so(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_pair_create];

	create->err = -EOPNOTSUPP;
	create->fail_at = create->count + 1;
	create->always = true;
	assert_offer(*state, -EOPNOTSUPP,
		"rdma: script0 must have reliable connections, as InfiniBand and RoCE have");
}

static void iwarp_says_that_it_has_no_immediate_data(void **state)
{
	script.limits.immediate = false;
	assert_offer(*state, -ENOTSUP,
		"rdma: script0 must be InfiniBand or RoCE; it has no writes with immediate data");
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(infiniband_and_roce_are_taken),
		STAGE(a_host_without_a_device_says_so),
		STAGE(a_device_without_an_address_says_so),
		STAGE(devices_of_other_kinds_say_so),
		STAGE(a_server_with_devices_of_other_kinds_says_so),
		STAGE(a_device_without_reliable_connections_says_so),
		STAGE(iwarp_says_that_it_has_no_immediate_data),
	};

	return cmocka_run_group_tests_name("rdma clouds", tests, NULL, NULL);
}
