/*
 * The interfaces that NCCL's rules choose of a list, what a sysfs says about one, and that the
 * properties of every version agree and leave what is behind them alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/nccl_plugin/device/device.h"
#include "worker/nccl_plugin/net/options.h"

enum { ENTRIES_MAX = 24 };

struct entry {
	struct ifaddrs ifa;
	struct sockaddr_storage address;
	struct sockaddr_storage mask;
};

static struct entry entries[ENTRIES_MAX];
static unsigned nentries;

static int parse(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		out->ss_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
		out->ss_family = AF_INET6;
	}
	return out->ss_family;
}

/* Address NULL: of another family, which NCCL does not look at. */
static void add(const char *name, const char *address, bool running)
{
	struct entry *entry = &entries[nentries++];

	memset(entry, 0, sizeof(*entry));
	entry->ifa.ifa_name = (char *)name;
	entry->ifa.ifa_flags = running ? IFF_UP | IFF_RUNNING : IFF_UP;
	if (address) {
		bool v4 = parse(address, &entry->address) == AF_INET;

		entry->ifa.ifa_addr = (struct sockaddr *)&entry->address;
		parse(v4 ? "255.255.255.0" : "ffff:ffff:ffff:ffff::", &entry->mask);
		entry->ifa.ifa_netmask = (struct sockaddr *)&entry->mask;
	}
	if (nentries > 1) {
		entries[nentries - 2].ifa.ifa_next = &entry->ifa;
	}
}

static int set_up(void **state)
{
	(void)state;
	nentries = 0;
	add("lo", NULL, true);
	add("lo", "127.0.0.1", true);
	add("lo", "::1", true);
	add("docker0", "172.17.0.1", true);
	add("eth0", "10.0.0.1", true);
	add("eth0", "fd00::1", true);
	add("eth1", "10.0.1.1", false);
	add("eth10", "10.0.10.1", true);
	add("ens5", "fd00:0:0:5::1", true);
	add("virbr0", "192.168.122.1", true);
	return 0;
}

/* "eth0 ens5": what the rules choose, in order. */
static void choose(const char *names, const char *family, const char *comm_id, const char *expected)
{
	const struct smd_interface_rules rules = {names, family, comm_id};
	struct smd_interface out[SMD_INTERFACES_MAX];
	char got[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)] = "";
	unsigned count = smd_interfaces_choose(&entries[0].ifa, &rules, out);

	for (unsigned i = 0; i < count; i++) {
		strcat(got, i ? " " : "");
		strcat(got, out[i].name);
	}
	assert_string_equal(got, expected);
}

static void test_names(void **state)
{
	(void)state;
	choose("eth", NULL, NULL, "eth0 eth10");
	choose("eth1", NULL, NULL, "eth10"); /* eth1 is not running */
	choose("=eth1", NULL, NULL, "");
	choose("=eth0", NULL, NULL, "eth0");
	choose("=eth", NULL, NULL, "");
	choose("ens,lo", NULL, NULL, "lo ens5"); /* in the list's order */
	choose("=ens5,eth0", NULL, NULL, "eth0 ens5");
	choose("^docker,lo", NULL, NULL, "eth0 eth10 ens5 virbr0");
	choose("^eth", NULL, NULL, "lo docker0 ens5 virbr0");
	choose("^=eth0,lo", NULL, NULL, "docker0 eth10 ens5 virbr0");
	choose("wlan", NULL, NULL, ""); /* found or not at all */
}

static void test_odd_lists(void **state)
{
	(void)state;
	choose("eth0:1,ens5:", NULL, NULL, "eth0 ens5"); /* ports do not count */
	choose("=eth0:2", NULL, NULL, "eth0");
	choose(",,eth0,", NULL, NULL, "eth0");
	choose(",,", NULL, NULL, "lo docker0 eth0 eth10 ens5 virbr0");
	choose("^=", NULL, NULL, "");
	choose("e", NULL, NULL, "eth0 eth10 ens5"); /* one letter is no rule; so the default */
	choose("^", NULL, NULL, "eth0 eth10 ens5");
	choose("eth0 ", NULL, NULL, "");
}

static void test_families(void **state)
{
	(void)state;
	choose("e", "AF_INET", NULL, "eth0 eth10");
	choose("e", "AF_INET6", NULL, "eth0 ens5");
	choose("lo", "AF_INET6", NULL, ""); /* ::1 is never used */
	choose("eth", "IPv4", NULL, "eth0 eth10");
}

static void test_defaults(void **state)
{
	(void)state;
	choose(NULL, NULL, NULL, "eth0 eth10 ens5");
	choose("", NULL, NULL, "eth0 eth10 ens5");
	choose(NULL, NULL, "172.17.0.9:4000", "docker0");
	choose(NULL, NULL, "8.8.8.8:4000", "eth0 eth10 ens5");
	choose(NULL, NULL, "nonsense", "eth0 eth10 ens5");
	choose(NULL, NULL, "[fd00:0:0:5::7]:4000", "ens5");
	add("ibs1", "10.9.0.1", true);
	choose(NULL, NULL, "172.17.0.9:4000", "ibs1");
	nentries = 0;
	add("virbr0", "192.168.122.1", true);
	add("lo", "127.0.0.1", true);
	choose(NULL, NULL, NULL, "lo");
	add("docker0", "172.17.0.1", true);
	choose(NULL, NULL, NULL, "docker0");
	nentries = 0;
	add("virbr0", "192.168.122.1", true);
	choose(NULL, NULL, NULL, "virbr0");
}

