/* The table of settings, and how their texts are read. */
#include "orchestrator/frontend/setting.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"

#define RESTARTS_MAX            1000000
#define RESTARTS_DEFAULT        3
#define BACKOFF_MAX_S           86400
#define BACKOFF_DEFAULT_S       1
#define PRIORITY_MAX            1000
#define SERVER_RESTARTS_MAX     20 /* more do not fit into ten minutes */
#define SERVER_RESTARTS_DEFAULT 5
#define SETTINGS_MAX        (sizeof(smd_settings) / sizeof(smd_settings[0]))
#define SETTING_NAME_MAX        64
#define RULE_MAX                128
#define EXIT_CODE_MAX           255
#define EXIT_CODE_SEPARATOR     '_'
#define BUDGET_SEPARATOR        '-'
#define BUDGET_LOST             "lost"

static const char *const distributions[] = {"any", "pytorch", "tensorflow", "mpi", NULL};
static const char *const platforms[] = {"vertex", "azureml", NULL};
static const char *const launches[] = {"process", "node", "mpirun", NULL};
static const char *const mpis[] = {"any", "openmpi", "mpich", NULL};
static const char *const mpi_bindings[] = {"none", "core", "numa", "socket", NULL};
static const char *const encodings[] = {"object", "string", "none", NULL};
static const char *const chief_names[] = {"chief", "master", NULL};
static const char *const success_policies[] = {"chief", "all-workers", "any", NULL};
static const char *const restart_policies[] = {"never", "on-failure", "exit-code", NULL};
static const char *const hybrids[] = {"auto", "on", "off", NULL};
static const char *const preemptions[] = {"off", "requeue", "cancel", NULL};
static const char *const restart_scopes[] = {"job", "replica", NULL};

