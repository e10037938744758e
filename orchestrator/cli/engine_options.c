/* Reads the options of --engine, and checks that they belong together. */
#include "orchestrator/cli/engine_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

static const char *const engines[] = {
	[SMD_LOCAL_RUN_HERE] = "local",
	[SMD_LOCAL_RUN_SSH] = "ssh",
	[SMD_LOCAL_RUN_SLURM] = "slurm",
};

int smd_engine_option_set(void *target, const char *value, struct smd_error *error)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (strcmp(value, engines[i]) == 0) {
			*(enum smd_local_run_engine *)target = (enum smd_local_run_engine)i;
			return 0;
		}
	}
	return smd_error_set(error, EINVAL, "must be local, ssh or slurm");
}

int smd_engine_option_add_slurm(void *target, const char *value, struct smd_error *error)
{
	static const char prefix[] = "workerpool";
	struct smd_slurm_options *options = target;
	const char *option = value;

	if (options->noptions == SMD_SLURM_OPTIONS_MAX) {
		return smd_error_set(
			error, EINVAL, "must be given at most %d times", SMD_SLURM_OPTIONS_MAX);
	}
	if (strncmp(value, prefix, strlen(prefix)) == 0 && value[strlen(prefix)] >= '0' &&
		value[strlen(prefix)] < '0' + SMD_JOB_POOLS_MAX &&
		value[strlen(prefix) + 1] == ':') {
		option += strlen(prefix) + 2;
	}
	if (option[0] != '-' || option[1] == '\0') {
		return smd_error_set(error, EINVAL,
			"must be an option of sbatch such as --qos=high, or "
			"workerpool2:--partition=cpu");
	}
	options->options[options->noptions++] = value;
	return 0;
}

/* Options of sbatch by which it would not submit one job, or not say so at once. */
static const struct {
	const char *name;
	const char *letter;
	const char *why;
} impossible[] = {
	{"--wait", "-W", "summand waits for its job itself"},
	{"--quiet", "-Q", "summand reads the job's number"},
	{"--array", "-a", "summand's job is one"},
	{"--wrap", NULL, "the job's script is summand's"},
	{"--test-only", NULL, "nothing would be submitted"},
};

static int is_option(const char *word, const char *name, const char *letter)
{
	size_t length = strlen(name);

	return (strncmp(word, name, length) == 0 && (!word[length] || word[length] == '=')) ||
	       (letter && strncmp(word, letter, strlen(letter)) == 0);
}

