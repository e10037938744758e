/*
 * Whether NCCL may give memory of GPUs to the network, of which network cards then read and write
 * all that comes from there and goes there (GPUDirect RDMA; specs/guide/nccl.md).
 *
 * NCCL is promised this before there is any connection, and has no way back from it. So it is only
 * where every lane that may come goes over a card that can, and the processor never has to help.
 */
#ifndef SMD_NCCL_PLUGIN_DEVICE_GDR_H
#define SMD_NCCL_PLUGIN_DEVICE_GDR_H

#include "reduction_server/base/error.h"
#include "worker/nccl_plugin/device/device.h"

/* SUMMAND_NCCL_GDR is one of its values, or not set. 0, or -EINVAL with a text. */
int smd_gdr_read(struct smd_error *error);

/* 0, or -errno with the first reason why it may not. */
int smd_gdr_check(const struct smd_nccl_device *devices, int ndevices, struct smd_error *error);

/* What cards have written is seen by the GPU whose context the calling thread has: a result of
 * NCCL's. No call of the driver where all GPUs see it by themselves. */
int smd_gdr_flush(void);

#endif
