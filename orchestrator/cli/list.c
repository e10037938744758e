/* `summand custom-jobs list` and `hp-tuning-jobs list`: the jobs of the store that a filter has,
 * sorted and cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/format.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/job_filter.h"
#include "orchestrator/cli/job_row.h"
#include "orchestrator/cli/key_path.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

#define FIRST_ROWS    64
#define SORT_KEYS_MAX 8
#define DEFAULT_FORMAT                                                                             \
	"table(name.basename():label=ID,displayName,state,createTime.date(),endTime.date())"

struct sort_key {
	const char *name;
	int is_descending;
};

struct listing {
	enum smd_stored_kind kind;
	struct smd_stored_jobs jobs;
	struct smd_job_filter *filter;
	struct smd_format *format;
	char *sort_text; /* holds the names of the keys */
	struct sort_key sort_keys[SORT_KEYS_MAX];
	size_t nsort_keys; /* 0: the newest first */
	int limit;         /* 0: none */
	struct smd_job_copy *rows;
	size_t count;
	size_t size; /* rows that there is memory for */
	struct smd_error error;
};

static int set_filter(void *target, const char *value, struct smd_error *error)
{
	struct smd_job_filter **filter = target;

	smd_job_filter_free(*filter);
	*filter = NULL;
	return smd_job_filter_parse(value, filter, error);
}

/* The last of --uri and --format counts. */
static int set_uri(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;
	int is_on = 0;
	int ret = smd_option_set_bool(&is_on, value, error);

	if (ret || !is_on) {
		return ret;
	}
	smd_format_free(*format);
	*format = NULL;
	return smd_format_parse("value(name)", format, error);
}

static int set_format(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;

	smd_format_free(*format);
	*format = NULL;
	return smd_format_parse(value, format, error);
}

/* "state,~createTime" */
static int set_sort_keys(void *target, const char *value, struct smd_error *error)
{
	struct listing *listing = target;
	char *rest;
	char *name;

	free(listing->sort_text);
	listing->sort_text = rest = strdup(value);
	listing->nsort_keys = 0;
	if (!rest) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	while ((name = strsep(&rest, ","))) {
		struct sort_key *key = &listing->sort_keys[listing->nsort_keys];

		smd_key_path_respell(name);
		key->is_descending = *name == '~';
		key->name = name + key->is_descending;
		if (listing->nsort_keys++ == SORT_KEYS_MAX - 1 || !smd_job_row_is_text(key->name)) {
			return smd_error_set(error, EINVAL,
				"must be one or more of name, displayName, state, createTime, "
				"startTime, endTime, updateTime, with commas between, and ~ before "
				"one for the greatest first");
		}
	}
	return 0;
}

static int set_limit(void *target, const char *value, struct smd_error *error)
{
	int ret = smd_option_set_int(target, value, error);

	return ret || *(int *)target > 0 ? ret : smd_error_set(error, EINVAL, "must be 1 or more");
}

static int grow(struct listing *listing)
{
	size_t size = listing->size ? 2 * listing->size : FIRST_ROWS;
	struct smd_job_copy *rows = reallocarray(listing->rows, size, sizeof(*rows));

	if (!rows) {
		return -ENOMEM;
	}
	listing->rows = rows;
	listing->size = size;
	return 0;
}

static int take_job(void *arg, const struct smd_stored_job *job)
{
	struct listing *listing = arg;
	int ret;

	if (!smd_job_filter_has(listing->filter, job)) {
		return 0;
	}
	ret = listing->count == listing->size ? grow(listing) : 0;
	ret = ret ? ret : smd_job_copy_take(&listing->rows[listing->count], job);
	if (ret) {
		return smd_error_set(&listing->error, -ret, "%s", strerror(-ret));
	}
	listing->count++;
	/* Sorted by another key, the first ones are known in the end alone. */
	return listing->nsort_keys == 0 && listing->limit &&
	       listing->count == (size_t)listing->limit;
}

static const struct listing *sorted; /* qsort() hands nothing on */

/* A key that a job lacks is less than any. */
static int compare_by(
	const struct sort_key *key, const struct smd_stored_job *a, const struct smd_stored_job *b)
{
	char buffers[2][SMD_STORE_NAME_SIZE];
	const char *one = smd_job_row_text(a, key->name, buffers[0]);
	const char *other = smd_job_row_text(b, key->name, buffers[1]);
	int order = strcmp(one ? one : "", other ? other : "");

	return key->is_descending ? -order : order;
}

