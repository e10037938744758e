/* Shows how a job went: for people on standard output, for programs in summary.json. */
#include "orchestrator/runner/summary.h"

#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/shown.h"
#include "orchestrator/runner/figures.h"
#include "orchestrator/runner/loss.h"
#include "orchestrator/runner/obituary.h"

#define LABEL_WIDTH    16
#define ROWS_MAX       16 /* of more replicas those that ended alike are one row */
#define COUNT_WIDTH    4  /* what " (18)" takes more than "-18" */
#define NAME_WIDTH_MIN 7  /* "replica" */
#define AMOUNT_SIZE    32
#define AMOUNT_WIDTH   10

static const char *outcome_name(const struct smd_job_status *status)
{
	switch (status->outcome) {
	case SMD_OUTCOME_SUCCEEDED:
		return "succeeded";
	case SMD_OUTCOME_CANCELLED:
		return "cancelled";
	default:
		return "failed";
	}
}

static double job_seconds(const struct smd_job_status *status)
{
	return (double)(status->ended_ns - status->started_ns) * 1e-9;
}

/* 1234567 bytes are "1.23 MB". */
static void format_bytes(double bytes, char text[AMOUNT_SIZE])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	size_t unit = 0;

	while (bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1000;
		unit++;
	}
	snprintf(text, AMOUNT_SIZE, "%.*f %s", unit ? 2 : 0, bytes, units[unit]);
}

static void print_label(FILE *file, const char *label)
{
	fprintf(file, "  %-*s", LABEL_WIDTH, label);
}

static void print_weights(const struct smd_figures *figures, FILE *file)
{
	print_label(file, "weights");
	if (!figures->weights_equal) {
		fprintf(file, "NOT equal on all workers\n");
	} else if (figures->nweights == figures->nworkers) {
		fprintf(file, "%s, equal on %s\n", figures->weights,
			figures->nworkers > 1 ? "all workers" : "the one worker");
	} else {
		fprintf(file, "%s, equal on the %d of %d workers that reported\n", figures->weights,
			figures->nweights, figures->nworkers);
	}
}

static void print_figures(const struct smd_figures *figures, FILE *file)
{
	char bytes[AMOUNT_SIZE];

	if (figures->accuracy >= 0) {
		print_label(file, "accuracy");
		fprintf(file, "%.4f\n", figures->accuracy);
	}
	if (figures->steps >= 0) {
		print_label(file, "steps");
		fprintf(file, "%.0f\n", figures->steps);
	}
	if (figures->allreduce_bytes >= 0 && figures->allreduce_seconds > 0) {
		format_bytes(figures->allreduce_bytes, bytes);
		print_label(file, "all-reduce");
		fprintf(file, "%.2f GB/s algbw (%s in %.2f s)\n",
			figures->allreduce_bytes / figures->allreduce_seconds * 1e-9, bytes,
			figures->allreduce_seconds);
	}
	if (figures->weights) {
		print_weights(figures, file);
	}
}

/* Whether one row says it of both. */
static int is_alike(const struct smd_replica *one, const struct smd_replica *other)
{
	char word[SMD_OBITUARY_SIZE], other_word[SMD_OBITUARY_SIZE];

	smd_obituary_word(one, word);
	smd_obituary_word(other, other_word);
	return one->pool == other->pool && strcmp(word, other_word) == 0;
}

static void print_row(
	const char *name, int width, const struct smd_replica *replica, double seconds, FILE *file)
{
	char word[SMD_OBITUARY_SIZE];

	smd_obituary_word(replica, word);
	fprintf(file, "  %-*s  %-16s  %-12s %7.1f s\n", width, name, smd_role_name(replica->role),
		word, seconds);
}

/* Those from `first` on that one row is of, and the longest time of any. */
static size_t count_alike(const struct smd_job_status *status, size_t first, double *seconds)
{
	size_t count = 0;

	*seconds = 0;
	for (size_t i = first; i < status->count; i++) {
		double elapsed = smd_replica_elapsed(&status->replicas[i]);

		if (is_alike(&status->replicas[first], &status->replicas[i])) {
			count++;
			*seconds = elapsed > *seconds ? elapsed : *seconds;
		}
	}
	return count;
}

