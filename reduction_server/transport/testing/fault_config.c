/* Reads the items of the fault transport, and numbers its lanes. */
#include "reduction_server/transport/testing/fault_config.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/transport/testing/fault.h"

static pthread_mutex_t config_lock = PTHREAD_MUTEX_INITIALIZER;
static struct smd_fault_config configured; /* under the lock, as the next two */
static bool is_configured;
static uint64_t next_lane;

static int fault_parse_item(
	const char *item, struct smd_fault_config *config, struct smd_error *error)
{
	const struct {
		const char *name;
		uint64_t *value;
	} numbers[] = {
		{"drop-after=", &config->drop_bytes},
		{"kill-after=", &config->kill_frames},
		{"stall-after=", &config->stall_frames},
		{"lane=", &config->lane},
		{"seed=", &config->seed},
	};
	int used = 0;

	if (strcmp(item, "short") == 0) {
		config->brief = true;
		return 0;
	}
	if (sscanf(item, "delay=%" SCNu64 "..%" SCNu64 "ms%n", &config->delay_least_ms,
		    &config->delay_most_ms, &used) == 2 &&
		used && !item[used] && config->delay_least_ms <= config->delay_most_ms) {
		return 0;
	}
	if (sscanf(item, "rate=%" SCNu64 "..%" SCNu64 "mbit%n", &config->rate_least_mbps,
		    &config->rate_most_mbps, &used) == 2 &&
		used && !item[used] && config->rate_least_mbps > 0 &&
		config->rate_least_mbps <= config->rate_most_mbps) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		size_t length = strlen(numbers[i].name);

		if (strncmp(item, numbers[i].name, length) == 0 &&
			smd_parse_number(item + length, 0, SMD_FAULT_NEVER - 1, numbers[i].value) ==
				0) {
			return 0;
		}
	}
	return smd_error_set(error, EINVAL,
		"fault: must be delay=A..Bms, rate=A..Bmbit, short, drop-after=BYTES, "
		"kill-after=FRAMES, stall-after=FRAMES, lane=N or seed=N, got \"%s\"",
		item);
}

static int fault_parse(const char *items, struct smd_fault_config *out, struct smd_error *error)
{
	struct smd_fault_config config = {
		.drop_bytes = SMD_FAULT_NEVER,
		.kill_frames = SMD_FAULT_NEVER,
		.stall_frames = SMD_FAULT_NEVER,
		.lane = SMD_FAULT_NEVER,
	};
	char *copy = strdup(items);
	char *rest = copy;
	char *item;
	int ret = copy ? 0 : smd_error_set(error, ENOMEM, "fault: out of memory");

	while (ret == 0 && (item = strsep(&rest, ","))) {
		if (*item) {
			ret = fault_parse_item(item, &config, error);
		}
	}
	free(copy);
	if (ret == 0) {
		*out = config;
	}
	return ret;
}

int smd_fault_configure(const char *items, struct smd_error *error)
{
	struct smd_fault_config config;
	int ret = fault_parse(items ? items : "", &config, error);

	if (ret) {
		return ret;
	}
	pthread_mutex_lock(&config_lock);
	configured = config;
	is_configured = items != NULL;
	next_lane = 0;
	pthread_mutex_unlock(&config_lock);
	return 0;
}

int smd_fault_config_now(struct smd_fault_config *out, uint64_t *number, struct smd_error *error)
{
	const char *items = getenv("SUMMAND_FAULT");
	int ret = 0;

	pthread_mutex_lock(&config_lock);
	if (is_configured) {
		*out = configured;
	} else {
		ret = fault_parse(items ? items : "", out, error);
	}
	*number = next_lane++;
	pthread_mutex_unlock(&config_lock);
	return ret;
}
