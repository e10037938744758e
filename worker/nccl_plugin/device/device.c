/* Reads the network devices, and tells NCCL their properties. */
#include "worker/nccl_plugin/device/device.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/libsummand/config.h"
#include "worker/nccl_plugin/abi/argument.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/device/gdr.h"

#define SPEED_DEFAULT 10000 /* Mbit/s, where the system does not know; NCCL's too */
#define COMMS_MAX     65536

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct smd_nccl_device devices[SMD_INTERFACES_MAX];
static int ndevices;
static bool takes_device_memory;

/* ---- sysfs ---- */

/* The first line of a file. False: there is none. */
static bool read_line(const char *path, char *out, int size)
{
	FILE *file = fopen(path, "re");
	bool got;

	if (!file) {
		return false;
	}
	got = fgets(out, size, file) != NULL;
	fclose(file);
	if (got) {
		out[strcspn(out, "\n")] = '\0';
	}
	return got && *out;
}

static int read_number(const char *path, int fallback)
{
	char line[32];

	return read_line(path, line, sizeof(line)) ? (int)strtol(line, NULL, 0) : fallback;
}

/* Whether one of the port's GIDs is of the interface: RoCE. */
static bool port_has_interface(const char *port, const char *interface)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs", port);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		char file[PATH_MAX];
		char name[64];

		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) <
			(int)sizeof(file)) {
			found = read_line(file, name, sizeof(name)) && strcmp(name, interface) == 0;
		}
	}
	if (dir) {
		closedir(dir);
	}
	return found;
}

/* The port of the verbs device that the interface is on; 0: none. */
static int find_port(const char *sys, const char *verbs, const char *interface)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int port = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports", sys, verbs);
	dir = opendir(path);
	while (dir && port == 0 && (entry = readdir(dir))) {
		char file[PATH_MAX];

		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) <
				(int)sizeof(file) &&
			port_has_interface(file, interface)) {
			port = atoi(entry->d_name);
		}
	}
	if (dir) {
		closedir(dir);
	}
	if (port == 0) { /* InfiniBand: the interface is of the same PCI device */
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s/dev_port", sys,
			verbs, interface);
		port = read_number(path, -1) + 1;
	}
	return port;
}

/* "98a9:b7ff:fe12:3456": of the verbs device, alike for all of its ports; 0: unknown. */
static uint64_t read_guid(const char *sys, const char *verbs)
{
	unsigned words[4];
	char path[PATH_MAX];
	char line[32];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/node_guid", sys, verbs);
	if (!read_line(path, line, sizeof(line)) ||
		sscanf(line, "%4x:%4x:%4x:%4x", &words[0], &words[1], &words[2], &words[3]) != 4) {
		return 0;
	}
	return (uint64_t)words[0] << 48 | (uint64_t)words[1] << 32 | (uint64_t)words[2] << 16 |
	       words[3];
}

static void find_verbs(const char *sys, const char *hcas, struct smd_nccl_device *device)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/infiniband", sys);
	dir = opendir(path);
	while (dir && device->port == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.') {
			continue;
		}
		device->port = find_port(sys, entry->d_name, device->name);
		if (device->port && !smd_hca_allowed(hcas, entry->d_name, device->port)) {
			device->port = 0;
		}
		if (device->port) {
			snprintf(device->rdma_name, sizeof(device->rdma_name), "%.63s",
				entry->d_name);
		}
	}
	if (dir) {
		closedir(dir);
	}
}

/* Of the verbs device's port ("400 Gb/sec (4X NDR)"), as an interface over InfiniBand says less or
 * nothing; else of the interface. */
static int read_speed(const char *sys, const struct smd_nccl_device *device)
{
	char path[PATH_MAX];
	char line[64];
	double gbps = 0;
	int speed;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%d/rate", sys, device->rdma_name,
		device->port);
	if (*device->rdma_name && read_line(path, line, sizeof(line))) {
		gbps = strtod(line, NULL);
	}
	if (gbps > 0 && gbps < 1e6) {
		return (int)(gbps * 1000);
	}
	snprintf(path, sizeof(path), "%s/class/net/%s/speed", sys, device->name);
	speed = read_number(path, 0);
	return speed > 0 ? speed : SPEED_DEFAULT;
}

void smd_nccl_device_read(const char *sys, const struct smd_interface *interface, int number,
	const char *hcas, struct smd_nccl_device *out)
{
	char path[PATH_MAX];
	uint64_t guid = 0;
	char *real;

	memset(out, 0, sizeof(*out));
	out->number = number;
	snprintf(out->name, sizeof(out->name), "%s", interface->name);
	out->address = interface->address;
	out->address_length = interface->length;
	snprintf(path, sizeof(path), "%s/class/net/%s/device", sys, out->name);
	real = realpath(path, NULL);
	if (real && strlen(real) < sizeof(out->pci_path)) {
		snprintf(out->pci_path, sizeof(out->pci_path), "%s", real);
	}
	free(real);
	snprintf(path, sizeof(path), "%s/class/net/%s/device/vendor", sys, out->name);
	out->vendor = (unsigned)read_number(path, 0);
	if (hcas) {
		find_verbs(sys, hcas, out);
		guid = *out->rdma_name ? read_guid(sys, out->rdma_name) : 0;
	}
	out->guid = guid ? guid : (uint64_t)number;
	out->speed = read_speed(sys, out);
}

