/* `summand serve` */
#include "orchestrator/cli/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/cli/engine_options.h"
#include "orchestrator/cli/log_limit_option.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/document/source.h"
#include "orchestrator/job/secrets.h"
#include "orchestrator/runner/log_file.h"
#include "orchestrator/service/intake.h"
#include "orchestrator/service/service.h"
#include "orchestrator/service/webhook.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"
#include "reduction_server/base/token.h"
#include "reduction_server/metrics/endpoint.h"
#include "reduction_server/transport/address.h"
#include "worker/agent/host/container.h"

#define LISTEN_DEFAULT  "127.0.0.1:8080"
#define GRACE_DEFAULT_S 30
#define READY_DEFAULT_S 30
#define SENDER_WORDS_MAX 6
#define TRACES_MODE     0700
#define WORDS_MAX       (SMD_ENGINE_WORDS_MAX + 10)

/* What the command line says, and the texts of the files that it names. */
struct serving {
	struct smd_service_options options;
	const char *token_file;
	const char *cert_file;
	const char *key_file;
	const char *ca_file;
	const char *images_file;
	char token[SMD_TOKEN_MAX + 1];
	struct smd_source cert;
	struct smd_source key;
	struct smd_source ca;
	int cpus;
	int gpus;
	uint64_t memory;
	const char *webhook;
	const char *webhook_secret_file;
	const char *webhook_ca;
	char *sender_words[SENDER_WORDS_MAX];
	/* What runners are told. */
	struct smd_local_run_options run;
	char *words[WORDS_MAX];
	int nwords;
};

static int add_host(void *target, const char *value, struct smd_error *error)
{
	struct smd_access *access = target;

	if (access->nhosts == SMD_ACCESS_HOSTS_MAX || !*value || strpbrk(value, ":/ ")) {
		return smd_error_set(error, EINVAL,
			"must be a host's name without a port, and there must be at most %d",
			SMD_ACCESS_HOSTS_MAX);
	}
	access->hosts[access->nhosts++] = value;
	return 0;
}

/* "demo=32,128G,4"; what is not said has no limit. */
static int add_quota(void *target, const char *value, struct smd_error *error)
{
	struct smd_service_options *options = target;
	struct smd_quota *quota = &options->quotas[options->nquotas];
	char *rest = strdup(value);
	char *project = rest ? strsep(&rest, "=") : NULL;
	const char *cpus = rest ? strsep(&rest, ",") : NULL;
	const char *memory = rest ? strsep(&rest, ",") : NULL;
	uint64_t number = INT64_MAX;
	uint64_t bytes = INT64_MAX;
	uint64_t gpus = INT64_MAX;

	if (!cpus || !*project || options->nquotas == SMD_QUOTAS_MAX ||
		smd_parse_number(cpus, 0, INT64_MAX, &number) ||
		(memory && (smd_parse_size(memory, &bytes) || bytes > INT64_MAX)) ||
		(rest && smd_parse_number(rest, 0, INT64_MAX, &gpus))) {
		free(project);
		return smd_error_set(error, EINVAL,
			"must be PROJECT=CPUS[,MEMORY[,GPUS]] such as demo=32,128G,4, at most %d "
			"times",
			SMD_QUOTAS_MAX);
	}
	*quota = (struct smd_quota){.project = project,
		.limit = {.cpus = (int64_t)number,
			.memory_bytes = (int64_t)bytes,
			.gpus = (int64_t)gpus}};
	options->nquotas++;
	return 0;
}

static int set_runtime(void *target, const char *value, struct smd_error *error)
{
	if (!smd_container_runtime_find(value) || strcmp(value, "pyxis") == 0) {
		return smd_error_set(error, EINVAL, "must be podman, docker or apptainer");
	}
	*(const char **)target = value;
	return 0;
}

static int set_webhook(void *target, const char *value, struct smd_error *error)
{
	struct smd_url url;

	*(const char **)target = value;
	return smd_url_parse(value, &url, error);
}

static int set_metrics(void *target, const char *value, struct smd_error *error)
{
	*(const char **)target = value;
	return smd_metrics_address_check(value, error);
}

