/* Takes --log-limit. */
#include "orchestrator/cli/log_limit_option.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "orchestrator/runner/log_file.h"
#include "reduction_server/base/parse.h"

int smd_log_limit_option_set(void *target, const char *value, struct smd_error *error)
{
	uint64_t limit = 0;

	if (strcmp(value, "none") != 0 &&
		(smd_parse_size(value, &limit) || limit < SMD_LOG_LIMIT_MIN)) {
		return smd_error_set(
			error, EINVAL, "must be none, or a size of at least 64K such as 256M");
	}
	*(uint64_t *)target = limit;
	return 0;
}
