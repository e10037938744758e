/* Reads the options of torch-run: TorchDistributor's, and torchrun's as far as one machine goes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/frontend/duration.h"
#include "orchestrator/frontend/torch/torch_job.h"
#include "reduction_server/base/parse.h"

#define PORT_MAX     65535
#define RESTARTS_MAX 1000000
#define HOST_SIZE    256

const struct smd_torch_script smd_torch_defaults = {
	.local_mode = 1, .use_gpu = -1, .uses_python = 1, .role = "default"};

static int set_number(int *place, const char *value, int min, int max, struct smd_error *error)
{
	uint64_t number;

	if (smd_parse_number(value, (uint64_t)min, (uint64_t)max, &number)) {
		return smd_error_set(
			error, EINVAL, "must be a whole number from %d to %d", min, max);
	}
	*place = (int)number;
	return 0;
}

static int set_processes(void *target, const char *value, struct smd_error *error)
{
	return set_number(target, value, 1, SMD_JOB_PROCESSES_MAX, error);
}

static int set_servers(void *target, const char *value, struct smd_error *error)
{
	return set_number(target, value, 0, SMD_JOB_SERVERS_MAX, error);
}

static int set_restarts(void *target, const char *value, struct smd_error *error)
{
	return set_number(target, value, 0, RESTARTS_MAX, error);
}

static int set_port(void *target, const char *value, struct smd_error *error)
{
	return set_number(target, value, 0, PORT_MAX, error);
}

static int set_timeout(void *target, const char *value, struct smd_error *error)
{
	return smd_duration_parse(value, target)
		       ? smd_error_set(error, EINVAL, "must be a duration such as 90s, 15m or 1d2h")
		       : 0;
}

static int set_nproc_per_node(void *target, const char *value, struct smd_error *error)
{
	uint64_t number;

	if (strcmp(value, "auto") != 0 && strcmp(value, "cpu") != 0 && strcmp(value, "gpu") != 0 &&
		smd_parse_number(value, 1, SMD_JOB_PROCESSES_MAX, &number)) {
		return smd_error_set(error, EINVAL,
			"must be auto, cpu, gpu or a whole number from 1 to %d",
			SMD_JOB_PROCESSES_MAX);
	}
	*(const char **)target = value;
	return 0;
}

/* Those that each process has of its own. */
static int is_set_by_torch_run(const char *name, size_t length)
{
	static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
		"NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
		"ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
			return 1;
		}
	}
	return strncmp(name, "TORCHELASTIC_", strlen("TORCHELASTIC_")) == 0 &&
	       strncmp(name, "TORCHELASTIC_ERROR_FILE=", strlen("TORCHELASTIC_ERROR_FILE=")) != 0;
}

static int is_name(const char *text, size_t length)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

	for (size_t i = 0; i < length; i++) {
		if (!strchr(letters, text[i]) && (i == 0 || !strchr("0123456789", text[i]))) {
			return 0;
		}
	}
	return length > 0;
}

static int add_env(void *target, const char *value, struct smd_error *error)
{
	struct smd_torch_script *script = target;
	size_t length = strcspn(value, "=");

	if (!value[length] || !is_name(value, length)) {
		return smd_error_set(
			error, EINVAL, "must be NAME=VALUE with a C identifier as name");
	}
	if (is_set_by_torch_run(value, length)) {
		return smd_error_set(
			error, EINVAL, "must be a variable that torch-run does not set itself");
	}
	if (script->nenv == SMD_TORCH_ENV_MAX) {
		return smd_error_set(
			error, EINVAL, "must be given at most %d times", SMD_TORCH_ENV_MAX);
	}
	script->env[script->nenv++] = value;
	return 0;
}

/* What torchrun takes and what is so here anyway. */
static int take_one_node(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	return strcmp(value, "1") == 0 || strcmp(value, "1:1") == 0
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "must be 1; torch-run starts processes of this machine: for "
				 "several "
				 "write a job with a worker pool of them and run that");
}

static int take_first_node(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	return strcmp(value, "0") == 0
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "must be 0; torch-run starts processes of this machine alone");
}

static int take_backend(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	return strcmp(value, "static") == 0 || strcmp(value, "c10d") == 0
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "must be static or c10d; processes of one machine need no other "
				 "service to meet");
}

static int is_this_machine(const char *host)
{
	return !*host || strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
	       strcmp(host, "::1") == 0;
}

static int take_host(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	return is_this_machine(value)
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "must be localhost; torch-run starts processes of this machine");
}

static int take_endpoint(void *target, const char *value, struct smd_error *error)
{
	char host[HOST_SIZE];

	if (value[0] == '[') {
		snprintf(host, sizeof(host), "%.*s", (int)strcspn(value + 1, "]"), value + 1);
	} else {
		snprintf(host, sizeof(host), "%.*s", (int)strcspn(value, ":"), value);
	}
	return take_host(target, host, error);
}

static int take_nothing(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	(void)error;
	return 0;
}

static int take_no_redirects(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	return strcmp(value, "0") == 0 ? 0
				       : smd_error_set(error, EINVAL,
						 "must be 0; all output is shown, and kept in "
						 "DIR/logs of --job-dir=DIR too");
}

static int refuse_log_dir(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	return smd_error_set(
		error, EINVAL, "must be left out; --job-dir=DIR keeps all output in DIR/logs");
}

static int refuse_filter(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	return smd_error_set(error, EINVAL,
		"must be left out; each line has its process's name, and --job-dir=DIR keeps each "
		"process's in DIR/logs");
}

