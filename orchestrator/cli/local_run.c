/* `summand custom-jobs local-run` and `create`: show the plan, then become the job's runner. */
#include "orchestrator/runner/local_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "orchestrator/cli/container_option.h"
#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/detach.h"
#include "orchestrator/cli/engine_options.h"
#include "orchestrator/cli/format.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/local_code.h"
#include "orchestrator/cli/log_limit_option.h"
#include "orchestrator/cli/prune.h"
#include "orchestrator/cli/run_job.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/cli/watch_options.h"
#include "orchestrator/job/secret.h"
#include "orchestrator/runner/job_entry.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/log_file.h"
#include "orchestrator/tuning/tuning.h"
#include "reduction_server/base/printable.h"
#include "worker/agent/host/container.h"

#define IS_LISTED               " list` has the job from then on, until `delete`."
#define GRACE_DEFAULT_S         30
#define TUNING_OPTIONS          2 /* the first ones */
#define READY_TIMEOUT_DEFAULT_S 30
#define FOREGROUND_OPTIONS      3 /* the last ones: what is printed on the way */
#define STREAM_OPTIONS          1 /* the last ones of these: of a custom job alone */

/* With a runtime for containers an image is enough. */
struct runtime_choice {
	const char *name;
	enum smd_use *use;
};

static int set_format(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;

	smd_format_free(*format);
	*format = NULL;
	return smd_format_parse(value, format, error);
}

static int has_images(enum smd_use use)
{
	return use == SMD_USE_SHOW_IMAGES || use == SMD_USE_RUN_IMAGES;
}

static void set_use(enum smd_use *use, int runs, int has_images)
{
	static const enum smd_use uses[2][2] = {
		{SMD_USE_SHOW, SMD_USE_SHOW_IMAGES}, {SMD_USE_RUN, SMD_USE_RUN_IMAGES}};

	*use = uses[runs][has_images];
}

static int set_dry_run(void *target, const char *value, struct smd_error *error)
{
	int dry_run;
	int ret = smd_option_set_bool(&dry_run, value, error);

	if (!ret) {
		set_use(target, !dry_run, has_images(*(enum smd_use *)target));
	}
	return ret;
}

/* Whether an image is enough is for the service to say. */
static int set_service(void *target, const char *value, struct smd_error *error)
{
	(void)error;
	*smd_service_choice("service") = value;
	set_use(target, *(enum smd_use *)target >= SMD_USE_RUN, 1);
	return 0;
}

