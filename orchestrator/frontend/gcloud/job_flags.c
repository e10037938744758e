/* The table of flags, what was given of them, and what each does to the document. */
#include "orchestrator/frontend/gcloud/job_flags.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/azureml/azure_flags.h"
#include "orchestrator/frontend/gcloud/duration.h"
#include "orchestrator/frontend/gcloud/package_flags.h"
#include "orchestrator/frontend/setting.h"
#include "orchestrator/job/job.h"

#define CONFIG           "config"
#define WORKER_POOL_SPEC "worker-pool-spec"
#define EXECUTOR         "executor-image-uri"
#define SCRIPT           "script"
#define MODULE           "python-module"
#define KMS_KEY          "kms-key"
#define OPTIONS_MAX      96
#define LABEL_SIZE       65
#define RULE_MAX         128

struct job_flag {
	const char *name;
	const char *metavar;
	const char *help;
	/* Changes the document; NULL: the flag is gcloud's and has no effect here. */
	void (*apply)(struct smd_job_edit *edit, const struct job_flag *flag,
		const struct smd_flag_value *values, size_t count);
	const char *field; /* in the CustomJobSpec */
};

/* A flag's values in the order in which they were given. */
struct given {
	const char *flag; /* "--args" */
	struct smd_flag_value *values;
	size_t count;
	size_t *sequence; /* counts the flags of the command line */
};

struct smd_job_flags {
	struct smd_option options[OPTIONS_MAX];
	struct given given[OPTIONS_MAX]; /* beside options */
	char *names[OPTIONS_MAX];        /* "--args" */
	size_t noptions;
	size_t sequence; /* how many flags were given */
	struct smd_option *merged;
	struct smd_command command;
};

static void apply_string(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];

	smd_edit_put_string(edit, edit->spec, flag->field, last->value, last->at);
}