static int set_value(const struct smd_setting *setting, const char *text, void *place)
{
	for (int i = 0; setting->values[i]; i++) {
		if (strcmp(text, setting->values[i]) == 0) {
			*(int *)place = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_number(const struct smd_setting *setting, const char *text, void *place)
{
	uint64_t number;
	int ret = smd_parse_number(text, (uint64_t)setting->min, (uint64_t)setting->max, &number);

	if (!ret) {
		*(int *)place = (int)number;
	}
	return ret;
}

/* "75" before `end`; -EINVAL: it is no number between these. */
static int read_digits(const char *text, const char *end, uint64_t min, uint64_t max, int *out)
{
	char digits[8];
	uint64_t number;

	if ((size_t)(end - text) >= sizeof(digits)) {
		return -EINVAL;
	}
	memcpy(digits, text, (size_t)(end - text));
	digits[end - text] = '\0';
	if (smd_parse_number(digits, min, max, &number)) {
		return -EINVAL;
	}
	*out = (int)number;
	return 0;
}

/* "75_130": labels allow no comma. */
static int set_exit_codes(const struct smd_setting *setting, const char *text, void *place)
{
	struct smd_exit_codes codes = {{0}};

	(void)setting;
	for (;;) {
		const char *end = strchrnul(text, EXIT_CODE_SEPARATOR);
		int code;

		if (read_digits(text, end, 1, EXIT_CODE_MAX, &code)) {
			return -EINVAL;
		}
		codes.bits[code / 64] |= (uint64_t)1 << code % 64;
		if (!*end) {
			*(struct smd_exit_codes *)place = codes;
			return 0;
		}
		text = end + 1;
	}
}

static int has_budget(const struct smd_restart_budgets *budgets, int code)
{
	for (size_t i = 0; i < budgets->count; i++) {
		if (budgets->list[i].code == code) {
			return 1;
		}
	}
	return 0;
}

/* "75-5", between `text` and `end`. */
static int add_budget(struct smd_restart_budgets *budgets, const char *text, const char *end)
{
	const char *dash = memchr(text, BUDGET_SEPARATOR, (size_t)(end - text));
	struct smd_restart_budget budget = {.code = SMD_RESTART_CODE_LOST};
	int is_lost = dash && (size_t)(dash - text) == strlen(BUDGET_LOST) &&
		      memcmp(text, BUDGET_LOST, strlen(BUDGET_LOST)) == 0;

	if (!dash || budgets->count == SMD_RESTART_BUDGETS_MAX ||
		(!is_lost && read_digits(text, dash, 1, EXIT_CODE_MAX, &budget.code)) ||
		read_digits(dash + 1, end, 0, RESTARTS_MAX, &budget.restarts) ||
		has_budget(budgets, budget.code)) {
		return -EINVAL;
	}
	budgets->list[budgets->count++] = budget;
	return 0;
}

static int set_budgets(const struct smd_setting *setting, const char *text, void *place)
{
	struct smd_restart_budgets budgets = {.count = 0};

	(void)setting;
	for (;;) {
		const char *end = strchrnul(text, EXIT_CODE_SEPARATOR);

		if (add_budget(&budgets, text, end)) {
			return -EINVAL;
		}
		if (!*end) {
			*(struct smd_restart_budgets *)place = budgets;
			return 0;
		}
		text = end + 1;
	}
}

#define PLACE(member) offsetof(struct smd_job, member)

const struct smd_setting smd_settings[] = {
	{"distribution", "any|pytorch|tensorflow|mpi", "whose variables replicas get (default any)",
		set_value, PLACE(distribution), .values = distributions},
	{"platform", "vertex|azureml", "whose form of variables replicas get (default vertex)",
		set_value, PLACE(platform), .values = platforms},
	{"processes-per-replica", "N", "processes that each replica starts (default 1)", set_number,
		PLACE(processes_per_replica), .min = 1, .max = SMD_JOB_PROCESSES_MAX},
	{"launch", "process|node|mpirun",
		"who starts the processes: Summand, a launcher on each node, or one mpirun "
		"(default "
		"process; mpirun with distribution mpi)",
		set_value, PLACE(launch), .values = launches},
	{"mpi-launcher", "any|openmpi|mpich",
		"whose mpirun starts the processes (default any: the first that is there)",
		set_value, PLACE(mpi_choice), .values = mpis},
	{"mpi-binding", "none|core|numa|socket", "what mpirun binds each process to (default none)",
		set_value, PLACE(mpi_binding), .values = mpi_bindings},
	{"job-encoding", "object|string|none", "the spec in CLUSTER_SPEC (default object)",
		set_value, PLACE(job_encoding), .values = encodings},
	{"chief-name", "chief|master", "name of pool 0 in TF_CONFIG (default chief)", set_value,
		PLACE(chief_name), .values = chief_names},
	{"success-policy", "chief|all-workers|any", "whose success is the job's (default chief)",
		set_value, PLACE(success_policy), .values = success_policies},
	{"restart-policy", "never|on-failure|exit-code",
		"when replicas start again after they end (default never)", set_value,
		PLACE(restart_policy), .values = restart_policies},
	{"restart-scope", "job|replica", "what starts again (default job)", set_value,
		PLACE(restart_scope), .values = restart_scopes},
	{"max-restarts", "N", "restarts at most (default 3)", set_number, PLACE(max_restarts),
		.min = 0, .max = RESTARTS_MAX},
	{"restart-backoff", "SECONDS", "pause before the first restart (default 1)", set_number,
		PLACE(restart_backoff_s), .min = 0, .max = BACKOFF_MAX_S},
	{"server-restarts", "N",
		"restarts of a lost reduction server within ten minutes, while others serve; 0: "
		"its loss ends the job (default 5)",
		set_number, PLACE(server_restarts), .min = 0, .max = SERVER_RESTARTS_MAX},
	{"hybrid", "auto|on|off",
		"reducers on the workers' hosts: where worker pool 2 has fewer reduction servers; or "
		"also without that pool (default auto)",
		set_value, PLACE(hybrid), .values = hybrids},
	{"priority", "N", "in a service's queue: those of a higher one begin first (default 0)",
		set_number, PLACE(priority), .min = 0, .max = PRIORITY_MAX},
	{"preemption", "off|requeue|cancel",
		"what becomes of the job when one of a higher priority waits for its room in a "
		"service (default off: it keeps it)",
		set_value, PLACE(preemption), .values = preemptions},
	{"retryable-exit-codes", "N_N...",
		"exit codes below 128 that restart-policy exit-code retries", set_exit_codes,
		PLACE(retryable), .form = "^[0-9]{1,3}(_[0-9]{1,3})*$",
		.rule = "must be exit codes such as 75_130"},
	{"exit-code-restarts", "CODE-N_CODE-N...",
		"restarts at most after ends with single exit codes, or of replicas that are lost, "
		"in place of restart-policy and max-restarts: 75-5_137-20_lost-9",
		set_budgets, PLACE(budgets),
		.form = "^([0-9]{1,3}|lost)-[0-9]{1,7}(_([0-9]{1,3}|lost)-[0-9]{1,7})*$",
		.rule = "must be exit codes, or lost, each once and with a number of restarts, such "
			"as 75-5_137-20_lost-9"},
};
const size_t smd_nsettings = sizeof(smd_settings) / sizeof(smd_settings[0]);

const struct smd_setting *smd_setting_find(const char *name)
{
	for (size_t i = 0; i < smd_nsettings; i++) {
		if (strcmp(name, smd_settings[i].name) == 0) {
			return &smd_settings[i];
		}
	}
	return NULL;
}

void smd_settings_init(struct smd_job *job)
{
	job->processes_per_replica = 1;
	job->max_restarts = RESTARTS_DEFAULT;
	job->restart_backoff_s = BACKOFF_DEFAULT_S;
	job->server_restarts = SERVER_RESTARTS_DEFAULT;
}

void smd_setting_rule(const struct smd_setting *setting, char *text, size_t size)
{
	size_t n;

	if (!setting->values) {
		if (setting->max) {
			snprintf(text, size, "must be a whole number from %d to %d", setting->min,
				setting->max);
		} else {
			snprintf(text, size, "%s", setting->rule);
		}
		return;
	}
	n = (size_t)snprintf(text, size, "must be ");
	for (int i = 0; setting->values[i]; i++) {
		const char *after = !setting->values[i + 1]  ? ""
				    : setting->values[i + 2] ? ", "
							     : " or ";

		n += (size_t)snprintf(text + n, size - n, "%s%s", setting->values[i], after);
	}
}

/* A whole number from 0 or from 1 up to as many digits as the greatest has. */
static json_t *describe_number(const struct smd_setting *setting)
{
	int digits = snprintf(NULL, 0, "%d", setting->max);
	char form[64];

	if (setting->min > 0) {
		snprintf(form, sizeof(form), "^0*[1-9][0-9]{0,%d}$", digits - 1);
	} else {
		snprintf(form, sizeof(form), "^0*[0-9]{1,%d}$", digits);
	}
	return json_pack("{s:s, s:s}", "type", "string", "pattern", form);
}

static json_t *describe_setting(const struct smd_setting *setting)
{
	json_t *values;

	if (setting->form) {
		return json_pack("{s:s, s:s}", "type", "string", "pattern", setting->form);
	} else if (!setting->values) {
		return describe_number(setting);
	}
	values = json_array();
	for (int i = 0; values && setting->values[i]; i++) {
		json_array_append_new(values, json_string(setting->values[i]));
	}
	return json_pack("{s:o}", "enum", values);
}

/* Its help is a sentence's words. */
static json_t *describe_documented(const struct smd_setting *setting)
{
	json_t *json = describe_setting(setting);
	char *text;

	if (!json || asprintf(&text, "%c%s.", toupper((unsigned char)setting->help[0]),
			     setting->help + 1) < 0) {
		json_decref(json);
		return NULL;
	}
	json_object_set_new(json, "description", json_string(text));
	free(text);
	return json;
}

json_t *smd_settings_describe(void)
{
	json_t *properties = json_object();
	char name[SETTING_NAME_MAX];

	for (size_t i = 0; properties && i < smd_nsettings; i++) {
		snprintf(name, sizeof(name), SMD_SETTING_PREFIX "%s", smd_settings[i].name);
		json_object_set_new(properties, name, describe_documented(&smd_settings[i]));
	}
	return properties;
}

static void refuse_unknown(struct smd_decoder *decoder, const struct smd_node *label)
{
	static const size_t prefix = sizeof(SMD_SETTING_PREFIX) - 1;
	const char *names[SETTINGS_MAX];
	const char *near;

	for (size_t i = 0; i < smd_nsettings; i++) {
		names[i] = smd_settings[i].name;
	}
	near = smd_suggest(label->key + prefix, names, smd_nsettings);
	if (near) {
		smd_error_at_name(decoder->diagnostics, label,
			"unknown setting; did you mean " SMD_SETTING_PREFIX "%s?", near);
	} else {
		smd_error_at_name(decoder->diagnostics, label, "unknown setting");
	}
}

static void decode_label(
	struct smd_decoder *decoder, const struct smd_node *label, struct smd_job *job)
{
	const struct smd_setting *setting =
		smd_setting_find(label->key + sizeof(SMD_SETTING_PREFIX) - 1);
	char rule[RULE_MAX];
	char got[SMD_NODE_TEXT_MAX];

	if (!setting) {
		refuse_unknown(decoder, label);
		return;
	}
	if (setting->set(setting, label->string, (char *)job + setting->offset)) {
		smd_setting_rule(setting, rule, sizeof(rule));
		smd_node_describe(label, got);
		smd_error_at_value(decoder->diagnostics, label, "%s, got %s", rule, got);
	}
}

void smd_settings_decode(
	struct smd_decoder *decoder, const struct smd_node *labels, struct smd_job *job)
{
	if (!labels || labels->type != SMD_NODE_OBJECT) {
		return;
	}
	for (const struct smd_node *label = labels->first; label; label = label->next) {
		if (label->type == SMD_NODE_STRING &&
			strncmp(label->key, SMD_SETTING_PREFIX, sizeof(SMD_SETTING_PREFIX) - 1) ==
				0) {
			decode_label(decoder, label, job);
		}
	}
}