static int read_options(struct serving *serving, int argc, char **argv, struct smd_error *error)
{
	struct smd_service_options *options = &serving->options;
	int grace_s = GRACE_DEFAULT_S;
	int ready_timeout_s = READY_DEFAULT_S;
	struct smd_engine_numbers numbers = SMD_ENGINE_NUMBERS_NONE;
	const struct smd_option list[] = {
		SMD_OPTION_GROUP("Address"),
		{"listen", "HOST:PORT",
			"where requests are taken; port 0 is any free one (default " LISTEN_DEFAULT
			")",
			smd_option_set_path, &options->http.listen},
		{"host", "NAME",
			"a name by which clients call the service, beside its address and "
			"localhost; may "
			"be repeated",
			add_host, &options->http.access},
		SMD_OPTION_GROUP("Who may ask"),
		{"token-file", "FILE", "take only requests with the token in FILE",
			smd_option_set_path, &serving->token_file},
		{"tls-cert", "FILE", "speak TLS, with this certificate in PEM", smd_option_set_path,
			&serving->cert_file},
		{"tls-key", "FILE", "its key", smd_option_set_path, &serving->key_file},
		{"tls-client-ca", "FILE", "take only clients with a certificate of this authority",
			smd_option_set_path, &serving->ca_file},
		SMD_OPTION_GROUP("Room"),
		{"cpus", "N", "what all jobs may take together (default: this machine's)",
			smd_option_set_int, &serving->cpus},
		{"memory", "SIZE", "the same of memory, such as 64G", smd_option_set_size,
			&serving->memory},
		{"gpus", "N", "the same of GPUs", smd_option_set_int, &serving->gpus},
		{"oversubscribe", NULL, "let jobs begin at once, and share what there is",
			smd_option_set_bool, &serving->run.oversubscribe},
		{"quota", "PROJECT=CPUS[,MEMORY[,GPUS]]",
			"what the jobs of a project may take together, such as demo=32,128G,4; may "
			"be "
			"repeated",
			add_quota, options},
		SMD_OPTION_GROUP("Run"),
		{"images", "FILE",
			"run these commands for images without one: {\"IMAGE\": [\"WORD\", ...]}",
			smd_option_set_path, &serving->images_file},
		{"container-runtime", "podman|docker|apptainer",
			"run images in containers (default: commands, as processes)", set_runtime,
			&serving->run.container_runtime},
		{"secrets", "DIR",
			"the folder of secrets, each a file, that jobs refer to by $(secret:NAME)",
			smd_option_set_path, &serving->run.secrets_folder},
		{"grace", "SECONDS", "the time from SIGTERM to SIGKILL (default 30)",
			smd_option_set_int, &grace_s},
		{"ready-timeout", "SECONDS",
			"how long a reduction server may take to be ready (default 30)",
			smd_option_set_int, &ready_timeout_s},
		{"log-limit", "SIZE|none",
			"the length of each log, beyond which older lines are dropped (default "
			"256M)",
			smd_log_limit_option_set, &serving->run.log_limit},
		SMD_ENGINE_OPTIONS(serving->run, numbers),
		SMD_OPTION_GROUP("Webhook"),
		{"webhook", "URL", "tell it of each change of a job's state", set_webhook,
			&serving->webhook},
		{"webhook-secret-file", "FILE", "what notices are signed with", smd_option_set_path,
			&serving->webhook_secret_file},
		{"webhook-ca", "FILE",
			"authorities of its certificate, in PEM (default: the system's)",
			smd_option_set_path, &serving->webhook_ca},
		SMD_OPTION_GROUP("Metrics"),
		{"metrics", "[ADDR:]PORT", "answer GET /metrics there, for Prometheus", set_metrics,
			&options->metrics},
		{"traces", "DIR",
			"write the trace of each job there at its end, as OTLP's JSON",
			smd_option_set_path, &serving->run.trace},
	};
	const struct smd_command command = {
		.synopsis = "summand serve [OPTION...]",
		.summary = "Answers the Vertex AI API, and runs the jobs that gcloud and Google's "
			   "clients create.",
		.options = list,
		.noptions = sizeof(list) / sizeof(list[0]),
		.epilog = "On another address than loopback --token-file or --tls-client-ca is "
			  "needed. SIGTERM ends the service, and no job.",
		.exits = SMD_EXITS,
	};
	int noperands;
	int ret;

	numbers.host_failures = SMD_HOST_FAILURES_DEFAULT;
	ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (!ret && noperands > 0) {
		ret = smd_error_set(error, EINVAL, "%s: nothing is expected here", argv[1]);
	}
	serving->run.grace_s = (unsigned)grace_s;
	serving->run.ready_timeout_s = (unsigned)ready_timeout_s;
	smd_engine_numbers_take(&serving->run, &numbers);
	options->capacity = (struct smd_demand){
		.cpus = serving->cpus, .memory_bytes = -1, .gpus = serving->gpus};
	if (serving->memory) {
		options->capacity.memory_bytes = (int64_t)serving->memory;
	}
	return ret;
}

