/* Writes metrics of one job: its state, its replicas, and what has been started again. */
#include "orchestrator/runner/run_metrics.h"

#include "orchestrator/runner/loss.h"

static void write_replicas(const struct smd_job_status *status, struct smd_metrics_text *text)
{
	unsigned counts[SMD_REPLICA_STATE_COUNT] = {0};

	for (size_t i = 0; i < status->count; i++) {
		counts[status->replicas[i].state]++;
	}
	smd_metrics_begin(text, "summand_runner_replicas", "gauge", "Replicas of the job, by state.");
	for (int state = 0; state < SMD_REPLICA_STATE_COUNT; state++) {
		const struct smd_metrics_label labels[] = {
			{"state", smd_replica_state_name((enum smd_replica_state)state)}, {NULL, NULL}};

		smd_metrics_count(text, labels, counts[state]);
	}
}

static void write_totals(const struct smd_job_status *status, struct smd_metrics_text *text)
{
	uint64_t restarts = 0, losses = 0;

	for (size_t i = 0; i < status->count; i++) {
		restarts += status->replicas[i].restarts - status->replicas[i].returns;
		losses += status->replicas[i].loss ? (uint64_t)status->replicas[i].loss->count : 0;
	}
	smd_metrics_single(text, "summand_runner_job_restarts_total", "counter",
		"How often the whole job was started again.", status->restarts);
	smd_metrics_single(text, "summand_runner_replica_restarts_total", "counter",
		"How often replicas were started again alone.", (double)restarts);
	smd_metrics_single(text, "summand_runner_server_losses_total", "counter",
		"How often a reduction server was lost in this attempt.", (double)losses);
}

static void write_progress(const struct smd_job_status *status, struct smd_metrics_text *text)
{
	smd_metrics_begin(text, "summand_runner_progress_ratio", "gauge",
		"How far each replica is by its own words, from 0 to 1.");
	for (size_t i = 0; i < status->count; i++) {
		const struct smd_replica *replica = &status->replicas[i];
		const struct smd_metrics_label labels[] = {{"replica", replica->name}, {NULL, NULL}};

		if (replica->progress.is_there && replica->progress.total > 0) {
			smd_metrics_sample(text, labels,
				replica->progress.done / replica->progress.total);
		}
	}
}

void smd_run_metrics_write(void *owner, struct smd_metrics_text *text)
{
	const struct smd_job_status *status = owner;
	const struct smd_metrics_label info[] = {{"version", SUMMAND_VERSION},
		{"job", status->name ? status->name : ""}, {NULL, NULL}};
	const struct smd_metrics_label state[] = {
		{"state", smd_job_state_name(status)}, {NULL, NULL}};

	smd_metrics_begin(text, "summand_runner_info", "gauge", "Always 1: what runs which job.");
	smd_metrics_count(text, info, 1);
	smd_metrics_begin(text, "summand_runner_job_state", "gauge", "Always 1: the job's state.");
	smd_metrics_count(text, state, 1);
	write_replicas(status, text);
	write_totals(status, text);
	smd_metrics_single(text, "summand_runner_servers_serving", "gauge",
		"Reduction servers that are at work.", smd_job_status_serving(status));
	write_progress(status, text);
	smd_metrics_process(text);
}
