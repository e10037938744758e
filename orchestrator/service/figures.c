/* Writes the metrics of a service. */
#include "orchestrator/service/figures.h"

#include <stddef.h>

#include "orchestrator/service/job_figures.h"

/* X(name behind "summand_service_", type, figure of the queue, help) */
#define QUEUE_METRICS(X)                                                                           \
	X(jobs_waiting, gauge, waiting, "Jobs that wait for room.")                                \
	X(jobs_begun, gauge, begun, "Jobs that have begun and not ended.")                         \
	X(runners_started_total, counter, started, "Runners that were started.")                   \
	X(jobs_given_up_total, counter, given_up,                                                  \
		"Jobs that were ended because they waited too long or had no runner.")             \
	X(jobs_preempted_total, counter, preempted,                                                \
		"Jobs that were told to make room for one of a higher priority.")                  \
	X(cpus, gauge, capacity.cpus, "Processors that jobs may take.")                            \
	X(cpus_taken, gauge, taken.cpus, "Processors of jobs that have begun.")                    \
	X(memory_bytes, gauge, capacity.memory_bytes, "Memory that jobs may take.")                \
	X(memory_taken_bytes, gauge, taken.memory_bytes, "Memory of jobs that have begun.")        \
	X(gpus, gauge, capacity.gpus, "GPUs that jobs may take.")                                  \
	X(gpus_taken, gauge, taken.gpus, "GPUs of jobs that have begun.")

static void write_answers(const struct smd_http_figures *figures, struct smd_metrics_text *text)
{
	static const char *const classes[SMD_HTTP_CLASSES] = {"2xx", "4xx", "5xx"};

	smd_metrics_begin(
		text, "summand_service_answers_total", "counter", "Answers, by class of status.");
	for (size_t i = 0; i < SMD_HTTP_CLASSES; i++) {
		const struct smd_metrics_label labels[] = {{"class", classes[i]}, {NULL, NULL}};

		smd_metrics_count(text, labels, figures->answers[i]);
	}
	smd_metrics_single(text, "summand_service_connections", "gauge", "Connections of clients.",
		(double)figures->connections);
}

void smd_figures_write(void *owner, struct smd_metrics_text *text)
{
	static const struct smd_metrics_label version[] = {
		{"version", SUMMAND_VERSION}, {NULL, NULL}};
	const struct smd_figure_sources *sources = owner;
	struct smd_queue_figures queue;

	smd_scheduler_figures(sources->scheduler, &queue);
	smd_metrics_begin(text, "summand_service_info", "gauge", "Always 1.");
	smd_metrics_count(text, version, 1);
	write_answers(smd_http_figures_of(sources->http), text);
#define X(name_, type_, figure_, help_)                                                            \
	smd_metrics_single(text, "summand_service_" #name_, #type_, help_, (double)queue.figure_);
	QUEUE_METRICS(X)
#undef X
	smd_job_figures_write(sources->store, text);
	smd_metrics_process(text);
}