static int read_images(struct serving *serving, struct smd_error *error)
{
	json_error_t reason;

	if (!serving->images_file) {
		return 0;
	}
	serving->options.images =
		json_load_file(serving->images_file, JSON_REJECT_DUPLICATES, &reason);
	if (!serving->options.images) {
		return reason.line < 0 /* it is not there, for one */
			       ? smd_error_set(error, EINVAL, "--images=%s: %s",
					 serving->images_file, reason.text)
			       : smd_error_set(error, EINVAL, "--images=%s: %d:%d: %s",
					 serving->images_file, reason.line, reason.column,
					 reason.text);
	}
	return smd_intake_check_images(serving->options.images, error);
}

static int read_tls(struct serving *serving, struct smd_error *error)
{
	struct smd_http_options *http = &serving->options.http;
	int ret = 0;

	if (!serving->cert_file != !serving->key_file ||
		(serving->ca_file && !serving->cert_file)) {
		return smd_error_set(error, EINVAL,
			"--tls-cert, --tls-key: must be given together, and with --tls-client-ca");
	}
	if (serving->cert_file) {
		ret = smd_source_read(serving->cert_file, &serving->cert, error);
		ret = ret ? ret : smd_source_read(serving->key_file, &serving->key, error);
	}
	if (!ret && serving->ca_file) {
		ret = smd_source_read(serving->ca_file, &serving->ca, error);
	}
	http->tls_cert = serving->cert.text;
	http->tls_key = serving->key.text;
	http->tls_client_ca = serving->ca.text;
	http->access.has_tls = serving->cert_file != NULL;
	return ret;
}

/* Others on a network may be anybody. */
static int check_listening(const struct serving *serving, struct smd_error *error)
{
	int stays_here = smd_address_stays_here(serving->options.http.listen, error);

	if (stays_here < 0) {
		return stays_here;
	}
	if (!stays_here && !serving->token_file && !serving->ca_file) {
		return smd_error_set(error, EACCES,
			"--listen: must be a loopback address, or come with --token-file or "
			"--tls-client-ca, got %s",
			serving->options.http.listen);
	}
	if (!stays_here && !serving->cert_file) {
		smd_print_line(stderr,
			"summand: warning: without --tls-cert and --tls-key others on the network "
			"can read the token and all that is asked and answered\n");
	}
	return 0;
}

static int write_word(struct serving *serving, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int write_word(struct serving *serving, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = vasprintf(&serving->words[serving->nwords], format, args);
	va_end(args);
	if (ret < 0) {
		serving->words[serving->nwords] = NULL;
		return -ENOMEM;
	}
	serving->nwords++;
	return 0;
}

/* Each runner's command line, from which it knows how jobs are run here. */
static int write_words(struct serving *serving)
{
	const struct smd_local_run_options *run = &serving->run;
	int ret = smd_engine_options_write(run, serving->words);

	if (ret < 0) {
		return ret;
	}
	serving->nwords = ret;
	ret = write_word(serving, "--grace=%u", run->grace_s);
	ret = ret ? ret : write_word(serving, "--ready-timeout=%u", run->ready_timeout_s);
	ret = ret ? ret : write_word(serving, "--log-limit=%" PRIu64, run->log_limit);
	if (!ret && run->secrets_folder) {
		ret = write_word(serving, "--secrets=%s", run->secrets_folder);
	}
	if (!ret && run->trace) {
		ret = write_word(serving, "--traces=%s", run->trace);
	}
	if (!ret && run->oversubscribe) {
		ret = write_word(serving, "--oversubscribe");
	}
	if (!ret && run->container_runtime) {
		ret = write_word(serving, "--container-runtime=%s", run->container_runtime);
	}
	serving->options.runner_options = serving->words;
	return ret;
}

/* Slurm has a queue of its own; of hosts that ssh reaches is known what the command line says. */
static int choose_queue(struct serving *serving, struct smd_error *error)
{
	struct smd_service_options *options = &serving->options;
	int is_limited = serving->cpus >= 0 || serving->gpus >= 0 || serving->memory > 0;
	enum smd_local_run_engine engine = serving->run.engine;

	if (smd_engine_options_check(&serving->run)) {
		return smd_error_set(error, EINVAL, "--engine: nothing was started");
	}
	options->begins_at_once = serving->run.oversubscribe || engine == SMD_LOCAL_RUN_SLURM ||
				  (engine == SMD_LOCAL_RUN_SSH && !is_limited);
	options->deals_gpus = engine == SMD_LOCAL_RUN_HERE && !serving->run.oversubscribe;
	options->runs_images = serving->run.container_runtime != NULL;
	options->secrets_folder = serving->run.secrets_folder;
	return write_words(serving) ? smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM)) : 0;
}

