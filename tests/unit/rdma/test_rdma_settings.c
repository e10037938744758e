/* What a user sets of RDMA reaches the device, and what cannot be is refused with a sentence. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/settings.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/halves.h"

#define LENGTH 5000u

static int settings_set_up(void **state)
{
	unsetenv("SUMMAND_RDMA_TIMEOUT");
	unsetenv("SUMMAND_RDMA_RETRIES");
	unsetenv("SUMMAND_RDMA_RELAXED_ORDERING");
	unsetenv("SUMMAND_RDMA_CACHE");
	return stage_set_up(state);
}

/* How the memory was registered that is advertised; mailboxes never are in any order. */
static int access_of_advertised(struct link *link)
{
	static const struct smd_extent nowhere = {NULL, 0};
	uint8_t *memory = calloc(1, LENGTH);
	struct peer peer;
	int access;

	peer_open(&peer, link);
	assert_int_equal(script.last_access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(smd_lane_advertise(peer.end.lane, memory, LENGTH, nowhere));
	access = script.last_access;
	peer_close(&peer, link);
	free(memory);
	return access;
}

static void without_any_a_flap_is_survived_and_order_is_relaxed(void **state)
{
	assert_int_equal(access_of_advertised(*state),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	assert_int_equal(script.patience.timeout, 18);
	assert_int_equal(script.patience.retries, 7);
}

/* The listener's loop has read its own before. */
static void what_is_set_reaches_the_device(void **state)
{
	void *stage = NULL;

	(void)state;
	setenv("SUMMAND_RDMA_TIMEOUT", "14", 1);
	setenv("SUMMAND_RDMA_RETRIES", "3", 1);
	setenv("SUMMAND_RDMA_RELAXED_ORDERING", "0", 1);
	setenv("SUMMAND_RDMA_TRAFFIC_CLASS", "106", 1);
	setenv("SUMMAND_RDMA_SERVICE_LEVEL", "4", 1);
	setenv("SUMMAND_RDMA_PKEY", "3", 1);
	stage_set_up(&stage);
	assert_int_equal(
		access_of_advertised(stage), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(script.patience.timeout, 14);
	assert_int_equal(script.patience.retries, 3);
	assert_int_equal(script.path.patience.timeout, 14);
	assert_int_equal(script.path.patience.retries, 3);
	assert_int_equal(script.path.traffic_class, 106);
	assert_int_equal(script.path.service_level, 4);
	assert_int_equal(script.pkey, 3);
	stage_tear_down(&stage);
	unsetenv("SUMMAND_RDMA_TRAFFIC_CLASS");
	unsetenv("SUMMAND_RDMA_SERVICE_LEVEL");
	unsetenv("SUMMAND_RDMA_PKEY");
}

/* Where a packet may take long, so may what is made of packets. */
static void who_waits_longer_for_packets_waits_longer_for_lanes(void **state)
{
	static const struct {
		const char *timeout;
		const char *connect;
		unsigned connect_s;
	} cases[] = {{"14", "tcp", 5}, {"18", "tcp", 5}, {"18", "cm", 8}, {"20", "tcp", 21},
		{"20", "cm", 21}, {"31", "tcp", 43980}};
	struct smd_rdma_settings settings;
	struct smd_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("SUMMAND_RDMA_TIMEOUT", cases[i].timeout, 1);
		setenv("SUMMAND_RDMA_CONNECT", cases[i].connect, 1);
		assert_int_equal(smd_rdma_settings_read(&settings, &error), 0);
		assert_int_equal(settings.connect_s, cases[i].connect_s);
	}
	unsetenv("SUMMAND_RDMA_TIMEOUT");
	unsetenv("SUMMAND_RDMA_CONNECT");
}

/* How many of these buffers are still registered when nothing uses them any more. */
static unsigned kept_of(struct link *link, unsigned nbuffers)
{
	static const struct smd_extent nowhere = {NULL, 0};
	uint8_t *memory = calloc(nbuffers, 1 << 16);
	unsigned before;
	unsigned kept;
	struct peer peer;

	peer_open(&peer, link);
	before = script.regions;
	for (unsigned i = 0; i < nbuffers; i++) {
		smd_lane_revoke(
			peer.end.lane, smd_lane_advertise(peer.end.lane, memory + ((size_t)i << 16),
					       1 << 16, nowhere));
	}
	kept = script.regions - before;
	peer_close(&peer, link);
	free(memory);
	return kept;
}

static void no_more_stays_registered_than_is_set(void **state)
{
	void *stage = NULL;

	(void)state;
	setenv("SUMMAND_RDMA_CACHE", "256K", 1);
	stage_set_up(&stage);
	assert_in_range(kept_of(stage, 40), 1, 5);
	stage_tear_down(&stage);
	setenv("SUMMAND_RDMA_CACHE", "64M", 1);
	stage_set_up(&stage);
	assert_int_equal(kept_of(stage, 40), 40);
	stage_tear_down(&stage);
	unsetenv("SUMMAND_RDMA_CACHE");
}

static void assert_refused(const char *name, const char *value, const char *text)
{
	struct smd_rdma_settings settings;
	struct smd_error error = {""};

	setenv(name, value, 1);
	assert_int_equal(smd_rdma_settings_read(&settings, &error), -EINVAL);
	assert_string_equal(error.text, text);
	unsetenv(name);
}

static void what_cannot_be_is_refused(void **state)
{
	struct event_base *base = event_base_new();
	struct smd_error error = {""};
	char long_list[257] = "";
	struct rdma_loop *loop;

	(void)state;
	script_reset();
	assert_refused(
		"SUMMAND_RDMA_TIMEOUT", "0", "SUMMAND_RDMA_TIMEOUT: must be 1 to 31, got \"0\"");
	assert_refused(
		"SUMMAND_RDMA_TIMEOUT", "32", "SUMMAND_RDMA_TIMEOUT: must be 1 to 31, got \"32\"");
	assert_refused(
		"SUMMAND_RDMA_RETRIES", "8", "SUMMAND_RDMA_RETRIES: must be 0 to 7, got \"8\"");
	assert_refused(
		"SUMMAND_RDMA_RETRIES", "", "SUMMAND_RDMA_RETRIES: must be 0 to 7, got \"\"");
	assert_refused("SUMMAND_RDMA_RELAXED_ORDERING", "yes",
		"SUMMAND_RDMA_RELAXED_ORDERING: must be 0 to 1, got \"yes\"");
	assert_refused(
		"SUMMAND_RDMA_WINDOWS", "2", "SUMMAND_RDMA_WINDOWS: must be 0 to 1, got \"2\"");
	assert_refused(
		"SUMMAND_RDMA_PKEY", "256", "SUMMAND_RDMA_PKEY: must be 0 to 255, got \"256\"");
	assert_refused("SUMMAND_RDMA_TRAFFIC_CLASS", "256",
		"SUMMAND_RDMA_TRAFFIC_CLASS: must be 0 to 255, got \"256\"");
	assert_refused("SUMMAND_RDMA_SERVICE_LEVEL", "16",
		"SUMMAND_RDMA_SERVICE_LEVEL: must be 0 to 15, got \"16\"");
	assert_refused("SUMMAND_RDMA_CONNECT", "ipoib",
		"SUMMAND_RDMA_CONNECT: must be tcp or cm, got \"ipoib\"");
	memset(long_list, 'x', sizeof(long_list) - 1);
	assert_refused("SUMMAND_RDMA_DEVICE", long_list,
		"SUMMAND_RDMA_DEVICE: must have fewer than 256 bytes, got 256");
	assert_refused("SUMMAND_RDMA_CACHE", "0",
		"SUMMAND_RDMA_CACHE: must be a size like 64G, got \"0\"");
	assert_refused("SUMMAND_RDMA_BOUNCE", "much",
		"SUMMAND_RDMA_BOUNCE: must be a size like 64M, got \"much\"");
	assert_refused("SUMMAND_RDMA_BOUNCE", "4",
		"SUMMAND_RDMA_BOUNCE: must be 0 or at least 1 MiB, got \"4\"");
	assert_refused("SUMMAND_RDMA_BOUNCE", "1023K",
		"SUMMAND_RDMA_BOUNCE: must be 0 or at least 1 MiB, got \"1023K\"");
	setenv("SUMMAND_RDMA_RETRIES", "-1", 1);
	assert_int_equal(smd_rdma_loop_get(base, &loop, &error), -EINVAL);
	assert_string_equal(error.text, "SUMMAND_RDMA_RETRIES: must be 0 to 7, got \"-1\"");
	unsetenv("SUMMAND_RDMA_RETRIES");
	assert_int_equal(script.live, 0);
	event_base_free(base);
}

/* Lanes that cannot be are tried again and again, and each shard and connection has a loop. */
static void a_wrong_variable_is_told_once(void **state)
{
	struct event_base *base = event_base_new();
	struct smd_error error = {""};
	struct rdma_loop *loop;

	(void)state;
	script_reset();
	setenv("SUMMAND_RDMA_RETRIES", "-1", 1);
	capture_begin();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(smd_rdma_loop_get(base, &loop, &error), -EINVAL);
	}
	unsetenv("SUMMAND_RDMA_RETRIES");
	assert_int_equal(capture_count("RDMA is not used"), 1);
	capture_end();
	event_base_free(base);
}

static void nobody_accepts(void *owner, struct smd_lane *lane, int shard)
{
	(void)owner;
	(void)lane;
	(void)shard;
	fail();
}

/* Once, and to a server: its address says which device it is. Over TCP they hold, and so they do
 * for a worker that listens for others, whose connections leave by them. */
static void what_the_connection_manager_ignores_is_told(void **state)
{
	const struct smd_extent pool = {malloc(SMD_RDMA_MEMORY_PIECE), SMD_RDMA_MEMORY_PIECE};

	(void)state;
	script_reset();
	setenv("SUMMAND_RDMA_DEVICE", "script0", 1);
	capture_begin();
	for (int i = 0; i < 4; i++) {
		struct event_base *base = event_base_new();
		struct smd_error error = {""};
		struct smd_listener *listener;
		char bound[128];

		if (i == 1) {
			setenv("SUMMAND_RDMA_CONNECT", "cm", 1);
		}
		if (i != 1) {
			smd_transport_rdma.prepare(base, "10.0.0.1:0", 0, pool, 1 << 16);
		}
		assert_int_equal(smd_transport_rdma.listen(base, "10.0.0.1:0", nobody_accepts, NULL,
					 &listener, bound, &error),
			0);
		assert_int_equal(
			capture_count("warn  rdma: SUMMAND_RDMA_CONNECT: must be tcp for "
				      "SUMMAND_RDMA_DEVICE to be heeded by a server, got \"cm\""),
			i > 1);
		smd_listener_close(listener);
		smd_transport_end_loop(base);
		event_base_free(base);
	}
	capture_end();
	free(pool.base);
	unsetenv("SUMMAND_RDMA_DEVICE");
	unsetenv("SUMMAND_RDMA_CONNECT");
}

/* Who connects leaves by a port of those that are named, of the server's network if one is. */
static void named_devices_are_where_lanes_leave_by(void **state)
{
	static const struct {
		const char *devices;
		uint8_t last; /* byte of the source's */
	} cases[] = {{NULL, 0}, {"script0", 1}, {"script1", 2}, {"script", 1}};
	void *stage = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct link *link;
		struct peer peer;

		if (cases[i].devices) {
			setenv("SUMMAND_RDMA_DEVICE", cases[i].devices, 1);
		}
		stage_set_up(&stage);
		link = stage;
		two_cards();
		script.ports[1].gid[13] = 9; /* the other is on the server's network */
		peer_begin(&peer, link);
		assert_int_equal(script.source[15], cases[i].last);
		peer_close(&peer, link);
		stage_tear_down(&stage);
		unsetenv("SUMMAND_RDMA_DEVICE");
	}
}

