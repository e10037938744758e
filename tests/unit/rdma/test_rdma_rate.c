/*
 * Which ports the kernel's files show, with their addresses, and how fast a server is by them: by
 * the port of its address, by all of them in turns, or by those that the user names; and on which NUMA
 * node they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/rdma/rate.h"
#include "reduction_server/transport/rdma/verbs.h"
#include "tests/unit/transport/tree.h"

static char source[SMD_BANDWIDTH_SOURCE_MAX];
static struct smd_verbs_port *ports; /* that read_ports() has found */

static int read_ports(void)
{
	free(ports);
	return smd_verbs_ports(tree_root, &ports);
}

static int ports_tear_down(void **state)
{
	free(ports);
	ports = NULL;
	return tree_tear_down(state);
}

static void write_device(const char *device, const char *what, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device, what);
	tree_write(path, text);
}

static void add_port(const char *device, const char *kind, const char *layer, const char *state,
	const char *rate)
{
	write_device(device, "node_type", kind);
	write_device(device, "ports/1/link_layer", layer);
	write_device(device, "ports/1/state", state);
	write_device(device, "ports/1/lid", "0x1f\n");
	if (rate) {
		write_device(device, "ports/1/rate", rate);
	}
}

static void add_gid(const char *device, unsigned index, const char *gid, const char *type)
{
	char what[64];

	snprintf(what, sizeof(what), "ports/1/gids/%u", index);
	write_device(device, what, gid);
	snprintf(what, sizeof(what), "ports/1/gid_attrs/types/%u", index);
	write_device(device, what, type);
}

#define ZERO "0000:0000:0000:0000:0000:0000:0000:0000\n"

/* Two RoCE cards of different speed, one of which has two addresses. */
static void add_roce(void)
{
	add_port("mlx5_0", "1: CA\n", "Ethernet\n", "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	add_gid("mlx5_0", 0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n", "IB/RoCE v1\n");
	add_gid("mlx5_0", 1, "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n", "RoCE v2\n");
	add_gid("mlx5_0", 2, "0000:0000:0000:0000:0000:ffff:0a00:0101\n", "IB/RoCE v1\n");
	add_gid("mlx5_0", 3, "0000:0000:0000:0000:0000:ffff:0a00:0101\n", "RoCE v2\n");
	add_gid("mlx5_0", 4, ZERO, "RoCE v2\n");
	add_port("mlx5_1", "1: CA\n", "Ethernet\n", "4: ACTIVE\n", "25 Gb/sec (1X EDR)\n");
	add_gid("mlx5_1", 3, "0000:0000:0000:0000:0000:ffff:0a00:0201\n", "RoCE v2\n");
}

