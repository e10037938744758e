/*
 * Any text at all in the variables that libsummand reads, one a line in the order below, the job's
 * token last: refused with a reason, or a configuration within its bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "worker/libsummand/config.h"

static const char *const names[] = {
	"SUMMAND_REDUCTION_SERVERS",
	"CLUSTER_SPEC",
	"SUMMAND_TRANSPORT",
	"SUMMAND_REPLICA",
	"SUMMAND_JOB_ID",
	"SUMMAND_CONNECT_TIMEOUT",
	"SUMMAND_HEARTBEAT_LIMIT",
	"SUMMAND_STAGING_BYTES",
	"SUMMAND_UNDO_BYTES",
	"SUMMAND_PROGRESS",
	"PMIX_NAMESPACE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"SLURM_JOB_ID",
};
#define NAMES (int)(sizeof(names) / sizeof(names[0]))

static void set_variables(char *text)
{
	char *values[NAMES + 1];
	int n = input_lines(text, values, NAMES + 1);

	for (int i = 0; i < NAMES; i++) {
		if (i < n && values[i][0]) {
			setenv(names[i], values[i], 1);
		} else {
			unsetenv(names[i]);
		}
	}
	unsetenv("SUMMAND_TOKEN_FILE");
	if (n > NAMES) {
		const uint8_t *token = (const uint8_t *)values[NAMES];

		setenv("SUMMAND_TOKEN_FILE", input_file(token, strlen(values[NAMES])), 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = input_text(bytes, length);
	struct smd_error error = {""};
	struct smd_config config;
	int ret;

	set_variables(text);
	ret = smd_config_read(NULL, &config, &error);
	check_outcome(ret, &error);
	if (ret == 0) {
		must_hold(config.nservers >= 1 && config.nservers <= SMD_SERVERS_MAX);
		must_hold(config.ntransports >= 1 && config.transports[0]);
		must_hold(config.replica[0] && strlen(config.token) <= SMD_STRING_MAX);
		must_hold(config.connect_timeout_s && config.heartbeat_ms && config.staging_bytes);
		smd_config_free(&config);
	}
	free(text);
	return 0;
}
