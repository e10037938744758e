/* Finds out about this host: processors, memory, GPUs, RDMA devices, interfaces. */
#include "worker/agent/host/inspect.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/boot.h"
#include "reduction_server/base/clock.h"
#include "worker/agent/host/gpu.h"

#define RDMA_FOLDER "/sys/class/infiniband"

static int count_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
						       : CPU_COUNT(&set);
}

static uint64_t count_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static int find_rdma(struct smd_host_facts *facts)
{
	DIR *folder = opendir(RDMA_FOLDER);
	struct dirent *entry;
	int ret = 0;

	facts->rdma = calloc(SMD_FACTS_GPUS_MAX, sizeof(*facts->rdma));
	if (!facts->rdma) {
		ret = -ENOMEM;
	}
	while (!ret && folder && facts->nrdma < SMD_FACTS_GPUS_MAX && (entry = readdir(folder))) {
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < SMD_FACTS_NAME_SIZE) {
			facts->rdma[facts->nrdma] = strdup(entry->d_name);
			ret = facts->rdma[facts->nrdma] ? 0 : -ENOMEM;
			facts->nrdma += ret == 0;
		}
	}
	if (folder) {
		closedir(folder);
	}
	return ret;
}

static int find_gpus(struct smd_host_facts *facts)
{
	struct smd_gpus gpus;
	int ret = smd_gpus_find(&gpus, getenv("CUDA_VISIBLE_DEVICES"));

	if (!ret) {
		facts->gpus = gpus.ids;
		facts->ngpus = gpus.count < SMD_FACTS_GPUS_MAX ? gpus.count : SMD_FACTS_GPUS_MAX;
	}
	return ret;
}

/* Mbit/s as the driver says; a device without a link says -1, some say 2^32 - 1. */
static uint32_t speed_of(const char *name)
{
	char path[128];
	long speed = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%ld", &speed) != 1 || speed < 0 || speed >= INT32_MAX) {
			speed = 0;
		}
		fclose(file);
	}
	return (uint32_t)speed;
}

/* In the kernel's words they are lower ones. */
static void find_below(struct smd_host_interface *interface)
{
	static const char prefix[] = "lower_";
	char path[128];
	DIR *folder;

	snprintf(path, sizeof(path), "/sys/class/net/%s", interface->name);
	folder = opendir(path);
	for (const struct dirent *entry; folder && (entry = readdir(folder));) {
		const char *name = entry->d_name + strlen(prefix);

		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
			strlen(name) < SMD_FACTS_NAME_SIZE &&
			interface->nbelow < SMD_FACTS_BELOW_MAX) {
			snprintf(interface->below[interface->nbelow++], SMD_FACTS_NAME_SIZE, "%s",
				name);
		}
	}
	if (folder) {
		closedir(folder);
	}
}

static struct smd_host_interface *interface_of(
	struct smd_host_facts *facts, const char *name, unsigned flags)
{
	struct smd_host_interface *interface;

	for (size_t i = 0; i < facts->ninterfaces; i++) {
		if (strcmp(facts->interfaces[i].name, name) == 0) {
			return &facts->interfaces[i];
		}
	}
	if (facts->ninterfaces == SMD_FACTS_INTERFACES_MAX || strlen(name) >= SMD_FACTS_NAME_SIZE) {
		return NULL;
	}
	interface = &facts->interfaces[facts->ninterfaces++];
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	interface->is_loopback = (flags & IFF_LOOPBACK) != 0;
	interface->speed_mbps = speed_of(name);
	find_below(interface);
	return interface;
}

static unsigned count_bits(const uint8_t *mask, size_t size)
{
	unsigned bits = 0;

	while (bits < 8 * size && mask[bits / 8] & (0x80 >> bits % 8)) {
		bits++;
	}
	return bits;
}

/* An address that leads to this interface alone: no link-local one, which needs a scope. */
static int take_address(struct smd_host_facts *facts, const struct ifaddrs *entry)
{
	struct smd_host_interface *interface;
	struct smd_host_address address = {0};
	const void *bytes, *mask;

	if (entry->ifa_addr->sa_family == AF_INET) {
		bytes = &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
		mask = &((const struct sockaddr_in *)(const void *)entry->ifa_netmask)->sin_addr;
	} else {
		bytes = &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
		mask = &((const struct sockaddr_in6 *)(const void *)entry->ifa_netmask)->sin6_addr;
		address.is_v6 = 1;
		if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)bytes)) {
			return 0;
		}
	}
	memcpy(address.bytes, bytes, address.is_v6 ? 16 : 4);
	address.prefix = count_bits(mask, address.is_v6 ? 16 : 4);
	if (!inet_ntop(entry->ifa_addr->sa_family, bytes, address.text, sizeof(address.text))) {
		return -errno;
	}
	interface = interface_of(facts, entry->ifa_name, entry->ifa_flags);
	if (interface && interface->naddresses < SMD_FACTS_ADDRESSES_MAX) {
		interface->addresses[interface->naddresses++] = address;
	}
	return 0;
}

static int find_interfaces(struct smd_host_facts *facts)
{
	struct ifaddrs *list;
	int ret = 0;

	facts->interfaces = calloc(SMD_FACTS_INTERFACES_MAX, sizeof(*facts->interfaces));
	if (!facts->interfaces) {
		return -ENOMEM;
	}
	if (getifaddrs(&list)) {
		return -errno;
	}
	for (const struct ifaddrs *entry = list; entry && !ret; entry = entry->ifa_next) {
		int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;

		if ((family == AF_INET || family == AF_INET6) && entry->ifa_netmask &&
			entry->ifa_flags & IFF_UP) {
			ret = take_address(facts, entry);
		}
	}
	freeifaddrs(list);
	return ret;
}

/* The boot of the kernel, and the network namespace in it. */
static void find_network(struct smd_host_facts *facts)
{
	char boot[SMD_BOOT_ID_SIZE];
	struct stat status = {.st_ino = 0};

	(void)smd_boot_id(boot);
	(void)stat("/proc/self/ns/net", &status);
	snprintf(facts->network, sizeof(facts->network), "%s-%lu", boot,
		(unsigned long)status.st_ino);
}

int smd_host_inspect(struct smd_host_facts *out, struct smd_error *error)
{
	struct timespec now;
	int ret;

	*out = (struct smd_host_facts){.cpus = count_cpus(), .memory_bytes = count_memory()};
	if (gethostname(out->name, sizeof(out->name) - 1)) {
		snprintf(out->name, sizeof(out->name), "unknown");
	}
	find_network(out);
	ret = find_rdma(out);
	ret = ret ? ret : find_gpus(out);
	ret = ret ? ret : find_interfaces(out);
	clock_gettime(CLOCK_REALTIME, &now);
	out->clock_ns = (uint64_t)now.tv_sec * SMD_SECOND_NS + (uint64_t)now.tv_nsec;
	if (ret) {
		smd_host_facts_clear(out);
		return smd_error_set(error, -ret, "facts of this host: %s", strerror(-ret));
	}
	return 0;
}
