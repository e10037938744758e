/* `summand custom-jobs prune`, and what every new job does of it. */
#include "orchestrator/cli/prune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/frontend/duration.h"
#include "orchestrator/store/prune.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define AGE_VARIABLE  "SUMMAND_JOBS_MAX_AGE"
#define SIZE_VARIABLE "SUMMAND_JOBS_MAX_SIZE"
#define AGE_DEFAULT   "90d"
#define SIZE_DEFAULT  "10G"
#define REST_S        86400 /* who looks for yesterday's logs finds them */
#define BUDGET_MS     500
#define COUNT_MAX     INT32_MAX

static int set_age(void *target, const char *value, struct smd_error *error)
{
	uint64_t *age_s = target;

	if (strcmp(value, "none") == 0) {
		*age_s = SMD_PRUNE_NO_AGE;
		return 0;
	}
	if (strcmp(value, "0") == 0) {
		*age_s = 0;
		return 0;
	}
	return smd_duration_parse(value, age_s)
		       ? smd_error_set(error, EINVAL,
				 "must be none, or a length of time such as 30d, 12h or 90m")
		       : 0;
}

static int set_bytes(void *target, const char *value, struct smd_error *error)
{
	uint64_t *bytes = target;

	if (strcmp(value, "none") == 0) {
		*bytes = SMD_PRUNE_NO_BYTES;
		return 0;
	}
	return smd_parse_size(value, bytes)
		       ? smd_error_set(error, EINVAL, "must be none, or a size such as 10G")
		       : 0;
}

static int set_count(void *target, const char *value, struct smd_error *error)
{
	return smd_parse_number(value, 0, COUNT_MAX, target)
		       ? smd_error_set(error, EINVAL, "must be a whole number of jobs")
		       : 0;
}

static int read_variable(const char *name, const char *otherwise,
	int (*set)(void *target, const char *value, struct smd_error *error), uint64_t *out)
{
	const char *value = getenv(name);
	struct smd_error error = {""};
	int ret = set(out, value && *value ? value : otherwise, &error);

	if (ret) {
		smd_print_line(stderr, "summand: %s: %s, got %s\n", name, error.text, value);
	}
	return ret;
}

/* 0; else the reason has been printed. */
static int read_limits(struct smd_prune_limits *limits)
{
	int ret = read_variable(AGE_VARIABLE, AGE_DEFAULT, set_age, &limits->age_s);

	limits->count = SMD_PRUNE_NO_COUNT;
	return ret ? ret : read_variable(SIZE_VARIABLE, SIZE_DEFAULT, set_bytes, &limits->bytes);
}

