/* Takes a job of the queue over from the service, and becomes its runner. */
#include "orchestrator/cli/queued_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "orchestrator/cli/container_option.h"
#include "orchestrator/cli/engine_options.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/prune.h"
#include "orchestrator/cli/run_job.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/log_file.h"
#include "orchestrator/runner/trace.h"
#include "orchestrator/store/job_folder.h"
#include "orchestrator/store/queue.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define CODE_INVALID 3 /* google.rpc.Code */
#define SEEDS        1000000
#define ID_MAX       INT64_MAX
#define TRACE_PATH_SIZE 4096
#define REFUSED      "Its runner did not take it: the service's log says why."

struct queued_run {
	uint64_t id;
	const char *devices; /* or NULL: all */
	const char *traces;  /* the folder; or NULL */
	char trace[TRACE_PATH_SIZE];
	struct smd_trace_family trace_family;
	struct smd_local_run_options options;
	struct smd_entry entry;
	struct smd_jobdir dir;
};

static int set_id(void *target, const char *value, struct smd_error *error)
{
	return smd_parse_number(value, 1, ID_MAX, target)
		       ? smd_error_set(error, EINVAL, "must be a job's id")
		       : 0;
}

static int read_options(struct queued_run *run, int argc, char **argv, struct smd_error *error)
{
	int grace_s = 0;
	int ready_timeout_s = 0;
	struct smd_engine_numbers numbers = SMD_ENGINE_NUMBERS_NONE;
	const struct smd_option options[] = {
		{"id", "ID", "the job", set_id, &run->id},
		{"devices", "LIST", "the GPUs that it may use", smd_option_set_string,
			&run->devices},
		{"oversubscribe", NULL, "replicas may share GPUs", smd_option_set_bool,
			&run->options.oversubscribe},
		{"container-runtime", "NAME", "what runs images", smd_option_set_string,
			&run->options.container_runtime},
		{"secrets", "DIR", "the folder of secrets", smd_option_set_path,
			&run->options.secrets_folder},
		{"traces", "DIR", "the folder of traces", smd_option_set_path, &run->traces},
		{"grace", "SECONDS", "from SIGTERM to SIGKILL", smd_option_set_int, &grace_s},
		{"ready-timeout", "SECONDS", "for a reduction server to be ready",
			smd_option_set_int, &ready_timeout_s},
		{"log-limit", "BYTES", "of each log", smd_option_set_size, &run->options.log_limit},
		SMD_ENGINE_OPTIONS(run->options, numbers),
	};
	const struct smd_command command = {
		.synopsis = "summand " SMD_QUEUED_RUN_VERB " --id=ID [OPTION...]",
		.summary = "Runs a job of the service's queue; the service calls it.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (!ret && (noperands > 0 || run->id == 0)) {
		ret = smd_error_set(error, EINVAL, "--id is needed");
	}
	if (!ret && run->traces) {
		snprintf(run->trace, sizeof(run->trace), "%s/%" PRIu64 ".json", run->traces, run->id);
		smd_trace_family_of(&run->trace_family, (int64_t)run->id);
		run->options.trace = run->trace;
		run->options.trace_family = &run->trace_family;
	}
	run->options.grace_s = (unsigned)grace_s;
	run->options.ready_timeout_s = (unsigned)ready_timeout_s;
	smd_engine_numbers_take(&run->options, &numbers);
	run->options.view = SMD_VIEW_PROGRESS;
	run->options.seed = run->id % SEEDS; /* of a tuning job's search */
	return ret;
}