/* As they are of InfiniBand, whose ports may have no address, or one of another network. */
static void lanes_leave_by_infiniband_s_addresses(void **state)
{
	void *stage = NULL;

	(void)state;
	setenv("SUMMAND_RDMA_DEVICE", "script", 1);
	for (int without = 0; without < 2; without++) {
		struct link *link;

		stage_set_up(&stage);
		link = stage;
		two_cards();
		for (int i = 0; i < 2; i++) {
			script.ports[i].ethernet = false;
			script.ports[i].address_bits = 96 + 24;
			memcpy(script.ports[i].address, script.ports[i].gid, 16);
		}
		script.ports[1].address[13] = 9;
		if (without) {
			memset(script.ports[1].address, 0, 16);
		}
		for (int i = 0; i < 3; i++) {
			struct peer peer;

			peer_begin(&peer, link);
			assert_int_equal(script.source[13], 0);
			assert_int_equal(script.source[15], 1);
			peer_close(&peer, link);
		}
		stage_tear_down(&stage);
	}
	unsetenv("SUMMAND_RDMA_DEVICE");
}

/* InfiniBand's have one by IPoIB, or none. */
static void a_named_device_must_have_an_address(void **state)
{
	struct smd_error error = {""};
	struct smd_lane *lane;
	struct link *link;
	void *stage = NULL;
	struct peer peer;

	(void)state;
	setenv("SUMMAND_RDMA_DEVICE", "script0", 1);
	stage_set_up(&stage);
	link = stage;
	script.ports[0].ethernet = false;
	assert_int_equal(smd_transport_rdma.connect(link->base, link->address, NULL, 0,
				 &link_callbacks, &link->near, &lane, &error),
		-ENETUNREACH);
	assert_string_equal(error.text, "SUMMAND_RDMA_DEVICE: must name a port that has an IP "
					"address of the server's version, got \"script0\"");
	stage_tear_down(&stage);
	stage_set_up(&stage);
	link = stage;
	script.ports[0].ethernet = false;
	memcpy(script.ports[0].address, script.ports[0].gid, 16);
	script.ports[0].address[15] = 7;
	peer_begin(&peer, link);
	assert_int_equal(script.source[15], 7);
	peer_close(&peer, link);
	stage_tear_down(&stage);
	unsetenv("SUMMAND_RDMA_DEVICE");
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, settings_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(without_any_a_flap_is_survived_and_order_is_relaxed),
		cmocka_unit_test(what_is_set_reaches_the_device),
		cmocka_unit_test(who_waits_longer_for_packets_waits_longer_for_lanes),
		cmocka_unit_test(no_more_stays_registered_than_is_set),
		cmocka_unit_test(a_wrong_variable_is_told_once),
		cmocka_unit_test(what_the_connection_manager_ignores_is_told),
		cmocka_unit_test(named_devices_are_where_lanes_leave_by),
		cmocka_unit_test(lanes_leave_by_infiniband_s_addresses),
		cmocka_unit_test(a_named_device_must_have_an_address),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests_name("rdma settings", tests, NULL, NULL);
}
