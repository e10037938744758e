/* Runs a PyTorch script in several processes, and says how it failed as TorchDistributor does. */
#include "orchestrator/cli/torch_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/format.h"
#include "orchestrator/cli/prune.h"
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
#define LOG_HEADING     "  The last lines of "
#define OWN_OPTIONS     6
#define THREADS         "OMP_NUM_THREADS"

struct torch_run {
	struct smd_torch_script script;
	int dry_run;
	const char *job_dir;
	int quiet;
	enum smd_color color;
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

/* What its record says of the failure beyond the lines that have been printed. */
static void print_reason(const struct smd_jobdir *dir)
{
	json_t *state = smd_jobdir_read_json(dir, SMD_RECORD_MAX, SMD_RECORD);
	const char *line =
		json_string_value(json_object_get(json_object_get(state, "error"), "message"));
	int is_log = 0;

	while (line && *line) {
		size_t length = strcspn(line, "\n");

		is_log = strncmp(line, LOG_HEADING, strlen(LOG_HEADING)) == 0 ||
			 (is_log && strncmp(line, "    ", 4) == 0);
		if (!is_log) {
			smd_print_line(stderr, "%.*s\n", (int)length, line);
		}
		line += length + (line[length] != '\0');
	}
	json_decref(state);
}

static void print_failure(const struct torch_run *run, const struct smd_jobdir *dir)
{
	size_t size;
	FILE *log = smd_jobdir_read_file(dir, "logs/job.log", &size);

	if (!log) {
		return;
	}
	fprintf(stderr, "summand: Command [%s%s", run->script.uses_python ? "python3 " : "",
		run->script.is_module ? "-m " : "");
	for (int i = 0; i < run->script.nwords; i++) {
		char *word = strdup(run->script.words[i]);

		if (word) {
			smd_printable(word);
			fprintf(stderr, "%s%s", i ? " " : "", word);
		}
		free(word);
	}
	fprintf(stderr, "] failed. The last %d lines of the task output are included below:\n",
		LOG_LINES);
	print_last_lines(log);
	print_reason(dir);
	fclose(log);
}

static int run_job(const struct torch_run *run, struct smd_job *job, const char *spec)
{
	struct smd_jobdir dir;
	struct smd_local_run_options options = {.dir = &dir,
		.grace_s = GRACE_S,
		.ready_timeout_s = READY_TIMEOUT_S,
		.host_timeout_s = SMD_HOST_TIMEOUT_DEFAULT_S,
		.join_timeout_s = SMD_JOIN_TIMEOUT_DEFAULT_S,
		.log_limit = SMD_LOG_LIMIT_DEFAULT,
		.view = smd_view_of(0, run->quiet),
		.color = run->color,
		.tells_failure = 1,
		.spec_text = spec,
		.spec_length = strlen(spec)};
	struct smd_error error = {""};
	int exit_code;

	smd_prune_before_job();
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
		smd_print_line(stderr, "summand: the script, its arguments and the values of "
				       "options must be UTF-8\n");
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
	int ret = smd_torch_devices_choose(script, &error);

	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	} else if (script->was_reduced) {
		smd_print_line(stderr,
			"summand: warning: --num-processes cannot be greater than the number of "
			"available GPUs, which is %d; it was reset to that\n",
			script->num_processes);
	}
	return ret;
}

static int is_given(const struct smd_torch_script *script, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < script->nenv; i++) {
		if (strncmp(script->env[i], name, length) == 0 && script->env[i][length] == '=') {
			return 1;
		}
	}
	return getenv(name) != NULL;
}

/* torchrun's own defaults; it tells of the first one too. */
static void set_defaults(struct smd_torch_script *script)
{
	script->ends_on_nccl_errors = !is_given(script, "TORCH_NCCL_ASYNC_ERROR_HANDLING");
	script->limits_threads = script->num_processes > 1 && !is_given(script, THREADS);
	if (script->limits_threads) {
		smd_print_line(stderr,
			"summand: " THREADS " is set to 1 for each process, so that %d of them do "
			"not overload this machine; set it yourself for more\n",
			script->num_processes);
	}
}

int smd_torch_run(int argc, char **argv)
{
	struct torch_run run = {.script = smd_torch_defaults};
	struct smd_option options[SMD_TORCH_OPTIONS_MAX + OWN_OPTIONS];
	size_t count = smd_torch_options(&run.script, options);
	const struct smd_option own[OWN_OPTIONS] = {
		SMD_OPTION_GROUP("Run"),
		{"dry-run", NULL, "start nothing: print the job that would be run",
			smd_option_set_bool, &run.dry_run},
		{"job-dir", "DIR", "where logs and records go (default: a new directory)",
			smd_option_set_path, &run.job_dir},
		SMD_OPTION_GROUP("Output"),
		{"quiet", NULL, "print the processes' progress instead of what they say",
			smd_option_set_bool, &run.quiet},
		{"color", "auto|always|never",
			"color the processes' names (default auto: on a terminal)", smd_color_set,
			&run.color},
	};
	const struct smd_command command = {
		.synopsis = "summand torch-run [OPTION...] [--] SCRIPT [ARG...]",
		.summary = "Runs a PyTorch script in several processes of this machine.",
		.options = options,
		.noptions = count + OWN_OPTIONS,
		.ends_with_operand = 1,
		.exits = "Exit codes: 0 all processes succeeded, 1 one failed, 2 the command line "
			 "is wrong, 130 or 143 interrupted.",
	};
	struct smd_error error = {""};
	int exit_code = SMD_EXIT_USAGE;
	int ret;

	memcpy(options + count, own, sizeof(own));
	ret = smd_options_parse(&command, argc, argv, &run.script.nwords, &error);
	run.script.words = argv + 1;
	ret = ret ? ret : smd_torch_options_settle(&run.script, &error);
	if (ret) {
		if (ret != -ENOEXEC) {
			smd_print_line(stderr, "summand: %s\n", error.text);
		}
		return ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	}
	if (!choose_devices(&run.script)) {
		set_defaults(&run.script);
		exit_code = start(&run);
	}
	free(run.script.devices);
	return exit_code;
}
