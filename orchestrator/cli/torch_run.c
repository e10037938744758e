/*
 * Runs a PyTorch script in several processes. In local mode they are ranks of one node and share
 * its GPUs; else each is a node of its own with a GPU of its own, as a Spark task is.
 */
#include "orchestrator/cli/torch_run.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/format.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/frontend/vertex/custom_job.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/local_run.h"
#include "reduction_server/base/options.h"

#define DEVICES         "CUDA_VISIBLE_DEVICES"
#define GRACE_S         30
#define READY_TIMEOUT_S 30
#define LOG_LINES       100
#define NUMBER_SIZE     16

/* Picks the process's own device; the words are a spec's, where $$ is $. */
#define OWN_DEVICE                                                                                 \
	"export " DEVICES "=$$(echo \"$$" DEVICES "\" | cut -d, -f$$((RANK + 1))); exec \"$@\""

struct torch_run {
	int num_processes;
	int local_mode;
	int use_gpu;
	int dry_run;
	const char *job_dir;
	char **script; /* and its arguments */
	int nscript;
	char *devices; /* what CUDA_VISIBLE_DEVICES will be */
};

/* "0,1,2": the devices of this machine, or those that we were given. NULL: out of memory. */
static char *find_devices(void)
{
	const char *given = getenv(DEVICES);
	char *list = NULL;
	size_t length;
	glob_t found;
	FILE *out;

	if (given) {
		return strdup(given);
	}
	out = open_memstream(&list, &length);
	if (!out) {
		return NULL;
	}
	if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			fprintf(out, "%s%zu", i ? "," : "", i);
		}
		globfree(&found);
	}
	if (fclose(out)) {
		free(list);
		return NULL;
	}
	return list;
}

static int count_devices(const char *list)
{
	int count = *list != '\0';

	for (; *list; list++) {
		count += *list == ',';
	}
	return count;
}

/* Cuts the list after so many. */
static void keep_devices(char *list, int count)
{
	for (; *list; list++) {
		if (*list == ',' && --count == 0) {
			*list = '\0';
			return;
		}
	}
}

/* TorchDistributor's rules for GPUs. */
static int choose_devices(struct torch_run *run)
{
	int count;

	run->devices = run->use_gpu ? find_devices() : strdup("");
	if (!run->devices) {
		fprintf(stderr, "summand: %s\n", strerror(ENOMEM));
		return -ENOMEM;
	}
	if (!run->use_gpu) {
		return 0;
	}
	count = count_devices(run->devices);
	if (count == 0) {
		fprintf(stderr, "summand: --use-gpu: GPUs were unable to be found on this machine; "
				"--use-gpu=false does without\n");
		return -EINVAL;
	}
	if (run->num_processes > count && !run->local_mode) {
		fprintf(stderr,
			"summand: --num-processes: must be at most the number of GPUs, which is "
			"%d: "
			"each process has one, got %d\n",
			count, run->num_processes);
		return -EINVAL;
	}
	if (run->num_processes > count) {
		fprintf(stderr,
			"summand: warning: --num-processes cannot be greater than the number of "
			"available GPUs, which is %d; it was reset to that\n",
			count);
		run->num_processes = count;
	}
	keep_devices(run->devices, run->num_processes);
	return 0;
}

