/*
 * Which port a lane is made on: those that the user names, as for NCCL, and of these the one of the
 * route, of the other end's kind and subnet, or each in its turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/rdma/port.h"
#include "reduction_server/wire/message.h"

static const struct smd_verbs_port ports[] = {
	{.name = "mlx5_0", .number = 1, .ethernet = true, .network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 1}},
	{.name = "mlx5_0", .number = 1, .ethernet = true, .network_bits = 96 + 24,
		.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [14] = 1, [15] = 1}},
	{.name = "mlx5_1", .number = 1, .ethernet = true, .network_bits = 96 + 24,
		.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [14] = 2, [15] = 1}},
	{.name = "mlx5_2", .number = 1,
		.gid = {0xfe, 0x80, [15] = 3}},
	{.name = "mlx5_3", .number = 1,
		.gid = {0xfe, 0x80, [15] = 4}},
	{.name = "mlx5_10", .number = 2,
		.gid = {0xfe, 0x80, [15] = 5}},
};

#define NROCE 3u

static int chosen_of(unsigned n, const uint8_t *local, unsigned turn)
{
	const struct smd_rdma_wish wish = {.local = local, .turn = turn};
	const struct smd_verbs_port *port = smd_rdma_port_choose(ports, n, &wish);

	return port ? (int)(port - ports) : -1;
}

static int chosen(const char *devices, const uint8_t *local, const struct smd_rdma_offer *other,
	unsigned turn)
{
	const struct smd_rdma_wish wish = {
		.devices = devices, .local = local, .other = other, .turn = turn};
	const struct smd_verbs_port *port =
		smd_rdma_port_choose(ports, sizeof(ports) / sizeof(ports[0]), &wish);

	return port ? (int)(port - ports) : -1;
}

static void ports_are_named_as_for_nccl(void **state)
{
	static const struct {
		const char *list;
		const char *device;
		unsigned port;
		bool named;
	} cases[] = {
		{"mlx5_1", "mlx5_1", 1, true},
		{"mlx5_1", "mlx5_10", 1, true}, /* a beginning, as there */
		{"=mlx5_1", "mlx5_10", 1, false},
		{"=mlx5_1", "mlx5_1", 2, true},
		{"mlx5", "mlx5_3", 1, true},
		{"mlx5_1:2", "mlx5_1", 1, false},
		{"mlx5_1:2", "mlx5_1", 2, true},
		{"mlx5_0,mlx5_2:1", "mlx5_2", 1, true},
		{"mlx5_0,mlx5_2:1", "mlx5_3", 1, false},
		{"^mlx5_0", "mlx5_0", 1, false},
		{"^mlx5_0", "mlx5_1", 1, true},
		{"^=mlx5_1,mlx5_2:2", "mlx5_10", 1, true},
		{"^=mlx5_1,mlx5_2:2", "mlx5_2", 2, false},
		{"mlx5_1:x", "mlx5_1", 1, false},
		{"mlx5_1:", "mlx5_1", 1, false},
		{",", "mlx5_1", 1, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(smd_rdma_port_is_named(
					 cases[i].list, cases[i].device, cases[i].port),
			cases[i].named);
	}
}

static void the_best_port_is_taken(void **state)
{
	struct smd_rdma_offer roce = {.ethernet = true};
	struct smd_rdma_offer infiniband = {.ethernet = false, .gid = {0xfe, 0x80, [15] = 9}};
	static const uint8_t elsewhere[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 1};

	(void)state;
	/* The route to the server has chosen one. */
	assert_int_equal(chosen_of(NROCE, ports[2].gid, 0), 2);
	assert_int_equal(chosen_of(NROCE, ports[2].gid, 1), 2);
	memcpy(roce.gid, ports[1].gid, 16);
	assert_int_equal(chosen("", ports[2].gid, &roce, 0), 2);
	/* It goes over none of them: all take turns, each once, none by an address of its wire. */
	assert_int_equal(chosen_of(NROCE, elsewhere, 0), 1);
	assert_int_equal(chosen_of(NROCE, elsewhere, 1), 2);
	assert_int_equal(chosen_of(NROCE, NULL, 2), 1);
	assert_int_equal(chosen("", NULL, NULL, 2), 5);
	assert_int_equal(chosen("", NULL, NULL, 3), 3);
	/* Who answers takes one of the same subnet, and of the same kind. */
	roce.gid[15] = 77;
	assert_int_equal(chosen("", elsewhere, &roce, 0), 1);
	roce.gid[14] = 2;
	assert_int_equal(chosen("", elsewhere, &roce, 1), 2);
	assert_int_equal(chosen("mlx5_2,mlx5_3", elsewhere, &infiniband, 0), 3);
	assert_int_equal(chosen("mlx5_2,mlx5_3", elsewhere, &infiniband, 1), 4);
	/* Named ones go before the route, and nothing else will do. */
	assert_int_equal(chosen("mlx5_0", ports[2].gid, NULL, 3), 1);
	assert_int_equal(chosen("mlx5_2", elsewhere, &roce, 0), -1);
	assert_int_equal(chosen("hns", NULL, NULL, 0), -1);
}

