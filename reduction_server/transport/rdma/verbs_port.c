/* Finds the addresses of ports, as the kernel shows them in files, and opens devices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/rdma/verbs.h"

#define GIDS_MOST  256 /* of a port, that are looked at */
#define PORTS_MOST 8   /* of a device */
#define FOLDER     "/sys/class/infiniband"
#define OPENED     "/sys/class/infiniband_verbs" /* by whose files devices are opened */

#define SUBNET_PREFIX_BITS 64
#define LIST_FIRST_ROOM    32
#define INFINIBAND_ADDRESS 20 /* bytes of an interface's hardware address */

/* ---- devices ---- */

static int device_open(struct ibv_device *device, struct ibv_context **out)
{
	int flags;

	*out = ibv_open_device(device);
	if (!*out) {
		return -errno;
	}
	flags = fcntl((*out)->async_fd, F_GETFL);
	if (fcntl((*out)->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
		int err = errno;

		ibv_close_device(*out);
		return -err;
	}
	return 0;
}

int smd_verbs_node(const char *root, const char *name)
{
	char path[PATH_MAX];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s" FOLDER "/%s/device/numa_node", root, name);
	file = fopen(path, "r");
	if (!file) {
		return -1; /* it is no card: Soft-RoCE */
	}
	if (fscanf(file, "%d", &node) != 1) {
		node = -1;
	}
	fclose(file);
	return node;
}

int smd_verbs_device_open(const char *name, struct ibv_context **out)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int ret = -ENODEV;

	if (!list) {
		return -errno;
	}
	for (int i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
			ret = device_open(list[i], out);
		}
	}
	ibv_free_device_list(list);
	return ret;
}

void smd_verbs_device_close(struct ibv_context *device)
{
	ibv_close_device(device);
}

int smd_verbs_device_event_take(struct ibv_context *device, struct ibv_async_event *out)
{
	if (ibv_get_async_event(device, out) != 0) {
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	}
	ibv_ack_async_event(out);
	return 0;
}

/* ---- what the files of a port say ---- */

/* The first line of a port's file; false: there is none, or the port does not say. */
static bool port_read(
	const char *root, const struct smd_verbs_port *port, const char *what, char out[64])
{
	char path[PATH_MAX];
	FILE *file;
	bool read;

	snprintf(path, sizeof(path), "%s" FOLDER "/%s/ports/%u/%s", root, port->name, port->number,
		what);
	file = fopen(path, "r");
	if (!file) {
		return false;
	}
	read = fgets(out, 64, file) != NULL;
	fclose(file);
	if (read) {
		out[strcspn(out, "\n")] = '\0';
	}
	return read;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)": width times speed. */
static uint32_t rate_mbps(const char *text)
{
	double gbps = strtod(text, NULL);

	return gbps > 0 && gbps < 1e6 ? (uint32_t)(gbps * 1000) : 0;
}

/* All but its addresses. False: it is not up, or not there. */
static bool port_look(const char *root, struct smd_verbs_port *port)
{
	char text[64];

	if (!port_read(root, port, "state", text) || strtoul(text, NULL, 10) != IBV_PORT_ACTIVE ||
		!port_read(root, port, "link_layer", text)) {
		return false;
	}
	port->ethernet = strcmp(text, "Ethernet") == 0;
	port->lid = port_read(root, port, "lid", text) ? (uint16_t)strtoul(text, NULL, 16) : 0;
	port->mbps = port_read(root, port, "rate", text) ? rate_mbps(text) : 0;
	return true;
}

/* "fe80:0000:0000:0000:0202:c9ff:fe00:0001"; false: it has none. */
static bool gid_decode(const char *text, uint8_t gid[16])
{
	unsigned words[8];
	unsigned any = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &words[0], &words[1], &words[2],
		    &words[3], &words[4], &words[5], &words[6], &words[7]) != 8) {
		return false;
	}
	for (int i = 0; i < 8; i++) {
		gid[2 * i] = (uint8_t)(words[i] >> 8);
		gid[2 * i + 1] = (uint8_t)words[i];
		any |= words[i];
	}
	return any != 0;
}