/* "1.5 GiB" */
static void write_size(char text[32], uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double size = (double)bytes / 1024;
	size_t unit = 0;

	while (size >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		size /= 1024;
		unit++;
	}
	snprintf(text, 32, "%.*f %s", size < 10 && unit > 0 ? 1 : 0, size, units[unit]);
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

static void tell_nothing(void *arg, const char *what, uint64_t bytes, int ret)
{
	(void)arg;
	(void)what;
	(void)bytes;
	(void)ret;
}

void smd_prune_before_job(void)
{
	struct smd_prune_limits limits = {.rest_s = REST_S, .budget_ms = BUDGET_MS};
	struct smd_pruned pruned = {.count = 0};
	struct smd_store *store = NULL;
	char *state_dir = NULL;
	char size[32];

	/* Whoever cannot have the store is told so when the job is added to it. */
	if (!read_limits(&limits) && !smd_state_dir_open(&state_dir, NULL) &&
		!smd_store_open(state_dir, &store, NULL)) {
		smd_store_prune(store, &limits, tell_nothing, NULL, &pruned, NULL);
	}
	if (pruned.count) {
		write_size(size, pruned.bytes);
		fprintf(stderr,
			"summand: %zu old job%s removed from the job store, %s; " AGE_VARIABLE
			" and " SIZE_VARIABLE " say how long jobs stay (" AGE_DEFAULT
			", " SIZE_DEFAULT ")\n",
			pruned.count, pruned.count == 1 ? " was" : "s were", size);
	}
	smd_store_close(store);
	free(state_dir);
}

static void tell(void *arg, const char *what, uint64_t bytes, int ret)
{
	char size[32];

	(void)arg;
	write_size(size, bytes);
	if (ret) {
		smd_print_line(stderr, "summand: %s: not all of it could be removed: %s\n", what,
			strerror(-ret));
	} else {
		smd_print_line(stdout, "%s  %s\n", what, size);
	}
}

static void tell_sum(const struct smd_pruned *pruned, int dry_run)
{
	char size[32];

	write_size(size, pruned->bytes);
	fflush(stdout);
	fprintf(stderr, "%s %zu job%s, %s.\n", dry_run ? "Would prune" : "Pruned", pruned->count,
		plural(pruned->count), size);
	if (pruned->spared) {
		fprintf(stderr,
			"%zu old job%s: replicas have left files in the directory; --outputs "
			"removes that too.\n",
			pruned->spared, pruned->spared == 1 ? " stays" : "s stay");
	}
}

static int prune(const struct smd_prune_limits *limits)
{
	struct smd_stored_jobs jobs;
	struct smd_pruned pruned;
	struct smd_error error = {""};
	int ret;

	if (smd_stored_jobs_open(&jobs)) {
		return SMD_EXIT_FAILED;
	}
	if (!smd_stored_jobs_are_here(&jobs)) {
		smd_stored_jobs_close(&jobs);
		return SMD_EXIT_USAGE;
	}
	ret = smd_store_prune(jobs.store, limits, tell, NULL, &pruned, &error);
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	} else {
		tell_sum(&pruned, limits->dry_run);
	}
	smd_stored_jobs_close(&jobs);
	return ret || pruned.failed ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

int smd_custom_jobs_prune(int argc, char **argv)
{
	struct smd_prune_limits limits = {.age_s = SMD_PRUNE_NO_AGE,
		.bytes = SMD_PRUNE_NO_BYTES,
		.count = SMD_PRUNE_NO_COUNT};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Which"),
		{"older-than", "TIME", "those that ended longer ago, such as 30d or 12h", set_age,
			&limits.age_s},
		{"keep-size", "SIZE", "those that ended first, until the others take less",
			set_bytes, &limits.bytes},
		{"keep", "N", "all but the N that ended last", set_count, &limits.count},
		{"outputs", NULL, "also those whose replicas have left files in the directory",
			smd_option_set_bool, &limits.with_outputs},
		SMD_OPTION_GROUP("Run"),
		{"dry-run", NULL, "remove nothing: list what would be removed", smd_option_set_bool,
			&limits.dry_run},
		SMD_GLOBAL_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs prune [OPTION...]",
		.summary = "Forgets old jobs that have ended, tuning jobs among them, and removes "
			   "their "
			   "logs and records.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = "Without --older-than, --keep-size and --keep: what every new job does "
			  "by itself, jobs that ended more than " AGE_DEFAULT " ago (" AGE_VARIABLE
			  "), and those that ended first if all take more "
			  "than " SIZE_DEFAULT " (" SIZE_VARIABLE "); none in one of these keeps "
			  "all. Directories that were named with --job-dir stay.",
		.exits = SMD_EXITS,
	};
	struct smd_error error = {""};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, &error);

	if (!ret && noperands > 0) {
		ret = smd_error_set(&error, EINVAL,
			"%s: nothing is expected here; `delete` removes one job", argv[1]);
	}
	if (ret) {
		if (ret != -ENOEXEC) {
			smd_print_line(stderr, "summand: %s\n", error.text);
		}
		return ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	}
	if (limits.age_s == SMD_PRUNE_NO_AGE && limits.bytes == SMD_PRUNE_NO_BYTES &&
		limits.count == SMD_PRUNE_NO_COUNT && read_limits(&limits)) {
		return SMD_EXIT_USAGE;
	}
	return prune(&limits);
}