/* Who names a device has named no VLAN: that is the carrier's. */
static void of_a_port_s_addresses_the_carrier_s_is_taken(void **state)
{
	static const struct smd_verbs_port addresses[] = {
		{.name = "mlx5_0", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.interface = "eth2", .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
		{.name = "mlx5_0", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.interface = "eth2.7",
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [14] = 7, [15] = 1}},
		{.name = "mlx5_1", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.interface = "eth3", .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
	};
	struct smd_rdma_wish wish = {.devices = "mlx5_0", .local = addresses[1].gid};
	struct smd_rdma_offer other = {.ethernet = true};

	(void)state;
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[1]);
	wish.local = addresses[0].gid;
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[0]);
	memcpy(other.gid, addresses[0].gid, 16);
	wish.local = addresses[1].gid;
	wish.other = &other; /* whose network is the other one's */
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[1]);
	wish = (struct smd_rdma_wish){.devices = "mlx5_0", .interface = "eth2.7"};
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[1]);
	wish = (struct smd_rdma_wish){.devices = "mlx5_0,mlx5_1", .local = addresses[1].gid};
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[1]);
	wish.turn = 1; /* named ports take turns all the same */
	assert_ptr_equal(smd_rdma_port_choose(addresses, 3, &wish), &addresses[2]);
}

/* Cards of one subnet take turns, though the address of one is nearer to the other end's. */
static void cards_of_one_subnet_take_turns(void **state)
{
	struct smd_verbs_port cards[3] = {
		{.name = "a", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
		{.name = "b", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 8}},
		{.name = "c", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [14] = 1, [15] = 9}},
	};
	struct smd_rdma_offer other = {
		.ethernet = true, .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}};

	(void)state;
	for (unsigned turn = 0; turn < 4; turn++) {
		const struct smd_rdma_wish wish = {.other = &other, .turn = turn};

		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[turn % 2]);
	}
	/* InfiniBand: the subnet's prefix alone counts. */
	other.ethernet = false;
	for (unsigned i = 0; i < 3; i++) {
		cards[i].ethernet = false;
		cards[i].network_bits = 64;
	}
	for (unsigned turn = 0; turn < 3; turn++) {
		const struct smd_rdma_wish wish = {.other = &other, .turn = turn};

		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[turn]);
	}
}

/* Three cards of InfiniBand, of which one has an IP address. */
static const struct smd_verbs_port infiniband[] = {
	{.name = "a", .number = 1, .network_bits = 64, .gid = {0xfe, 0x80, [15] = 1}},
	{.name = "b",
		.number = 1,
		.network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 2},
		.address = {0xfe, 0x80, [15] = 77}},
	{.name = "b",
		.number = 1,
		.network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 2},
		.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
	{.name = "c", .number = 1, .network_bits = 64, .gid = {0xfe, 0x80, [15] = 3}},
};

static char infiniband_chosen(struct smd_rdma_wish wish, unsigned turn)
{
	wish.turn = turn;
	return smd_rdma_port_choose(infiniband, 4, &wish)->name[0];
}

/* So servers that are each named by a card's address begin there, and one with a shard for each
 * card uses all of them, however many have an address. */
static void turns_of_infiniband_begin_at_the_carriers_card(void **state)
{
	static const struct smd_rdma_offer other = {.gid = {0xfe, 0x80, [15] = 9}};
	struct smd_rdma_wish wish = {.local = infiniband[2].address};

	(void)state;
	for (int answers = 0; answers < 2; answers++) {
		wish.other = answers ? &other : NULL;
		assert_int_equal(infiniband_chosen(wish, 0), 'b');
		assert_int_equal(infiniband_chosen(wish, 1), 'c');
		assert_int_equal(infiniband_chosen(wish, 2), 'a');
		assert_int_equal(infiniband_chosen(wish, 3), 'b');
	}
	wish.devices = "a,c"; /* of which it is none */
	assert_int_equal(infiniband_chosen(wish, 0), 'a');
	assert_int_equal(infiniband_chosen(wish, 1), 'c');
}