/* RoCE v2 on Ethernet; on InfiniBand the port's own, which is its first. */
static bool port_read_gid(const char *root, struct smd_verbs_port *port, unsigned index)
{
	char what[32];
	char text[64];

	snprintf(what, sizeof(what), "gids/%u", index);
	if (!port_read(root, port, what, text) || !gid_decode(text, port->gid)) {
		return false;
	}
	port->gid_index = (uint8_t)index;
	if (!port->ethernet) {
		return true;
	}
	snprintf(what, sizeof(what), "gid_attrs/ndevs/%u", index);
	if (!port_read(root, port, what, text)) {
		text[0] = '\0';
	}
	snprintf(port->interface, sizeof(port->interface), "%.15s", text);
	snprintf(what, sizeof(what), "gid_attrs/types/%u", index);
	return port_read(root, port, what, text) && strcmp(text, "RoCE v2") == 0;
}

/* "1: CA": InfiniBand and RoCE; iWARP's cards and EFA are of other kinds. */
static bool device_is_adapter(const char *root, const char *name)
{
	char path[PATH_MAX];
	unsigned kind = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s" FOLDER "/%s/node_type", root, name);
	file = fopen(path, "r");
	if (!file) {
		return false;
	}
	if (fscanf(file, "%u", &kind) != 1) {
		kind = 0;
	}
	fclose(file);
	return kind == IBV_NODE_CA;
}

/* "uverbs0" is a file of that device. */
static bool file_is_of(const char *root, const char *file, const char *device)
{
	char path[PATH_MAX];
	char name[IBV_SYSFS_NAME_MAX] = "";
	FILE *said;

	snprintf(path, sizeof(path), "%s" OPENED "/%.32s/ibdev", root, file);
	said = fopen(path, "r");
	if (!said) {
		return false;
	}
	if (fgets(name, sizeof(name), said)) {
		name[strcspn(name, "\n")] = '\0';
	}
	fclose(said);
	return strcmp(name, device) == 0;
}

/* The file lets this process in. It does not where its mode or a security module says so, nor in a
 * container that has not got it, though all of the host's devices are in /sys. Of any other error
 * opening tells more. */
static bool file_lets_in(const char *root, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/dev/infiniband/%.32s", root, file);
	return access(path, R_OK | W_OK) == 0 ||
	       (errno != EACCES && errno != EPERM && errno != ENOENT);
}

/* A device whose file is not known counts as one that can be opened. */
static bool device_lets_in(const char *root, const char *name)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool lets_in = true;
	DIR *folder;

	snprintf(path, sizeof(path), "%s" OPENED, root);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		if (file_is_of(root, entry->d_name, name)) {
			lets_in = file_lets_in(root, entry->d_name);
		}
	}
	if (folder) {
		closedir(folder);
	}
	return lets_in;
}

/* ---- the list of them ---- */

struct list {
	const char *root;
	struct ifaddrs *addresses; /* of the host's interfaces; NULL: not known */
	struct smd_verbs_port *ports;
	int nports;
	int room;
	int ndevices;
	int nadapters; /* of these, */
	int nopen;     /* and of these to this process */
	bool failed;   /* out of memory */
};

/* InfiniBand's addresses begin with the subnet's prefix; RoCE's are an interface's. */
static void list_add(struct list *list, const struct smd_verbs_port *port)
{
	if (list->nports == list->room) {
		int room = list->room ? 2 * list->room : LIST_FIRST_ROOM;
		struct smd_verbs_port *ports =
			realloc(list->ports, (size_t)room * sizeof(*list->ports));

		if (!ports) {
			list->failed = true;
			return;
		}
		list->ports = ports;
		list->room = room;
	}
	list->ports[list->nports] = *port;
	list->ports[list->nports++].network_bits =
		(uint8_t)(port->ethernet ? smd_address_network_bits(list->addresses, port->gid)
					 : SUBNET_PREFIX_BITS);
}