void smd_nccl_devices_of_hcas(const char *sys, const struct ifaddrs *list, const char *hcas,
	char out[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)])
{
	static const struct smd_interface_rules every = {.names = "^=lo"};
	struct smd_interface interfaces[SMD_INTERFACES_MAX];
	unsigned count = smd_interfaces_choose(list, &every, interfaces);
	size_t used = 0;

	*out = '\0';
	for (unsigned i = 0; i < count; i++) {
		struct smd_nccl_device device;

		smd_nccl_device_read(sys, &interfaces[i], 0, hcas, &device);
		if (*device.rdma_name) {
			used += (size_t)sprintf(out + used, "%s%s", used ? "," : "=", device.name);
		}
	}
}

/* ---- the devices ---- */

static bool rdma_allowed(void)
{
	struct smd_config config;
	bool allowed = false;

	if (smd_config_read(NULL, &config, NULL)) {
		return false;
	}
	for (unsigned i = 0; i < config.ntransports; i++) {
		allowed = allowed || config.transports[i]->device != NULL;
	}
	smd_config_free(&config);
	return allowed;
}

static void tell_devices(void)
{
	char line[512] = "";
	int used = 0;

	for (int i = 0; i < ndevices && used < (int)sizeof(line); i++) {
		used += snprintf(line + used, sizeof(line) - (size_t)used, " [%d]%s%s%s", i,
			devices[i].name, *devices[i].rdma_name ? "/" : "", devices[i].rdma_name);
	}
	if (ndevices) {
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET, "devices%s", line);
	} else {
		smd_nccl_log_warn("devices: there must be a network interface that is up and that "
				  "SUMMAND_NCCL_IFNAME or NCCL_SOCKET_IFNAME allows, got none");
	}
}

static void decide_device_memory(void)
{
	struct smd_error error = {""};

	takes_device_memory = ndevices && smd_gdr_check(devices, ndevices, &error) == 0;
	smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET, "GPU memory: %s%s",
		takes_device_memory ? "network cards read and write it"
				    : "goes through the host's: ",
		takes_device_memory ? "" : error.text);
}

/*
 * Which interfaces: those that SUMMAND_NCCL_IFNAME names; else those of NCCL_IB_HCA, as
 * NCCL_SOCKET_IFNAME mostly names the network of the machines' management then; else NCCL's own.
 */
static const char *choose_names(const char *sys, const struct ifaddrs *list, const char *hcas,
	char of_hcas[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)])
{
	const char *own = getenv("SUMMAND_NCCL_IFNAME");

	if (own && *own) {
		return own;
	}
	if (hcas && *hcas) {
		smd_nccl_devices_of_hcas(sys, list, hcas, of_hcas);
		if (*of_hcas) {
			return of_hcas;
		}
		smd_nccl_log_info(NCCL_SUB_INIT | NCCL_SUB_NET,
			"devices: NCCL_IB_HCA=%s is of no network interface", hcas);
	}
	return getenv("NCCL_SOCKET_IFNAME");
}

static void read_devices(void)
{
	const char *root = secure_getenv("SUMMAND_SYSFS"); /* for tests */
	const char *sys = root ? root : "/sys";
	const char *named = getenv("NCCL_IB_HCA");
	const char *hcas = rdma_allowed() ? named ? named : "" : NULL;
	char of_hcas[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)];
	struct smd_interface_rules rules = {
		.family = getenv("NCCL_SOCKET_FAMILY"),
		.comm_id = getenv("NCCL_COMM_ID"),
	};
	struct smd_interface interfaces[SMD_INTERFACES_MAX];
	struct ifaddrs *list;

	if (getifaddrs(&list) != 0) {
		smd_nccl_log_warn("devices: cannot list the network interfaces");
		return;
	}
	rules.names = choose_names(sys, list, hcas, of_hcas);
	ndevices = (int)smd_interfaces_choose(list, &rules, interfaces);
	freeifaddrs(list);
	for (int i = 0; i < ndevices; i++) {
		smd_nccl_device_read(sys, &interfaces[i], i, hcas, &devices[i]);
	}
	tell_devices();
	decide_device_memory();
}

int smd_nccl_devices(void)
{
	pthread_once(&once, read_devices);
	return ndevices;
}

const struct smd_nccl_device *smd_nccl_device(int dev)
{
	return dev >= 0 && dev < smd_nccl_devices() ? &devices[dev] : NULL;
}

struct smd_origin smd_nccl_device_origin(const struct smd_nccl_device *device)
{
	struct smd_origin origin = {.address = device->address, .length = device->address_length};

	memcpy(origin.interface, device->name, sizeof(origin.interface));
	return origin;
}