static int check_slurm(const struct smd_slurm_options *slurm, int is_engine)
{
	struct smd_error error = {""};

	if (is_engine && smd_engine_slurm_check(slurm, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return -1;
	}
	for (size_t i = 0; i < slurm->noptions; i++) {
		const char *word = strchr(slurm->options[i], '-'); /* behind "workerpool0:" */

		for (size_t n = 0; n < sizeof(impossible) / sizeof(impossible[0]); n++) {
			if (is_option(word, impossible[n].name, impossible[n].letter)) {
				smd_print_line(stderr,
					"summand: --slurm-option: must not be %s: %s\n",
					slurm->options[i], impossible[n].why);
				return -1;
			}
		}
	}
	return 0;
}

/* srun starts a command once for each task, and each would run the whole job. Tasks of other
 * engines may be meant so, with a job each. */
static int check_task(const struct smd_local_run_options *options)
{
	const char *task = getenv("SLURM_PROCID");
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	int is_slurm = options->engine == SMD_LOCAL_RUN_SLURM;

	if (!task || !tasks || atoi(task) < 1 || atoi(tasks) < 2) {
		return 0;
	}
	smd_print_line(stderr,
		"summand: %s: this is task %d of a step with %d tasks, each of which %s: start it "
		"once, without srun or with --ntasks=1\n",
		is_slurm ? "--engine=slurm" : "warning: srun", atoi(task), atoi(tasks),
		is_slurm ? "would run the job on all nodes" : "runs the whole job");
	return is_slurm ? -1 : 0;
}

/* Replicas on other hosts begin in the folder of that name. */
static int check_folder(const struct smd_local_run_options *options)
{
	char *here = options->engine == SMD_LOCAL_RUN_HERE ? NULL : getcwd(NULL, 0);

	if (options->engine != SMD_LOCAL_RUN_HERE && !here) {
		smd_print_line(stderr,
			"summand: the working directory: %s: replicas on other hosts begin in it\n",
			strerror(errno));
		return -1;
	}
	free(here);
	return 0;
}

static int read_hosts(struct smd_local_run_options *options)
{
	struct smd_error error = {""};

	if (options->engine == SMD_LOCAL_RUN_SSH &&
		smd_hostfile_open(&options->hosts, options->hostfile, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return -1;
	}
	return 0;
}

static unsigned given_or(int given, unsigned other)
{
	return given < 0 ? other : (unsigned)given;
}

void smd_engine_numbers_take(
	struct smd_local_run_options *options, const struct smd_engine_numbers *numbers)
{
	options->host_timeout_s = given_or(numbers->host_timeout_s, SMD_HOST_TIMEOUT_DEFAULT_S);
	options->join_timeout_s = given_or(numbers->join_timeout_s, SMD_JOIN_TIMEOUT_DEFAULT_S);
	options->host_failures = given_or(numbers->host_failures, 0);
	options->host_cool_down_s =
		given_or(numbers->host_cool_down_s, SMD_HOST_COOL_DOWN_DEFAULT_S);
}

const char *smd_engine_options_given(
	const struct smd_local_run_options *options, const struct smd_engine_numbers *numbers)
{
	const struct smd_slurm_options *slurm = &options->slurm;
	const struct {
		const char *name;
		int is_given;
	} rows[] = {
		{"engine", options->engine != SMD_LOCAL_RUN_HERE},
		{"hostfile", options->hostfile != NULL},
		{"ssh-command", options->ssh_command != NULL},
		{"copy", options->copies_agent},
		{"slurm-partition", slurm->partition != NULL},
		{"slurm-account", slurm->account != NULL},
		{"slurm-constraint", slurm->constraint != NULL},
		{"slurm-reservation", slurm->reservation != NULL},
		{"slurm-option", slurm->noptions > 0},
		{"interface", options->interface != NULL},
		{"host-timeout", numbers->host_timeout_s >= 0},
		{"join-timeout", numbers->join_timeout_s >= 0},
		{"host-failures", numbers->host_failures >= 0},
		{"host-cool-down", numbers->host_cool_down_s >= 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].is_given) {
			return rows[i].name;
		}
	}
	return NULL;
}

int smd_engine_options_check(struct smd_local_run_options *options)
{
	const struct smd_slurm_options *slurm = &options->slurm;

	if (options->join_timeout_s == 0) {
		smd_print_line(stderr, "summand: --join-timeout: must be at least 1, got 0\n");
		return -1;
	}
	if (options->engine == SMD_LOCAL_RUN_SSH && !options->hostfile) {
		smd_print_line(stderr, "summand: --engine=ssh: must come with --hostfile=FILE\n");
		return -1;
	}
	if (options->engine != SMD_LOCAL_RUN_HERE && options->kind == SMD_STORED_TUNING_JOB) {
		smd_print_line(stderr,
			"summand: --engine=%s: must not be there for a tuning job, whose trials "
			"run on this machine\n",
			options->engine == SMD_LOCAL_RUN_SSH ? "ssh" : "slurm");
		return -1;
	}
	if (options->engine != SMD_LOCAL_RUN_SLURM &&
		(slurm->partition || slurm->account || slurm->constraint || slurm->reservation ||
			slurm->noptions)) {
		smd_print_line(stderr, "summand: --slurm-%s: must come with --engine=slurm\n",
			slurm->partition     ? "partition"
			: slurm->account     ? "account"
			: slurm->constraint  ? "constraint"
			: slurm->reservation ? "reservation"
					     : "option");
		return -1;
	}
	if (options->engine != SMD_LOCAL_RUN_SSH &&
		(options->hostfile || options->ssh_command || options->copies_agent)) {
		smd_print_line(stderr, "summand: --%s: must come with --engine=ssh\n",
			options->hostfile      ? "hostfile"
			: options->ssh_command ? "ssh-command"
					       : "copy");
		return -1;
	}
	return check_slurm(slurm, options->engine == SMD_LOCAL_RUN_SLURM) || check_task(options) ||
			       check_folder(options)
		       ? -1
		       : read_hosts(options);
}

static int write_word(char **words, int *count, const char *name, const char *value)
{
	if (value && asprintf(&words[*count], "--%s=%s", name, value) < 0) {
		words[*count] = NULL;
		return -ENOMEM;
	}
	*count += value != NULL;
	return 0;
}

static int write_number(char **words, int *count, const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return write_word(words, count, name, text);
}

int smd_engine_options_write(
	const struct smd_local_run_options *options, char *words[SMD_ENGINE_WORDS_MAX])
{
	const struct smd_slurm_options *slurm = &options->slurm;
	const struct {
		const char *name;
		const char *value;
	} texts[] = {{"engine", engines[options->engine]}, {"hostfile", options->hostfile},
		{"ssh-command", options->ssh_command},
		{"copy", options->copies_agent ? "true" : NULL},
		{"slurm-partition", slurm->partition}, {"slurm-account", slurm->account},
		{"slurm-constraint", slurm->constraint}, {"slurm-reservation", slurm->reservation},
		{"interface", options->interface}};
	int count = 0;
	int ret = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		ret = ret ? ret : write_word(words, &count, texts[i].name, texts[i].value);
	}
	for (size_t i = 0; i < slurm->noptions; i++) {
		ret = ret ? ret : write_word(words, &count, "slurm-option", slurm->options[i]);
	}
	ret = ret ? ret : write_number(words, &count, "host-timeout", options->host_timeout_s);
	ret = ret ? ret : write_number(words, &count, "join-timeout", options->join_timeout_s);
	ret = ret ? ret : write_number(words, &count, "host-failures", options->host_failures);
	ret = ret ? ret
		  : write_number(words, &count, "host-cool-down", options->host_cool_down_s);
	return ret ? ret : count;
}
