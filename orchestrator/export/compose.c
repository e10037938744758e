/*
 * A Compose file: a service for each replica, which the others reach by the service's name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/export/container.h"

#define TOKEN_PATH   "/run/secrets/token"
#define NETWORK      "job"
#define REPLICAS_MAX 256
#define HEALTH_TEST  "exec 3<>/dev/tcp/127.0.0.1/%d"

/* GPUs are dealt out in order, as there is one host. */
struct gpu_deal {
	int next;
};

static char *endpoint_of(const struct smd_export *export, int pool, int index)
{
	char name[SMD_REPLICA_NAME_MAX];
	char *text;

	(void)export;
	smd_replica_name(name, pool, index);
	return asprintf(&text, "%s:%d", name, SMD_EXPORT_PORT) < 0 ? NULL : text;
}

static int place(const struct smd_export *export, struct smd_placement *out)
{
	const struct smd_job *job = export->job;
	int ret = smd_export_place(export, endpoint_of, out);

	if (ret) {
		return ret;
	}
	out->output_dir = job->output_uri ? strdup(SMD_EXPORT_OUTPUT_DIR) : NULL;
	out->token_file = smd_export_has_servers(job) ? strdup(TOKEN_PATH) : NULL;
	if ((job->output_uri && !out->output_dir) ||
		(smd_export_has_servers(job) && !out->token_file)) {
		smd_placement_free(out);
		return -ENOMEM;
	}
	return 0;
}

static json_t *words_of(char *const *words, size_t begin, size_t end)
{
	json_t *list = json_array();
	int failed = !list;

	for (size_t i = begin; i < end && !failed; i++) {
		smd_export_append(list, smd_export_string(words[i]), &failed);
	}
	if (failed) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *environment_of(const struct smd_environment *environment)
{
	json_t *object = json_object();
	int failed = !object;

	for (size_t i = 0; i < environment->count && !failed; i++) {
		smd_export_put(object, environment->variables[i].name,
			smd_export_string(environment->variables[i].value), &failed);
	}
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

/* Workers start when servers take connections. */
static json_t *health_check(void)
{
	char test[64];

	snprintf(test, sizeof(test), HEALTH_TEST, SMD_EXPORT_PORT);
	return json_pack("{s:[s,s,s,s], s:s, s:s, s:i}", "test", "CMD", "bash", "-c", test,
		"interval", "2s", "timeout", "2s", "retries", 60);
}

static json_t *servers_healthy(const struct smd_job *job)
{
	json_t *object = json_object();
	int is_reduction = job->pools[2].role == SMD_ROLE_REDUCTION_SERVER;
	int failed = !object;

	for (int i = 0; i < job->pools[2].replica_count && !failed; i++) {
		char name[SMD_REPLICA_NAME_MAX];

		smd_replica_name(name, 2, i);
		smd_export_put(object, name,
			json_pack("{s:s}", "condition",
				is_reduction ? "service_healthy" : "service_started"),
			&failed);
	}
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *gpus_of(struct gpu_deal *deal, int count)
{
	json_t *ids = json_array();
	int failed = !ids;

	for (int i = 0; i < count && !failed; i++) {
		char number[16];

		snprintf(number, sizeof(number), "%d", deal->next++);
		smd_export_append(ids, json_string(number), &failed);
	}
	if (failed) {
		json_decref(ids);
		return NULL;
	}
	return json_pack("{s:{s:{s:[{s:s, s:o, s:[s]}]}}}", "resources", "reservations", "devices",
		"driver", "nvidia", "device_ids", ids, "capabilities", "gpu");
}

/* What a service has beside its program. */
static void add_surroundings(const struct smd_export *export, int pool, struct gpu_deal *deal,
	json_t *service, int *failed)
{
	const struct smd_job *job = export->job;
	const struct smd_job_pool *spec = &job->pools[pool];
	int is_server = spec->role == SMD_ROLE_REDUCTION_SERVER;

	smd_export_put(service, "networks", json_pack("[s]", NETWORK), failed);
	if (is_server) {
		smd_export_put(service, "healthcheck", health_check(), failed);
		smd_export_put(service, "stop_grace_period", json_string("30s"), failed);
	} else if (pool != 2 && job->pools[2].replica_count > 0) {
		smd_export_put(service, "depends_on", servers_healthy(job), failed);
	}
	if (smd_export_has_servers(job) && pool != 3) {
		smd_export_put(service, "secrets", json_pack("[s]", "token"), failed);
	}
	if (!is_server && job->output_uri) {
		smd_export_put(service, "volumes",
			json_pack("[s]", "output:" SMD_EXPORT_OUTPUT_DIR), failed);
	}
	if (pool <= 1) {
		smd_export_put(service, "shm_size", json_string("2gb"), failed);
	}
	if (spec->accelerator_count > 0) {
		smd_export_put(service, "deploy", gpus_of(deal, spec->accelerator_count), failed);
	}
}

static json_t *service_of(const struct smd_export *export, const struct smd_contract *contract,
	const struct smd_contract *listening, int pool, int index, struct gpu_deal *deal, int *ret)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];
	int is_server = spec->role == SMD_ROLE_REDUCTION_SERVER;
	struct smd_environment environment;
	json_t *service = json_object();
	char name[SMD_REPLICA_NAME_MAX];
	char **argv = NULL;
	int failed = !service;
	size_t nwords = 0;
	size_t ncommand;

	*ret = smd_contract_environment(contract, pool, index, 0, &environment);
	if (*ret) {
		json_decref(service);
		return NULL;
	}
	*ret = smd_contract_argv(
		is_server ? listening : contract, pool, index, &environment, &argv);
	while (argv && argv[nwords]) {
		nwords++;
	}
	ncommand = is_server ? nwords : spec->ncommand;
	smd_replica_name(name, pool, index);
	smd_export_put(service, "image", json_string(smd_export_image(export, pool)), &failed);
	smd_export_put(service, "hostname", json_string(name), &failed);
	if (ncommand > 0) {
		smd_export_put(service, "entrypoint", words_of(argv, 0, ncommand), &failed);
	}
	if (nwords > ncommand) {
		smd_export_put(service, "command", words_of(argv, ncommand, nwords), &failed);
	}
	smd_export_put(service, "environment", environment_of(&environment), &failed);
	add_surroundings(export, pool, deal, service, &failed);
	smd_argv_free(argv);
	smd_environment_free(&environment);
	*ret = *ret ? *ret : failed ? -ENOMEM : 0;
	if (*ret) {
		json_decref(service);
		return NULL;
	}
	return service;
}

static int add_services(
	const struct smd_export *export, const struct smd_placement *placement, json_t *services)
{
	struct smd_contract *contract = NULL;
	struct smd_contract *listening = NULL;
	struct smd_placement ports = {.master_port = 0};
	struct gpu_deal deal = {0};
	int ret = smd_export_place_listening(export, placement, &ports);

	ret = ret ? ret : smd_contract_create(export->job, placement, &contract);
	ret = ret ? ret : smd_contract_create(export->job, &ports, &listening);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !ret; pool++) {
		for (int i = 0; i < export->job->pools[pool].replica_count && !ret; i++) {
			json_t *service =
				service_of(export, contract, listening, pool, i, &deal, &ret);
			char name[SMD_REPLICA_NAME_MAX];

			smd_replica_name(name, pool, i);
			ret = ret                                            ? ret
			      : json_object_set_new(services, name, service) ? -ENOMEM
									     : 0;
		}
	}
	smd_contract_free(listening);
	smd_contract_free(contract);
	smd_placement_free(&ports);
	return ret;
}

