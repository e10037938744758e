/* The command line's flags: what was given of each, and how all of it changes a document. */
#include "orchestrator/frontend/job_flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/setting.h"

#define CONFIG               "config"
#define DISPLAY_NAME_DEFAULT "custom-job"
#define OPTIONS_MAX          128
#define LABEL_SIZE           65
#define RULE_MAX             128

/* A flag's values in the order in which they were given. */
struct given {
	const struct smd_job_flag *flag;
	char *name; /* "--args" */
	struct smd_flag_value *values;
	size_t count;
	size_t *sequence; /* counts the flags of the command line */
};

struct smd_job_flags {
	const struct smd_frontend *table;
	struct smd_option options[OPTIONS_MAX];
	struct given given[OPTIONS_MAX]; /* beside options */
	size_t noptions;
	size_t sequence; /* how many flags were given */
	struct smd_option *merged;
	struct smd_command command;
	char *elsewhere;                /* the command's */
	struct smd_job_flag settings[]; /* smd_nsettings of them */
};

/* Those that change no job. */
static const struct smd_job_flag own_rows[] = {
	SMD_FLAG_GROUP("Files"),
	SMD_FLAG(CONFIG, "FILE", "a spec, as SPEC; the other flags change it", NULL),
	SMD_FLAG("flags-file", "FILE", "more flags, in YAML or JSON", NULL), /* flags_file.h */
};
static const struct smd_flag_family own_flags = SMD_FLAG_FAMILY(own_rows);

static void apply_setting(struct smd_job_edit *edit, const struct smd_job_flag *flag,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_setting *setting = smd_setting_find(flag->name);
	const struct smd_flag_value *last = &values[count - 1];
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
		smd_edit_put_label(edit, name, text, last->at);
	}
	free(text);
}

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
		.value = value, .at = {.column = (int)++*given->sequence, .flag = given->name}};
	return 0;
}

static int add_row(struct smd_job_flags *flags, const struct smd_job_flag *row)
{
	size_t n = flags->noptions;

	if (n == OPTIONS_MAX) {
		return -E2BIG;
	}
	if (row->name && asprintf(&flags->given[n].name, "--%s", row->name) < 0) {
		flags->given[n].name = NULL;
		return -ENOMEM;
	}
	flags->given[n].flag = row;
	flags->given[n].sequence = &flags->sequence;
	flags->options[n] =
		(struct smd_option){row->name, row->metavar, row->help, record, &flags->given[n]};
	flags->noptions++;
	return 0;
}

static int add_family(struct smd_job_flags *flags, const struct smd_flag_family *family)
{
	int ret = 0;

	for (size_t i = 0; !ret && family && i < family->count; i++) {
		ret = add_row(flags, &family->rows[i]);
	}
	return ret;
}

static int add_settings(struct smd_job_flags *flags)
{
	static const struct smd_job_flag group = SMD_FLAG_GROUP(
		"Settings; in a CustomJob each is a label, " SMD_SETTING_PREFIX "NAME");
	int ret = add_row(flags, &group);

	for (size_t i = 0; !ret && i < smd_nsettings; i++) {
		const struct smd_setting *setting = &smd_settings[i];

		flags->settings[i] = (struct smd_job_flag){.name = setting->name,
			.metavar = setting->metavar,
			.help = setting->help,
			.apply = apply_setting};
		ret = add_row(flags, &flags->settings[i]);
	}
	return ret;
}

int smd_job_flags_create(const struct smd_frontend *table, struct smd_job_flags **out)
{
	struct smd_job_flags *flags =
		calloc(1, sizeof(*flags) + smd_nsettings * sizeof(flags->settings[0]));
	int ret;

	if (!flags) {
		return -ENOMEM;
	}
	flags->table = table;
	ret = add_family(flags, &own_flags);
	for (const struct smd_frontend *row = table; !ret && !smd_frontend_is_end(row); row++) {
		ret = add_family(flags, row->flags);
	}
	ret = ret ? ret : add_settings(flags);
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
		free(flags->given[i].name);
		free(flags->given[i].values);
	}
	if (flags) {
		free(flags->merged);
		free(flags->elsewhere);
		free(flags);
	}
}

/* What SPEC may be, of the table of front ends, and where the flags are. */
static int write_elsewhere(struct smd_job_flags *flags)
{
	char *names = smd_frontend_names(flags->table);
	int length = -1;

	free(flags->elsewhere);
	flags->elsewhere = NULL;
	if (names) {
		length = asprintf(&flags->elsewhere,
			"SPEC is a file, JSON or YAML, or - for standard input, with %s. Job flags "
			"such as --worker-pool-spec describe a job without it, or change it: "
			"`summand help " SMD_JOB_FLAGS_TOPIC "` lists them.",
			names);
	}
	flags->elsewhere = length < 0 ? NULL : flags->elsewhere;
	free(names);
	return flags->elsewhere ? 0 : -ENOMEM;
}

