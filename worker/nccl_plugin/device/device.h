/*
 * The network devices that NCCL may choose from: each is a network interface, with the verbs device
 * on the same link where there is one.
 *
 * NCCL merges devices of net and CollNet by name, so both show the same ones, with the same
 * properties. They are read from the system once, by the first caller.
 */
#ifndef SMD_NCCL_PLUGIN_DEVICE_DEVICE_H
#define SMD_NCCL_PLUGIN_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "reduction_server/transport/origin.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"
#include "worker/nccl_plugin/device/interface.h"

struct ifaddrs;

/* What each device can do, as NCCL is told. */
#define SMD_NET_RECVS_MAX 8                 /* receives of one irecv() */
#define SMD_NET_BYTES_MAX ((size_t)1 << 30) /* of one message */

struct smd_nccl_device {
	int number;             /* NCCL's, from 0 */
	char name[IF_NAMESIZE]; /* of the interface: "eth0" */
	char pci_path[512];     /* "/sys/devices/..."; empty: a virtual interface */
	unsigned vendor;        /* of the PCI device; 0: unknown */
	uint64_t guid;          /* of the card, whose ports share it; else differs */
	int speed;              /* Mbit/s */
	int port;               /* of the verbs device; 0 without */
	char rdma_name[64];     /* of the verbs device: "mlx5_0"; empty: none, or not to be used */
	struct sockaddr_storage address; /* of the interface; port 0 */
	socklen_t address_length;
};

/* How many there are; at least 1 wherever there is an interface that is up, loopback in need. */
int smd_nccl_devices(void);

/* NULL unless 0 <= dev < smd_nccl_devices(). Never changed. */
const struct smd_nccl_device *smd_nccl_device(int dev);

/* Whether cards read and write memory of GPUs: all of them, or none (gdr.h). */
bool smd_nccl_devices_take_gpu_memory(void);

/*
 * Says in the log that regMr() of a network takes the host's memory alone, got that type. NCCL asks it for a GPU's where no dma-buf
 * could be had or registered, and goes on without: that is a warning only where nobody had offered to take such memory.
 */
void smd_nccl_refuse_memory(const char *network, int type);

/* What connections leave by, over that device. */
struct smd_origin smd_nccl_device_origin(const struct smd_nccl_device *device);

/*
 * Another machine's address, of either family and in a sockaddr_in6's room, becomes one that leads
 * there by way of the device: each machine numbers for itself the links that link-local ones are
 * of.
 */
void smd_nccl_device_lead(const struct smd_nccl_device *device, void *address);

/*
 * What sysfs, mounted at `sys`, says about an interface. `hcas`: the verbs devices that may be
 * used, as NCCL_IB_HCA says it ("": all); NULL: none.
 */
void smd_nccl_device_read(const char *sys, const struct smd_interface *interface, int number,
	const char *hcas, struct smd_nccl_device *out);

/*
 * The interfaces of the list whose verbs devices these are, as a rule for smd_interfaces_choose():
 * "=eth2,eth3". Empty: there are none.
 */
void smd_nccl_devices_of_hcas(const char *sys, const struct ifaddrs *list, const char *hcas,
	char out[SMD_INTERFACES_MAX * (IF_NAMESIZE + 1)]);

/* Properties of a device, all of them, for net and CollNet alike. NCCL results. */
int smd_nccl_device_props_v6(int dev, struct nccl_props_v6 *props);
int smd_nccl_device_props_v8(int dev, struct nccl_props_v8 *props);
int smd_nccl_device_props_v9(int dev, struct nccl_props_v9 *props);
int smd_nccl_device_props_v11(int dev, struct nccl_props_v11 *props);
int smd_nccl_device_props_v12(int dev, struct nccl_props_v12 *props);

#endif