static int refuse_numa_binding(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	return smd_error_set(error, EINVAL,
		"must be left out; a program of one's own binds: --no-python numactl "
		"--cpunodebind=0 python3 SCRIPT");
}

static int refuse_virtual_rank(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	return smd_error_set(error, EINVAL,
		"must be left out; --no-local-mode gives each process one GPU and LOCAL_RANK 0");
}

static int refuse_rdzv_conf(void *target, const char *value, struct smd_error *error)
{
	(void)target;
	(void)value;
	return smd_error_set(error, EINVAL,
		"must be left out; nothing is waited for when processes of one machine meet");
}

size_t smd_torch_options(
	struct smd_torch_script *script, struct smd_option options[SMD_TORCH_OPTIONS_MAX])
{
	const struct smd_option rows[] = {
		SMD_OPTION_GROUP("Processes"),
		{"num-processes", "N", "how many processes are started (default 1)", set_processes,
			&script->num_processes},
		{"nproc-per-node", "auto|cpu|gpu|N",
			"the same, as torchrun counts them; a number leaves all GPUs to each",
			set_nproc_per_node, &script->nproc_per_node},
		{"local-mode", NULL,
			"all are on one node (default); --no-local-mode: each is on its own",
			smd_option_set_bool, &script->local_mode},
		{"use-gpu", NULL,
			"they get this machine's GPUs (default); --no-use-gpu: they get none",
			smd_option_set_bool, &script->use_gpu},
		{"reduction-servers", "N", "how many servers sum their gradients (default 0)",
			set_servers, &script->reduction_servers},
		SMD_OPTION_GROUP("Script"),
		{"module", NULL, "SCRIPT is a Python module; -m SCRIPT does the same",
			smd_option_set_bool, &script->is_module},
		{"python", NULL, "python3 runs SCRIPT (default); --no-python: it is a program",
			smd_option_set_bool, &script->uses_python},
		{"env", "NAME=VALUE", "a variable of each process; may be given again", add_env,
			script},
		{"role", "NAME", "what ROLE_NAME is (default default)", smd_option_set_path,
			&script->role},
		{"rdzv-id", "ID", "what TORCHELASTIC_RUN_ID is (default: the job's id)",
			smd_option_set_path, &script->run_id},
		{"master-port", "PORT", "what MASTER_PORT is (default: one that is free)", set_port,
			&script->master_port},
		SMD_OPTION_GROUP("End"),
		{"timeout", "DURATION", "end the job after this time (default: 7 days)",
			set_timeout, &script->timeout_s},
		{"max-restarts", "N", "start all again when one fails, so often (default 0)",
			set_restarts, &script->max_restarts},
		SMD_OPTION_GROUP("Of torchrun, without effect here"),
		{"nnodes", "1", NULL, take_one_node, NULL},
		{"node-rank", "0", NULL, take_first_node, NULL},
		{"master-addr", "localhost", NULL, take_host, NULL},
		{"local-addr", "localhost", NULL, take_host, NULL},
		{"rdzv-backend", "static|c10d", NULL, take_backend, NULL},
		{"rdzv-endpoint", "localhost[:PORT]", NULL, take_endpoint, NULL},
		{"standalone", NULL, NULL, take_nothing, NULL},
		{"monitor-interval", "SECONDS", NULL, take_nothing, NULL},
		{"start-method", "METHOD", NULL, take_nothing, NULL},
		{"run-path", NULL, NULL, take_nothing, NULL},
		{"event-log-handler", "NAME", NULL, take_nothing, NULL},
		{"signals-to-handle", "NAMES", NULL, take_nothing, NULL},
		{"tee", "STD", NULL, take_nothing, NULL},
		{"redirects", "0", NULL, take_no_redirects, NULL},
		SMD_OPTION_GROUP("Of torchrun, refused here with what to do instead"),
		{"rdzv-conf", "CONF", NULL, refuse_rdzv_conf, NULL},
		{"log-dir", "DIR", NULL, refuse_log_dir, NULL},
		{"logs-specs", "NAME", NULL, refuse_log_dir, NULL},
		{"local-ranks-filter", "RANKS", NULL, refuse_filter, NULL},
		{"numa-binding", "TYPE", NULL, refuse_numa_binding, NULL},
		{"virtual-local-rank", "BOOL", NULL, refuse_virtual_rank, NULL},
	};

	_Static_assert(sizeof(rows) / sizeof(rows[0]) <= SMD_TORCH_OPTIONS_MAX, "rows");
	memcpy(options, rows, sizeof(rows));
	return sizeof(rows) / sizeof(rows[0]);
}

int smd_torch_options_settle(struct smd_torch_script *script, struct smd_error *error)
{
	if (script->nwords > 0 && strcmp(script->words[0], "-m") == 0) {
		script->is_module = 1;
		script->words++;
		script->nwords--;
	}
	if (script->nwords == 0 || !script->words[0][0]) {
		return smd_error_set(error, EINVAL,
			"a script is needed: summand torch-run [OPTION...] [--] SCRIPT [ARG...]");
	}
	if (script->words[0][0] == '-') {
		return smd_error_set(error, EINVAL,
			"%s: unknown option; --help lists those before the script",
			script->words[0]);
	}
	if (script->is_module && !script->uses_python) {
		return smd_error_set(error, EINVAL, "--no-python: a module is run by Python");
	}
	if (script->num_processes && script->nproc_per_node) {
		return smd_error_set(error, EINVAL,
			"--nproc-per-node: must not be given together with --num-processes");
	}
	return 0;
}