static void the_kernel_s_files_show_ports(void **state)
{
	(void)state;
	assert_int_equal(read_ports(), -ENODEV);
	add_port("efa_0", "255: <unknown>\n", "Unspecified\n", "4: ACTIVE\n", NULL);
	assert_int_equal(read_ports(), -EPROTONOSUPPORT);
	add_roce();
	add_port("mlx5_2", "1: CA\n", "InfiniBand\n", "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n");
	add_gid("mlx5_2", 0, "fe80:0000:0000:0000:0002:c903:0000:0002\n", "IB/RoCE v1\n");
	add_gid("mlx5_2", 1, "fec0:0000:0000:0000:0002:c903:0000:0002\n", "IB/RoCE v1\n");
	add_port("mlx5_3", "1: CA\n", "InfiniBand\n", "1: DOWN\n", "10 Gb/sec (4X SDR)\n");
	add_gid("mlx5_3", 0, "fe80:0000:0000:0000:0002:c903:0000:0003\n", "");
	add_port("cxgb4_0", "4: RNIC\n", "Ethernet\n", "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	add_gid("cxgb4_0", 0, "0007:4328:0000:0000:0000:0000:0000:0000\n", "RoCE v2\n");
	assert_int_equal(read_ports(), 4);
	assert_string_equal(ports[0].name, "mlx5_0");
	assert_int_equal(ports[0].gid_index, 1);
	assert_int_equal(ports[1].gid_index, 3);
	assert_true(ports[1].ethernet);
	assert_int_equal(ports[1].number, 1);
	assert_int_equal(ports[1].mbps, 100000);
	assert_memory_equal(ports[1].gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x00\x01\x01", 16);
	assert_string_equal(ports[2].name, "mlx5_1");
	assert_int_equal(ports[2].mbps, 25000);
	assert_string_equal(ports[3].name, "mlx5_2");
	assert_false(ports[3].ethernet);
	assert_int_equal(ports[3].network_bits, 64);
	assert_int_equal(ports[3].lid, 0x1f);
	assert_int_equal(ports[3].mbps, 200000);
}

static void add_infiniband(const char *device, unsigned guid)
{
	char gid[64];

	add_port(device, "1: CA\n", "InfiniBand\n", "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n");
	snprintf(gid, sizeof(gid), "fe80:0000:0000:0000:0002:c903:0000:%04x\n", guid);
	add_gid(device, 0, gid, "");
}

/* By IPoIB's hardware address, whose end is the port's gid. Loopback passes for the interface, as
 * its addresses are known. */
static void infiniband_has_the_addresses_of_its_interface(void **state)
{
	static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	static const uint8_t none[16];
	unsigned found = 0;
	int n;

	(void)state;
	add_infiniband("mlx5_0", 2);
	add_infiniband("mlx5_1", 3);
	write_device("mlx5_0", "device/net/ib0/address",
		"80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:02\n");
	/* Of another port's, and no InfiniBand at all. */
	write_device("mlx5_0", "device/net/lo/address",
		"80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:03\n");
	write_device("mlx5_0", "device/net/eth0/address", "80:00:00:48:fe:80\n");
	write_device("mlx5_1", "device/net/lo/address",
		"80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:03\n");
	n = read_ports();
	assert_true(n >= 2);
	assert_string_equal(ports[0].name, "mlx5_0");
	assert_memory_equal(ports[0].address, none, 16); /* its interface has no address */
	for (int i = 1; i < n; i++) {
		assert_string_equal(ports[i].name, "mlx5_1");
		assert_memory_equal(
			ports[i].gid, "\xfe\x80\0\0\0\0\0\0\0\x02\xc9\x03\0\0\0\x03", 16);
		assert_int_equal(ports[i].network_bits, 64);
		if (memcmp(ports[i].address, loopback, 16) == 0) {
			assert_int_equal(ports[i].address_bits, 96 + 8);
			found++;
		}
	}
	assert_int_equal(found, 1);
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "", 0, tree_root, source, sizeof(source)), 400000);
	assert_string_equal(source, "of mlx5_0:1 and mlx5_1:1");
}

/* Those of containers and virtual functions: none hides the cards behind it. */
static void a_host_may_have_hundreds_of_addresses(void **state)
{
	enum { MANY = 256 };

	(void)state;
	for (unsigned card = 0; card < 2; card++) {
		char name[16];

		snprintf(name, sizeof(name), "mlx5_%u", card);
		add_port(name, "1: CA\n", "Ethernet\n", "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
		for (unsigned i = 0; i < MANY / 2 + 1; i++) {
			char gid[64];

			snprintf(gid, sizeof(gid), "0000:0000:0000:0000:0000:ffff:0a0%u:%04x\n",
				card, i);
			add_gid(name, i, gid, "RoCE v2\n");
		}
	}
	add_port("mlx5_9", "1: CA\n", "Ethernet\n", "4: ACTIVE\n", "25 Gb/sec (1X EDR)\n");
	add_gid("mlx5_9", 3, "0000:0000:0000:0000:0000:ffff:0a00:0901\n", "RoCE v2\n");
	assert_int_equal(read_ports(), MANY + 3);
	assert_string_equal(ports[MANY + 2].name, "mlx5_9");
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "mlx5_", 0, tree_root, source, sizeof(source)),
		225000);
	assert_string_equal(source, "of mlx5_0:1 and mlx5_1:1 and mlx5_9:1");
}

