/*
 * What harm is done to lanes of the fault transport, as its list of items says it (fault.h).
 */
#ifndef SMD_TRANSPORT_TESTING_FAULT_CONFIG_H
#define SMD_TRANSPORT_TESTING_FAULT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_FAULT_NEVER UINT64_MAX

struct smd_fault_config {
	uint64_t delay_least_ms;
	uint64_t delay_most_ms;
	uint64_t rate_least_mbps; /* 0: as fast as the wrapped transport */
	uint64_t rate_most_mbps;
	bool brief; /* "short" */
	uint64_t drop_bytes;
	uint64_t kill_frames;
	uint64_t stall_frames;
	uint64_t lane; /* SMD_FAULT_NEVER: all */
	uint64_t seed;
};

/* What holds for a lane that is made now, and its number. -EINVAL when SUMMAND_FAULT is wrong. */
int smd_fault_config_now(struct smd_fault_config *out, uint64_t *number, struct smd_error *error);

#endif
