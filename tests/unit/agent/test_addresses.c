/* By which address hosts reach each other. */
#include "orchestrator/runner/addresses.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "eth0.10@eth0" goes by eth0. */
static void take_below(struct smd_host_interface *interface)
{
	char *at = strchr(interface->name, '@');

	if (at) {
		*at = '\0';
		snprintf(interface->below[interface->nbelow++], SMD_FACTS_NAME_SIZE, "%s", at + 1);
	}
}

/* A host of "NAME SPEED ADDRESS/PREFIX" words; a loopback comes first. */
static struct smd_host_facts make_host(const char *name, const char *interfaces)
{
	struct smd_host_facts facts = {.interfaces = calloc(8, sizeof(struct smd_host_interface))};
	char copy[256], *rest = copy;

	snprintf(facts.name, sizeof(facts.name), "%s", name);
	snprintf(facts.network, sizeof(facts.network), "network of %s", name);
	snprintf(copy, sizeof(copy), "lo 0 127.0.0.1/8,%s", interfaces);
	for (char *word = strsep(&rest, ","); word && *word; word = strsep(&rest, ",")) {
		struct smd_host_interface *interface = &facts.interfaces[facts.ninterfaces];
		char address[64];

		assert_int_equal(sscanf(word, "%63s %u %63s", interface->name,
					 &interface->speed_mbps, address),
			3);
		assert_int_equal(smd_host_address_parse(address, &interface->addresses[0]), 0);
		interface->naddresses = 1;
		take_below(interface);
		interface->is_loopback = facts.ninterfaces == 0;
		facts.ninterfaces++;
	}
	return facts;
}

static void expect(
	struct smd_host_facts *hosts, size_t count, const char *wanted, const char *expected)
{
	const struct smd_host_facts *list[4] = {NULL};
	struct smd_host_rails chosen[4];
	struct smd_error error = {""};
	char text[256] = "";
	int ret;

	for (size_t i = 0; i < count; i++) {
		list[i] = &hosts[i];
	}
	ret = smd_addresses_choose(list, count, wanted, chosen, &error);
	for (size_t i = 0; i < count && !ret; i++) {
		for (size_t n = 0; n < chosen[i].count; n++) {
			strcat(text, n ? "+" : i ? " " : "");
			strcat(strcat(strcat(text, chosen[i].each[n].interface->name), "="),
				chosen[i].each[n].address->text);
		}
	}
	assert_string_equal(ret ? error.text : text, expected);
	for (size_t i = 0; i < count; i++) {
		smd_host_facts_clear(&hosts[i]);
	}
}

static void test_one_host_uses_its_loopback(void **state)
{
	struct smd_host_facts host = make_host("a", "eth0 1000 10.0.0.1/24");
	struct smd_host_facts wanted = make_host("a", "eth0 1000 10.0.0.1/24");
	struct smd_host_facts two[] = {
		make_host("a", "eth0 1000 10.0.0.1/24"), make_host("a", "eth0 1000 10.0.0.1/24")};

	(void)state;
	expect(&host, 1, NULL, "lo=127.0.0.1");
	expect(&wanted, 1, "eth0", "eth0=10.0.0.1");
	expect(two, 2, NULL, "lo=127.0.0.1 lo=127.0.0.1"); /* two agents on one machine */
}

static void test_the_fastest_common_network(void **state)
{
	struct smd_host_facts hosts[] = {
		make_host("a", "docker0 0 172.17.0.1/16,eth0 1000 192.168.1.1/24,ib0 100000 "
			       "10.1.0.1/16"),
		make_host("b", "docker0 0 172.17.0.1/16,ib1 100000 10.1.9.2/16,eth0 1000 "
			       "192.168.1.2/24")};
	struct smd_host_facts slow[] = {
		make_host("a", "eth0 1000 192.168.1.1/24,ib0 100000 10.1.0.1/16"),
		make_host("b", "ib1 100 10.1.9.2/16,eth0 1000 192.168.1.2/24")};
	struct smd_host_facts v6[] = {make_host("a", "eth0 0 fd00::1/64,eth1 0 10.0.0.1/24"),
		make_host("b", "eth0 0 fd00::2/64,eth1 0 10.0.0.2/24")};

	(void)state;
	expect(hosts, 2, NULL, "ib0=10.1.0.1 ib1=10.1.9.2");
	expect(slow, 2, NULL, "eth0=192.168.1.1 eth0=192.168.1.2");
	expect(v6, 2, NULL, "eth1=10.0.0.1 eth1=10.0.0.2");
}