/* They differ by their ports, or by their addresses, and share no card that they need not. */
static void servers_of_one_host_begin_at_different_cards(void **state)
{
	static const struct {
		const char *addresses;
		unsigned shards;
		const char *source;
	} servers[] = {
		{"0.0.0.0:2222", 1, "of a:1"},
		{"0.0.0.0:2223", 1, "of c:1"},
		{"0.0.0.0:2224", 1, "of b:1"},
		{"0.0.0.0:2225", 1, "of d:1"},
		{"0.0.0.0:2222", 2, "of a:1 and b:1"},
		{"0.0.0.0:2223", 2, "of c:1 and d:1"},
		{"192.0.2.4:2222", 2, "of a:1 and b:1"},
		{"192.0.2.5:2222", 2, "of c:1 and d:1"},
		{"0.0.0.0:2225", 2, "of d:1 and a:1"},
		{"0.0.0.0:2225", 0, "of a:1 and b:1 and c:1 and d:1"},
	};

	(void)state;
	add_infiniband("a", 1);
	add_infiniband("b", 2);
	add_infiniband("c", 3);
	add_infiniband("d", 4);
	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		assert_true(smd_rdma_rate_read(servers[i].addresses, "", servers[i].shards,
				    tree_root, source, sizeof(source)) > 0);
		assert_string_equal(source, servers[i].source);
	}
}

/* Those that are not counted either: a container may have been given one card, and /sys shows all. */
static void devices_that_cannot_be_opened_are_left_out(void **state)
{
	(void)state;
	add_roce();
	tree_write("/sys/class/infiniband_verbs/abi_version", "6\n");
	tree_write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
	assert_int_equal(read_ports(), 1); /* the other's file is not known */
	assert_string_equal(ports[0].name, "mlx5_1");
	tree_write("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
	assert_int_equal(read_ports(), -EACCES);
	tree_write("/dev/infiniband/uverbs1", "");
	assert_int_equal(read_ports(), 1);
	assert_int_equal(
		smd_rdma_rate_read("10.0.2.1:1", "", 0, tree_root, source, sizeof(source)), 25000);
	assert_string_equal(source, "of mlx5_1:1");
	tree_write("/dev/infiniband/uverbs0", "");
	assert_int_equal(read_ports(), 3);
}

static void a_server_is_as_fast_as_its_ports(void **state)
{
	static const struct {
		const char *addresses;
		const char *devices;
		uint32_t mbps;
		const char *source;
		unsigned shards; /* 0: as many as there are ports */
	} cases[] = {
		{"10.0.2.1:2222", "", 25000, "of mlx5_1:1", 0},
		{"10.0.1.1:2222+10.0.2.1:2223", "", 125000, "of mlx5_0:1 and mlx5_1:1", 0},
		{"10.0.1.1:2222+10.0.1.1:2223", "", 100000, "of mlx5_0:1", 0},
		/* Of another network than the cards', and of all: shards take turns. */
		{"192.0.2.1:2222", "", 150000, "of mlx5_0:1 and mlx5_2:1", 0},
		{"0.0.0.0:2222", "", 150000, "of mlx5_0:1 and mlx5_2:1", 0},
		{"[::]:2222", "", 150000, "of mlx5_0:1 and mlx5_2:1", 0},
		/* One shard is on one of them, at each address. */
		{"0.0.0.0:2222", "", 100000, "of mlx5_0:1", 1},
		{"0.0.0.0:2222", "", 150000, "of mlx5_0:1 and mlx5_2:1", 2},
		{"0.0.0.0:2222", "", 150000, "of mlx5_0:1 and mlx5_2:1", 64},
		{"10.0.1.1:2222+10.0.2.1:2223", "", 125000, "of mlx5_0:1 and mlx5_1:1", 1},
		{"10.0.2.1:2222", "mlx5_0", 100000, "of mlx5_0:1", 0},
		{"192.0.2.1:2222", "^mlx5_0", 75000, "of mlx5_1:1 and mlx5_2:1", 0},
		{"10.0.2.1:2222", "hns", 0, NULL, 0},
		{"127.0.0.1:2222", "", 0, NULL, 0},
	};

	(void)state;
	add_roce();
	add_port("mlx5_2", "1: CA\n", "Ethernet\n", "4: ACTIVE\n", "50 Gb/sec (1X HDR)\n");
	add_gid("mlx5_2", 3, "0000:0000:0000:0000:0000:ffff:0a00:0301\n", "RoCE v2\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_rdma_rate_read(cases[i].addresses, cases[i].devices,
					 cases[i].shards, tree_root, source, sizeof(source)),
			cases[i].mbps);
		if (cases[i].source) {
			assert_string_equal(source, cases[i].source);
		}
	}
}