void smd_nccl_device_lead(const struct smd_nccl_device *device, void *address)
{
	struct sockaddr_in6 in6;

	memcpy(&in6, address, sizeof(in6));
	if (in6.sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr)) {
		in6.sin6_scope_id = if_nametoindex(device->name);
		memcpy(address, &in6, sizeof(in6));
	}
}

bool smd_nccl_devices_take_gpu_memory(void)
{
	return smd_nccl_devices() && takes_device_memory;
}

void smd_nccl_refuse_memory(const char *network, int type)
{
	if (type == NCCL_PTR_CUDA && smd_nccl_devices_take_gpu_memory()) {
		smd_nccl_log_info(NCCL_SUB_NET,
			"%s: memory of a GPU is taken as a dma-buf alone; NCCL may go on without",
			network);
	} else {
		smd_nccl_log_warn("%s: memory must be the host's, got type %d", network, type);
	}
}

/* ---- properties ---- */

int smd_nccl_device_props_v12(int dev, struct nccl_props_v12 *props)
{
	struct smd_nccl_device *device = (struct smd_nccl_device *)smd_nccl_device(dev);

	if (smd_nccl_lacks("getProperties", "result", props)) {
		return NCCL_INVALID_ARGUMENT;
	}
	if (!device) {
		smd_nccl_log_warn(
			"properties: device must be 0 to %d, got %d", smd_nccl_devices() - 1, dev);
		return NCCL_INVALID_ARGUMENT;
	}
	*props = (struct nccl_props_v12){
		.name = device->name,
		.pci_path = *device->pci_path ? device->pci_path : NULL,
		.guid = device->guid,
		.ptr_support = NCCL_PTR_HOST | (takes_device_memory ? NCCL_PTR_DMABUF : 0),
		.speed = device->speed,
		.port = device->port,
		.max_comms = COMMS_MAX,
		.max_recvs = SMD_NET_RECVS_MAX,
		.device_type = NCCL_DEVICE_HOST,
		.vprops = {.ndevs = 1, .devs = {dev}},
		.max_p2p_bytes = SMD_NET_BYTES_MAX,
		.max_coll_bytes = SMD_NET_BYTES_MAX,
		.max_multi_request_size = 1,
		.rail = -1,
		.plane = -1,
	};
	return NCCL_SUCCESS;
}

/* Each older version has some of the next one's fields, under the same names. */
#define PROPS_COMMON(all)                                                                          \
	.name = (all).name, .pci_path = (all).pci_path, .guid = (all).guid,                        \
	.ptr_support = (all).ptr_support, .speed = (all).speed, .port = (all).port,                \
	.latency = (all).latency, .max_comms = (all).max_comms, .max_recvs = (all).max_recvs
#define PROPS_FROM_V8(all)                                                                         \
	PROPS_COMMON(all), .reg_is_global = (all).reg_is_global, .device_type = (all).device_type, \
			   .device_version = (all).device_version
#define PROPS_FROM_V9(all)                                                                         \
	PROPS_FROM_V8(all),                                                                        \
		.force_flush = (all).force_flush, .vprops = {1, {(all).vprops.devs[0]}},           \
		.max_p2p_bytes = (all).max_p2p_bytes, .max_coll_bytes = (all).max_coll_bytes

int smd_nccl_device_props_v6(int dev, struct nccl_props_v6 *props)
{
	struct nccl_props_v12 all;
	int ret = smd_nccl_lacks("getProperties", "result", props)
			  ? NCCL_INVALID_ARGUMENT
			  : smd_nccl_device_props_v12(dev, &all);

	if (ret == NCCL_SUCCESS) {
		*props = (struct nccl_props_v6){PROPS_COMMON(all)};
	}
	return ret;
}

int smd_nccl_device_props_v8(int dev, struct nccl_props_v8 *props)
{
	struct nccl_props_v12 all;
	int ret = smd_nccl_lacks("getProperties", "result", props)
			  ? NCCL_INVALID_ARGUMENT
			  : smd_nccl_device_props_v12(dev, &all);

	if (ret == NCCL_SUCCESS) {
		*props = (struct nccl_props_v8){PROPS_FROM_V8(all)};
	}
	return ret;
}

int smd_nccl_device_props_v9(int dev, struct nccl_props_v9 *props)
{
	struct nccl_props_v12 all;
	int ret = smd_nccl_lacks("getProperties", "result", props)
			  ? NCCL_INVALID_ARGUMENT
			  : smd_nccl_device_props_v12(dev, &all);

	if (ret == NCCL_SUCCESS) {
		*props = (struct nccl_props_v9){PROPS_FROM_V9(all)};
	}
	return ret;
}

int smd_nccl_device_props_v11(int dev, struct nccl_props_v11 *props)
{
	struct nccl_props_v12 all;
	int ret = smd_nccl_lacks("getProperties", "result", props)
			  ? NCCL_INVALID_ARGUMENT
			  : smd_nccl_device_props_v12(dev, &all);

	if (ret == NCCL_SUCCESS) {
		*props = (struct nccl_props_v11){
			PROPS_FROM_V9(all), .max_multi_request_size = all.max_multi_request_size};
	}
	return ret;
}
