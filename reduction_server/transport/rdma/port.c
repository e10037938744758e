/* Chooses ports. */
#include "reduction_server/transport/rdma/port.h"

#include <arpa/inet.h>
#include <string.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/wire/message.h"

#define SCORE_KIND  2000u /* above all else */
#define SCORE_LOCAL 1000u /* above that of any address of the other end, */
#define SCORE_HERE  200u  /* as this is, with which it is less than that */
#define SCORE_NEAR  2u    /* above that of any other address */
#define GID_SIZE    16
#define USUAL_PORT  2222u /* a server's, which alone on its host begins with the first */
/* A port of less than one so-manieth of another's speed takes no turns with it: as each operation
 * is dealt to all lanes alike, all would be as slow. */
#define SLOWER 2u

/* ---- names ---- */

static bool element_names(
	const char *element, size_t length, bool exact, const char *device, unsigned port)
{
	const char *colon = memchr(element, ':', length);
	size_t name = colon ? (size_t)(colon - element) : length;
	char number[8] = "";
	uint64_t wanted = port;

	if (colon && length - name - 1 < sizeof(number)) {
		memcpy(number, colon + 1, length - name - 1);
	}
	if (colon && (smd_parse_number(number, 1, UINT8_MAX, &wanted) || wanted != port)) {
		return false;
	}
	return strncmp(element, device, name) == 0 && (!exact || device[name] == '\0');
}

bool smd_rdma_port_is_named(const char *list, const char *device, unsigned port)
{
	bool leaves_out = *list == '^';
	bool named = false;
	bool exact;

	list += leaves_out;
	exact = *list == '=';
	list += exact;
	while (*list) {
		size_t length = strcspn(list, ",");

		named |= length && element_names(list, length, exact, device, port);
		list += length + (list[length] == ',');
	}
	return named != leaves_out;
}

/* ---- addresses ---- */

bool smd_rdma_port_listens(const char *address, const char *root, struct smd_rdma_way *out)
{
	static const uint8_t any[2][16] = {{0}, {[10] = 0xff, [11] = 0xff}};
	struct addrinfo *list;
	bool known;

	*out = (struct smd_rdma_way){.interface = ""};
	if (smd_address_resolve(address, 0, &list, NULL)) {
		return false; /* listening says so */
	}
	known = smd_address_bytes(smd_address_choose(list)->ai_addr, out->local);
	freeaddrinfo(list);
	if (!known || smd_address_bytes_stay_here(out->local)) {
		return false;
	}
	out->anywhere = memcmp(out->local, any[0], 16) == 0 || memcmp(out->local, any[1], 16) == 0;
	if (out->anywhere && !smd_bandwidth_interface(address, root, out->interface)) {
		out->interface[0] = '\0';
	}
	return true;
}

static uint32_t bits_reversed(uint32_t bits)
{
	uint32_t reversed = 0;

	for (unsigned i = 0; i < 32; i++) {
		reversed |= (bits >> i & 1) << (31 - i);
	}
	return reversed;
}

/* Numbers that follow each other, of addresses or of ports, halve what is between those before: two
 * are at 0 and 1/2, and four at quarters. So they share no card that they need not, however many
 * shards each has. */
uint32_t smd_rdma_port_first(const char *addresses)
{
	char address[SMD_ADDRESS_LONGEST];
	uint8_t bytes[16] = {0};
	char host[256];
	uint16_t port = 0;
	uint32_t number;
	struct addrinfo *list;

	smd_addresses_get(addresses, 0, address);
	if (smd_parse_endpoint(address, host, sizeof(host), &port) ||
		smd_address_resolve(address, 0, &list, NULL)) {
		return 0; /* listening says so */
	}
	(void)smd_address_bytes(smd_address_choose(list)->ai_addr, bytes);
	freeaddrinfo(list);
	memcpy(&number, bytes + 12, sizeof(number));
	return bits_reversed(ntohl(number) + port - USUAL_PORT);
}

/* ---- the best ---- */

/* Bits that both begin with. */
static unsigned common_bits(const uint8_t a[GID_SIZE], const uint8_t b[GID_SIZE])
{
	unsigned bits = 0;

	while (bits < 8 * GID_SIZE && !((a[bits / 8] ^ b[bits / 8]) >> (7 - bits % 8) & 1)) {
		bits++;
	}
	return bits;
}

/* All ports of the other end's network are as good, however near their numbers are. */
static unsigned network_bits_in_common(
	const struct smd_verbs_port *port, const uint8_t other[GID_SIZE])
{
	unsigned bits = common_bits(port->gid, other);

	return port->network_bits && bits > port->network_bits ? port->network_bits : bits;
}

const uint8_t *smd_rdma_port_address(const struct smd_verbs_port *port)
{
	return port->ethernet ? port->gid : port->address;
}

