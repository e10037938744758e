/* Chooses ports. */
#include "reduction_server/transport/rdma/port.h"

#include <string.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/transport/address.h"

#define SCORE_LOCAL 1000u /* above that of any address of the other end */
#define GID_SIZE    16

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

enum smd_rdma_listens smd_rdma_port_listens(const char *address, uint8_t local[16])
{
	static const uint8_t any[2][16] = {{0}, {[10] = 0xff, [11] = 0xff}};
	struct addrinfo *list;
	bool known;

	if (smd_address_resolve(address, 0, &list, NULL)) {
		return SMD_RDMA_LISTENS_NOWHERE; /* listening says so */
	}
	known = smd_address_bytes(smd_address_choose(list)->ai_addr, local);
	freeaddrinfo(list);
	if (!known || smd_address_bytes_stay_here(local)) {
		return SMD_RDMA_LISTENS_NOWHERE;
	}
	return memcmp(local, any[0], 16) == 0 || memcmp(local, any[1], 16) == 0
		       ? SMD_RDMA_LISTENS_ANYWHERE
		       : SMD_RDMA_LISTENS_AT;
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

/* 0: it will not do. */
static unsigned port_score(const struct smd_verbs_port *port, const struct smd_rdma_wish *wish)
{
	bool named = wish->devices && *wish->devices;
	unsigned score = 1;

	if ((named && !smd_rdma_port_is_named(wish->devices, port->name, port->number)) ||
		(wish->other && wish->other->ethernet != port->ethernet)) {
		return 0;
	}
	if (!named && wish->local && memcmp(port->gid, wish->local, GID_SIZE) == 0) {
		score += SCORE_LOCAL;
	}
	if (wish->other) {
		return score + network_bits_in_common(port, wish->other->gid);
	}
	/* An address that only neighbours on the same wire can reach is for want of another. */
	return score + !(port->ethernet && port->gid[0] == 0xfe && port->gid[1] == 0x80);
}

/* One of two addresses of a port is enough. */
static bool same_port(const struct smd_verbs_port *a, const struct smd_verbs_port *b)
{
	return strcmp(a->name, b->name) == 0 && a->number == b->number;
}

const struct smd_verbs_port *smd_rdma_port_choose(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish)
{
	const struct smd_verbs_port *last = NULL;
	unsigned best = 0;
	unsigned nbest = 0;
	unsigned turn;

	for (unsigned i = 0; i < n; i++) {
		unsigned score = port_score(&ports[i], wish);

		if (score > best) {
			best = score;
			nbest = 0;
			last = NULL;
		}
		if (score && score == best && (!last || !same_port(last, &ports[i]))) {
			last = &ports[i];
			nbest++;
		}
	}
	turn = nbest ? wish->turn % nbest : 0;
	last = NULL;
	for (unsigned i = 0; nbest && i < n; i++) {
		if (port_score(&ports[i], wish) == best && (!last || !same_port(last, &ports[i]))) {
			last = &ports[i];
			if (turn-- == 0) {
				break;
			}
		}
	}
	return last;
}
