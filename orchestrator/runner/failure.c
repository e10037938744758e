/* Says why a job failed. */
#include "orchestrator/runner/failure.h"

#include <stdio.h>

#include "orchestrator/job/shown.h"
#include "orchestrator/runner/loss.h"
#include "orchestrator/runner/obituary.h"

static const char *plural(int64_t count)
{
	return count == 1 ? "" : "s";
}

/* The other reduction servers that were lost while the job ran. */
static void print_losses_before(const struct smd_job_status *status, FILE *file)
{
	for (size_t i = 0; i < status->count; i++) {
		const struct smd_replica *replica = &status->replicas[i];

		if (replica->loss && replica != status->decisive) {
			fprintf(file, "Before that, the reduction server %s %s.\n", replica->name,
				replica->loss->sentence);
		}
	}
}

char *smd_failure_of_end(const struct smd_job_status *status, const struct smd_jobdir *dir)
{
	const struct smd_replica *decisive = status->decisive;
	int is_status_0 = decisive->end.kind == SMD_EXIT_CODE && decisive->end.value == 0;
	char sentence[SMD_OBITUARY_SIZE];
	struct smd_shown_text shown;

	smd_shown_open(&shown);
	if (shown.file) {
		smd_obituary_sentence(decisive, sentence);
		fprintf(shown.file, "The replica %s %s%s.\n", decisive->name, sentence,
			is_status_0 ? " before the job ended" : "");
		smd_obituary_print_tail(decisive, dir, shown.file);
		print_losses_before(status, shown.file);
	}
	return smd_shown_take(&shown);
}

char *smd_failure_of_late_servers(
	const struct smd_job_status *status, const struct smd_jobdir *dir, unsigned ready_timeout_s)
{
	struct smd_shown_text shown;

	smd_shown_open(&shown);
	for (size_t i = 0; shown.file && i < status->count; i++) {
		const struct smd_replica *replica = &status->replicas[i];

		if (replica->state == SMD_REPLICA_STARTING || replica->restart_ns) {
			fprintf(shown.file, "The replica %s was not ready within %u second%s.\n",
				replica->name, ready_timeout_s, plural(ready_timeout_s));
			smd_obituary_print_tail(replica, dir, shown.file);
		}
	}
	return smd_shown_take(&shown);
}

static char *describe_limit(const char *what, const char *limit, int64_t seconds)
{
	char *text;
	int length = asprintf(&text, "The job %s within its %s of %lld second%s.\n", what, limit,
		(long long)seconds, plural(seconds));

	return length < 0 ? NULL : text;
}

char *smd_failure_of_timeout(const struct smd_job *job)
{
	return describe_limit("did not end", "timeout", job->timeout_s);
}

char *smd_failure_of_wait(const struct smd_job *job)
{
	return describe_limit("was not running", "maxWaitDuration", job->max_wait_s);
}

char *smd_failure_of_guard(pid_t guard)
{
	char *text;
	int length = asprintf(&text, "The job's guard, process %d, was killed.\n", (int)guard);

	return length < 0 ? NULL : text;
}

char *smd_failure_of_hosts(const char *reason)
{
	char *text;

	return asprintf(&text, "%s\n", reason) < 0 ? NULL : text;
}
