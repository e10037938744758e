/* Puts a job into one line. */
#include "orchestrator/runner/status_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/runner/terminal_text.h"
#include "reduction_server/base/clock.h"

#define PART_SIZE 64

/* Adds a part, with a comma before it. */
static void add(char line[SMD_STATUS_LINE_SIZE], const char *part)
{
	size_t used = strlen(line);

	snprintf(line + used, SMD_STATUS_LINE_SIZE - used, "%s%s", used ? ", " : "", part);
}

static size_t count_of(const struct smd_job_status *status, enum smd_replica_state state)
{
	size_t count = 0;

	for (size_t i = 0; i < status->count; i++) {
		count += status->replicas[i].state == state;
	}
	return count;
}

/* Those at work of all; of the other states only those that some replica is in. */
static void add_counts(char line[SMD_STATUS_LINE_SIZE], const struct smd_job_status *status)
{
	static const enum smd_replica_state states[] = {SMD_REPLICA_STARTING, SMD_REPLICA_STOPPING,
		SMD_REPLICA_SUCCEEDED, SMD_REPLICA_FAILED, SMD_REPLICA_STOPPED};
	char part[PART_SIZE];

	snprintf(part, sizeof(part), "%zu/%zu running", count_of(status, SMD_REPLICA_RUNNING),
		status->count);
	add(line, part);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		size_t count = count_of(status, states[i]);

		if (count) {
			snprintf(part, sizeof(part), "%zu %s", count,
				smd_replica_state_meaning(states[i]));
			add(line, part);
		}
	}
}

static void add_time(char line[SMD_STATUS_LINE_SIZE], const struct smd_job_status *status)
{
	uint64_t begin = status->started_ns ? status->started_ns : smd_clock_ns();
	uint64_t seconds = (smd_clock_ns() - begin) / SMD_SECOND_NS;
	char part[PART_SIZE];

	if (seconds < 3600) {
		snprintf(
			part, sizeof(part), "%02" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	} else {
		snprintf(part, sizeof(part), "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
			seconds / 60 % 60, seconds % 60);
	}
	add(line, part);
}

static const char *hint(const struct smd_job_status *status)
{
	if (status->interruptions > 1) {
		return "being killed";
	}
	if (status->interruptions == 1) {
		return "Ctrl-C once more ends them at once";
	}
	return status->outcome == SMD_OUTCOME_RESTART ? "to be restarted, Ctrl-C stops"
						      : "Ctrl-C stops";
}

void smd_status_line(
	const struct smd_job_status *status, size_t columns, char line[SMD_STATUS_LINE_SIZE])
{
	*line = '\0';
	add_counts(line, status);
	add_time(line, status);
	add(line, hint(status));
	for (size_t i = 0; i < status->count; i++) {
		if (*status->replicas[i].status && smd_replica_is_alive(&status->replicas[i])) {
			add(line, status->replicas[i].status);
			break;
		}
	}
	line[smd_terminal_text_fit(line, columns)] = '\0';
}
