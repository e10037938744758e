/* `summand custom-jobs list`: the jobs of the store that a filter has, sorted and cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/format.h"
#include "orchestrator/cli/job_filter.h"
#include "orchestrator/cli/job_row.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

#define DEFAULT_FORMAT                                                                             \
	"table(name.basename():label=ID,displayName,state,createTime.date(),endTime.date())"

struct listing {
	struct smd_stored_jobs jobs;
	struct smd_job_filter *filter;
	struct smd_format *format;
	const char *sort_key; /* NULL: the newest first */
	int is_descending;
	int limit; /* 0: none */
	int needs_specs;
	json_t *rows;
	struct smd_error error;
};

static int set_filter(void *target, const char *value, struct smd_error *error)
{
	struct smd_job_filter **filter = target;

	smd_job_filter_free(*filter);
	*filter = NULL;
	return smd_job_filter_parse(value, filter, error);
}

static int set_format(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;

	smd_format_free(*format);
	*format = NULL;
	return smd_format_parse(value, format, error);
}

static int set_sort_key(void *target, const char *value, struct smd_error *error)
{
	struct listing *listing = target;

	listing->is_descending = *value == '~';
	listing->sort_key = value + listing->is_descending;
	if (!smd_job_row_is_key(listing->sort_key) || strcmp(listing->sort_key, "labels") == 0 ||
		strcmp(listing->sort_key, "error") == 0) {
		return smd_error_set(error, EINVAL,
			"must be one of name, displayName, state, createTime, startTime, endTime, "
			"updateTime, with ~ before it for the greatest first");
	}
	return 0;
}

static int set_limit(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_option_set_int(target, value, error);

	return ret || *(int *)target > 0 ? ret : smd_error_set(error, EINVAL, "must be 1 or more");
}

/* A list of many jobs makes of each only what is printed. */
static int is_wanted(void *arg, const char *key)
{
	const struct listing *listing = arg;

	return (listing->sort_key && strcmp(key, listing->sort_key) == 0) ||
	       smd_format_names(listing->format, key);
}

static int take_job(void *arg, const struct smd_stored_job *job)
{
	struct listing *listing = arg;
	json_t *row;

	if (!smd_job_filter_has(listing->filter, job)) {
		return 0;
	}
	row = listing->needs_specs ? smd_store_resource(listing->jobs.store, job, &listing->error)
				   : smd_job_row_json(job, is_wanted, listing);
	if (!row || json_array_append_new(listing->rows, row)) {
		return smd_error_set(&listing->error, ENOMEM, "%s", strerror(ENOMEM));
	}
	/* Sorted by another key, the first ones are known in the end alone. */
	return !listing->sort_key && (int)json_array_size(listing->rows) == listing->limit;
}

static const struct listing *sorted; /* qsort() hands nothing on */

/* A key that a job lacks is less than any. */
static int compare(const void *a, const void *b)
{
	const char *one = json_string_value(json_object_get(*(json_t *const *)a, sorted->sort_key));
	const char *other =
		json_string_value(json_object_get(*(json_t *const *)b, sorted->sort_key));
	int order = strcmp(one ? one : "", other ? other : "");

	return sorted->is_descending ? -order : order;
}

static int sort_rows(struct listing *listing)
{
	size_t count = json_array_size(listing->rows);
	json_t **rows = calloc(count + 1, sizeof(*rows));
	size_t keep =
		listing->limit && (size_t)listing->limit < count ? (size_t)listing->limit : count;

	if (!rows) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		rows[i] = json_incref(json_array_get(listing->rows, i));
	}
	sorted = listing;
	qsort(rows, count, sizeof(*rows), compare);
	json_array_clear(listing->rows);
	for (size_t i = 0; i < count; i++) {
		if (i < keep) {
			json_array_append(listing->rows, rows[i]);
		}
		json_decref(rows[i]);
	}
	free(rows);
	return 0;
}

static int print_rows(struct listing *listing)
{
	int ret = smd_store_each(listing->jobs.store, take_job, listing, &listing->error);

	if (ret < 0) {
		smd_print_line(stderr, "summand: %s\n", listing->error.text);
		return SMD_EXIT_FAILED;
	}
	if (json_array_size(listing->rows) == 0) {
		fputs("Listed 0 items.\n", stderr); /* gcloud's words */
	}
	ret = listing->sort_key ? sort_rows(listing) : 0;
	/* A heading alone says nothing; JSON has an empty list. */
	if (!ret && (listing->needs_specs || json_array_size(listing->rows) > 0)) {
		ret = smd_format_print(listing->format, listing->rows, stdout);
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", strerror(-ret));
	}
	return ret ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

static int list_jobs(struct listing *listing)
{
	int exit_code = SMD_EXIT_FAILED;

	if (!listing->format &&
		smd_format_parse(DEFAULT_FORMAT, &listing->format, &listing->error)) {
		return SMD_EXIT_FAILED;
	}
	listing->needs_specs = !smd_format_is_within(listing->format, smd_job_row_keys);
	listing->rows = json_array();
	if (listing->rows && !smd_stored_jobs_open(&listing->jobs)) {
		exit_code = print_rows(listing);
		smd_stored_jobs_close(&listing->jobs);
	}
	json_decref(listing->rows);
	return exit_code;
}

int smd_custom_jobs_list(int argc, char **argv)
{
	struct listing listing = {.limit = 0};
	const struct smd_option options[] = {
		{"filter", "EXPRESSION",
			"only jobs such as state=RUNNING or createTime>-P1D AND displayName:digits",
			set_filter, &listing.filter},
		{"format", SMD_FORMAT_METAVAR, "how to print the jobs (default: a table)",
			set_format, &listing.format},
		{"limit", "N", "no more than N jobs", set_limit, &listing.limit},
		{"sort-by", "[~]KEY", "sorted by a key, ~ from the greatest (default ~createTime)",
			set_sort_key, &listing},
		SMD_LOCATION_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs list [OPTION...]",
		.summary = "Lists your jobs, the newest first.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, &listing.error);
	int exit_code = SMD_EXIT_USAGE;

	if (!ret && noperands > 0) {
		ret = smd_error_set(&listing.error, EINVAL,
			"%s: nothing is expected here; --filter chooses jobs", argv[1]);
	}
	if (!ret) {
		exit_code = list_jobs(&listing);
	} else if (ret == -ENOEXEC) {
		exit_code = SMD_EXIT_OK;
	} else {
		smd_print_line(stderr, "summand: %s\n", listing.error.text);
	}
	smd_job_filter_free(listing.filter);
	smd_format_free(listing.format);
	return exit_code;
}