/* Whoever connects came by one of the addresses; the server has them all, and has prepared for
 * turns that begin elsewhere. */
static void turns_of_who_listens_anywhere_begin_where_it_says(void **state)
{
	const struct smd_rdma_wish wish = {
		.local = infiniband[2].address, .anywhere = true, .first = 3u << 30};

	(void)state;
	assert_int_equal(infiniband_chosen(wish, 0), 'c');
	assert_int_equal(infiniband_chosen(wish, 1), 'a');
}

/* NCCL has chosen a card for a connection by the interface that it bound it to. */
static void a_lane_that_stays_takes_no_turns(void **state)
{
	static const uint8_t elsewhere[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 1};
	struct smd_rdma_wish wish = {.local = infiniband[2].address, .stays = true};

	(void)state;
	assert_int_equal(infiniband_chosen(wish, 0), 'b');
	assert_int_equal(infiniband_chosen(wish, 1), 'b');
	wish.local = elsewhere;
	assert_int_equal(infiniband_chosen(wish, 0), 'a');
	assert_int_equal(infiniband_chosen(wish, 1), 'b');
	assert_int_equal(infiniband_chosen(wish, 2), 'c');
}

/* Two at opposite ends, the next between them; as many as there are cards have one each. */
static void servers_begin_far_from_each_other(void **state)
{
	char address[32];
	unsigned cards = 0;

	(void)state;
	assert_int_equal(smd_rdma_port_first("0.0.0.0:2222"), 0);
	assert_int_equal(smd_rdma_port_first("[::]:2223"), 1u << 31);
	assert_int_equal(smd_rdma_port_first("0.0.0.0:2224"), 1u << 30);
	assert_int_equal(smd_rdma_port_first("10.0.0.1:2222+10.0.1.1:2222"),
		smd_rdma_port_first("10.0.0.0:2223"));
	assert_int_equal(smd_rdma_port_first("nonsense"), 0);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(address, sizeof(address), "10.1.2.3:%u", 7000 + i);
		cards |= 1u << (smd_rdma_port_first(address) >> 29);
	}
	assert_int_equal(cards, 0xff);
}

/* The kernel shows the addresses of other containers' interfaces too: such a port is for want of another,
 * however near its address is to the other end's. */
static void an_address_of_another_network_namespace_takes_no_turn(void **state)
{
	static const struct smd_verbs_port cards[3] = {
		{.name = "a", .number = 1, .ethernet = true,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 8}},
		{.name = "b", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 172, [15] = 1}},
		{.name = "c", .number = 1, .ethernet = true, .network_bits = 96 + 24,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 172, [15] = 2}},
	};
	static const struct smd_rdma_offer other = {
		.ethernet = true, .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}};

	(void)state;
	for (unsigned turn = 0; turn < 3; turn++) {
		const struct smd_rdma_wish offers = {.turn = turn};
		const struct smd_rdma_wish answers = {.other = &other, .turn = turn};

		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &offers), &cards[1 + turn % 2]);
		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &answers), &cards[1 + turn % 2]);
		assert_ptr_equal(smd_rdma_port_choose(cards, 1, &answers), &cards[0]);
	}
}

/* A management card of 25 Gbit/s, beside one of 400 and one of 200: the fast ones take turns. */
static void a_slow_card_takes_no_turn(void **state)
{
	static const struct smd_verbs_port cards[] = {
		{.name = "mgmt", .number = 1, .ethernet = true, .mbps = 25000,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
		{.name = "a", .number = 1, .ethernet = true, .mbps = 400000,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
		{.name = "b", .number = 1, .ethernet = true, .mbps = 200000,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 3}},
		{.name = "c", .number = 1, .ethernet = true, /* it does not say */
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 4}},
	};

	(void)state;
	for (unsigned turn = 0; turn < 6; turn++) {
		const struct smd_rdma_wish any = {.turn = turn};
		const struct smd_rdma_wish named = {.devices = "^c", .turn = turn};

		assert_ptr_equal(smd_rdma_port_choose(cards, 4, &any), &cards[1 + turn % 3]);
		assert_ptr_equal(smd_rdma_port_choose(cards, 4, &named), &cards[turn % 3]);
	}
	/* But it is taken where the route goes by it, or nothing else is there. */
	assert_ptr_equal(smd_rdma_port_choose(cards, 4,
				 &(const struct smd_rdma_wish){.local = cards[0].gid}),
		&cards[0]);
	assert_ptr_equal(
		smd_rdma_port_choose(cards, 1, &(const struct smd_rdma_wish){.turn = 3}), &cards[0]);
}