const struct smd_command *smd_job_flags_command(
	struct smd_job_flags *flags, const struct smd_command *command)
{
	size_t count = command->noptions + flags->noptions;

	free(flags->merged);
	flags->merged = calloc(count, sizeof(*flags->merged));
	if (!flags->merged || write_elsewhere(flags)) {
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
	flags->command.nelsewhere = flags->noptions;
	flags->command.elsewhere = flags->elsewhere;
	return &flags->command;
}

int smd_job_flags_print_help(void)
{
	struct smd_command command = {
		.synopsis = "summand custom-jobs COMMAND [SPEC] FLAG... [-- ARG...]",
		.summary = "Job flags describe a job without SPEC, or change what SPEC says. Every "
			   "command that takes SPEC takes them.",
		.epilog = "Lists and dictionaries have commas between their items; "
			  "--args=^;^a,b;c has other marks. Words after -- are arguments of every "
			  "pool's program.",
		.is_topic = 1,
	};
	struct smd_job_flags *flags;
	int ret = smd_job_flags_create(smd_frontends, &flags);

	if (!ret) {
		command.options = flags->options;
		command.noptions = flags->noptions;
		smd_command_print_help(&command);
		smd_job_flags_free(flags);
	}
	return ret;
}

struct smd_flag_value smd_job_flags_last(const struct smd_job_flags *flags, const char *name)
{
	for (size_t i = 0; i < flags->noptions; i++) {
		const struct given *given = &flags->given[i];

		if (given->count > 0 && strcmp(given->flag->name, name) == 0) {
			return given->values[given->count - 1];
		}
	}
	return (struct smd_flag_value){.value = NULL};
}

const char *smd_job_flags_config(const struct smd_job_flags *flags)
{
	return smd_job_flags_last(flags, CONFIG).value;
}

int smd_job_flags_have_pools(const struct smd_job_flags *flags)
{
	for (size_t i = 0; i < flags->noptions; i++) {
		if (flags->given[i].flag->gives_pools && flags->given[i].count > 0) {
			return 1;
		}
	}
	return 0;
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

static void apply_words(
	const struct smd_job_flags *flags, char **words, size_t nwords, struct smd_job_edit *edit)
{
	struct smd_source_position after = {.column = (int)flags->sequence + 1, .flag = "--"};
	struct smd_flag_items items = {.values = words, .count = nwords};

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

static void apply_all(const struct smd_job_flags *flags, struct smd_job_edit *edit)
{
	for (const struct smd_frontend *row = flags->table; !smd_frontend_is_end(row); row++) {
		if (row->flags && row->flags->apply) {
			row->flags->apply(flags, edit);
		}
	}
	for (size_t i = 0; i < flags->noptions; i++) {
		const struct given *given = &flags->given[i];

		if (given->flag->apply && given->count > 0) {
			given->flag->apply(edit, given->flag, given->values, given->count);
		}
	}
}

/* The CustomJobSpec in a CustomJob or a HyperparameterTuningJob. */
static struct smd_node *spec_of(const struct smd_node *document)
{
	const struct smd_node *spec = smd_node_member(document, "jobSpec");

	return (struct smd_node *)(spec ? spec : smd_node_member(document, "trialJobSpec"));
}

/* A CustomJob around the spec. */
static int wrap(struct smd_node **document)
{
	struct smd_source_position at = (*document)->at;
	struct smd_node *job;
	int ret = -ENOMEM;

	if ((*document)->type != SMD_NODE_OBJECT || spec_of(*document) ||
		smd_node_member(*document, "displayName")) {
		return 0;
	}
	job = smd_node_create(NULL, NULL, SMD_NODE_OBJECT, at);
	if (job && smd_node_create_string(job, "displayName", DISPLAY_NAME_DEFAULT, at)) {
		ret = smd_node_adopt(job, "jobSpec", *document);
	}
	if (ret) {
		smd_node_free(job);
		return ret;
	}
	*document = job;
	return 0;
}

int smd_job_flags_apply(const struct smd_job_flags *flags, char **words, size_t nwords,
	struct smd_job_edit *edit, struct smd_node **document)
{
	size_t errors = edit->diagnostics->found[SMD_SEVERITY_ERROR];
	int ret;

	if (flags->sequence == 0 && nwords == 0) {
		return 0;
	}
	ret = wrap(document);
	if (ret || (*document)->type != SMD_NODE_OBJECT) {
		return ret;
	}
	edit->job = *document;
	edit->spec = spec_of(*document);
	if (!edit->spec || edit->spec->type != SMD_NODE_OBJECT) {
		return 0;
	}
	apply_all(flags, edit);
	apply_words(flags, words, nwords, edit);
	if (!edit->ret && smd_job_flags_have_pools(flags) &&
		edit->diagnostics->found[SMD_SEVERITY_ERROR] > errors) {
		return -EINVAL;
	}
	return edit->ret;
}