static int build(struct smd_export *export)
{
	const struct smd_job *job = export->job;
	struct smd_placement placement;
	json_t *services = json_object();
	int failed = !services;
	char *file = NULL;
	int ret = place(export, &placement);

	if (ret) {
		json_decref(services);
		return ret;
	}
	ret = failed ? -ENOMEM : add_services(export, &placement, services);
	smd_placement_free(&placement);
	export->object = json_pack("{s:s, s:o, s:{s:{}}}", "name", export->name, "services",
		services, "networks", NETWORK);
	failed |= !export->object;
	if (!failed && smd_export_has_servers(job)) {
		failed |= asprintf(&file, "./%s.token", export->name) < 0;
		smd_export_put(export->object, "secrets",
			failed ? NULL : json_pack("{s:{s:s}}", "token", "file", file), &failed);
		free(file);
	}
	if (!failed && job->output_uri) {
		smd_export_put(export->object, "volumes", json_pack("{s:{}}", "output"), &failed);
	}
	return ret ? ret : failed ? -ENOMEM : 0;
}

static int note_all(struct smd_export *export)
{
	const struct smd_job *job = export->job;
	int ret = 0;

	if (job->timeout_s != SMD_JOB_TIMEOUT_DEFAULT_S) {
		ret = smd_export_note(export,
			"the job's timeout of %lld s: Compose has none, `timeout` before its "
			"command does it",
			(long long)job->timeout_s);
	}
	if (!ret && ((job->max_restarts > 0 && job->restart_policy != SMD_RESTART_NEVER) ||
			    job->budgets.count > 0)) {
		ret = smd_export_note(
			export, "restarts after a failure: Compose cannot restart all replicas");
	}
	if (!ret && job->pools[1].replica_count > 0) {
		ret = smd_export_note(export,
			"a worker that fails: Compose ends the job only when the chief has ended");
	}
	if (!ret && job->success_policy == SMD_SUCCESS_ALL_WORKERS) {
		ret = smd_export_note(
			export, "success of all workers: name them all to `docker compose wait`");
	}
	if (!ret && job->output_uri) {
		ret = smd_export_note(
			export, "%s: the volume `output` stands in for it", job->output_uri);
	}
	return ret;
}

static int print_head(struct smd_export *export)
{
	size_t length;
	FILE *out = open_memstream(&export->head, &length);

	if (!out) {
		return -ENOMEM;
	}
	fprintf(out,
		"# %s: %d replicas in worker pools, exported by summand " SUMMAND_VERSION
		" for Compose.\n"
		"#\n",
		export->name, smd_job_replica_count(export->job));
	if (smd_export_has_servers(export->job)) {
		fprintf(out, "#   (umask 077 && openssl rand -hex 32 >%s.token)\n", export->name);
	}
	fputs("#   docker compose -f FILE up --detach\n"
	      "#   docker compose -f FILE wait workerpool0-0    # ends as the chief does\n"
	      "#   docker compose -f FILE down\n",
		out);
	smd_export_print_notes(export, out);
	return fclose(out) ? -ENOMEM : 0;
}

int smd_export_compose(struct smd_export *export, struct smd_error *error)
{
	int ret = smd_export_need_container(export, "Compose", error);

	if (!ret && smd_job_replica_count(export->job) > REPLICAS_MAX) {
		ret = smd_error_set(error, ENOTSUP,
			"replicas: must be at most %d in Compose, which runs them all on one host, "
			"got "
			"%d",
			REPLICAS_MAX, smd_job_replica_count(export->job));
	}
	ret = ret ? ret : note_all(export);
	ret = ret ? ret : build(export);
	return ret ? ret : print_head(export);
}