static bool port_has_address(const struct smd_verbs_port *port, const uint8_t address[GID_SIZE])
{
	return memcmp(smd_rdma_port_address(port), address, GID_SIZE) == 0;
}

static bool is_ipv4(const uint8_t address[GID_SIZE])
{
	static const uint8_t begins[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(address, begins, sizeof(begins)) == 0;
}

static bool is_of_neighbours(const uint8_t address[GID_SIZE])
{
	return address[0] == 0xfe && address[1] == 0x80;
}

/* From an address of its version: IPv4 or IPv6. */
static bool port_can_reach(const struct smd_verbs_port *port, const uint8_t server[GID_SIZE])
{
	static const uint8_t none[GID_SIZE];

	return !port_has_address(port, none) &&
	       is_ipv4(smd_rdma_port_address(port)) == is_ipv4(server);
}

static bool port_is_on_network_of(const struct smd_verbs_port *port, const uint8_t server[GID_SIZE])
{
	unsigned bits = port->ethernet ? port->network_bits : port->address_bits;

	return bits && common_bits(smd_rdma_port_address(port), server) >= bits;
}

static bool port_is_of_route(const struct smd_verbs_port *port, const struct smd_rdma_wish *wish)
{
	return (wish->local && port_has_address(port, wish->local)) ||
	       (wish->interface && *wish->interface &&
		       strcmp(port->interface, wish->interface) == 0);
}

/* RoCE's address is an interface's, which may be in another network namespace than this process: the
 * kernel shows it all the same, and finds no way from it. */
static bool port_is_here(const struct smd_verbs_port *port)
{
	return !port->ethernet || port->network_bits > 0;
}

static bool wish_names(const struct smd_rdma_wish *wish)
{
	return wish->devices && *wish->devices;
}

static uint16_t port_kind(const struct smd_verbs_port *port)
{
	return port->ethernet ? SMD_HELLO_ROCE : SMD_HELLO_INFINIBAND;
}

static bool port_will_do(const struct smd_verbs_port *port, const struct smd_rdma_wish *wish)
{
	return (!wish_names(wish) ||
		       smd_rdma_port_is_named(wish->devices, port->name, port->number)) &&
	       (!wish->other || wish->other->ethernet == port->ethernet) &&
	       (!wish->server || port_can_reach(port, wish->server)) &&
	       (!wish->kinds || wish->kinds & port_kind(port));
}

/* Of ports of other network namespaces only for want of others. */
uint16_t smd_rdma_port_kinds(const struct smd_verbs_port *ports, unsigned n, const char *devices)
{
	const struct smd_rdma_wish wish = {.devices = devices};
	uint16_t all = 0;
	uint16_t here = 0;

	for (unsigned i = 0; i < n; i++) {
		if (port_will_do(&ports[i], &wish)) {
			all |= port_kind(&ports[i]);
			here |= port_is_here(&ports[i]) ? port_kind(&ports[i]) : 0;
		}
	}
	return here ? here : all;
}

/* 0: it will not do. */
static unsigned port_score(
	const struct smd_verbs_port *port, const struct smd_rdma_wish *wish, bool infiniband)
{
	unsigned score = 1;

	if (!port_will_do(port, wish)) {
		return 0;
	}
	if (infiniband && !port->ethernet) {
		score += SCORE_KIND;
	}
	if (port_is_here(port)) {
		score += SCORE_HERE;
	}
	/* InfiniBand's routes say little: often one of a host's cards alone has an IP address, or
	 * all are in one subnet and the first is taken. */
	if (!wish_names(wish) && port->ethernet && port_is_of_route(port, wish)) {
		score += SCORE_LOCAL;
	}
	if (wish->other) {
		return score + network_bits_in_common(port, wish->other->gid);
	}
	if (wish->server && port_is_on_network_of(port, wish->server)) {
		score += SCORE_NEAR;
	}
	/* An address that only neighbours on the same wire can reach is for want of another; a gid
	 * of InfiniBand is no such address. */
	return score +
	       !((wish->server || port->ethernet) && is_of_neighbours(smd_rdma_port_address(port)));
}

/* One of two addresses of a port is enough. */
static bool same_port(const struct smd_verbs_port *a, const struct smd_verbs_port *b)
{
	return strcmp(a->name, b->name) == 0 && a->number == b->number;
}

/*
 * Whether InfiniBand goes before RoCE. Where a host has both it was bought for this, and the
 * carrier's way, by Ethernet, says nothing of it: that card is often one for management, and a
 * cloud's may pass no RoCE at all. But where it is much slower than a RoCE card it is not.
 */
static bool infiniband_is_first(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish)
{
	uint32_t fastest[2] = {0, 0}; /* InfiniBand's, RoCE's */
	bool there = false;

	if (wish_names(wish) || wish->stays) {
		return false;
	}
	for (unsigned i = 0; i < n; i++) {
		bool ethernet = ports[i].ethernet;
		/* what is not known counts as fast */
		uint32_t mbps = ports[i].mbps || ethernet ? ports[i].mbps : UINT32_MAX;

		if (!port_will_do(&ports[i], wish) || !port_is_here(&ports[i])) {
			continue;
		}
		there |= !ethernet;
		fastest[ethernet] = mbps > fastest[ethernet] ? mbps : fastest[ethernet];
	}
	return there && fastest[0] >= fastest[1] / SLOWER;
}

/* Which ports are the best for a wish, and so take turns. */
struct choice {
	const struct smd_rdma_wish *wish;
	bool infiniband;  /* goes before RoCE */
	unsigned score;   /* 0: there are none */
	uint32_t slowest; /* in Mbit/s; who names devices has them all, however slow */
};

static struct choice choice_make(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish)
{
	struct choice choice = {.wish = wish, .infiniband = infiniband_is_first(ports, n, wish)};
	uint32_t fastest = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned score = port_score(&ports[i], wish, choice.infiniband);

		if (score > choice.score) {
			choice.score = score;
			fastest = 0;
		}
		if (score == choice.score && ports[i].mbps > fastest) {
			fastest = ports[i].mbps;
		}
	}
	choice.slowest = wish_names(wish) ? 0 : fastest / SLOWER;
	return choice;
}