/* A card for management, or a cloud's accelerated Ethernet, that servers are named by the address
 * of. */
static void infiniband_goes_before_the_routes_roce(void **state)
{
	struct smd_verbs_port cards[] = {
		{.name = "mlx5_an0",
			.number = 1,
			.ethernet = true,
			.network_bits = 96 + 24,
			.mbps = 100000,
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
		{.name = "mlx5_ib0", .number = 1, .mbps = 100000, .gid = {0xfe, 0x80, [15] = 1}},
		{.name = "mlx5_ib1", .number = 1, .mbps = 100000, .gid = {0xfe, 0x80, [15] = 2}},
	};
	static const struct smd_rdma_offer roce = {
		.ethernet = true, .gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}};
	struct smd_rdma_wish wish = {.local = cards[0].gid};

	(void)state;
	for (wish.turn = 0; wish.turn < 4; wish.turn++) {
		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[1 + wish.turn % 2]);
	}
	/* Whoever has InfiniBand too answers on what was offered, */
	wish.other = &roce;
	assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[0]);
	/* a connection that NCCL has bound stays there, and so does what the user names. */
	wish = (struct smd_rdma_wish){.local = cards[0].gid, .stays = true};
	assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[0]);
	wish = (struct smd_rdma_wish){.local = cards[0].gid, .devices = "mlx5_an0"};
	assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[0]);
	/* Old InfiniBand beside fast RoCE is not what the host was bought for. */
	cards[0].mbps = 400000;
	wish = (struct smd_rdma_wish){.local = cards[0].gid};
	for (wish.turn = 0; wish.turn < 4; wish.turn++) {
		assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[0]);
	}
	wish.local = NULL;
	assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[0]);
	cards[1].mbps = 0; /* it does not say, and counts as fast */
	assert_ptr_equal(smd_rdma_port_choose(cards, 3, &wish), &cards[1]);
}

/* Whoever is the first to offer can say one kind only, and so says one that the other end has. */
static void the_other_ends_kinds_are_heeded(void **state)
{
	const unsigned n = sizeof(ports) / sizeof(ports[0]);
	struct smd_rdma_wish wish = {.kinds = SMD_HELLO_ROCE};

	(void)state;
	for (wish.turn = 0; wish.turn < 4; wish.turn++) {
		assert_true(smd_rdma_port_choose(ports, n, &wish)->ethernet);
	}
	wish.kinds = SMD_HELLO_INFINIBAND;
	wish.local = ports[2].gid;
	assert_false(smd_rdma_port_choose(ports, n, &wish)->ethernet);
	assert_null(smd_rdma_port_choose(ports, NROCE, &wish));
	wish.kinds = SMD_HELLO_KINDS; /* as if nothing had been said */
	assert_false(smd_rdma_port_choose(ports, n, &wish)->ethernet);
	assert_ptr_equal(smd_rdma_port_choose(ports, NROCE, &wish), &ports[2]);
}

/* Of RoCE in another network namespace only where there is nothing else, as lanes take it. */
static void kinds_are_told(void **state)
{
	const unsigned n = sizeof(ports) / sizeof(ports[0]);
	struct smd_verbs_port cards[] = {ports[1], ports[3]};

	(void)state;
	assert_int_equal(smd_rdma_port_kinds(ports, n, ""), SMD_HELLO_KINDS);
	assert_int_equal(smd_rdma_port_kinds(ports, n, "mlx5_0"), SMD_HELLO_ROCE);
	assert_int_equal(smd_rdma_port_kinds(ports, n, "mlx5_3"), SMD_HELLO_INFINIBAND);
	assert_int_equal(smd_rdma_port_kinds(ports, n, "hns"), 0);
	assert_int_equal(smd_rdma_port_kinds(NULL, 0, ""), 0);
	cards[0].network_bits = 0;
	assert_int_equal(smd_rdma_port_kinds(cards, 2, ""), SMD_HELLO_INFINIBAND);
	assert_int_equal(smd_rdma_port_kinds(cards, 1, ""), SMD_HELLO_ROCE);
}