static void test_many(void **state)
{
	char names[SMD_INTERFACES_MAX + 2][8];

	(void)state;
	nentries = 0;
	for (unsigned i = 0; i < SMD_INTERFACES_MAX + 2; i++) {
		snprintf(names[i], sizeof(names[i]), "eth%u", i);
		add(names[i], "10.0.0.1", true);
	}
	choose(NULL, NULL, NULL,
		"eth0 eth1 eth2 eth3 eth4 eth5 eth6 eth7 eth8 eth9 eth10 eth11 eth12 eth13 eth14 "
		"eth15");
}

/* ---- sysfs ---- */

static char sys[] = "/tmp/summand-nccl-sys-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", sys, path);
	for (char *slash = full + strlen(sys); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		(void)mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void link_to(const char *path, const char *target)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", sys, path);
	assert_int_equal(symlink(target, full), 0);
}

static struct smd_nccl_device device_of(const char *name, const char *hcas)
{
	struct smd_interface interface = {.length = sizeof(struct sockaddr_in)};
	struct smd_nccl_device device;

	snprintf(interface.name, sizeof(interface.name), "%s", name);
	interface.length = sizeof(struct sockaddr_in);
	smd_nccl_device_read(sys, &interface, 3, hcas, &device);
	return device;
}

static int make_sys(void **state)
{
	(void)state;
	strcpy(sys, "/tmp/summand-nccl-sys-XXXXXX");
	assert_non_null(mkdtemp(sys));
	put("devices/pci/0000:07:00.0/net/eth0/dev_port", "0\n");
	put("devices/pci/0000:08:00.0/net/ib0/dev_port", "1\n");
	put("class/net/eth0/speed", "25000\n");
	link_to("class/net/eth0/device", "../../../devices/pci/0000:07:00.0");
	put("devices/pci/0000:07:00.0/vendor", "0x1ae0\n");
	put("class/net/ib0/speed", "-1\n");
	put("class/net/veth0/ifindex", "4\n");
	put("class/infiniband/rocep7s0/ports/1/gid_attrs/ndevs/0", "");
	put("class/infiniband/rocep7s0/ports/1/gid_attrs/ndevs/1", "eth7\n");
	put("class/infiniband/rocep7s0/ports/2/gid_attrs/ndevs/0", "eth0\n");
	put("class/infiniband/rocep7s0/node_guid", "98a9:b7ff:fe12:3456\n");
	put("class/infiniband/ibp8s0/ports/1/gid_attrs/ndevs/0", "");
	link_to("class/infiniband/ibp8s0/device", "../../../devices/pci/0000:08:00.0");
	put("class/infiniband/ibp8s0/ports/2/rate", "400 Gb/sec (4X NDR)\n");
	put("class/infiniband/rocep7s0/ports/1/rate", "0 Gb/sec (4X SDR)\n"); /* as one that is down */
	put("class/net/eth7/speed", "25000\n");
	return 0;
}

static int remove_sys(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", sys);
	return system(command);
}

static int make_both(void **state)
{
	set_up(state);
	return make_sys(state);
}

static void test_device(void **state)
{
	struct smd_nccl_device device = device_of("eth0", "");

	(void)state;
	assert_string_equal(device.name, "eth0");
	assert_non_null(strstr(device.pci_path, "/devices/pci/0000:07:00.0"));
	assert_int_equal(device.speed, 25000);
	assert_string_equal(device.rdma_name, "rocep7s0");
	assert_int_equal(device.port, 2);
	assert_true(device.guid == 0x98a9b7fffe123456u);
	assert_int_equal(device.vendor, 0x1ae0);
	assert_int_equal(smd_net_sockets_default(&device), 4);
	device = device_of("ib0", ""); /* by its PCI device */
	assert_int_equal(smd_net_sockets_default(&device), 1);
	assert_string_equal(device.rdma_name, "ibp8s0");
	assert_int_equal(device.port, 2);
	assert_int_equal(device.speed, 400000); /* its port's, as the interface does not say */
	assert_int_equal(device.guid, 3);       /* its device does not say */
	device = device_of("ib0", NULL);        /* TCP only */
	assert_int_equal(device.speed, 10000);
	device = device_of("eth7", ""); /* the other port of that card */
	assert_int_equal(device.port, 1);
	assert_int_equal(device.speed, 25000);
	assert_true(device.guid == 0x98a9b7fffe123456u);
	device = device_of("eth0", NULL);
	assert_int_equal(device.guid, 3);
	assert_string_equal(device.rdma_name, "");
	assert_int_equal(device.port, 0);
	device = device_of("veth0", "");
	assert_string_equal(device.pci_path, "");
	assert_string_equal(device.rdma_name, "");
	assert_int_equal(device.speed, 10000);
}