/* The networks of cards that are as fast, in the same order on all hosts; each card once. */
static void test_several_cards(void **state)
{
	struct smd_host_facts two[] = {
		make_host("a",
			"eth0 1000 192.168.1.1/24,ib0 100000 10.1.0.1/16,ib1 100000 10.2.0.1/16"),
		make_host("b",
			"ib7 100000 10.2.9.2/16,ib5 50000 10.1.9.2/16,eth0 1000 192.168.1.2/24")};
	struct smd_host_facts v6[] = {
		make_host("a", "eth0 1000 10.0.0.1/24,eth0 1000 fd00::1/64,eth1 1000 fd01::1/64"),
		make_host("b", "eth0 1000 10.0.0.2/24,eth0 1000 fd00::2/64,eth1 1000 fd01::2/64")};
	struct smd_host_facts wanted[] = {
		make_host("a", "eth0 1000 10.0.0.1/24,eth1 1000 10.1.0.1/24,eth2 10 10.2.0.1/24"),
		make_host("b", "eth0 1000 10.0.0.2/24,eth1 1000 10.1.0.2/24,net2 10 10.2.0.2/24")};
	struct smd_host_facts one[] = {
		make_host("a", "eth0 1000 10.0.0.1/24,eth1 1000 10.1.0.1/24"),
		make_host("b", "eth0 1000 10.0.0.2/24,eth1 1000 10.1.0.2/24")};
	struct smd_host_facts twice[] = {
		make_host("a", "eth0 1000 10.0.0.1/24"), make_host("b", "eth0 1000 10.0.0.2/24")};

	(void)state;
	expect(two, 2, NULL, "ib1=10.2.0.1+ib0=10.1.0.1 ib7=10.2.9.2+ib5=10.1.9.2");
	expect(v6, 2, NULL, "eth0=10.0.0.1+eth1=fd01::1 eth0=10.0.0.2+eth1=fd01::2");
	expect(wanted, 2, "eth1,10.2.0.0/24",
		"eth1=10.1.0.1+eth2=10.2.0.1 eth1=10.1.0.2+net2=10.2.0.2");
	expect(one, 2, "eth1", "eth1=10.1.0.1 eth1=10.1.0.2");
	expect(twice, 2, "eth0,10.0.0.0/16",
		"host a: must have another link for each of eth0,10.0.0.0/16 (--interface), "
		"got that of eth0 twice");
}

/* Nobody knows how fast a tunnel is, a bridge of containers leads nowhere, a slow card holds up
 * others, and one of a host is no network of all. */
static void test_networks_that_are_no_rails(void **state)
{
	struct smd_host_facts hosts[] = {
		make_host("a", "eth0 1000 10.0.0.1/24,wg0 0 10.9.0.1/24,weave 1000 10.32.0.1/12,"
			       "eth1 1000 10.3.0.1/24,eth2 1000 10.4.0.1/24"),
		make_host("b", "eth0 1000 10.0.0.2/24,wg0 0 10.9.0.2/24,weave 1000 10.32.0.2/12,"
			       "eth1 100 10.3.0.2/24")};
	struct smd_host_facts vlans[] = {
		make_host("a", "bond0.10@bond0 1000 10.0.0.1/24,bond0.20@bond0 1000 10.1.0.1/24,"
			       "eth7 1000 10.2.0.1/24"),
		make_host("b", "eth0 1000 10.0.0.2/24,eth1 1000 10.1.0.2/24,eth2.5@eth0 1000 "
			       "10.2.0.2/24")};
	struct smd_host_facts unknown[] = {make_host("a", "eth0 0 10.0.0.1/24,eth1 0 10.1.0.1/24"),
		make_host("b", "eth0 0 10.0.0.2/24,eth1 0 10.1.0.2/24")};

	(void)state;
	expect(hosts, 2, NULL, "eth0=10.0.0.1 eth0=10.0.0.2");
	expect(vlans, 2, NULL, "bond0.10=10.0.0.1 eth0=10.0.0.2");
	expect(unknown, 2, NULL, "eth0=10.0.0.1 eth0=10.0.0.2");
}