/* Jobs that are equal stay as they are: the newest first. */
static int compare(const void *a, const void *b)
{
	const struct smd_stored_job *one = &((const struct smd_job_copy *)a)->job;
	const struct smd_stored_job *other = &((const struct smd_job_copy *)b)->job;
	int order = 0;

	for (size_t i = 0; i < sorted->nsort_keys && order == 0; i++) {
		order = compare_by(&sorted->sort_keys[i], one, other);
	}
	return order ? order : strcmp(other->create_time, one->create_time);
}

static void sort_rows(struct listing *listing)
{
	if (listing->nsort_keys) {
		sorted = listing;
		qsort(listing->rows, listing->count, sizeof(*listing->rows), compare);
	}
	while (listing->limit && listing->count > (size_t)listing->limit) {
		smd_job_copy_free(&listing->rows[--listing->count]);
	}
}

static const char *text_of(void *arg, size_t row, const char *key, char *buffer)
{
	const struct listing *listing = arg;

	return smd_job_row_text(&listing->rows[row].job, key, buffer);
}

/* With the spec, if anything but the row's own keys is printed. */
static json_t *resource_of(struct listing *listing, const struct smd_stored_job *job, int with_spec)
{
	json_t *resource = with_spec ? smd_stored_jobs_resource(&listing->jobs, job, &listing->error)
				     : smd_job_row_json(job);

	if (!resource) {
		smd_error_set(&listing->error, ENOMEM, "%s", strerror(ENOMEM));
	}
	return resource;
}

static int print_resources(struct listing *listing)
{
	int with_spec = !smd_format_is_within(listing->format, smd_job_row_keys);
	json_t *rows = json_array();
	int ret = rows ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < listing->count; i++) {
		ret = json_array_append_new(
			      rows, resource_of(listing, &listing->rows[i].job, with_spec))
			      ? -ENOMEM
			      : 0;
	}
	if (!ret) {
		ret = smd_format_print(listing->format, rows, stdout);
	}
	json_decref(rows);
	return ret ? smd_error_set(&listing->error, -ret, "%s", strerror(-ret)) : 0;
}

static int print_rows(struct listing *listing)
{
	int is_of_texts = smd_format_is_of_texts(listing->format, smd_job_row_is_text);
	int is_listed = is_of_texts && smd_job_filter_is_of_texts(listing->filter);
	int ret = smd_stored_jobs_each(&listing->jobs, listing->kind,
		is_listed ? SMD_STORE_LISTED : SMD_STORE_ALL, take_job, listing, &listing->error);

	if (ret < 0) {
		return ret;
	}
	sort_rows(listing);
	if (listing->count == 0) {
		fputs("Listed 0 items.\n", stderr); /* gcloud's words */
	}
	if (!is_of_texts) {
		return print_resources(listing);
	}
	ret = listing->count ? smd_format_print_texts(
				       listing->format, listing->count, text_of, listing, stdout)
			     : 0;
	return ret ? smd_error_set(&listing->error, -ret, "%s", strerror(-ret)) : 0;
}

static int list_jobs(struct listing *listing)
{
	int ret;

	if (!listing->format &&
		smd_format_parse(DEFAULT_FORMAT, &listing->format, &listing->error)) {
		return SMD_EXIT_FAILED;
	}
	if (smd_stored_jobs_open(&listing->jobs)) {
		return SMD_EXIT_FAILED;
	}
	ret = print_rows(listing);
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", listing->error.text);
	}
	smd_stored_jobs_close(&listing->jobs);
	return ret ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	struct listing listing = {.kind = kind};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Which"),
		{"filter", "EXPRESSION",
			"only jobs such as state=RUNNING or createTime>-P1D AND displayName:digits",
			set_filter, &listing.filter},
		{"limit", "N", "no more than N jobs", set_limit, &listing.limit},
		SMD_OPTION_GROUP("Output"),
		{"format", SMD_FORMAT_METAVAR,
			"how the jobs are printed (default: a table); FORMAT is table, csv, "
			"value or get",
			set_format, &listing.format},
		{"uri", NULL, "print the jobs' resource names alone", set_uri, &listing.format},
		{"sort-by", "[~]KEY,...",
			"sort by keys; with ~, from the greatest (default ~createTime)",
			set_sort_keys, &listing},
		SMD_GLOBAL_OPTIONS,
		{"page-size", "N", NULL, set_limit, &(int){0}},
	};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " list [OPTION...]"),
		.summary = "Lists your jobs, the newest first.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = SMD_EXITS,
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
	for (size_t i = 0; i < listing.count; i++) {
		smd_job_copy_free(&listing.rows[i]);
	}
	free(listing.rows);
	free(listing.sort_text);
	smd_job_filter_free(listing.filter);
	smd_format_free(listing.format);
	return exit_code;
}

int smd_custom_jobs_list(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_list(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