/* Cards as the connection manager finds them, of which one has no IP address. */
static const struct smd_verbs_port addressed[] = {
	{.name = "a",
		.number = 1,
		.network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 1},
		.address_bits = 96 + 24,
		.address = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
	{.name = "b", .number = 1, .network_bits = 64, .gid = {0xfe, 0x80, [15] = 2}},
	{.name = "c",
		.number = 1,
		.network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 3},
		.address_bits = 96 + 24,
		.address = {[10] = 0xff, [11] = 0xff, [12] = 10, 9, [15] = 1}},
	{.name = "d",
		.number = 1,
		.ethernet = true,
		.network_bits = 64,
		.gid = {0xfe, 0x80, [15] = 4}},
	{.name = "d",
		.number = 1,
		.ethernet = true,
		.network_bits = 96 + 24,
		.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, 8, [15] = 1}},
};

/* Of the server's network, by each port's mask; else by turns, however alike addresses are. */
static void the_connection_manager_leaves_by_an_address(void **state)
{
	static const struct {
		const char *devices;
		uint8_t server[16];
		int chosen[3]; /* of turns 0, 1, 2 */
	} cases[] = {
		{"a,b,c,d", {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}, {0, 0, 0}},
		{"a,b,c,d", {[10] = 0xff, [11] = 0xff, [12] = 10, 9, [15] = 9}, {2, 2, 2}},
		{"a,b,c,d", {[10] = 0xff, [11] = 0xff, [12] = 10, 8, [15] = 9}, {4, 4, 4}},
		{"a,b,c,d", {[10] = 0xff, [11] = 0xff, [12] = 10, 1, [15] = 9}, {0, 2, 4}},
		{"a,b", {[10] = 0xff, [11] = 0xff, [12] = 10, 9, [15] = 9}, {0, 0, 0}},
		{"a,b,c,d", {0xfe, 0x80, [15] = 9}, {3, 3, 3}},
		{"b", {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9}, {-1, -1, -1}},
		{"a,b,c", {0xfe, 0x80, [15] = 9}, {-1, -1, -1}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned turn = 0; turn < 3; turn++) {
			const struct smd_rdma_wish wish = {.devices = cases[i].devices,
				.server = cases[i].server,
				.turn = turn};
			const struct smd_verbs_port *port = smd_rdma_port_choose(
				addressed, sizeof(addressed) / sizeof(addressed[0]), &wish);

			assert_int_equal(
				port ? (int)(port - addressed) : -1, cases[i].chosen[turn]);
		}
	}
}

/* By the mask of the interface that has the address. */
static void networks_are_known_by_their_interfaces(void **state)
{
	struct ifaddrs *list;
	const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	const uint8_t elsewhere[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 1};

	(void)state;
	assert_int_equal(getifaddrs(&list), 0);
	assert_int_equal(smd_address_network_bits(list, loopback), 96 + 8);
	assert_int_equal(smd_address_network_bits(list, elsewhere), 0);
	freeifaddrs(list);
	assert_int_equal(smd_address_network_bits(NULL, loopback), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_are_named_as_for_nccl),
		cmocka_unit_test(the_best_port_is_taken),
		cmocka_unit_test(of_a_port_s_addresses_the_carrier_s_is_taken),
		cmocka_unit_test(cards_of_one_subnet_take_turns),
		cmocka_unit_test(turns_of_infiniband_begin_at_the_carriers_card),
		cmocka_unit_test(turns_of_who_listens_anywhere_begin_where_it_says),
		cmocka_unit_test(a_lane_that_stays_takes_no_turns),
		cmocka_unit_test(servers_begin_far_from_each_other),
		cmocka_unit_test(an_address_of_another_network_namespace_takes_no_turn),
		cmocka_unit_test(a_slow_card_takes_no_turn),
		cmocka_unit_test(infiniband_goes_before_the_routes_roce),
		cmocka_unit_test(the_other_ends_kinds_are_heeded),
		cmocka_unit_test(kinds_are_told),
		cmocka_unit_test(the_connection_manager_leaves_by_an_address),
		cmocka_unit_test(networks_are_known_by_their_interfaces),
	};

	return cmocka_run_group_tests_name("rdma ports", tests, NULL, NULL);
}