static int has_been_printed(const struct smd_job_status *status, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (is_alike(&status->replicas[i], &status->replicas[index])) {
			return 1;
		}
	}
	return 0;
}

/* Those of a pool that ended alike in one row, with the longest time. */
static void print_groups(const struct smd_job_status *status, int width, FILE *file)
{
	for (size_t i = 0; i < status->count; i++) {
		char name[2 * SMD_REPLICA_NAME_MAX + 32];
		double seconds;
		size_t count;

		if (has_been_printed(status, i)) {
			continue;
		}
		count = count_alike(status, i, &seconds);
		if (count > 1) {
			snprintf(name, sizeof(name), "workerpool%d (%zu)", status->replicas[i].pool,
				count);
		} else {
			snprintf(name, sizeof(name), "%s", status->replicas[i].name);
		}
		print_row(name, width, &status->replicas[i], seconds, file);
	}
}

static void print_replicas(const struct smd_job_status *status, FILE *file)
{
	int width = smd_replica_names_width(status->replicas, status->count);

	if (status->count > ROWS_MAX) {
		width += COUNT_WIDTH;
	}
	width = width > NAME_WIDTH_MIN ? width : NAME_WIDTH_MIN;
	fprintf(file, "\n  %-*s  %-16s  %-12s %9s\n", width, "replica", "role", "exit", "time");
	if (status->count > ROWS_MAX) {
		print_groups(status, width, file);
		return;
	}
	for (size_t i = 0; i < status->count; i++) {
		print_row(status->replicas[i].name, width, &status->replicas[i],
			smd_replica_elapsed(&status->replicas[i]), file);
	}
}

static void print_amount(const struct smd_replica *replica, const char *key, FILE *file)
{
	double bytes = smd_figures_number(replica, key);
	char text[AMOUNT_SIZE] = "-";

	if (bytes >= 0) {
		format_bytes(bytes, text);
	}
	fprintf(file, "  %*s", AMOUNT_WIDTH, text);
}

/* Only servers that reported have a row, and without rows there is no table. */
static void print_traffic(const struct smd_job_status *status, FILE *file)
{
	int width = (int)sizeof("reduction server") - 1;
	int rows = 0;

	for (size_t i = 0; i < status->count; i++) {
		const struct smd_replica *replica = &status->replicas[i];
		double chunks = smd_figures_number(replica, "chunks");

		if (replica->role != SMD_ROLE_REDUCTION_SERVER ||
			json_object_size(replica->results) == 0) {
			continue;
		}
		if (rows++ == 0) {
			fprintf(file, "\n  %-*s  %*s  %*s  %*s\n", width, "reduction server",
				AMOUNT_WIDTH, "received", AMOUNT_WIDTH, "sent", AMOUNT_WIDTH,
				"chunks");
		}
		fprintf(file, "  %-*s", width, replica->name);
		print_amount(replica, "bytes_received", file);
		print_amount(replica, "bytes_sent", file);
		if (chunks >= 0) {
			fprintf(file, "  %*.0f\n", AMOUNT_WIDTH, chunks);
		} else {
			fprintf(file, "  %*s\n", AMOUNT_WIDTH, "-");
		}
	}
}

/* After the job's success a replica that fails, or does not end by itself, is worth a warning. */
static void print_warning(const struct smd_jobdir *dir, unsigned grace_s,
	const struct smd_replica *replica, FILE *file)
{
	char sentence[SMD_OBITUARY_SIZE];

	if (replica->loss) {
		fprintf(file, "\nwarning: %s %s while the job ran%s\n", replica->name,
			replica->loss->sentence,
			replica->loss->count > 1 ? ", and not only once" : "");
		if (replica->state == SMD_REPLICA_FAILED) {
			smd_obituary_print_tail(replica, dir, file);
		}
	} else if (replica->state == SMD_REPLICA_FAILED) {
		smd_obituary_sentence(replica, sentence);
		fprintf(file, "\nwarning: %s %s after the job had succeeded\n", replica->name,
			sentence);
		smd_obituary_print_tail(replica, dir, file);
	} else if (replica->state == SMD_REPLICA_STOPPED && !smd_replica_is_server(replica)) {
		fprintf(file,
			"\nwarning: %s had not ended %u s after the job had succeeded and was "
			"stopped\n",
			replica->name, grace_s);
	}
}