/* "80:00:00:48:fe:80:...", 20 bytes: IPoIB's hardware address ends with its port's gid. */
static bool interface_is_of(
	const char *root, const struct smd_verbs_port *port, const char *interface)
{
	char path[PATH_MAX];
	unsigned bytes[INFINIBAND_ADDRESS];
	int n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s" FOLDER "/%s/device/net/%.15s/address", root, port->name,
		interface);
	file = fopen(path, "r");
	if (!file) {
		return false;
	}
	while (n < INFINIBAND_ADDRESS && fscanf(file, n ? ":%2x" : "%2x", &bytes[n]) == 1) {
		n++;
	}
	fclose(file);
	for (int i = 0; n == INFINIBAND_ADDRESS && i < 16; i++) {
		if (bytes[INFINIBAND_ADDRESS - 16 + i] != port->gid[i]) {
			return false;
		}
	}
	return n == INFINIBAND_ADDRESS;
}

/* The port with each address of that interface; how many. */
static unsigned list_add_interface(
	struct list *list, const struct smd_verbs_port *port, const char *interface)
{
	unsigned found = 0;

	for (const struct ifaddrs *one = list->addresses; one; one = one->ifa_next) {
		struct smd_verbs_port with = *port;

		if (one->ifa_addr && strcmp(one->ifa_name, interface) == 0 &&
			smd_address_bytes(one->ifa_addr, with.address)) {
			with.address_bits =
				(uint8_t)smd_address_network_bits(list->addresses, with.address);
			list_add(list, &with);
			found++;
		}
	}
	return found;
}

/* InfiniBand needs no IP address. Where its port has one, carriers come and go by it. */
static void list_add_infiniband(struct list *list, const struct smd_verbs_port *port)
{
	char path[PATH_MAX];
	struct dirent *entry;
	unsigned found = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "%s" FOLDER "/%s/device/net", list->root, port->name);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		if (interface_is_of(list->root, port, entry->d_name)) {
			found += list_add_interface(list, port, entry->d_name);
		}
	}
	if (folder) {
		closedir(folder);
	}
	if (!found) {
		list_add(list, port);
	}
}

static void list_add_device(struct list *list, const char *name)
{
	for (unsigned number = 1; number <= PORTS_MOST; number++) {
		struct smd_verbs_port port = {.number = (uint8_t)number};

		snprintf(port.name, sizeof(port.name), "%s", name);
		if (!port_look(list->root, &port)) {
			continue;
		}
		if (!port.ethernet && port_read_gid(list->root, &port, 0)) {
			list_add_infiniband(list, &port);
		}
		for (unsigned i = 0; port.ethernet && i < GIDS_MOST; i++) {
			if (port_read_gid(list->root, &port, i)) {
				list_add(list, &port);
			}
		}
	}
}

static void list_look(struct list *list, const char *name)
{
	if (name[0] == '.' || strlen(name) >= IBV_SYSFS_NAME_MAX) {
		return;
	}
	list->ndevices++;
	if (device_is_adapter(list->root, name)) {
		list->nadapters++;
		if (device_lets_in(list->root, name)) {
			list->nopen++;
			list_add_device(list, name);
		}
	}
}

/* How many ports there are, or why there are none for us. */
static int list_result(const struct list *list)
{
	if (list->failed) {
		return -ENOMEM;
	}
	if (list->nadapters && !list->nopen) {
		return -EACCES;
	}
	return list->ndevices && !list->nadapters ? -EPROTONOSUPPORT : list->nports;
}

int smd_verbs_ports(const char *root, struct smd_verbs_port **out)
{
	struct list list = {.root = root};
	struct dirent **entries;
	char path[PATH_MAX];
	int nentries;
	int ret;

	*out = NULL;
	snprintf(path, sizeof(path), "%s" FOLDER, root);
	nentries = scandir(path, &entries, NULL, alphasort); /* the same order on all threads */
	if (nentries < 0) {
		return errno == ENOENT ? -ENODEV : -errno;
	}
	if (getifaddrs(&list.addresses) != 0) {
		list.addresses = NULL;
	}
	for (int i = 0; i < nentries; i++) {
		list_look(&list, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	if (list.addresses) {
		freeifaddrs(list.addresses);
	}
	ret = list_result(&list);
	if (ret < 0) {
		free(list.ports);
	} else {
		*out = list.ports;
	}
	return ret;
}
