/*
 * The network devices that NCCL may choose from: each is a network interface, with the verbs device
 * on the same link where there is one.
 *
 * NCCL merges devices of net and CollNet by name, so both show the same ones, with the same
 * properties. They are read from the system once, by the first caller.
 */
#ifndef SMD_NCCL_DEVICE_H
#define SMD_NCCL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define SMD_NCCL_DEVICES_MAX 16

struct smd_nccl_device {
	char name[64];  /* of the interface: "eth0" */
	char *pci_path; /* /sys/devices/...; NULL: a virtual interface */
	uint64_t guid;  /* differs from device to device */
	int speed;      /* Mbit/s */
	int port;
	bool rdma; /* lanes may go over verbs */
	char rdma_name[64];
	struct sockaddr_storage address; /* of the interface; port 0 */
	socklen_t address_length;
};

/* How many there are; at least 1 wherever there is an interface that is up, loopback in need. */
int smd_nccl_devices(void);

/* 0 <= dev < smd_nccl_devices(). Never freed, never changed. */
const struct smd_nccl_device *smd_nccl_device(int dev);

#endif
