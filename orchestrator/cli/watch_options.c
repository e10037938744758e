/* Checks what can be seen to be wrong before the job has run. */
#include "orchestrator/cli/watch_options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/options.h"
#include "reduction_server/metrics/endpoint.h"

#define TRACE_MODE 0600

int smd_watch_set_metrics(void *target, const char *value, struct smd_error *error)
{
	*(const char **)target = value;
	return smd_metrics_address_check(value, error);
}

int smd_watch_set_trace(void *target, const char *value, struct smd_error *error)
{
	int fd = open(value, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, TRACE_MODE);

	if (fd < 0) {
		return smd_error_set(
			error, EINVAL, "must be a file that can be written (%s)", strerror(errno));
	}
	close(fd);
	return smd_option_set_path(target, value, error);
}