/* The spec becomes standard input, and so is read as one that a user gives. */
static int offer(const char *spec, struct smd_error *error)
{
	size_t length = strlen(spec);
	int fd = memfd_create("spec", MFD_CLOEXEC);
	size_t written = 0;

	while (fd >= 0 && written < length) {
		ssize_t count = write(fd, spec + written, length - written);

		if (count < 0) {
			break;
		}
		written += (size_t)count;
	}
	if (fd < 0 || written < length || lseek(fd, 0, SEEK_SET) || dup2(fd, STDIN_FILENO) < 0) {
		smd_error_set(error, EIO, "spec: %s", strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
		return -EIO;
	}
	close(fd);
	return 0;
}

/* What is said of the spec is its author's to read, not the service's: it is held until the job has
 * a log. What standard error was before, or -1. */
static int hold_output(void)
{
	int held = memfd_create("said", MFD_CLOEXEC);
	int before = held < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (before >= 0) {
		dup2(held, STDERR_FILENO);
	}
	if (held >= 0) {
		close(held);
	}
	return before;
}

/* The descriptor of what was said meanwhile, or -1. */
static int end_hold(int before)
{
	int held = before < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (before >= 0) {
		dup2(before, STDERR_FILENO);
		close(before);
	}
	return held;
}

static void say_held(int held)
{
	char bytes[4096];
	off_t at = 0;
	ssize_t count;

	while (held >= 0 && (count = pread(held, bytes, sizeof(bytes), at)) > 0 &&
		write(STDERR_FILENO, bytes, (size_t)count) == count) {
		at += count;
	}
}

static int load(struct queued_run *run, const char *spec, struct smd_loaded_job *loaded,
	struct smd_error *error)
{
	const struct smd_command command = {.synopsis = "summand " SMD_QUEUED_RUN_VERB};
	const enum smd_use use = run->options.container_runtime ? SMD_USE_RUN_IMAGES : SMD_USE_RUN;
	char verb[] = SMD_QUEUED_RUN_VERB;
	char operand[] = "-";
	char *words[] = {verb, operand, NULL};
	int exit_code;
	int ret = offer(spec, error);

	if (!ret && (smd_engine_options_check(&run->options) ||
			    smd_loaded_job_open(&command, &use, 2, words, loaded, &exit_code) ||
			    smd_container_option_check(loaded->job, &run->options))) {
		ret = smd_error_set(error, EINVAL, REFUSED);
	}
	return ret;
}

/* What is said from here on is the job's own. */
static int divert_output(const struct queued_run *run, struct smd_error *error)
{
	FILE *log = smd_jobdir_open_file(&run->dir, SMD_RUNNER_LOG, 0);
	int ret =
		!log || dup2(fileno(log), STDOUT_FILENO) < 0 || dup2(fileno(log), STDERR_FILENO) < 0
			? smd_error_set(error, EIO, "%s/" SMD_RUNNER_LOG ": %s", run->dir.path,
				  strerror(errno))
			: 0;

	if (log) {
		fclose(log);
	}
	return ret;
}

/* The directory comes first: the row that names it says that the job has begun. */
static int begin(struct queued_run *run, struct smd_loaded_job *loaded, int held,
	struct smd_error *error)
{
	const char *before = run->entry.directory;
	int ret = smd_jobdir_open(&run->dir, loaded->job, before, error);

	if (ret) {
		return ret;
	}
	smd_jobdir_remove(&run->dir, SMD_RECORD); /* it says how the run before has ended */
	if (run->devices && setenv("CUDA_VISIBLE_DEVICES", run->devices, 1)) {
		ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = ret ? ret : divert_output(run, error);
	if (!ret) {
		say_held(held);
	}
	ret = ret ? ret : smd_entry_begin(&run->entry, run->dir.path, run->devices, error);
	if (ret) {
		if (!before) {
			smd_job_folder_remove(run->dir.path);
		}
		smd_jobdir_close(&run->dir);
		return ret;
	}
	run->options.dir = &run->dir;
	run->options.entry = &run->entry;
	return 0;
}

/* Nobody else would tell why a job that was refused never ran. */
static void end_job(const struct queued_run *run, const struct smd_error *reason)
{
	struct smd_store *store;

	if (!smd_store_open(run->entry.state_dir, &store, NULL)) {
		smd_queue_end(
			store, run->entry.id, "JOB_STATE_FAILED", CODE_INVALID, reason->text, NULL);
		smd_store_close(store);
	}
}

static int read_spec(struct queued_run *run, char **spec, struct smd_error *error)
{
	struct smd_store *store;
	int ret = smd_store_open(run->entry.state_dir, &store, error);

	if (!ret) {
		ret = smd_queue_read_spec(store, run->entry.id, &run->options.kind, spec, error);
		smd_store_close(store);
	}
	return ret;
}

static int run_job(struct queued_run *run, struct smd_error *error)
{
	struct smd_loaded_job loaded = {.job = NULL};
	char *spec = NULL;
	int exit_code = SMD_EXIT_FAILED;
	int held = -1;
	int ret = read_spec(run, &spec, error);

	if (!ret) {
		int before = hold_output();

		ret = load(run, spec, &loaded, error);
		held = end_hold(before);
		if (ret) {
			say_held(held);
			end_job(run, error);
		}
	}
	if (!ret) {
		smd_prune_before_job();
		ret = begin(run, &loaded, held, error);
	}
	if (held >= 0) {
		close(held);
	}
	if (!ret) {
		exit_code = smd_loaded_job_run(&loaded, &run->options);
		smd_jobdir_close(&run->dir);
	}
	if (loaded.job) {
		smd_loaded_job_close(&loaded);
	}
	smd_hostfile_close(run->options.hosts);
	free(spec);
	return ret ? ret : exit_code;
}

int smd_queued_run(int argc, char **argv)
{
	struct queued_run run = {.id = 0};
	struct smd_error error = {""};
	int ret = read_options(&run, argc, argv, &error);

	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_USAGE;
	}
	ret = smd_entry_open_queued(&run.entry, (int64_t)run.id, &error);
	if (!ret) {
		ret = run_job(&run, &error);
		smd_entry_close(&run.entry);
	}
	if (ret < 0) {
		smd_print_line(stderr, "summand: %" PRIu64 ": %s\n", run.id, error.text);
	}
	return ret < 0 ? SMD_EXIT_FAILED : ret;
}
