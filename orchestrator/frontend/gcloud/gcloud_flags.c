/* gcloud's flags of `custom-jobs create` and `local-run`, and of `hp-tuning-jobs create`, as rows.
 */
#include "orchestrator/frontend/gcloud/gcloud_flags.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/duration.h"
#include "orchestrator/frontend/gcloud/package_flags.h"
#include "orchestrator/frontend/gcloud/pool_flag.h"
#include "orchestrator/frontend/global_flags.h"

#define WORKER_POOL_SPEC "worker-pool-spec"
#define EXECUTOR         "executor-image-uri"
#define SCRIPT           "script"
#define MODULE           "python-module"
#define KMS_KEY          "kms-key"

#define GLOBAL_VALUE(name_, metavar_) SMD_FLAG(name_, metavar_, NULL, NULL)
#define GLOBAL_SWITCH(name_)          SMD_FLAG(name_, NULL, NULL, NULL)

static void apply_string(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];

	smd_edit_put_string(edit, edit->spec, flag->field, last->value, last->at);
}

static void apply_boolean(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];
	struct smd_error error = {""};
	struct smd_node *node;
	int value;

	if (smd_option_set_bool(&value, last->value, &error)) {
		smd_edit_refuse(edit, last->at, "%s, got \"%s\"", error.text, last->value);
		return;
	}
	node = smd_edit_put(edit, edit->spec, flag->field, SMD_NODE_BOOLEAN, last->at);
	if (node) {
		node->number.boolean = value;
	}
}

/* A count is a number of the document, or refused there. */
static void apply_count(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];

	smd_edit_put_string(edit, edit->job, flag->field, last->value, last->at);
}

/* "grid-search" is GRID_SEARCH. */
static void apply_algorithm(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];
	struct smd_node *study = smd_edit_object(edit, edit->job, "studySpec", last->at);
	char *name = strdup(last->value);

	if (!name) {
		edit->ret = -ENOMEM;
		return;
	}
	for (char *c = name; *c; c++) {
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	}
	smd_edit_put_string(edit, study, flag->field, name, last->at);
	free(name);
}

static void apply_display_name(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];

	(void)flag;
	smd_edit_put_string(edit, edit->job, "displayName", last->value, last->at);
}

/* Calls back with every item of every value. */
static void each_item(struct smd_job_edit *edit, const struct smd_flag_value *values, size_t count,
	void (*take)(struct smd_job_edit *edit, const char *key, const char *value,
		struct smd_source_position at))
{
	for (size_t i = 0; i < count; i++) {
		struct smd_flag_items items;
		struct smd_error error = {""};
		int ret = smd_flag_dictionary(values[i].value, &items, &error);

		if (ret) {
			smd_edit_refuse(edit, values[i].at, "%s", error.text);
			continue;
		}
		for (size_t n = 0; n < items.count; n++) {
			take(edit, items.keys[n], items.values[n], values[i].at);
		}
		smd_flag_items_free(&items);
	}
}

static void apply_labels(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	each_item(edit, values, count, smd_edit_put_label);
}

static void apply_env(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	each_item(edit, values, count, smd_edit_put_variable);
}

static void apply_credentials(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_put_variable(edit, "GOOGLE_APPLICATION_CREDENTIALS", values[count - 1].value,
		values[count - 1].at);
}

static void apply_args(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_ANY, values, count);
}

static void apply_command(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_CONTAINER, values, count);
}

static void apply_package_uris(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_PACKAGE, values, count);
}

static void apply_timeout(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];
	struct smd_node *scheduling;
	char text[32];
	uint64_t seconds;

	if (smd_duration_parse(last->value, &seconds)) {
		smd_edit_refuse(edit, last->at,
			"must be a duration such as 90s, 15m or 1d12h, got \"%s\"", last->value);
		return;
	}
	snprintf(text, sizeof(text), "%" PRIu64 "s", seconds);
	scheduling = smd_edit_object(edit, edit->spec, "scheduling", last->at);
	smd_edit_put_string(edit, scheduling, flag->field, text, last->at);
}

static void apply_pools(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_pools(edit, values, count);
}

static void apply_package(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	struct smd_package_flags package = {
		.executor_image = smd_job_flags_last(flags, EXECUTOR),
		.output_image = smd_job_flags_last(flags, "output-image-uri"),
		.script = smd_job_flags_last(flags, SCRIPT),
		.module = smd_job_flags_last(flags, MODULE),
		.directory = smd_job_flags_last(flags, "local-package-path"),
		.requirements = smd_job_flags_last(flags, "requirements"),
		.extra_packages = smd_job_flags_last(flags, "extra-packages"),
		.extra_dirs = smd_job_flags_last(flags, "extra-dirs"),
	};

	if (!package.directory.value) {
		package.directory = smd_job_flags_last(flags, "work-dir");
	}
	if (package.executor_image.value) {
		smd_edit_package(edit, &package);
	} else if (package.script.value || package.module.value) {
		smd_edit_refuse(edit, package.script.value ? package.script.at : package.module.at,
			"argument --executor-image-uri: Must be specified.");
	}
}

/* The value of the first of the flags that is given; NULL: none of them. */
static const char *first_given(const struct smd_job_flags *flags, const char *const *names)
{
	const char *value = NULL;

	for (; *names && !value; names++) {
		value = smd_job_flags_last(flags, *names).value;
	}
	return value;
}