static void test_hcas(void **state)
{
	char names[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)];

	(void)state;
	assert_true(smd_hca_allowed("", "mlx5_0", 1));
	assert_true(smd_hca_allowed("mlx5", "mlx5_0", 1));
	assert_true(smd_hca_allowed("mlx5_1,mlx5_0:2", "mlx5_0", 2));
	assert_false(smd_hca_allowed("mlx5_1,mlx5_0:2", "mlx5_0", 1));
	assert_false(smd_hca_allowed("=mlx5", "mlx5_0", 1));
	assert_true(smd_hca_allowed("=mlx5_0:1", "mlx5_0", 1));
	assert_false(smd_hca_allowed("^mlx5_0", "mlx5_0", 1));
	assert_true(smd_hca_allowed("^mlx5_0:1", "mlx5_0", 2));
	assert_true(smd_hca_allowed("^=mlx5_1", "mlx5_10", 1));

	/* Of the list's interfaces eth0 is on rocep7s0's second port, ib0 on ibp8s0. */
	add("ib0", "10.8.0.1", true);
	smd_nccl_devices_of_hcas(sys, &entries[0].ifa, "rocep7s0", names);
	assert_string_equal(names, "=eth0");
	smd_nccl_devices_of_hcas(sys, &entries[0].ifa, "rocep7s0:1", names);
	assert_string_equal(names, "");
	smd_nccl_devices_of_hcas(sys, &entries[0].ifa, "roce,ib", names);
	assert_string_equal(names, "=eth0,ib0");
	smd_nccl_devices_of_hcas(sys, &entries[0].ifa, "^rocep7s0", names);
	assert_string_equal(names, "=ib0");
	assert_string_equal(device_of("eth0", "ibp8s0").rdma_name, ""); /* it is there for TCP */
	assert_int_equal(device_of("eth0", "ibp8s0").port, 0);
}

/* ---- properties ---- */

/* Each version writes all of its own, from whatever was there, and nothing behind it. */
#define CHECK_PROPS(version)                                                                       \
	do {                                                                                       \
		struct {                                                                           \
			struct nccl_props_##version props;                                         \
			uint8_t behind[64];                                                        \
		} a, b;                                                                            \
                                                                                                   \
		memset(&a, 0x55, sizeof(a));                                                       \
		memset(&b, 0xaa, sizeof(b));                                                       \
		assert_int_equal(smd_nccl_device_props_##version(0, &a.props), NCCL_SUCCESS);      \
		assert_int_equal(smd_nccl_device_props_##version(0, &b.props), NCCL_SUCCESS);      \
		assert_string_equal(a.props.name, smd_nccl_device(0)->name);                       \
		assert_int_equal(a.props.speed, smd_nccl_device(0)->speed);                        \
		assert_int_equal(a.props.ptr_support, NCCL_PTR_HOST);                              \
		assert_true(a.props.max_comms > 0 && a.props.max_recvs > 0);                       \
		assert_true(a.props.guid == b.props.guid && a.props.port == b.props.port);         \
		assert_true(a.props.latency == b.props.latency);                                   \
		for (size_t i = 0; i < sizeof(a.behind); i++) {                                    \
			assert_int_equal(a.behind[i], 0x55);                                       \
		}                                                                                  \
		assert_int_equal(                                                                  \
			smd_nccl_device_props_##version(-1, &a.props), NCCL_INVALID_ARGUMENT);     \
		assert_int_equal(smd_nccl_device_props_##version(smd_nccl_devices(), &a.props),    \
			NCCL_INVALID_ARGUMENT);                                                    \
	} while (0)

static void test_properties(void **state)
{
	struct nccl_props_v12 props;

	(void)state;
	if (smd_nccl_devices() == 0) {
		skip(); /* a machine without any interface */
	}
	CHECK_PROPS(v6);
	CHECK_PROPS(v8);
	CHECK_PROPS(v9);
	CHECK_PROPS(v11);
	CHECK_PROPS(v12);
	assert_int_equal(smd_nccl_device_props_v12(0, &props), NCCL_SUCCESS);
	assert_int_equal(props.vprops.ndevs, 1);
	assert_int_equal(props.vprops.devs[0], 0);
	assert_true(props.max_p2p_bytes > 0 && props.max_p2p_bytes <= NCCL_NET_BYTES_MAX);
	assert_true(props.max_coll_bytes > 0 && props.max_coll_bytes <= NCCL_NET_BYTES_MAX);
	assert_int_equal(props.rail, -1);
	assert_int_equal(props.plane, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_names, set_up),
		cmocka_unit_test_setup(test_odd_lists, set_up),
		cmocka_unit_test_setup(test_families, set_up),
		cmocka_unit_test_setup(test_defaults, set_up),
		cmocka_unit_test_setup(test_many, set_up),
		cmocka_unit_test_setup_teardown(test_device, make_sys, remove_sys),
		cmocka_unit_test_setup_teardown(test_hcas, make_both, remove_sys),
		cmocka_unit_test(test_properties),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