static void print_warnings(const struct smd_job_status *status, const struct smd_jobdir *dir,
	unsigned grace_s, FILE *file)
{
	for (size_t i = 0; status->outcome == SMD_OUTCOME_SUCCEEDED && i < status->count; i++) {
		print_warning(dir, grace_s, &status->replicas[i], file);
	}
}

/* Of the job, and of replicas alone. */
static unsigned restarts(const struct smd_job_status *status)
{
	unsigned sum = status->restarts;

	for (size_t i = 0; i < status->count; i++) {
		sum += status->replicas[i].restarts - status->replicas[i].returns;
	}
	return sum;
}

static void print_summary(const struct smd_job_status *status, const struct smd_jobdir *dir,
	unsigned grace_s, FILE *file)
{
	struct smd_figures figures;

	smd_figures_collect(status, &figures);
	fprintf(file, "\n%s: %s in %.1f s\n", status->job->display_name, outcome_name(status),
		job_seconds(status));
	print_label(file, "job directory");
	fprintf(file, "%s\n", dir->path);
	if (restarts(status) > 0) {
		print_label(file, "restarts");
		fprintf(file, "%u\n", restarts(status));
	}
	print_figures(&figures, file);
	print_replicas(status, file);
	print_traffic(status, file);
	print_warnings(status, dir, grace_s, file);
}

void smd_summary_print(const struct smd_job_status *status, const struct smd_jobdir *dir,
	unsigned grace_s, FILE *file)
{
	struct smd_shown_text shown;

	smd_shown_open(&shown);
	if (shown.file) {
		print_summary(status, dir, grace_s, shown.file);
	}
	smd_shown_print(&shown, file);
	fflush(file);
}

static void set_number(json_t *object, const char *key, double number)
{
	if (number >= 0) {
		json_object_set_new(object, key, json_real(number));
	}
}

static json_t *replica_figures(const struct smd_replica *replica)
{
	char word[SMD_OBITUARY_SIZE];

	smd_obituary_word(replica, word);
	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:O}", "name", replica->name, "role",
		smd_role_name(replica->role), "state", smd_replica_state_name(replica->state),
		"exit", word, "seconds", smd_replica_elapsed(replica), "results", replica->results);
}

int smd_summary_write(const struct smd_job_status *status, const struct smd_jobdir *dir)
{
	struct smd_figures figures;
	json_t *replicas = json_array();
	json_t *summary;
	int ret;

	smd_figures_collect(status, &figures);
	for (size_t i = 0; i < status->count; i++) {
		json_array_append_new(replicas, replica_figures(&status->replicas[i]));
	}
	summary = json_pack("{s:s, s:s, s:s, s:f, s:o}", "displayName", status->job->display_name,
		"id", status->job->id, "state", smd_job_state_name(status), "seconds",
		job_seconds(status), "replicas", replicas);
	json_object_set_new(summary, "restarts", json_integer(restarts(status)));
	set_number(summary, "accuracy", figures.accuracy);
	set_number(summary, "steps", figures.steps);
	set_number(summary, "allreduce_bytes", figures.allreduce_bytes);
	set_number(summary, "allreduce_seconds", figures.allreduce_seconds);
	if (figures.weights) {
		json_object_set_new(summary, "weights_equal", json_boolean(figures.weights_equal));
	}
	ret = smd_jobdir_write_json(dir, "summary.json", summary);
	json_decref(summary);
	return ret;
}