/* Who listens at all addresses is reached by the default route's card, and lanes are on that one; by
 * one without RDMA, and they take turns. */
static void lanes_come_by_the_default_route(void **state)
{
	static const char route[] =
		"Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
		"%s 00000000 0102000A 0003 0 0 0 00000000 0 0 0\n";
	char text[256];

	(void)state;
	add_roce();
	write_device("mlx5_0", "ports/1/gid_attrs/ndevs/3", "eth2\n");
	write_device("mlx5_1", "ports/1/gid_attrs/ndevs/3", "eth3\n");
	snprintf(text, sizeof(text), route, "eth3");
	tree_write("/proc/net/route", text);
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "", 0, tree_root, source, sizeof(source)), 25000);
	assert_string_equal(source, "of mlx5_1:1");
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "mlx5_", 0, tree_root, source, sizeof(source)),
		125000);
	snprintf(text, sizeof(text), route, "eth0");
	tree_write("/proc/net/route", text);
	assert_int_equal(
		smd_rdma_rate_read("[::]:1", "", 0, tree_root, source, sizeof(source)), 100000);
	assert_string_equal(source, "of mlx5_0:1");
}

/* NULL: by the connection manager, which knows no turns and no names of devices. */
static void with_the_connection_manager_the_address_alone_decides(void **state)
{
	static const char route[] =
		"Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
		"eth3 00000000 0102000A 0003 0 0 0 00000000 0 0 0\n";
	int node;

	(void)state;
	add_roce();
	assert_int_equal(
		smd_rdma_rate_read("10.0.2.1:1", NULL, 8, tree_root, source, sizeof(source)),
		25000);
	assert_string_equal(source, "of mlx5_1:1");
	assert_int_equal(
		smd_rdma_rate_read("192.0.2.1:1", NULL, 8, tree_root, source, sizeof(source)),
		0); /* no RDMA device has it, so none is listened at */
	assert_false(smd_rdma_node_read("192.0.2.1:1", NULL, 8, tree_root, &node));
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", NULL, 8, tree_root, source, sizeof(source)),
		100000); /* any, as over TCP */
	write_device("mlx5_1", "ports/1/gid_attrs/ndevs/3", "eth3\n");
	tree_write("/proc/net/route", route);
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", NULL, 8, tree_root, source, sizeof(source)), 25000);
	write_device("mlx5_0", "device/numa_node", "0\n");
	write_device("mlx5_1", "device/numa_node", "1\n");
	assert_true(smd_rdma_node_read("10.0.2.1:1", NULL, 8, tree_root, &node));
	assert_int_equal(node, 1);
}

/* Over TCP its lanes take turns with the other card's. */
static void with_the_connection_manager_infiniband_s_address_decides_too(void **state)
{
	(void)state;
	add_infiniband("mlx5_0", 2);
	add_infiniband("mlx5_1", 3);
	assert_int_equal(
		smd_rdma_rate_read("192.0.2.1:1", "", 0, tree_root, source, sizeof(source)),
		400000);
	assert_int_equal(
		smd_rdma_rate_read("192.0.2.1:1", NULL, 0, tree_root, source, sizeof(source)), 0);
}

