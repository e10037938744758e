/* Writes what jobs that run have reported as metrics: their progress, and their reduction servers.
 */
#include "orchestrator/service/job_figures.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/store/job_copy.h"
#include "orchestrator/store/last_record.h"
#include "orchestrator/store/queue.h"
#include "reduction_server/base/parse.h"

#define JOBS_MAX 256 /* of more the first ones are shown */
#define ID_SIZE  24
#define SERVER   "reduction server"

/* X(name behind "summand_job_server_", type, key of the report, help) */
#define SERVER_METRICS(X)                                                                          \
	X(received_bytes_total, counter, received_bytes,                                           \
		"Bytes that workers have sent to a job's reduction server, headers and payloads.") \
	X(sent_bytes_total, counter, sent_bytes,                                                   \
		"Bytes that workers were sent, headers and payloads.")                             \
	X(chunks_reduced_total, counter, chunks, "Chunks whose result was made.")                  \
	X(slots_busy, gauge, slots_busy, "Chunks that are gathered, reduced or sent.")             \
	X(window_slots, gauge, window_slots, "Slots that active groups may use at once.")          \
	X(memory_used_bytes, gauge, memory_used_bytes,                                             \
		"Memory for chunks in flight that has chunks.")                                    \
	X(weight, gauge, weight,                                                                   \
		"The share of chunks that the server asks for, in Mbit/s of its link.")            \
	X(late_seconds, gauge, late_seconds,                                                       \
		"For how long others have waited for the slowest rank.")

struct running_job {
	char id[ID_SIZE];
	json_t *record; /* its replicas and its progress */
};

struct running_jobs {
	struct smd_store *store;
	struct running_job list[JOBS_MAX];
	size_t count;
};

static int take_job(void *arg, const struct smd_queued_job *job)
{
	struct running_jobs *jobs = arg;
	struct running_job *running = &jobs->list[jobs->count];
	struct smd_job_copy copy = {.text = NULL};
	char name[SMD_STORE_NAME_SIZE];

	if (job->is_waiting ||
		smd_store_get(jobs->store, job->id, smd_job_copy_take, &copy, NULL)) {
		return 0;
	}
	smd_store_name(name, copy.job.kind, copy.job.id);
	running->record = smd_last_record_replicas(copy.job.directory, name);
	smd_job_copy_free(&copy);
	if (running->record) {
		snprintf(running->id, sizeof(running->id), "%" PRId64, job->id);
		jobs->count++;
	}
	return jobs->count == JOBS_MAX;
}

/* Replicas report anything: what is no number is left out. */
static void write_figure(struct smd_metrics_text *text, const struct running_job *job,
	const json_t *replica, const char *key)
{
	const char *name = json_string_value(json_object_get(replica, "name"));
	const char *role = json_string_value(json_object_get(replica, "role"));
	const char *value =
		json_string_value(json_object_get(json_object_get(replica, "figures"), key));
	const struct smd_metrics_label labels[] = {
		{"job", job->id}, {"replica", name}, {NULL, NULL}};
	uint64_t number;

	if (name && role && strcmp(role, SERVER) == 0 && value &&
		smd_parse_number(value, 0, INT64_MAX, &number) == 0) {
		smd_metrics_count(text, labels, number);
	}
}

static void write_servers(
	struct smd_metrics_text *text, const struct running_jobs *jobs, const char *key)
{
	const json_t *replica;
	size_t i;

	for (size_t j = 0; j < jobs->count; j++) {
		json_array_foreach (json_object_get(jobs->list[j].record, "replicas"), i, replica) {
			write_figure(text, &jobs->list[j], replica, key);
		}
	}
}

static void write_progress(struct smd_metrics_text *text, const struct running_jobs *jobs)
{
	smd_metrics_begin(text, "summand_job_progress_ratio", "gauge",
		"How far a job that runs is by its replicas' words, from 0 to 1.");
	for (size_t i = 0; i < jobs->count; i++) {
		const json_t *progress = json_object_get(jobs->list[i].record, "progress");
		const struct smd_metrics_label labels[] = {{"job", jobs->list[i].id}, {NULL, NULL}};
		double total = json_number_value(json_object_get(progress, "total"));

		if (total > 0) {
			smd_metrics_sample(text, labels,
				json_number_value(json_object_get(progress, "done")) / total);
		}
	}
}

void smd_job_figures_write(struct smd_store *store, struct smd_metrics_text *text)
{
	struct running_jobs jobs = {.store = store};
	struct smd_error error = {""};

	smd_queue_each(store, take_job, &jobs, &error);
	write_progress(text, &jobs);
#define X(name_, type_, key_, help_)                                                               \
	smd_metrics_begin(text, "summand_job_server_" #name_, #type_, help_);                      \
	write_servers(text, &jobs, #key_);
	SERVER_METRICS(X)
#undef X
	for (size_t i = 0; i < jobs.count; i++) {
		json_decref(jobs.list[i].record);
	}
}
