/*
 * Cards that are fast and slow: lanes take turns among a server's addresses behind the fast ones.
 * The host's interfaces and their speeds are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/origin.h"

enum { MOST = 4 };

struct card {
	const char *name;
	const char *address; /* on a network of 24 bits */
	uint32_t mbps;       /* 0: it does not say */
};

static const struct card *cards;
static struct ifaddrs entries[MOST];
static struct sockaddr_in addresses[MOST];
static struct sockaddr_in mask;

int __wrap_getifaddrs(struct ifaddrs **out);
void __wrap_freeifaddrs(struct ifaddrs *list);
uint32_t __wrap_smd_bandwidth_of_interface(const char *interface, const char *root);

int __wrap_getifaddrs(struct ifaddrs **out)
{
	unsigned n = 0;

	mask = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffffff00)};
	for (; cards[n].name; n++) {
		addresses[n] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(cards[n].address)};
		entries[n] = (struct ifaddrs){
			.ifa_next = cards[n + 1].name ? &entries[n + 1] : NULL,
			.ifa_name = (char *)cards[n].name,
			.ifa_flags = IFF_UP | IFF_RUNNING |
				     (strcmp(cards[n].name, "lo") ? 0 : IFF_LOOPBACK),
			.ifa_addr = (struct sockaddr *)&addresses[n],
			.ifa_netmask = (struct sockaddr *)&mask,
		};
	}
	*out = entries;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

uint32_t __wrap_smd_bandwidth_of_interface(const char *interface, const char *root)
{
	unsigned n = 0;

	(void)root;
	while (strcmp(cards[n].name, interface) != 0) {
		n++;
	}
	return cards[n].mbps;
}

/* By the server's address on each card's network, in the order of its list. */
static void expect_turns(const struct card *of, const char *const expected[3])
{
	char address[SMD_ADDRESS_LONGEST];

	cards = of;
	for (uint32_t turn = 0; turn < 3; turn++) {
		assert_true(smd_origin_take_turn(
			"10.0.1.9:1+10.0.2.9:2+10.0.3.9:3+127.0.0.1:4", 0, turn, address));
		assert_string_equal(address, expected[turn]);
	}
}

static void a_card_of_less_than_half_the_fastest_takes_no_turn(void **state)
{
	static const struct card managed[] = {{"eth0", "10.0.1.5", 10000},
		{"mlx0", "10.0.2.5", 100000}, {"mlx1", "10.0.3.5", 100000}, {NULL, NULL, 0}};
	static const struct card half[] = {{"mlx0", "10.0.1.5", 100000},
		{"mlx1", "10.0.2.5", 50000}, {"mlx2", "10.0.3.5", 49999}, {NULL, NULL, 0}};

	(void)state;
	expect_turns(managed, (const char *const[]){"10.0.2.9:2", "10.0.3.9:3", "10.0.2.9:2"});
	expect_turns(half, (const char *const[]){"10.0.1.9:1", "10.0.2.9:2", "10.0.1.9:1"});
}

/* Virtual cards do not say how fast they are. */
static void who_says_nothing_counts_as_fast(void **state)
{
	static const struct card silent[] = {{"eth0", "10.0.1.5", 0}, {"mlx0", "10.0.2.5", 100000},
		{"mlx1", "10.0.3.5", 10000}, {NULL, NULL, 0}};

	(void)state;
	expect_turns(silent, (const char *const[]){"10.0.1.9:1", "10.0.2.9:2", "10.0.1.9:1"});
}

static void loopback_takes_one_where_nothing_else_is_near(void **state)
{
	static const struct card with_lo[] = {
		{"lo", "127.0.0.1", 0}, {"eth0", "10.0.1.5", 100}, {NULL, NULL, 0}};
	static const struct card alone[] = {{"lo", "127.0.0.1", 0}, {NULL, NULL, 0}};

	(void)state;
	expect_turns(with_lo, (const char *const[]){"10.0.1.9:1", "10.0.1.9:1", "10.0.1.9:1"});
	expect_turns(alone, (const char *const[]){"127.0.0.1:4", "127.0.0.1:4", "127.0.0.1:4"});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_card_of_less_than_half_the_fastest_takes_no_turn),
		cmocka_unit_test(who_says_nothing_counts_as_fast),
		cmocka_unit_test(loopback_takes_one_where_nothing_else_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