static void apply_boolean(struct smd_job_edit *edit, const struct job_flag *flag,
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
static void apply_count(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *last = &values[count - 1];

	smd_edit_put_string(edit, edit->job, flag->field, last->value, last->at);
}

/* "grid-search" is GRID_SEARCH. */
static void apply_algorithm(struct smd_job_edit *edit, const struct job_flag *flag,
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

static void apply_display_name(struct smd_job_edit *edit, const struct job_flag *flag,
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

static void put_label(struct smd_job_edit *edit, const char *key, const char *value,
	struct smd_source_position at)
{
	struct smd_node *labels = smd_edit_object(edit, edit->job, "labels", at);

	smd_edit_put_string(edit, labels, key, value, at);
}

static void apply_labels(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	each_item(edit, values, count, put_label);
}

static void apply_env(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	each_item(edit, values, count, smd_edit_put_variable);
}

static void apply_credentials(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_put_variable(edit, "GOOGLE_APPLICATION_CREDENTIALS", values[count - 1].value,
		values[count - 1].at);
}

static void apply_args(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_ANY, values, count);
}

static void apply_command(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_CONTAINER, values, count);
}

static void apply_package_uris(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	smd_edit_put_list(edit, flag->field, SMD_TASK_PACKAGE, values, count);
}

static void apply_timeout(struct smd_job_edit *edit, const struct job_flag *flag,
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

static void apply_pools(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_pools(edit, values, count);
}

static void apply_pytorch(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_azure_pytorch(edit, &values[count - 1]);
}

static void apply_mpi(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_azure_mpi(edit, &values[count - 1]);
}

static void apply_tensorflow(struct smd_job_edit *edit, const struct job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	(void)flag;
	smd_edit_azure_tensorflow(edit, &values[count - 1]);
}

/* In the order in which they are applied: pools first, then what changes pools. */
static const struct job_flag rows[] = {
	{"flags-file", "FILE", "more flags, in YAML or JSON", NULL, NULL}, /* flags_file.h */
	{CONFIG, "FILE", "a spec, as SPEC; other flags change it", NULL, NULL},
	{WORKER_POOL_SPEC, "KEY=VALUE,...", "a worker pool; once for each, empty: unused",
		apply_pools, NULL},
	/* Azure ML's first version. */
	{"pytorch-configuration", "process_count=N,node_count=N",
		"pool 0 on N nodes; a total count", apply_pytorch, NULL},
	{"mpi-configuration", "process_count_per_node=N,node_count=N", "the same; a count per node",
		apply_mpi, NULL},
	{"tensorflow-configuration", "worker_count=N,parameter_server_count=N",
		"the same, with parameter servers", apply_tensorflow, NULL},
	{"display-name", "NAME", "what the job is called", apply_display_name, NULL},
	{"labels", "KEY=VALUE,...", "labels of the job", apply_labels, NULL},
	{"command", "WORD,...", "the command of all pools", apply_command, "command"},
	{"args", "ARG,...", "the arguments of all pools", apply_args, "args"},
	{"env", "NAME=VALUE,...", "variables for all pools", apply_env, NULL},
	{"python-package-uris", "URI,...", "packages of python-module", apply_package_uris,
		"packageUris"},
	/* gcloud's of hp-tuning-jobs create. */
	{"max-trial-count", "N", "of a HyperparameterTuningJob", apply_count, "maxTrialCount"},
	{"parallel-trial-count", "N", "the same", apply_count, "parallelTrialCount"},
	{"algorithm", "grid-search|random-search", "the same", apply_algorithm, "algorithm"},
	{"timeout", "DURATION", "such as 90s, 15m or 1d12h", apply_timeout, "timeout"},
	{"service-account", "ACCOUNT", "kept, without effect here", apply_string, "serviceAccount"},
	{"network", "NETWORK", "kept, without effect here", apply_string, "network"},
	{"persistent-resource-id", "ID", "kept, without effect here", apply_string,
		"persistentResourceId"},
	{"enable-web-access", NULL, "kept, without effect here", apply_boolean, "enableWebAccess"},
	{"enable-dashboard-access", NULL, "kept, without effect here", apply_boolean,
		"enableDashboardAccess"},
	{KMS_KEY, "KEY", "kept, without effect here", NULL, NULL},
	{"kms-keyring", "KEYRING", "where the key is, if its name does not say", NULL, NULL},
	{"kms-location", "LOCATION", "the same", NULL, NULL},
	{"kms-project", "PROJECT", "the same", NULL, NULL},
	{"service-account-key-file", "FILE", "for GOOGLE_APPLICATION_CREDENTIALS",
		apply_credentials, NULL},
	/* gcloud's local-run: one program of a directory. */
	{EXECUTOR, "IMAGE", "for a job of one program, without other worker pools", NULL, NULL},
	{SCRIPT, "FILE", "the program, a Python script", NULL, NULL},
	{MODULE, "MODULE", "the program, a Python module", NULL, NULL},
	{"local-package-path", "DIR", "where it is (default: the working directory)", NULL, NULL},
	{"work-dir", "DIR", "the same", NULL, NULL},
	{"requirements", "PACKAGE,...", "Python packages that it needs", NULL, NULL},
	{"extra-packages", "FILE,...", "Python packages of the directory", NULL, NULL},
	{"extra-dirs", "DIR,...", "must be in the directory", NULL, NULL},
	{"output-image-uri", "IMAGE", "what the image is called", NULL, NULL},
	{"gpu", NULL, "without effect here: programs see the GPUs that there are", NULL, NULL},
	/* gcloud's own matters, so that command lines carry over. */
	{"region", "REGION", "without effect here", NULL, NULL},
	{"project", "PROJECT", "without effect here", NULL, NULL},
	{"account", "ACCOUNT", "without effect here", NULL, NULL},
	{"impersonate-service-account", "ACCOUNT", "without effect here", NULL, NULL},
	{"access-token-file", "FILE", "without effect here", NULL, NULL},
	{"billing-project", "PROJECT", "without effect here", NULL, NULL},
	{"configuration", "NAME", "without effect here", NULL, NULL},
	{"log-http", NULL, "without effect here", NULL, NULL},
	{"trace-token", "TOKEN", "without effect here", NULL, NULL},
	{"user-output-enabled", NULL, "without effect here", NULL, NULL},
	{"verbosity", "LEVEL", "without effect here", NULL, NULL},
	{"quiet", NULL, "without effect here", NULL, NULL},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* jansson takes nothing else. */
static int is_utf8(const char *text)
{
	json_t *probe = json_string(text);

	json_decref(probe);
	return probe != NULL;
}

static int record(void *target, const char *value, struct smd_error *error)
{
	struct given *given = target;
	struct smd_flag_value *values =
		realloc(given->values, (given->count + 1) * sizeof(*values));

	if (!values) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	given->values = values;
	if (!is_utf8(value)) {
		return smd_error_set(error, EINVAL, "must be UTF-8");
	}
	values[given->count++] = (struct smd_flag_value){
		.value = value, .at = {.column = (int)++*given->sequence, .flag = given->flag}};
	return 0;
}

static int add_option(
	struct smd_job_flags *flags, const char *name, const char *metavar, const char *help)
{
	size_t n = flags->noptions;

	if (asprintf(&flags->names[n], "--%s", name) < 0) {
		flags->names[n] = NULL;
		return -ENOMEM;
	}
	flags->given[n].flag = flags->names[n];
	flags->given[n].sequence = &flags->sequence;
	flags->options[n] = (struct smd_option){name, metavar, help, record, &flags->given[n]};
	flags->noptions++;
	return 0;
}

int smd_job_flags_create(struct smd_job_flags **out)
{
	struct smd_job_flags *flags = calloc(1, sizeof(*flags));
	int ret = flags ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < ROWS; i++) {
		ret = add_option(flags, rows[i].name, rows[i].metavar, rows[i].help);
	}
	for (size_t i = 0; !ret && i < smd_nsettings; i++) {
		const struct smd_setting *setting = &smd_settings[i];

		ret = add_option(flags, setting->name, setting->metavar, setting->help);
	}
	if (ret) {
		smd_job_flags_free(flags);
		return ret;
	}
	*out = flags;
	return 0;
}

void smd_job_flags_free(struct smd_job_flags *flags)
{
	for (size_t i = 0; flags && i < flags->noptions; i++) {
		free(flags->names[i]);
		free(flags->given[i].values);
	}
	if (flags) {
		free(flags->merged);
		free(flags);
	}
}

const struct smd_command *smd_job_flags_command(
	struct smd_job_flags *flags, const struct smd_command *command)
{
	size_t count = command->noptions + flags->noptions;

	free(flags->merged);
	flags->merged = calloc(count, sizeof(*flags->merged));
	if (!flags->merged) {
		return NULL;
	}
	if (command->noptions > 0) {
		memcpy(flags->merged, command->options, command->noptions * sizeof(*flags->merged));
	}
	memcpy(flags->merged + command->noptions, flags->options,
		flags->noptions * sizeof(*flags->merged));
	flags->command = *command;
	flags->command.options = flags->merged;
	flags->command.noptions = count;
	return &flags->command;
}

/* The last value of a flag; its text is NULL when it was not given. */
static struct smd_flag_value last_value(const struct smd_job_flags *flags, const char *name)
{
	for (size_t i = 0; i < flags->noptions; i++) {
		const struct given *given = &flags->given[i];

		if (strcmp(flags->options[i].name, name) == 0 && given->count > 0) {
			return given->values[given->count - 1];
		}
	}
	return (struct smd_flag_value){.value = NULL};
}

const char *smd_job_flags_config(const struct smd_job_flags *flags)
{
	return last_value(flags, CONFIG).value;
}

int smd_job_flags_have_pools(const struct smd_job_flags *flags)
{
	static const char *const names[] = {WORKER_POOL_SPEC, EXECUTOR, SCRIPT, MODULE};
	int have = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		have = have || last_value(flags, names[i]).value;
	}
	return have;
}

int smd_job_flags_are_given(const struct smd_job_flags *flags)
{
	return flags->sequence > 0;
}

static void apply_package(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	struct smd_package_flags package = {
		.executor_image = last_value(flags, EXECUTOR),
		.output_image = last_value(flags, "output-image-uri"),
		.script = last_value(flags, SCRIPT),
		.module = last_value(flags, MODULE),
		.directory = last_value(flags, "local-package-path"),
		.requirements = last_value(flags, "requirements"),
		.extra_packages = last_value(flags, "extra-packages"),
		.extra_dirs = last_value(flags, "extra-dirs"),
	};

	if (!package.directory.value) {
		package.directory = last_value(flags, "work-dir");
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
		value = last_value(flags, *names).value;
	}
	return value;
}

/* The key by its full name, which is in one flag or in four. */
static void apply_kms_key(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	static const char *const names[][3] = {
		{"kms-keyring"}, {"kms-location", "region"}, {"kms-project", "project"}};
	struct smd_flag_value key = last_value(flags, KMS_KEY);
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

static void apply_setting(
	const struct smd_setting *setting, const struct given *given, struct smd_job_edit *edit)
{
	const struct smd_flag_value *last = &given->values[given->count - 1];
	union {
		int number;
		struct smd_exit_codes codes;
	} place;
	char name[LABEL_SIZE];
	char rule[RULE_MAX];
	char *text = strdup(last->value);

	if (!text) {
		edit->ret = -ENOMEM;
		return;
	}
	for (char *c = text; *c; c++) {
		*c = *c == ',' ? '_' : *c; /* labels allow no comma */
	}
	if (setting->set(setting, text, &place)) {
		smd_setting_rule(setting, rule, sizeof(rule));
		smd_edit_refuse(edit, last->at, "%s, got \"%s\"", rule, last->value);
	} else {
		snprintf(name, sizeof(name), SMD_SETTING_PREFIX "%s", setting->name);
		put_label(edit, name, text, last->at);
	}
	free(text);
}

/* The words after "--" are arguments of every task, after those that it has. */
static void add_words_in(struct smd_job_edit *edit, struct smd_node *task, int is_container,
	const void *context, struct smd_source_position at)
{
	const struct smd_flag_items *words = context;
	struct smd_node *args = (struct smd_node *)smd_node_member(task, "args");

	(void)is_container;
	args = args ? args : smd_edit_put(edit, task, "args", SMD_NODE_ARRAY, at);
	for (size_t i = 0; args && args->type == SMD_NODE_ARRAY && i < words->count; i++) {
		if (!smd_node_create_string(args, NULL, words->values[i], at)) {
			edit->ret = -ENOMEM;
		}
	}
}

void smd_job_flags_apply(
	const struct smd_job_flags *flags, char **words, size_t nwords, struct smd_job_edit *edit)
{
	struct smd_source_position after = {.column = (int)flags->sequence + 1, .flag = "--"};
	struct smd_flag_items items = {.values = words, .count = nwords};

	apply_package(flags, edit);
	apply_kms_key(flags, edit);
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].apply && flags->given[i].count > 0) {
			rows[i].apply(
				edit, &rows[i], flags->given[i].values, flags->given[i].count);
		}
	}
	for (size_t i = 0; i < smd_nsettings; i++) {
		if (flags->given[ROWS + i].count > 0) {
			apply_setting(&smd_settings[i], &flags->given[ROWS + i], edit);
		}
	}
	for (size_t i = 0; i < nwords; i++) {
		if (!is_utf8(words[i])) {
			smd_edit_refuse(edit, after, "argument %zu must be UTF-8", i + 1);
			return;
		}
	}
	if (nwords > 0) {
		smd_edit_each_task(edit, add_words_in, &items, after);
	}
}
