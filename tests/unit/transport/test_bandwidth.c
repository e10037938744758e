/*
 * What a link carries, read from a tree of files like the kernel's: the interface of an address,
 * of the default route, or the fastest; and how many shards it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/transport/bandwidth.h"
#include "tests/unit/transport/tree.h"

static char source[SMD_BANDWIDTH_SOURCE_MAX];

static void add_interface(const char *name, const char *speed, const char *state)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", name);
	tree_write(path, state);
	if (speed) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
		tree_write(path, speed);
	}
}

#define ROUTES                                                                                     \
	"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT \n"   \
	"eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"

static void an_address_has_its_interface_s_speed(void **state)
{
	(void)state;
	add_interface("lo", "2500\n", "unknown\n");
	add_interface("eth0", "100000\n", "up\n");
	assert_int_equal(smd_bandwidth_read("127.0.0.1:0", tree_root, source), 2500);
	assert_string_equal(source, "of lo");
	assert_int_equal(smd_bandwidth_read("localhost:2222", tree_root, source), 2500);
}

static void all_addresses_have_the_default_route_s_speed(void **state)
{
	(void)state;
	add_interface("eth0", "100000\n", "up\n");
	add_interface("eth1", "25000\n", "up\n");
	add_interface("eth2", "1000\n", "up\n");
	tree_write("/proc/net/route",
		ROUTES "eth2\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
		       "eth1\t00000000\t010200C0\t0003\t0\t0\t10\t00000000\t0\t0\t0\n");
	assert_int_equal(smd_bandwidth_read("0.0.0.0:2222", tree_root, source), 25000);
	assert_string_equal(source, "of eth1");
	assert_int_equal(smd_bandwidth_read("[::]:2222", tree_root, source), 25000);
}

static void without_a_default_route_the_fastest_that_is_up_counts(void **state)
{
	(void)state;
	add_interface("eth0", "1000\n", "up\n");
	add_interface("eth1", "40000\n", "up\n");
	add_interface("eth2", "100000\n", "down\n");
	add_interface("tun0", "-1\n", "up\n");
	add_interface("lo", NULL, "unknown\n");
	tree_write("/proc/net/route", ROUTES);
	assert_int_equal(smd_bandwidth_read("0.0.0.0:2222", tree_root, source), 40000);
	assert_string_equal(source, "of eth1");
}

static void what_does_not_say_its_speed_is_not_known(void **state)
{
	static const char *const speeds[] = {"-1\n", "0\n", "", "fast\n", NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		add_interface("lo", speeds[i], "unknown\n");
		assert_int_equal(smd_bandwidth_read("127.0.0.1:0", tree_root, source), 0);
		assert_string_equal(source, "the default: lo does not say how fast it is");
	}
}

static void without_an_interface_nothing_is_known(void **state)
{
	(void)state;
	assert_int_equal(smd_bandwidth_read("0.0.0.0:2222", tree_root, source), 0);
	assert_string_equal(source, "the default: no interface is known for 0.0.0.0:2222");
	assert_int_equal(smd_bandwidth_read("192.0.2.77:1", tree_root, source), 0);
	assert_string_equal(source, "the default: no interface is known for 192.0.2.77:1");
}

static void a_shard_carries_10_gbits_as_long_as_there_are_processors(void **state)
{
	static const struct {
		uint32_t mbps;
		unsigned processors;
		unsigned shards;
	} cases[] = {{1, 64, 1}, {1000, 2, 1}, {10000, 2, 1}, {10001, 64, 2}, {25000, 64, 3},
		{100000, 64, 10}, {100000, 8, 8}, {100000, 1, 1}, {10000000, 4096, 1000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_bandwidth_shards(cases[i].mbps, false, cases[i].processors, 1),
			cases[i].shards);
	}
}

/* 8 for 400 Gbit/s, and no fewer of a slower one: workers may come over TCP all the same. Of
 * several cards each has as many. */
static void where_cards_move_payloads_fewer_shards_carry_more(void **state)
{
	static const struct {
		uint32_t mbps;
		unsigned processors;
		unsigned addresses;
		unsigned shards;
	} cases[] = {{10000, 64, 1, 1}, {25000, 64, 1, 3}, {80000, 64, 1, 8}, {100000, 64, 1, 8},
		{400000, 64, 1, 8}, {400001, 64, 1, 9}, {3200000, 96, 1, 64}, {400000, 4, 1, 4},
		{400000, 64, 10, 10}, {0, 96, 1, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_bandwidth_shards(cases[i].mbps, true, cases[i].processors,
					 cases[i].addresses),
			cases[i].shards);
	}
}

/* Loopback and a cloud's virtual interfaces: workers may be on the same processors. */
static void a_link_of_unknown_speed_takes_a_quarter_of_the_processors(void **state)
{
	(void)state;
	assert_int_equal(smd_bandwidth_shards(0, false, 1, 1), 1);
	assert_int_equal(smd_bandwidth_shards(0, false, 2, 1), 1);
	assert_int_equal(smd_bandwidth_shards(0, false, 8, 1), 2);
	assert_int_equal(smd_bandwidth_shards(0, false, 96, 1), 4);
	assert_int_equal(smd_bandwidth_shards(2000, false, 8, 2), 2); /* one for each address */
	assert_int_equal(smd_bandwidth_shards(2000, false, 2, 4), 2);
	assert_int_equal(smd_bandwidth_shards(100000, false, 16, 2), 10);
}

int main(void)
{
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, tree_tear_down)
	const struct CMUnitTest tests[] = {
		TREE_TEST(an_address_has_its_interface_s_speed),
		TREE_TEST(all_addresses_have_the_default_route_s_speed),
		TREE_TEST(without_a_default_route_the_fastest_that_is_up_counts),
		TREE_TEST(what_does_not_say_its_speed_is_not_known),
		TREE_TEST(without_an_interface_nothing_is_known),
		cmocka_unit_test(a_shard_carries_10_gbits_as_long_as_there_are_processors),
		cmocka_unit_test(where_cards_move_payloads_fewer_shards_carry_more),
		cmocka_unit_test(a_link_of_unknown_speed_takes_a_quarter_of_the_processors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