static void test_hosts_behind_routers(void **state)
{
	struct smd_host_facts hosts[] = {
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("b", "eth0 1000 10.0.2.1/24")};

	(void)state;
	expect(hosts, 2, NULL, "eth0=10.0.1.1 eth0=10.0.2.1");
}

static void test_the_fastest_addresses_behind_routers(void **state)
{
	struct smd_host_facts fast[] = {
		make_host(
			"a", "eth0 1000 192.168.1.1/24,ib0 100000 10.0.1.1/24,eth1 10 10.9.0.1/24"),
		make_host("b", "eth9 25000 10.0.2.1/24,eth0 1000 192.168.2.1/24")};
	struct smd_host_facts v6[] = {
		make_host("a", "eth0 1000 fd00::1/64,eth1 1000 10.0.1.1/24,eth2 1000 10.0.3.1/24"),
		make_host("b", "eth0 1000 169.254.7.7/16,eth1 10 fd01::2/64,eth2 10 fe80::1/64")};

	(void)state;
	expect(fast, 2, NULL, "ib0=10.0.1.1 eth9=10.0.2.1");
	expect(v6, 2, NULL, "eth1=10.0.1.1 eth1=fd01::2");
}

/* A bridge of containers is said to be as fast as nothing else. */
static void test_bridges_of_containers_lead_nowhere(void **state)
{
	struct smd_host_facts bridges[] = {
		make_host("a", "docker0 10000 172.17.0.1/16,cni0 10000 10.88.0.1/16,eth0 1000 "
			       "10.0.1.1/24"),
		make_host("b", "virbr0 10000 192.168.122.1/24,br-5f03a9c1d2e4 10000 "
			       "172.18.0.1/16,eth0 1000 10.0.2.1/24")};
	struct smd_host_facts same[] = {
		make_host("a", "shared 10000 172.30.0.1/16,eth0 1000 10.0.1.1/24"),
		make_host("b", "other 10000 172.30.0.1/24,eth0 1000 10.0.2.1/24")};
	struct smd_host_facts none[] = {
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("b", "docker0 0 172.17.0.1/16")};

	(void)state;
	expect(bridges, 2, NULL, "eth0=10.0.1.1 eth0=10.0.2.1");
	expect(same, 2, NULL, "eth0=10.0.1.1 eth0=10.0.2.1");
	expect(none, 2, NULL,
		"host b: must have an interface to the other hosts that is up and has an address, "
		"got lo 127.0.0.1, docker0 172.17.0.1");
}

/* Docker calls its own br- and 12 hexadecimal digits; others are somebody's uplink. */
static void test_bridges_that_lead_to_the_network(void **state)
{
	static const char *const uplinks[] = {"br-ex", "br-lan", "br-5f03a9c1d2e",
		"br-5f03a9c1d2e4f", "br-5F03A9C1D2E4", "br-5f03a9c1d2eg", "br0", "br-"};

	(void)state;
	for (size_t i = 0; i < sizeof(uplinks) / sizeof(uplinks[0]); i++) {
		char text[64], chosen[64];

		snprintf(text, sizeof(text), "%s 25000 10.0.1.1/24,eth0 1000 192.168.1.1/24",
			uplinks[i]);
		snprintf(chosen, sizeof(chosen), "%s=10.0.1.1 eth0=10.0.2.1", uplinks[i]);

		struct smd_host_facts hosts[] = {
			make_host("a", text), make_host("b", "eth0 1000 10.0.2.1/24")};

		expect(hosts, 2, NULL, chosen);
	}
}