static void what_does_not_say_its_speed_is_not_known(void **state)
{
	(void)state;
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "", 0, tree_root, source, sizeof(source)), 0);
	add_roce();
	add_port("mlx5_9", "1: CA\n", "Ethernet\n", "4: ACTIVE\n", NULL);
	add_gid("mlx5_9", 0, "0000:0000:0000:0000:0000:ffff:0a00:0901\n", "RoCE v2\n");
	assert_int_equal(
		smd_rdma_rate_read("0.0.0.0:1", "", 0, tree_root, source, sizeof(source)), 0);
	assert_int_equal(
		smd_rdma_rate_read("10.0.1.1:1", "", 0, tree_root, source, sizeof(source)), 100000);
}

/* Near the ports that lanes take, whatever interface their carriers come by. */
static void a_server_is_where_its_ports_are(void **state)
{
	static const struct {
		const char *addresses;
		const char *devices;
		bool there;
		int node;
	} cases[] = {
		{"10.0.1.1:2222", "", true, 0},
		{"10.0.2.1:2222", "", true, 1},
		{"192.0.2.1:2222", "mlx5_1", true, 1},
		{"10.0.1.1:2222", "mlx5_1", true, 1},
		{"10.0.1.1:2222+10.0.2.1:2223", "", true, -1}, /* on two */
		{"0.0.0.0:2222", "", true, 0}, /* the other is too slow to take turns */
		{"0.0.0.0:2222", "hns", false, -1},
		{"127.0.0.1:2222", "", false, -1},
	};
	int node;

	(void)state;
	add_roce();
	assert_true(smd_rdma_node_read("10.0.1.1:2222", "", 8, tree_root, &node));
	assert_int_equal(node, -1); /* it does not say */
	write_device("mlx5_0", "device/numa_node", "0\n");
	write_device("mlx5_1", "device/numa_node", "1\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_rdma_node_read(
					 cases[i].addresses, cases[i].devices, 8, tree_root, &node),
			cases[i].there);
		assert_int_equal(node, cases[i].node);
	}
}

/* Its shards do not reach the cards on the other node. */
static void cards_that_no_shard_takes_are_no_matter(void **state)
{
	static const struct {
		unsigned shards;
		int node;
		uint32_t mbps;
	} cases[] = {{1, 0, 200000}, {2, 0, 400000}, {3, -1, 600000}, {4, -1, 800000},
		{0, -1, 800000}}; /* 0: so many as there are cards, or more */
	int node;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		char name[] = "mlx5_N";

		name[5] = (char)('0' + i);
		add_infiniband(name, 2 + i);
		write_device(name, "device/numa_node", i < 2 ? "0\n" : "1\n");
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_rdma_rate_read("0.0.0.0:2222", "", cases[i].shards, tree_root,
					 source, sizeof(source)),
			cases[i].mbps);
		assert_true(
			smd_rdma_node_read("0.0.0.0:2222", "", cases[i].shards, tree_root, &node));
		assert_int_equal(node, cases[i].node);
	}
	assert_true(smd_rdma_node_read("0.0.0.0:2222", "mlx5_2,mlx5_3", 8, tree_root, &node));
	assert_int_equal(node, 1);
}

#define TREE(test) cmocka_unit_test_setup_teardown(test, tree_set_up, ports_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE(the_kernel_s_files_show_ports),
		TREE(infiniband_has_the_addresses_of_its_interface),
		TREE(a_host_may_have_hundreds_of_addresses),
		TREE(servers_of_one_host_begin_at_different_cards),
		TREE(devices_that_cannot_be_opened_are_left_out),
		TREE(a_server_is_as_fast_as_its_ports),
		TREE(lanes_come_by_the_default_route),
		TREE(with_the_connection_manager_the_address_alone_decides),
		TREE(with_the_connection_manager_infiniband_s_address_decides_too),
		TREE(what_does_not_say_its_speed_is_not_known),
		TREE(a_server_is_where_its_ports_are),
		TREE(cards_that_no_shard_takes_are_no_matter),
	};

	return cmocka_run_group_tests_name("rdma rate", tests, NULL, NULL);
}
