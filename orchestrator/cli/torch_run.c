/* Runs a PyTorch script in several processes, and says how it failed as TorchDistributor does. */
#include "orchestrator/cli/torch_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/format.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/frontend/torch/torch_job.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/local_run.h"
#include "orchestrator/runner/log_file.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/printable.h"

#define GRACE_S         30
#define READY_TIMEOUT_S 30
#define LOG_LINES       100

struct torch_run {
	struct smd_torch_script script;
	int dry_run;
	const char *job_dir;
};

/* The message of a line of the stream; NULL when it is the runner's. */
static const char *message_of(const char *line)
{
	for (int tabs = 0; tabs < 3; tabs++) {
		line = strchr(line, '\t');
		if (!line) {
			return NULL;
		}
		line++;
		if (tabs == 1 && strncmp(line, "service\t", 8) == 0) {
			return NULL;
		}
	}
	return line;
}

/* The last lines that all processes have said, oldest first. */
static void print_last_lines(FILE *log)
{
	char *lines[LOG_LINES] = {NULL};
	char *line = NULL;
	size_t size = 0;
	size_t count = 0;

	while (getline(&line, &size, log) > 0) {
		const char *message = message_of(line);

		if (message) {
			free(lines[count % LOG_LINES]);
			lines[count++ % LOG_LINES] = strdup(message);
		}
	}
	for (size_t i = 0; i < LOG_LINES; i++) {
		char **place = &lines[(count + i) % LOG_LINES];

		if (*place) {
			smd_print_line(stderr, "%s", *place);
		}
		free(*place);
	}
	free(line);
}

static void print_failure(const struct torch_run *run, const struct smd_jobdir *dir)
{
	size_t size;
	FILE *log = smd_jobdir_read_file(dir, "logs/job.log", &size);

	if (!log) {
		return;
	}
	fputs("summand: Command [python3", stderr);
	for (int i = 0; i < run->script.nwords; i++) {
		char *word = strdup(run->script.words[i]);

		if (word) {
			smd_printable(word);
			fprintf(stderr, " %s", word);
		}
		free(word);
	}
	fprintf(stderr, "] failed. The last %d lines of the task output are included below:\n",
		LOG_LINES);
	print_last_lines(log);
	fclose(log);
}

static int run_job(const struct torch_run *run, struct smd_job *job, const char *spec)
{
	struct smd_jobdir dir;
	struct smd_local_run_options options = {.dir = &dir,
		.grace_s = GRACE_S,
		.ready_timeout_s = READY_TIMEOUT_S,
		.log_limit = SMD_LOG_LIMIT_DEFAULT,
		.stream_logs = 1,
		.tells_failure = 1,
		.spec_text = spec,
		.spec_length = strlen(spec)};
	struct smd_error error = {""};
	int exit_code;

	if (smd_jobdir_open(&dir, job, run->job_dir, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_USAGE;
	}
	exit_code = smd_local_run(job, &options, &error);
	if (exit_code < 0) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		exit_code = SMD_EXIT_FAILED;
	} else if (exit_code == SMD_EXIT_FAILED) {
		print_failure(run, &dir);
	}
	smd_jobdir_close(&dir);
	return exit_code;
}

static int start(const struct torch_run *run)
{
	struct smd_job *job;
	char *spec;
	int exit_code;

	if (smd_torch_job_create(&run->script, &job, &spec)) {
		smd_print_line(stderr, "summand: the script and its arguments must be UTF-8\n");
		return SMD_EXIT_USAGE;
	}
	if (run->dry_run) {
		exit_code = smd_yaml_print(job->resolved, stdout) ? SMD_EXIT_FAILED : SMD_EXIT_OK;
	} else {
		exit_code = run_job(run, job, spec);
	}
	smd_job_free(job);
	free(spec);
	return exit_code;
}

/* Tells what came of the GPUs that were asked for. */
static int choose_devices(struct smd_torch_script *script)
{
	struct smd_error error = {""};
	int asked = script->num_processes;
	int ret = smd_torch_devices_choose(script, &error);

	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	} else if (script->num_processes < asked) {
		smd_print_line(stderr,
			"summand: warning: --num-processes cannot be greater than the number of "
			"available GPUs, which is %d; it was reset to that\n",
			script->num_processes);
	}
	return ret;
}

static int set_processes(void *target, const char *value, struct smd_error *error)
{
	int number = 0;

	if (smd_option_set_int(&number, value, NULL) || number < 1 ||
		number > SMD_JOB_PROCESSES_MAX) {
		return smd_error_set(error, EINVAL, "must be a whole number from 1 to %d",
			SMD_JOB_PROCESSES_MAX);
	}
	*(int *)target = number;
	return 0;
}

int smd_torch_run(int argc, char **argv)
{
	struct torch_run run = {.script = {.num_processes = 1, .local_mode = 1, .use_gpu = 1}};
	const struct smd_option options[] = {
		{"num-processes", "N", "processes to start (default 1)", set_processes,
			&run.script.num_processes},
		{"local-mode", NULL, "all on one node (default); --no-local-mode: each on its own",
			smd_option_set_bool, &run.script.local_mode},
		{"use-gpu", NULL, "on this machine's GPUs (default); --no-use-gpu: without",
			smd_option_set_bool, &run.script.use_gpu},
		{"dry-run", NULL, "only print the job that would be run", smd_option_set_bool,
			&run.dry_run},
		{"job-dir", "DIR", "where logs and records go (default: a new directory)",
			smd_option_set_path, &run.job_dir},
	};
	const struct smd_command command = {
		.synopsis = "summand torch-run [OPTION...] [--] SCRIPT [ARG...]",
		.summary = "Runs a PyTorch script in several processes of this machine.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.ends_with_operand = 1,
	};
	struct smd_error error = {""};
	int exit_code = SMD_EXIT_USAGE;
	int ret = smd_options_parse(&command, argc, argv, &run.script.nwords, &error);

	if (ret) {
		if (ret != -ENOEXEC) {
			smd_print_line(stderr, "summand: %s\n", error.text);
		}
		return ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	}
	run.script.words = argv + 1;
	if (run.script.nwords == 0) {
		smd_print_line(stderr, "summand: a script is needed: %s\n", command.synopsis);
		return SMD_EXIT_USAGE;
	}
	if (!choose_devices(&run.script)) {
		exit_code = start(&run);
	}
	free(run.script.devices);
	return exit_code;
}