/* Two agents of one machine say the same addresses, and a third one is elsewhere. */
static void test_two_agents_of_a_machine_behind_a_router(void **state)
{
	struct smd_host_facts hosts[] = {make_host("a", "eth0 1000 10.0.1.1/24"),
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("b", "eth0 1000 10.0.2.1/24")};

	(void)state;
	expect(hosts, 3, NULL, "eth0=10.0.1.1 eth0=10.0.1.1 eth0=10.0.2.1");
}

static void test_what_is_wanted(void **state)
{
	struct smd_host_facts network[] = {
		make_host("a", "eth0 1000 10.0.1.1/24,eth1 10 10.7.0.1/24"),
		make_host("b", "eth0 1000 10.0.1.2/24,net9 10 10.7.3.2/24")};
	struct smd_host_facts absent[] = {
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("b", "eth1 1000 10.0.1.2/24")};
	struct smd_host_facts none[] = {make_host("a", ""), make_host("b", "eth1 0 10.0.1.2/24")};
	struct smd_host_facts bridges[] = {
		make_host("a", "docker0 10000 172.17.0.1/16"),
		make_host("b", "docker0 10000 172.17.0.1/16")};
	struct smd_host_facts others[] = {
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("b", "eth0 1000 10.0.1.2/24")};
	struct smd_host_facts one[] = {
		make_host("a", "eth0 1000 10.0.1.1/24"), make_host("a", "eth0 1000 10.0.1.1/24")};

	(void)state;
	expect(network, 2, "10.7.0.0/16", "eth1=10.7.0.1 net9=10.7.3.2");
	expect(bridges, 2, "docker0",
		"host b: must have an address of its own on docker0 (--interface), got 172.17.0.1, "
		"which host a has too: name an interface that leads to the other hosts, or a "
		"network that they are in");
	expect(others, 2, "lo",
		"host b: must have an address of its own on lo (--interface), got 127.0.0.1, which "
		"host a has too: name an interface that leads to the other hosts, or a network "
		"that they are in");
	expect(one, 2, "lo", "lo=127.0.0.1 lo=127.0.0.1");
	expect(absent, 2, "eth0",
		"host b: must have an interface eth0 (--interface) that is up and has an address, "
		"got lo 127.0.0.1, eth1 10.0.1.2");
	expect(none, 2, NULL,
		"host a: must have an interface to the other hosts that is up and has an address, "
		"got lo 127.0.0.1");
}

static void test_addresses_and_networks(void **state)
{
	static const char *const bad[] = {"", "10.0.0", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/",
		"fd00::1/129", "10.0.0.1/24x", "eth0", "1.2.3.4.5"};
	struct smd_host_address address, network;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(smd_host_address_parse(bad[i], &address), -EINVAL);
	}
	assert_int_equal(smd_host_address_parse("10.1.2.3", &address), 0);
	assert_int_equal(smd_host_address_parse("10.1.3.0/23", &network), 0);
	assert_true(smd_host_address_is_in(&address, &network));
	assert_int_equal(smd_host_address_parse("10.1.3.0/24", &network), 0);
	assert_false(smd_host_address_is_in(&address, &network));
	assert_int_equal(smd_host_address_parse("0.0.0.0/0", &network), 0);
	assert_true(smd_host_address_is_in(&address, &network));
	assert_int_equal(smd_host_address_parse("::/0", &network), 0);
	assert_false(smd_host_address_is_in(&address, &network));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_host_uses_its_loopback),
		cmocka_unit_test(test_the_fastest_common_network),
		cmocka_unit_test(test_several_cards),
		cmocka_unit_test(test_networks_that_are_no_rails),
		cmocka_unit_test(test_hosts_behind_routers),
		cmocka_unit_test(test_the_fastest_addresses_behind_routers),
		cmocka_unit_test(test_bridges_of_containers_lead_nowhere),
		cmocka_unit_test(test_bridges_that_lead_to_the_network),
		cmocka_unit_test(test_two_agents_of_a_machine_behind_a_router),
		cmocka_unit_test(test_what_is_wanted),
		cmocka_unit_test(test_addresses_and_networks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
