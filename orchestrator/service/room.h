/*
 * What this machine has for jobs: processors, memory and GPUs.
 */
#ifndef SMD_SERVICE_ROOM_H
#define SMD_SERVICE_ROOM_H

#include "orchestrator/store/queue.h"
#include "reduction_server/base/error.h"
#include "worker/agent/host/gpu.h"

struct smd_room {
	struct smd_demand capacity;
	struct smd_gpus gpus;
};

/* What is less than 0 in `wanted` is what the machine has. 0, or -errno with a text. */
int smd_room_open(struct smd_room *room, const struct smd_demand *wanted, struct smd_error *error);
void smd_room_close(struct smd_room *room);

/* The first `count` GPUs that no list of `taken` names, as such a list; the caller frees it. NULL:
 * there are not so many. */
char *smd_room_devices(
	const struct smd_room *room, size_t count, const char *const *taken, size_t ntaken);

#endif