/* Notices are signed, or their receiver could not tell them from anybody's. */
static int choose_webhook(struct serving *serving, struct smd_error *error)
{
	char secret[SMD_TOKEN_MAX + 1];
	char **word = serving->sender_words;
	int ret = 0;

	if (!serving->webhook != !serving->webhook_secret_file) {
		return smd_error_set(
			error, EINVAL, "--webhook, --webhook-secret-file: must be given together");
	}
	if (!serving->webhook) {
		return 0;
	}
	ret = smd_token_read("--webhook-secret-file", serving->webhook_secret_file, secret, error);
	explicit_bzero(secret, sizeof(secret));
	if (ret) {
		return ret;
	}
	if (asprintf(word, "summand") < 0 || asprintf(++word, SMD_WEBHOOK_VERB) < 0 ||
		asprintf(++word, "--url=%s", serving->webhook) < 0 ||
		asprintf(++word, "--secret-file=%s", serving->webhook_secret_file) < 0 ||
		(serving->webhook_ca && asprintf(++word, "--ca-file=%s", serving->webhook_ca) < 0)) {
		*word = NULL;
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	serving->options.sender_words = serving->sender_words;
	return 0;
}

/* All jobs would be without a trace, and nobody would know before the first one is looked for. */
static int make_traces_folder(const char *folder, struct smd_error *error)
{
	if (mkdir(folder, TRACES_MODE) && errno != EEXIST) {
		return smd_error_set(error, errno, "--traces=%s: %s", folder, strerror(errno));
	}
	return access(folder, W_OK | X_OK)
		       ? smd_error_set(error, errno, "--traces=%s: must be a folder that can be "
						     "written: %s",
				 folder, strerror(errno))
		       : 0;
}

static int read_files(struct serving *serving, struct smd_error *error)
{
	int ret = read_tls(serving, error);

	ret = ret ? ret : check_listening(serving, error);
	if (!ret && serving->token_file) {
		ret = smd_token_read("--token-file", serving->token_file, serving->token, error);
		serving->options.http.access.token = serving->token;
	}
	if (!ret && serving->run.secrets_folder) {
		ret = smd_secrets_check_folder(serving->run.secrets_folder, error);
	}
	if (!ret && serving->run.trace) {
		ret = make_traces_folder(serving->run.trace, error);
	}
	ret = ret ? ret : read_images(serving, error);
	ret = ret ? ret : choose_webhook(serving, error);
	return ret ? ret : choose_queue(serving, error);
}

static void clear(struct serving *serving)
{
	explicit_bzero(serving->token, sizeof(serving->token));
	json_decref(serving->options.images);
	for (size_t i = 0; i < serving->options.nquotas; i++) {
		free((char *)serving->options.quotas[i].project);
	}
	smd_hostfile_close(serving->run.hosts);
	for (int i = 0; i < WORDS_MAX; i++) {
		free(serving->words[i]);
	}
	for (int i = 0; i < SENDER_WORDS_MAX; i++) {
		free(serving->sender_words[i]);
	}
	smd_source_free(&serving->cert);
	smd_source_free(&serving->key);
	smd_source_free(&serving->ca);
}

int smd_serve(int argc, char **argv)
{
	struct serving serving = {.options = {.http = {.listen = LISTEN_DEFAULT}},
		.run = {.log_limit = SMD_LOG_LIMIT_DEFAULT},
		.cpus = -1,
		.gpus = -1};
	struct smd_error error = {""};
	int exit_code = SMD_EXIT_USAGE;
	int ret = read_options(&serving, argc, argv, &error);

	if (ret == -ENOEXEC) {
		return SMD_EXIT_OK;
	}
	ret = ret ? ret : read_files(&serving, &error);
	if (!ret) {
		ret = smd_service_run(&serving.options, &error);
		exit_code = ret ? SMD_EXIT_FAILED : SMD_EXIT_OK;
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	clear(&serving);
	return exit_code;
}
