/* Opens a job's trace, and closes it with what is known at its end. */
#include "orchestrator/runner/job_trace.h"

#include <stdio.h>
#include <string.h>

#include "reduction_server/base/log.h"

static void tell_lost(struct smd_run *run, const char *reason)
{
	char text[512];
	int length = snprintf(text, sizeof(text), "The trace cannot be written: %s", reason);

	length = length < (int)sizeof(text) ? length : (int)sizeof(text) - 1;
	smd_stream_say(&run->stream, SMD_STREAM_SERVICE, "WARNING", text, (size_t)length);
	smd_log(SMD_LOG_WARN, "runner", "%s", text);
}

void smd_job_trace_open(struct smd_run *run, const struct smd_local_run_options *options)
{
	struct smd_error reason = {""};

	if (options->trace && smd_trace_open(&run->trace, options->trace,
				      options->trace_family, &reason)) {
		tell_lost(run, reason.text);
	}
}

void smd_job_trace_close(struct smd_run *run, const struct smd_local_run_options *options)
{
	const struct smd_job_status *status = &run->status;
	const struct smd_entry *entry = run->record.entry;
	int has_failed = status->outcome == SMD_OUTCOME_FAILED;
	char span[sizeof("trial 4294967295")];
	char text[512];
	int ret;

	snprintf(span, sizeof(span), "trial %u", options->trial);
	ret = smd_trace_close(&run->trace, &(struct smd_trace_job){
		.name = entry ? entry->shown_name : NULL,
		.display_name = status->job->display_name,
		.span = options->trial ? span : status->job->display_name,
		.state = smd_job_state_name(status),
		.restarts = status->restarts,
		.create_time = status->create_time,
		.queue_time = entry && entry->queue_time[0] ? entry->queue_time : status->create_time,
		.started_ns = status->started_ns,
		.ended_ns = status->ended_ns,
		.waits_again = entry && entry->waits_again,
		.failure = !has_failed ? NULL : status->failure ? status->failure : "The job failed."});
	if (ret) {
		snprintf(text, sizeof(text), "%s: %s", options->trace, strerror(-ret));
		tell_lost(run, text);
	}
}
