/* The NUMA node of a network card, read from a tree of files like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/locality.h"
#include "reduction_server/transport/transport.h"
#include "tests/unit/transport/tree.h"

static void a_card_s_node_is_known_by_its_address(void **state)
{
	(void)state;
	tree_write("/sys/class/net/lo/device/numa_node", "1\n");
	assert_int_equal(smd_locality_node("127.0.0.1:0", tree_root), 1);
	assert_int_equal(smd_locality_node("127.0.0.1:0+localhost:2", tree_root), 1);
	tree_write("/sys/class/net/lo/device/numa_node", "0\n");
	assert_int_equal(smd_locality_node("127.0.0.1:0", tree_root), 0);
}

static void what_is_not_said_is_not_known(void **state)
{
	static const char *const texts[] = {"-1\n", "", "none\n", "1024\n"};

	(void)state;
	assert_int_equal(smd_locality_node("127.0.0.1:0", tree_root), -1);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		tree_write("/sys/class/net/lo/device/numa_node", texts[i]);
		assert_int_equal(smd_locality_node("127.0.0.1:0", tree_root), -1);
	}
	assert_int_equal(smd_locality_node("192.0.2.77:1", tree_root), -1);
}

/* The default route's card is on one, the address's on the other. */
static void two_cards_on_two_nodes_have_none(void **state)
{
	(void)state;
	tree_write("/sys/class/net/lo/device/numa_node", "1\n");
	tree_write("/sys/class/net/eth0/device/numa_node", "0\n");
	tree_write("/proc/net/route",
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT "
		"\n"
		"eth0\t00000000\t010200C0\t0003\t0\t0\t10\t00000000\t0\t0\t0\n");
	assert_int_equal(smd_locality_node("0.0.0.0:1", tree_root), 0);
	assert_int_equal(smd_locality_node("0.0.0.0:1+127.0.0.1:1", tree_root), -1);
}

static void the_way_to_a_server_leads_to_a_card(void **state)
{
	(void)state;
	tree_write("/sys/class/net/lo/device/numa_node", "1\n");
	assert_int_equal(smd_locality_towards("127.0.0.1:7", tree_root), 1);
	assert_int_equal(smd_locality_towards("no address", tree_root), -1);
}

/* A transport that has cards of its own, or none, for what is asked; of two shards on two nodes. */
static bool has_card_on_node_7(const char *addresses, unsigned shards, int *node)
{
	*node = shards == 2 ? -1 : 7;
	return strcmp(addresses, "127.0.0.1:7") == 0;
}

static void a_transport_s_own_card_comes_before_the_interface_s(void **state)
{
	static const struct smd_transport_ops other = {.name = "other"};
	static const struct smd_transport_ops with_card = {
		.name = "with card", .node = has_card_on_node_7};
	const struct smd_transport_ops *const transports[] = {&other, &with_card};
	const struct smd_locality_ways ways = {.transports = transports, .ntransports = 2};
	const struct smd_locality_ways without = {.transports = transports, .ntransports = 1};

	(void)state;
	assert_int_equal(smd_locality_of(&ways, "127.0.0.1:7", 1), 7);
	assert_int_equal(smd_locality_of(&ways, "127.0.0.1:7", 2), -1);
	assert_int_equal(smd_locality_of(&ways, "127.0.0.1:8", 1), -1); /* loopback is no card */
	assert_int_equal(smd_locality_of(&without, "127.0.0.1:7", 1), -1);
}

/* Of the node's processors those that may be used. */
static void threads_stay_on_the_node_s_processors(void **state)
{
	cpu_set_t before;
	cpu_set_t after;
	char list[64];
	int first = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET(first, &before)) {
		first++;
	}
	snprintf(list, sizeof(list), "5000-5007,%d\n", first);
	tree_write("/sys/devices/system/node/node1/cpulist", list);
	tree_write("/sys/devices/system/node/node2/cpulist", "5000-5007,6000\n");
	tree_write("/sys/devices/system/node/node3/cpulist", "0-4000\n");
	assert_int_equal(smd_locality_pin(0, tree_root), -ENOENT);
	assert_int_equal(smd_locality_pin(2, tree_root), -ENODEV);
	assert_int_equal(smd_locality_pin(3, tree_root), 0);
	sched_getaffinity(0, sizeof(after), &after);
	assert_true(CPU_EQUAL(&before, &after));
	assert_int_equal(smd_locality_pin(1, tree_root), 0);
	sched_getaffinity(0, sizeof(after), &after);
	assert_int_equal(CPU_COUNT(&after), 1);
	assert_true(CPU_ISSET(first, &after));
	sched_setaffinity(0, sizeof(before), &before);
}

/* What --affinity=card does to a server that has its card's node, and SUMMAND_AFFINITY=card to the progress
 * thread of a worker. */
static void who_wants_to_be_near_the_card_is(void **state)
{
	const struct smd_locality_ways ways = {.root = tree_root};
	cpu_set_t before;
	cpu_set_t after;
	char list[16];
	int last = CPU_SETSIZE - 1;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET(last, &before)) {
		last--;
	}
	snprintf(list, sizeof(list), "%d\n", last);
	tree_write("/sys/class/net/lo/device/numa_node", "7\n");
	tree_write("/sys/devices/system/node/node7/cpulist", list);
	smd_locality_settle(&ways, "127.0.0.1:7", 1, false); /* its memory alone */
	sched_getaffinity(0, sizeof(after), &after);
	assert_true(CPU_EQUAL(&before, &after));
	for (int worker = 0; worker < 2; worker++) {
		if (worker) {
			smd_locality_settle_towards(&ways, "127.0.0.1:7");
		} else {
			smd_locality_settle(&ways, "127.0.0.1:7", 1, true);
		}
		sched_getaffinity(0, sizeof(after), &after);
		assert_int_equal(CPU_COUNT(&after), 1);
		assert_true(CPU_ISSET(last, &after));
		sched_setaffinity(0, sizeof(before), &before);
	}
}

#define TREE(test) cmocka_unit_test_setup_teardown(test, tree_set_up, tree_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE(a_card_s_node_is_known_by_its_address),
		TREE(what_is_not_said_is_not_known),
		TREE(two_cards_on_two_nodes_have_none),
		TREE(the_way_to_a_server_leads_to_a_card),
		cmocka_unit_test(a_transport_s_own_card_comes_before_the_interface_s),
		TREE(threads_stay_on_the_node_s_processors),
		TREE(who_wants_to_be_near_the_card_is),
	};

	return cmocka_run_group_tests_name("locality", tests, NULL, NULL);
}
