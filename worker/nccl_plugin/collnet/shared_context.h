/*
 * The contexts of libsummand that the CollNet communicators of the process share: one for each
 * device that NCCL has chosen, and each of its loops, made for the first communicator and ended after the last. Its lanes
 * leave by that device.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_SHARED_CONTEXT_H
#define SMD_NCCL_PLUGIN_COLLNET_SHARED_CONTEXT_H

#include "reduction_server/base/error.h"
#include "worker/nccl_plugin/device/device.h"
#include "worker/summand.h"

#define SMD_LOOPS_MAX 8 /* of a device */

struct smd_shared_context;

/*
 * One more user of that loop of the device's, 0 to SMD_LOOPS_MAX - 1. The loop of the first is run by callers that test it, too,
 * the others' by their threads alone. The first one connects, at most `timeout_s`, and those that come
 * meanwhile wait for what comes of it. 0 or -errno with a text. Any thread.
 */
int smd_shared_context_get(const struct smd_nccl_device *device, unsigned loop, unsigned timeout_s,
	struct smd_shared_context **out, struct smd_error *error);
void smd_shared_context_put(struct smd_shared_context *shared);

smd_context *smd_shared_context_get_context(const struct smd_shared_context *shared);

#endif