/* One whose speed is not known counts as fast. */
static bool choice_has(const struct choice *choice, const struct smd_verbs_port *port)
{
	return choice->score &&
	       port_score(port, choice->wish, choice->infiniband) == choice->score &&
	       (port->mbps == 0 || port->mbps >= choice->slowest);
}

/* The `turn`th of them, from 0 on, or where there are fewer the last; how many that took. */
static unsigned choice_find(const struct choice *choice, const struct smd_verbs_port *ports,
	unsigned n, unsigned turn, const struct smd_verbs_port **out)
{
	unsigned found = 0;

	*out = NULL;
	for (unsigned i = 0; i < n && found <= turn; i++) {
		if (choice_has(choice, &ports[i]) && (!*out || !same_port(*out, &ports[i]))) {
			*out = &ports[i];
			found++;
		}
	}
	return found;
}

/* Of a port's addresses the carrier's own goes before others, also where the user has named the port: RoCE
 * has one for each VLAN. */
static const struct smd_verbs_port *choice_address(const struct choice *choice,
	const struct smd_verbs_port *ports, unsigned n, const struct smd_verbs_port *port)
{
	for (unsigned i = 0; i < n; i++) {
		if (same_port(&ports[i], port) && port_will_do(&ports[i], choice->wish) &&
			port_is_of_route(&ports[i], choice->wish)) {
			return &ports[i];
		}
	}
	return port;
}

/* The how-manieth of those that take turns is by the carrier's own address; false: none is. */
static bool choice_find_own(
	const struct choice *choice, const struct smd_verbs_port *ports, unsigned n, unsigned *out)
{
	const uint8_t *local = choice->wish->local;
	const struct smd_verbs_port *own = NULL;
	const struct smd_verbs_port *last = NULL;

	for (unsigned i = 0; local && !own && i < n; i++) {
		own = port_has_address(&ports[i], local) ? &ports[i] : NULL;
	}
	*out = 0;
	for (unsigned i = 0; own && i < n; i++) {
		if (!choice_has(choice, &ports[i]) || (last && same_port(last, &ports[i]))) {
			continue;
		}
		last = &ports[i];
		if (same_port(last, own)) {
			return true;
		}
		++*out;
	}
	return false;
}

/* Of so many that take turns, the one whose turn it is. */
static unsigned choice_turn(
	const struct choice *choice, const struct smd_verbs_port *ports, unsigned n, unsigned found)
{
	const struct smd_rdma_wish *wish = choice->wish;
	unsigned own;

	if (!wish->anywhere && choice_find_own(choice, ports, n, &own)) {
		return wish->stays ? own : (own + wish->turn) % found;
	}
	return (unsigned)(((uint64_t)wish->first * found >> 32) + wish->turn) % found;
}

const struct smd_verbs_port *smd_rdma_port_choose(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish)
{
	const struct choice choice = choice_make(ports, n, wish);
	const struct smd_verbs_port *port;
	unsigned found = choice_find(&choice, ports, n, n, &port);

	if (found) {
		choice_find(&choice, ports, n, choice_turn(&choice, ports, n, found), &port);
		port = choice_address(&choice, ports, n, port);
	}
	return port;
}
