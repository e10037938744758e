/* Reads the options of --engine, and checks that they belong together. */
#include "orchestrator/cli/engine_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

int smd_engine_option_set(void *target, const char *value, struct smd_error *error)
{
	static const char *const names[] = {
		[SMD_LOCAL_RUN_HERE] = "local",
		[SMD_LOCAL_RUN_SSH] = "ssh",
		[SMD_LOCAL_RUN_SLURM] = "slurm",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
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

/* sbatch would then name its job only at the end of that. */
static int waits(const char *option)
{
	const char *word = strchr(option, '-'); /* behind "workerpool0:" */

	return strcmp(word, "--wait") == 0 || strcmp(word, "-W") == 0;
}

static int check_slurm(const struct smd_slurm_options *slurm)
{
	for (size_t i = 0; i < slurm->noptions; i++) {
		if (waits(slurm->options[i])) {
			smd_print_line(stderr,
				"summand: --slurm-option: must not be %s: summand waits for its "
				"job itself\n",
				slurm->options[i]);
			return -1;
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
	return check_slurm(slurm) || check_task(options) ? -1 : read_hosts(options);
}