static int add_variable(json_t *env, const char *name, const char *value)
{
	return json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

/* Ranks of one node: the contract takes each replica for a node. */
static json_t *make_env(const struct torch_run *run)
{
	json_t *env = json_array();
	char number[NUMBER_SIZE];
	int failed = !env || add_variable(env, DEVICES, run->devices);

	if (!failed && run->local_mode) {
		snprintf(number, sizeof(number), "%d", run->num_processes);
		failed = add_variable(env, "LOCAL_RANK", "$(RANK)") ||
			 add_variable(env, "LOCAL_WORLD_SIZE", number) ||
			 add_variable(env, "NODE_RANK", "0") ||
			 add_variable(env, "GROUP_RANK", "0");
	}
	if (failed) {
		json_decref(env);
		return NULL;
	}
	return env;
}

/* The script's own dollars are not references. */
static int append_escaped(json_t *list, const char *text)
{
	char *escaped = smd_reference_escape(text);
	int failed = !escaped || json_array_append_new(list, json_string(escaped));

	free(escaped);
	return failed;
}

static json_t *make_command(const struct torch_run *run)
{
	int chooses = run->use_gpu && !run->local_mode;
	json_t *command =
		chooses ? json_pack("[s,s,s,s]", "sh", "-c", OWN_DEVICE, "sh") : json_array();
	int failed = !command || json_array_append_new(command, json_string("python3"));

	for (int i = 0; i < run->nscript && !failed; i++) {
		failed = append_escaped(command, run->script[i]);
	}
	if (failed) {
		json_decref(command);
		return NULL;
	}
	return command;
}

static json_t *make_pool(const struct torch_run *run, int replicas)
{
	return json_pack("{s:i, s:{s:s, s:o, s:o}}", "replicaCount", replicas, "containerSpec",
		"imageUri", "torch-run", "command", make_command(run), "env", make_env(run));
}

/* A CustomJob of one process per replica. NULL: out of memory, or an argument is not UTF-8. */
static char *make_spec(const struct torch_run *run)
{
	json_t *pools = json_pack("[o]", make_pool(run, 1));
	json_t *spec;
	char *text;

	if (pools && run->num_processes > 1 &&
		json_array_append_new(pools, make_pool(run, run->num_processes - 1))) {
		json_decref(pools);
		return NULL;
	}
	spec = json_pack("{s:s, s:{s:s, s:s}, s:{s:o}}", "displayName", "torch-run", "labels",
		"summand-distribution", "pytorch", "summand-success-policy", "all-workers",
		"jobSpec", "workerPoolSpecs", pools);
	text = spec ? json_dumps(spec, JSON_INDENT(2)) : NULL;
	json_decref(spec);
	return text;
}

static int decode(const char *text, struct smd_job **job)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	struct smd_node *document;
	int ret;

	if (!diagnostics) {
		return -ENOMEM;
	}
	ret = smd_document_parse_json(text, strlen(text), diagnostics, &document);
	if (!ret) {
		ret = smd_custom_job_decode(document, diagnostics, job);
		smd_node_free(document);
	}
	smd_diagnostics_print(diagnostics, "torch-run", SMD_SEVERITY_WARNING, stderr);
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	return ret;
}

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

		fputs(*place ? *place : "", stderr);
		free(*place);
	}
	free(line);
}

static void print_failure(const struct torch_run *run, const char *job_dir)
{
	char *path;
	FILE *log;

	if (asprintf(&path, "%s/logs/job.log", job_dir) < 0) {
		return;
	}
	log = fopen(path, "re");
	free(path);
	if (!log) {
		return;
	}
	fputs("summand: Command [python3", stderr);
	for (int i = 0; i < run->nscript; i++) {
		fprintf(stderr, " %s", run->script[i]);
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
		.stream_logs = 1,
		.tells_failure = 1,
		.spec_text = spec,
		.spec_length = strlen(spec)};
	struct smd_error error = {""};
	int exit_code;

	if (smd_jobdir_open(&dir, job, run->job_dir, &error)) {
		fprintf(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_USAGE;
	}
	exit_code = smd_local_run(job, &options, &error);
	if (exit_code < 0) {
		fprintf(stderr, "summand: %s\n", error.text);
		exit_code = SMD_EXIT_FAILED;
	} else if (exit_code == SMD_EXIT_FAILED) {
		print_failure(run, dir.path);
	}
	smd_jobdir_close(&dir);
	return exit_code;
}

static int start(const struct torch_run *run)
{
	char *spec = make_spec(run);
	struct smd_job *job;
	int exit_code = SMD_EXIT_FAILED;
	int ret = spec ? decode(spec, &job) : -EINVAL;

	if (ret) {
		fprintf(stderr, "summand: the script and its arguments must be UTF-8\n");
		free(spec);
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
	struct torch_run run = {.num_processes = 1, .local_mode = 1, .use_gpu = 1};
	const struct smd_option options[] = {
		{"num-processes", "N", "processes to start (default 1)", set_processes,
			&run.num_processes},
		{"local-mode", NULL, "all on one node (default); --no-local-mode: each on its own",
			smd_option_set_bool, &run.local_mode},
		{"use-gpu", NULL, "on this machine's GPUs (default); --no-use-gpu: without",
			smd_option_set_bool, &run.use_gpu},
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
	int ret = smd_options_parse(&command, argc, argv, &run.nscript, &error);

	if (ret) {
		if (ret != -ENOEXEC) {
			fprintf(stderr, "summand: %s\n", error.text);
		}
		return ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	}
	run.script = argv + 1;
	if (run.nscript == 0) {
		fprintf(stderr, "summand: a script is needed: %s\n", command.synopsis);
		return SMD_EXIT_USAGE;
	}
	if (!choose_devices(&run)) {
		exit_code = start(&run);
	}
	free(run.devices);
	return exit_code;
}
