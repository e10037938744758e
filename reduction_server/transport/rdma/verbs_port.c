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

/* How many addresses a device has, at most n. */
static int device_list(const char *root, const char *name, struct smd_verbs_port *out, int n)
{
	int found = 0;

	for (unsigned number = 1; number <= PORTS_MOST && found < n; number++) {
		struct smd_verbs_port port = {.number = (uint8_t)number};
		unsigned gids;

		snprintf(port.name, sizeof(port.name), "%s", name);
		if (!port_look(root, &port)) {
			continue;
		}
		gids = port.ethernet ? GIDS_MOST : 1;
		for (unsigned i = 0; i < gids && found < n; i++) {
			if (port_read_gid(root, &port, i)) {
				out[found++] = port;
			}
		}
	}
	return found;
}

/* InfiniBand's addresses begin with the subnet's prefix; RoCE's are an interface's. */
static void ports_know_networks(struct smd_verbs_port *ports, int n)
{
	struct ifaddrs *list;

	if (n <= 0 || getifaddrs(&list) != 0) {
		list = NULL;
	}
	for (int i = 0; i < n; i++) {
		ports[i].network_bits =
			(uint8_t)(ports[i].ethernet ? smd_address_network_bits(list, ports[i].gid)
						    : SUBNET_PREFIX_BITS);
	}
	if (list) {
		freeifaddrs(list);
	}
}

int smd_verbs_ports(const char *root, struct smd_verbs_port *out, int n)
{
	struct dirent **entries;
	char path[PATH_MAX];
	int nentries;
	int ndevices = 0;
	int nadapters = 0;
	int nopen = 0; /* of these, to this process */
	int found = 0;

	snprintf(path, sizeof(path), "%s" FOLDER, root);
	nentries = scandir(path, &entries, NULL, alphasort); /* the same order on all threads */
	if (nentries < 0) {
		return errno == ENOENT ? -ENODEV : -errno;
	}
	for (int i = 0; i < nentries; i++) {
		const char *name = entries[i]->d_name;

		if (name[0] != '.' && strlen(name) < IBV_SYSFS_NAME_MAX) {
			ndevices++;
			nadapters += device_is_adapter(root, name);
			if (device_is_adapter(root, name) && device_lets_in(root, name)) {
				nopen++;
				found += device_list(root, name, out + found, n - found);
			}
		}
		free(entries[i]);
	}
	free(entries);
	ports_know_networks(out, found);
	if (nadapters && !nopen) {
		return -EACCES;
	}
	return ndevices && !nadapters ? -EPROTONOSUPPORT : found;
}