static int set_container_runtime(void *target, const char *value, struct smd_error *error)
{
	struct runtime_choice *choice = target;

	if (!smd_container_runtime_find(value)) {
		const char *near = smd_container_runtime_suggest(value);

		return smd_error_set(error, EINVAL,
			"must be podman, docker, apptainer or pyxis%s%s%s",
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	choice->name = value;
	set_use(choice->use, *choice->use >= SMD_USE_RUN, 1);
	return 0;
}

/* Prints a document with its secrets or, with a remark, without them. 0 or -errno. */
static int print_document(
	const json_t *document, int show_secrets, const struct smd_format *format, FILE *out)
{
	size_t masked = 0;
	json_t *shown =
		show_secrets ? json_deep_copy(document) : smd_secret_mask_json(document, &masked);
	int ret = shown ? 0 : -ENOMEM;

	if (!ret && !format && masked) {
		fprintf(out, "# " SMD_SECRET_REMARK "\n");
	}
	if (!ret) {
		ret = format ? smd_format_print(format, shown, out) : smd_yaml_print(shown, out);
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", strerror(-ret));
	} else if (masked) {
		fflush(out);
		smd_print_line(stderr, "summand: warning: " SMD_SECRET_REMARK "\n");
	}
	json_decref(shown);
	return ret;
}

/* From now on what is told on the way goes to standard error; the file is standard output. */
static FILE *divert_output(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int can_write = fd >= 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	FILE *out = can_write ? fdopen(fd, "w") : NULL;

	if (fd >= 0 && !can_write) { /* main() opened it, because it was closed */
		fprintf(stderr, "summand: --format: standard output must be open: the job would be "
				"printed there\n");
		return NULL;
	}
	if (!out || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		perror("summand: standard output");
		return NULL;
	}
	return out;
}

/* The CustomJob as it was run and how it ended; NULL: it never began. */
static json_t *make_resource(const struct smd_job *job, const struct smd_jobdir *dir)
{
	static const char *const fields[] = {
		"state", "createTime", "startTime", "endTime", "updateTime", "error", "trials"};
	json_t *resource = json_pack("{s:s}", "name", "");
	json_t *state = smd_jobdir_read_json(dir, SMD_RECORD_MAX, SMD_RECORD);

	if (!resource || !state || json_object_update(resource, job->resolved)) {
		json_decref(state);
		json_decref(resource);
		return NULL;
	}
	/* A spec may be what another run has printed. */
	json_object_set_new(resource, "name",
		json_string(json_object_get(state, "name")
				    ? json_string_value(json_object_get(state, "name"))
				    : job->id));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		json_t *value = json_object_get(state, fields[i]);

		json_object_del(resource, fields[i]);
		if (value) {
			json_object_set(resource, fields[i], value);
		}
	}
	json_decref(state);
	return resource;
}

/* Prints the resource at the end, alone, as gcloud does where a format is given. */
static int run_and_print(struct smd_loaded_job *loaded, struct smd_local_run_options *options,
	const struct smd_format *format)
{
	FILE *out = divert_output();
	json_t *resource;
	int exit_code;

	if (!out) {
		return SMD_EXIT_FAILED;
	}
	exit_code = smd_loaded_job_run(loaded, options);
	resource = make_resource(loaded->job, options->dir);
	if (resource) {
		print_document(resource, options->show_secrets, format, out);
	}
	json_decref(resource);
	if (fclose(out)) {
		smd_print_line(
			stderr, "summand: standard output: not all of it could be written\n");
		exit_code = exit_code == SMD_EXIT_OK ? SMD_EXIT_FAILED : exit_code;
	}
	return exit_code;
}

/* What gcloud says. */
static void tell_submitted(enum smd_stored_kind kind, const char *name)
{
	const char *group = smd_stored_kind_group(kind);

	smd_print_lines(stderr,
		"%s [%s] is submitted successfully.\n\n"
		"Your job is still active. You may view the status of your job with the command\n\n"
		"  $ summand %s describe %s\n\n"
		"or continue streaming the logs with the command\n\n"
		"  $ summand %s stream-logs %s\n",
		smd_stored_kind_noun(kind), name, group, name, group, name);
}

/* The CustomJob as it has been taken. */
static int print_submitted(const struct smd_loaded_job *loaded, const struct smd_entry *entry,
	const struct smd_local_run_options *options, const struct smd_format *format)
{
	json_t *resource = json_pack("{s:s}", "name", entry->name);
	int ret = !resource || json_object_update(resource, loaded->job->resolved) ? -ENOMEM : 0;

	if (!ret) {
		json_object_set_new(resource, "name", json_string(entry->name));
		json_object_set_new(resource, "state", json_string(entry->state));
		json_object_set_new(resource, "createTime", json_string(entry->create_time));
		ret = print_document(resource, options->show_secrets, format, stdout);
	}
	json_decref(resource);
	return ret ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

/* The job is in the store, and a process of its own becomes its runner. */
static int create(struct smd_loaded_job *loaded, struct smd_local_run_options *options,
	const struct smd_format *format)
{
	FILE *log = smd_jobdir_open_file(options->dir, SMD_RUNNER_LOG, 0);
	struct smd_error error = {""};
	struct smd_entry entry;
	pid_t pid;

	if (!log) {
		smd_print_line(stderr, "summand: %s/" SMD_RUNNER_LOG ": %s\n", options->dir->path,
			strerror(errno));
		return SMD_EXIT_FAILED;
	}
	if (smd_job_entry_open(&entry, loaded->job, options, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		fclose(log);
		return SMD_EXIT_FAILED;
	}
	options->entry = &entry;
	pid = smd_detach(fileno(log), (int[]){entry.lock_fd, options->dir->fd}, 2);
	if (pid == 0) {
		exit(smd_loaded_job_run(loaded, options));
	}
	fclose(log);
	smd_entry_close(&entry);
	if (pid < 0) {
		smd_print_line(stderr, "summand: runner: %s\n", strerror((int)-pid));
		return SMD_EXIT_FAILED;
	}
	tell_submitted(options->kind, entry.name);
	return format ? print_submitted(loaded, &entry, options, format) : SMD_EXIT_OK;
}

/* What gcloud says. */
static int tell_created(enum smd_stored_kind kind, const json_t *resource,
	const struct smd_format *format)
{
	const char *name = json_string_value(json_object_get(resource, "name"));

	if (!name) {
		smd_print_line(stderr, "summand: the service must answer with the job\n");
		return SMD_EXIT_FAILED;
	}
	tell_submitted(kind, name);
	return format && print_document(resource, 1, format, stdout) ? SMD_EXIT_FAILED
								     : SMD_EXIT_OK;
}

/* The service runs it, in its own way. */
static int create_at_service(const struct smd_loaded_job *loaded, enum smd_stored_kind kind,
	const struct smd_format *format)
{
	struct smd_error error = {""};
	struct smd_service_jobs *service = NULL;
	json_t *resource = NULL;
	int exit_code = SMD_EXIT_FAILED;

	if (!smd_service_jobs_open(&service, &error)) {
		resource = smd_service_jobs_create(service, kind, loaded->job->resolved, &error);
	}
	if (resource) {
		exit_code = tell_created(kind, resource, format);
	} else {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	json_decref(resource);
	smd_service_jobs_close(service);
	return exit_code;
}

/* The directory comes first: nothing is printed or started for one that cannot be used. */
static int start(struct smd_loaded_job *loaded, struct smd_local_run_options *options,
	const char *job_dir, int detaches, const struct smd_format *format)
{
	struct smd_jobdir dir;
	struct smd_error error = {""};
	int exit_code;

	if (smd_engine_options_check(options) || smd_container_option_check(loaded->job, options) ||
		smd_local_code_check(loaded)) {
		smd_hostfile_close(options->hosts);
		return SMD_EXIT_USAGE;
	}
	smd_prune_before_job();
	if (smd_jobdir_open(&dir, loaded->job, job_dir, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		smd_hostfile_close(options->hosts);
		return SMD_EXIT_USAGE;
	}
	options->dir = &dir;
	if (detaches) {
		exit_code = create(loaded, options, format);
	} else {
		exit_code = format ? run_and_print(loaded, options, format)
				   : smd_loaded_job_run(loaded, options);
	}
	smd_jobdir_close(&dir);
	smd_hostfile_close(options->hosts);
	return exit_code;
}

/* One that is as easily written as it is read. */
static uint64_t random_seed(void)
{
	uint32_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
		return 0;
	}
	return seed % 1000000;
}

static int is_tunable(const struct smd_loaded_job *loaded, int oversubscribe)
{
	struct smd_error error = {""};

	if (smd_tuning_check(loaded->job, oversubscribe, &error)) {
		smd_print_line(stderr, "summand: %s: %s\n", loaded->source.name, error.text);
		return 0;
	}
	return 1;
}

/* What of a command line says how a job is run here; -1 or NULL: not given. */
struct run_given {
	const struct smd_local_run_options *options;
	const struct smd_engine_numbers *numbers;
	const char *job_dir;
	const char *runtime;
	int grace_s;
	int ready_timeout_s;
	int seed;
};

/* A service runs jobs in its own way. 0, or -1 when the reason has been printed. */
static int check_for_service(const struct run_given *given)
{
	static const char of_service[] =
		"it is the service's to say: give it to `summand serve`";
	const char *of_engine = smd_engine_options_given(given->options, given->numbers);
	const struct {
		const char *name;
		int is_given;
		const char *instead;
	} rows[] = {
		{of_engine, of_engine != NULL, of_service},
		{"job-dir", given->job_dir != NULL,
			"the service chooses it; `describe` and the service's page show what is in it"},
		{"container-runtime", given->runtime != NULL, of_service},
		{"oversubscribe", given->options->oversubscribe, of_service},
		{"grace", given->grace_s >= 0, of_service},
		{"ready-timeout", given->ready_timeout_s >= 0, of_service},
		{"log-limit", given->options->log_limit != SMD_LOG_LIMIT_DEFAULT, of_service},
		{"secrets", given->options->secrets_folder != NULL, of_service},
		{"metrics", given->options->metrics != NULL,
			"`summand serve --metrics` has those of all its jobs"},
		{"trace", given->options->trace != NULL,
			"`summand serve --traces` has them of all its jobs"},
		{"seed", given->seed >= 0, "the service draws one; run the job here to choose it"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].is_given) {
			smd_print_line(stderr, "summand: --%s: must be without --service: %s\n",
				rows[i].name, rows[i].instead);
			return -1;
		}
	}
	return 0;
}

/* All take the same options but the first ones, of a search, and the last ones, of what is printed
 * meanwhile. */
static int run_verb(enum smd_stored_kind kind, int argc, char **argv, int detaches)
{
	struct smd_local_run_options run_options = {
		.kind = kind, .log_limit = SMD_LOG_LIMIT_DEFAULT};
	int is_tuning = kind == SMD_STORED_TUNING_JOB;
	int seed = -1;
	const char *job_dir = NULL;
	int grace_s = -1;
	int ready_timeout_s = -1;
	struct smd_engine_numbers numbers = SMD_ENGINE_NUMBERS_NONE;
	int stream_logs = 0;
	int quiet = 0;
	enum smd_use use = detaches && smd_service_is_chosen() ? SMD_USE_RUN_IMAGES : SMD_USE_RUN;
	struct runtime_choice runtime = {.use = &use};
	struct smd_format *format = NULL;
	const struct smd_option at_service[] = {
		SMD_OPTION_GROUP("Service"), /* of `create` alone */
		{"service", "URL",
			"run the job there, in its way (default: " SMD_SERVICE_VARIABLE
			"; none: on this machine)",
			set_service, &use},
		{"project", "PROJECT", "whose job it is there (default local)",
			smd_option_set_string, smd_service_choice("project")},
		{"region", "REGION", "and of which location (default local)", smd_option_set_string,
			smd_service_choice("region")},
	};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Search"), /* of tuning jobs alone */
		{"seed", "N", "choose the same trials again (default: a random one)",
			smd_option_set_int, &seed},
		SMD_OPTION_GROUP("Run"),
		{"dry-run", NULL, "start nothing: print the job that would be run", set_dry_run,
			&use},
		{"job-dir", "DIR", "where logs and records go (default: a new directory)",
			smd_option_set_path, &job_dir},
		{"container-runtime", "podman|docker|apptainer|pyxis",
			"run images in containers (default: commands, as processes)",
			set_container_runtime, &runtime},
		{"oversubscribe", NULL, "let replicas share GPUs where there are too few",
			smd_option_set_bool, &run_options.oversubscribe},
		{"grace", "SECONDS", "the time from SIGTERM to SIGKILL (default 30)",
			smd_option_set_int, &grace_s},
		SMD_ENGINE_OPTIONS(run_options, numbers),
		SMD_OPTION_GROUP("Servers"),
		{"ready-timeout", "SECONDS",
			"how long a reduction server may take to be ready (default 30)",
			smd_option_set_int, &ready_timeout_s},
		SMD_OPTION_GROUP("Output"),
		{"format", SMD_FORMAT_METAVAR,
			detaches ? "print the job as it has been taken; with --dry-run, how it is "
				   "printed"
				 : "print the job at the end; with --dry-run, how it is printed",
			set_format, &format},
		{"log-limit", "SIZE|none",
			"the length of each log, beyond which older lines are dropped (default "
			"256M)",
			smd_log_limit_option_set, &run_options.log_limit},
		{"secrets", "DIR", "the folder of secrets that a job refers to by $(secret:NAME)",
			smd_option_set_path, &run_options.secrets_folder},
		{"show-secrets", NULL, "print and record the values of secrets too",
			smd_option_set_bool, &run_options.show_secrets},
		{"quiet", NULL,
			is_tuning ? "print how the trials go on, without what they say"
				  : "print the replicas' progress instead of what they say",
			smd_option_set_bool, &quiet},
		{"color", "auto|always|never",
			is_tuning ? "color the trials' numbers (default auto: on a terminal)"
				  : "color the replicas' names (default auto: on a terminal)",
			smd_color_set, &run_options.color},
		{"stream-logs", NULL, "print what replicas say in gcloud's form",
			smd_option_set_bool, &stream_logs},
	};
	const struct smd_option watching[] = {
		SMD_OPTION_GROUP("Watching"),
		{"metrics", "[ADDR:]PORT", "answer GET /metrics there, for Prometheus",
			smd_watch_set_metrics, &run_options.metrics},
		{"trace", "FILE", "write the job's trace there at its end, as OTLP's JSON",
			smd_watch_set_trace, &run_options.trace},
	};
	const size_t nwatching = sizeof(watching) / sizeof(watching[0]);
	struct smd_option shown[(sizeof(at_service) + sizeof(watching) + sizeof(options)) /
				sizeof(options[0])];
	const size_t nservice = detaches ? sizeof(at_service) / sizeof(at_service[0]) : 0;
	const size_t skipped = is_tuning ? 0 : TUNING_OPTIONS;
	const size_t before = nservice + nwatching;
	const size_t count = before + sizeof(options) / sizeof(options[0]) - skipped;
	const struct smd_command foreground = {
		.synopsis = SMD_BY_KIND(
			kind, "summand ", " local-run SPEC|FLAG... [OPTION...] [-- ARG...]"),
		.summary = is_tuning ? "Runs all trials on this machine, in the foreground."
				     : "Runs the whole cluster on this machine, in the foreground.",
		.options = shown,
		.noptions = is_tuning ? count - STREAM_OPTIONS : count,
		.epilog = is_tuning ? SMD_TUNING_OPERAND : NULL,
		.exits = "Exit codes: 0 the job succeeded, 1 it failed, 2 the command line or the "
			 "spec is wrong, 130 or 143 it was interrupted.",
	};
	const struct smd_command background = {
		.synopsis = SMD_BY_KIND(
			kind, "summand ", " create SPEC|FLAG... [OPTION...] [-- ARG...]"),
		.summary = is_tuning
				   ? "Runs all trials on this machine, and returns at once."
				   : "Runs the whole cluster on this machine, and returns at once.",
		.options = shown,
		.noptions = count - FOREGROUND_OPTIONS,
		.epilog = is_tuning ? SMD_TUNING_OPERAND " `summand hp-tuning-jobs" IS_LISTED
				    : "`summand custom-jobs" IS_LISTED,
		.exits = "Exit codes: 0 the job was taken, 1 it could not be, 2 the command line "
			 "or the spec is wrong.",
	};
	const struct smd_command *command = detaches ? &background : &foreground;
	struct smd_loaded_job loaded;
	int exit_code;

	memcpy(shown, at_service, nservice * sizeof(*shown));
	memcpy(shown + nservice, watching, nwatching * sizeof(*shown));
	memcpy(shown + before, options + skipped, (count - before) * sizeof(*shown));
	if (smd_loaded_job_open(command, &use, argc, argv, &loaded, &exit_code)) {
		smd_format_free(format);
		return exit_code;
	}
	if (detaches && smd_service_is_chosen() &&
		check_for_service(&(struct run_given){.options = &run_options,
			.numbers = &numbers,
			.job_dir = job_dir,
			.runtime = runtime.name,
			.grace_s = grace_s,
			.ready_timeout_s = ready_timeout_s,
			.seed = seed})) {
		smd_loaded_job_close(&loaded);
		smd_format_free(format);
		return SMD_EXIT_USAGE;
	}
	if (stream_logs && quiet) {
		fprintf(stderr, "summand: --quiet: must be without --stream-logs\n");
		smd_loaded_job_close(&loaded);
		smd_format_free(format);
		return SMD_EXIT_USAGE;
	}
	if (is_tuning && use >= SMD_USE_RUN && !is_tunable(&loaded, run_options.oversubscribe)) {
		smd_loaded_job_close(&loaded);
		smd_format_free(format);
		return SMD_EXIT_USAGE;
	}
	run_options.view = smd_view_of(stream_logs, quiet || detaches);
	run_options.seed = seed < 0 ? random_seed() : (uint64_t)seed;
	run_options.container_runtime = runtime.name;
	run_options.grace_s = grace_s < 0 ? GRACE_DEFAULT_S : (unsigned)grace_s;
	run_options.ready_timeout_s =
		ready_timeout_s < 0 ? READY_TIMEOUT_DEFAULT_S : (unsigned)ready_timeout_s;
	smd_engine_numbers_take(&run_options, &numbers);
	if (use < SMD_USE_RUN) {
		exit_code = print_document(
				    loaded.job->resolved, run_options.show_secrets, format, stdout)
				    ? SMD_EXIT_FAILED
				    : SMD_EXIT_OK;
	} else if (detaches && smd_service_is_chosen()) {
		exit_code = create_at_service(&loaded, kind, format);
	} else {
		exit_code = start(&loaded, &run_options, job_dir, detaches, format);
	}
	smd_format_free(format);
	smd_loaded_job_close(&loaded);
	return exit_code;
}

int smd_custom_jobs_local_run(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv, 0);
}

int smd_hp_tuning_jobs_local_run(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv, 0);
}

int smd_custom_jobs_create(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv, 1);
}

int smd_hp_tuning_jobs_create(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv, 1);
}
