/* Writes metrics of a tuning job and its trials, and its line of the trace. */
#include "orchestrator/tuning/study_watch.h"

#include <stdio.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/metrics/endpoint.h"

#define TRIAL_STATES (SMD_TRIAL_INFEASIBLE + 1)

static void write_trials(const struct smd_study_run *run, struct smd_metrics_text *text)
{
	unsigned counts[TRIAL_STATES] = {0};

	for (size_t i = 0; i < run->count; i++) {
		counts[run->trials[i].state]++;
	}
	smd_metrics_begin(text, "summand_tuning_trials", "gauge", "Trials of the job, by state.");
	for (int state = 0; state < TRIAL_STATES; state++) {
		const struct smd_metrics_label labels[] = {
			{"state", smd_trial_state_name((enum smd_trial_state)state)}, {NULL, NULL}};

		smd_metrics_count(text, labels, counts[state]);
	}
}

/* The last one of each trial that runs. */
static void write_measurements(const struct smd_study_run *run, struct smd_metrics_text *text)
{
	smd_metrics_begin(text, "summand_tuning_trial_metric", "gauge",
		"What trials that run have reported last, by metric.");
	for (size_t i = 0; i < run->count; i++) {
		const struct smd_trial *trial = &run->trials[i];
		char number[16];

		snprintf(number, sizeof(number), "%u", trial->number);
		for (size_t k = 0; k < run->study->nmetrics && smd_trial_runs(trial); k++) {
			const struct smd_measurements *all = &trial->metrics[k].measurements;
			const struct smd_metrics_label labels[] = {{"trial", number},
				{"metric", run->study->metrics[k].id}, {NULL, NULL}};

			if (all->count > 0) {
				smd_metrics_sample(text, labels, all->list[all->count - 1].value);
			}
		}
	}
}

static void write_metrics(void *owner, struct smd_metrics_text *text)
{
	const struct smd_study_run *run = owner;
	const struct smd_metrics_label info[] = {{"version", SUMMAND_VERSION},
		{"job", run->entry ? run->entry->name : ""}, {NULL, NULL}};
	const struct smd_metrics_label state[] = {{"state", smd_study_run_state(run)}, {NULL, NULL}};

	smd_metrics_begin(text, "summand_runner_info", "gauge", "Always 1: what runs which job.");
	smd_metrics_count(text, info, 1);
	smd_metrics_begin(text, "summand_runner_job_state", "gauge", "Always 1: the job's state.");
	smd_metrics_count(text, state, 1);
	write_trials(run, text);
	write_measurements(run, text);
	smd_metrics_process(text);
}

int smd_study_watch_open(struct smd_study_run *run, struct smd_error *error)
{
	const struct smd_local_run_options *options = run->runner.options;
	struct smd_error reason = {""};
	int ret = 0;

	if (options->trace && smd_trace_open(&run->trace, options->trace, options->trace_family,
				      &reason)) {
		smd_study_run_say(
			run, "WARNING", "the trace cannot be written: %s", reason.text);
	}
	if (options->metrics) {
		ret = smd_metrics_open(
			run->base, options->metrics, write_metrics, run, &run->metrics, error);
	}
	if (run->metrics) {
		smd_study_run_say(run, "INFO", "metrics: http://%s/metrics",
			smd_metrics_address(run->metrics));
	}
	return ret;
}

void smd_study_watch_close(struct smd_study_run *run)
{
	const char *created = run->create_time;
	int has_failed = run->outcome == SMD_OUTCOME_FAILED;
	int ret = smd_trace_close(&run->trace, &(struct smd_trace_job){
		.name = run->entry ? run->entry->shown_name : NULL,
		.display_name = run->job->display_name,
		.span = run->job->display_name,
		.state = smd_study_run_state(run),
		.create_time = created,
		.queue_time = run->entry && run->entry->queue_time[0] ? run->entry->queue_time : created,
		.started_ns = run->begun_ns,
		.ended_ns = smd_clock_ns(),
		.waits_again = run->entry && run->entry->waits_again,
		.failure = !has_failed ? NULL : run->failure ? run->failure : "The job failed."});

	if (ret) {
		smd_study_run_say(
			run, "WARNING", "the trace cannot be written: %s", strerror(-ret));
	}
	smd_metrics_close(run->metrics);
	run->metrics = NULL;
}