/* The key by its full name, which is in one flag or in four. */
static void apply_kms_key(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	static const char *const names[][3] = {
		{"kms-keyring"}, {"kms-location", "region"}, {"kms-project", "project"}};
	struct smd_flag_value key = smd_job_flags_last(flags, KMS_KEY);
	const char *parts[3];
	char *name;
	struct smd_node *node;

	if (!key.value) {
		return;
	}
	for (size_t i = 0; i < 3; i++) {
		parts[i] = first_given(flags, names[i]);
		if (!parts[i] && !strchr(key.value, '/')) {
			smd_edit_refuse(edit, key.at,
				"The [kms-key] resource is not properly specified: provide a fully "
				"specified name, or the argument `--%s`.",
				names[i][0]);
			return;
		}
	}
	if (strchr(key.value, '/')) {
		name = strdup(key.value);
	} else if (asprintf(&name, "projects/%s/locations/%s/keyRings/%s/cryptoKeys/%s", parts[2],
			   parts[1], parts[0], key.value) < 0) {
		name = NULL;
	}
	if (!name) {
		edit->ret = -ENOMEM;
		return;
	}
	node = smd_edit_object(edit, edit->job, "encryptionSpec", key.at);
	smd_edit_put_string(edit, node, "kmsKeyName", name, key.at);
	free(name);
}

static void apply_together(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	apply_package(flags, edit);
	apply_kms_key(flags, edit);
}

static const struct smd_job_flag pool_rows[] = {
	SMD_FLAG_GROUP("Worker pools"),
	SMD_FLAG(WORKER_POOL_SPEC, "KEY=VALUE,...",
		"a worker pool: give it once for each pool, empty for one that is not used",
		apply_pools, .gives_pools = 1),
};
const struct smd_flag_family smd_gcloud_pool_flags = SMD_FLAG_FAMILY(pool_rows);

static const struct smd_job_flag job_rows[] = {
	SMD_FLAG_GROUP("The programs of all pools but reduction servers"),
	SMD_FLAG("command", "WORD,...", "what containers start, in place of their commands",
		apply_command, .field = "command"),
	SMD_FLAG("args", "ARG,...", "arguments, in place of those of the pools", apply_args,
		.field = "args"),
	SMD_FLAG("env", "NAME=VALUE,...", "more variables", apply_env),
	SMD_FLAG("python-package-uris", "URI,...", "packages of Python modules", apply_package_uris,
		.field = "packageUris"),
	SMD_FLAG("service-account-key-file", "FILE", "sets GOOGLE_APPLICATION_CREDENTIALS",
		apply_credentials),
	/* gcloud's local-run. */
	SMD_FLAG_GROUP("One program of a directory, without worker pools"),
	SMD_FLAG(EXECUTOR, "IMAGE", "the image that it is made for", NULL, .gives_pools = 1),
	SMD_FLAG(SCRIPT, "FILE", "the program: for Python where it ends with .py, else for bash",
		NULL, .gives_pools = 1),
	SMD_FLAG(MODULE, "MODULE", "the program, a Python module", NULL, .gives_pools = 1),
	SMD_FLAG("local-package-path", "DIR",
		"the program's directory (default: the working directory)", NULL),
	SMD_FLAG("work-dir", "DIR", "the same", NULL),
	SMD_FLAG("requirements", "PACKAGE,...", "Python packages that it needs", NULL),
	SMD_FLAG("extra-packages", "FILE,...", "Python packages in its directory", NULL),
	SMD_FLAG("extra-dirs", "DIR,...", "directories within its directory", NULL),
	SMD_FLAG("output-image-uri", "IMAGE", "what its image is called", NULL),
	SMD_FLAG_GROUP("Job"),
	SMD_FLAG("display-name", "NAME", "what the job is called", apply_display_name),
	SMD_FLAG("labels", "KEY=VALUE,...", "more labels of the job", apply_labels),
	SMD_FLAG("timeout", "DURATION", "the longest that it runs, such as 90s, 15m or 1d12h",
		apply_timeout, .field = "timeout"),
	/* gcloud's of hp-tuning-jobs create. */
	SMD_FLAG_GROUP("A HyperparameterTuningJob's trials"),
	SMD_FLAG("max-trial-count", "N", "how many trials there are", apply_count,
		.field = "maxTrialCount"),
	SMD_FLAG("parallel-trial-count", "N", "how many run at the same time", apply_count,
		.field = "parallelTrialCount"),
	SMD_FLAG("algorithm", "grid-search|random-search", "how parameters are searched",
		apply_algorithm, .field = "algorithm"),
	SMD_FLAG_GROUP("Kept in the job, without effect here"),
	SMD_FLAG("service-account", "ACCOUNT", NULL, apply_string, .field = "serviceAccount"),
	SMD_FLAG("network", "NETWORK", NULL, apply_string, .field = "network"),
	SMD_FLAG("persistent-resource-id", "ID", NULL, apply_string,
		.field = "persistentResourceId"),
	SMD_FLAG("enable-web-access", NULL, NULL, apply_boolean, .field = "enableWebAccess"),
	SMD_FLAG("enable-dashboard-access", NULL, NULL, apply_boolean,
		.field = "enableDashboardAccess"),
	SMD_FLAG(KMS_KEY, "KEY", NULL, NULL),
	SMD_FLAG("kms-keyring", "KEYRING", NULL, NULL),
	SMD_FLAG("kms-location", "LOCATION", NULL, NULL),
	SMD_FLAG("kms-project", "PROJECT", NULL, NULL),
	/* gcloud's own matters, so that command lines carry over. */
	SMD_FLAG_GROUP("Accepted, without effect here"),
	SMD_PLACE_FLAGS(GLOBAL_VALUE),
	SMD_GLOBAL_FLAGS(GLOBAL_VALUE, GLOBAL_SWITCH),
	SMD_FLAG("gpu", NULL, NULL, NULL), /* programs see the GPUs that there are */
};
const struct smd_flag_family smd_gcloud_job_flags =
	SMD_FLAG_FAMILY(job_rows, .apply = apply_together);
