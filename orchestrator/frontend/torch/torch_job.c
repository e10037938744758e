/* Builds the CustomJob of a PyTorch script. */
#include "orchestrator/frontend/torch/torch_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/frontend.h"

#define DEVICES     "CUDA_VISIBLE_DEVICES"
#define RUN_ID      "TORCHELASTIC_RUN_ID"
#define NUMBER_SIZE 24

/* Picks the process's own device; the words are a spec's, where $$ is $. */
#define OWN_DEVICE                                                                                 \
	"export " DEVICES "=$$(echo \"$$" DEVICES "\" | cut -d, -f$$((RANK + 1))); exec \"$@\""

static int add_variable(json_t *env, const char *name, const char *value)
{
	return json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

/* The user's own dollars are not references. */
static int append_escaped_variable(json_t *env, const char *name, const char *value)
{
	char *escaped = smd_reference_escape(value);
	int failed = !escaped || add_variable(env, name, escaped);

	free(escaped);
	return failed;
}

static int add_number(json_t *env, const char *name, int value)
{
	char number[NUMBER_SIZE];

	snprintf(number, sizeof(number), "%d", value);
	return add_variable(env, name, number);
}

/* Ranks of one node: the contract takes each replica for a node. */
static int add_node(const struct smd_torch_script *script, json_t *env)
{
	return add_variable(env, "LOCAL_RANK", "$(RANK)") ||
	       add_number(env, "LOCAL_WORLD_SIZE", script->num_processes) ||
	       add_variable(env, "NODE_RANK", "0") || add_variable(env, "GROUP_RANK", "0");
}

/* What torchrun tells each process beyond that. The store is rank 0's, as there is no agent that
 * would have one; how often was restarted, the runner adds. */
static int add_elastic(const struct smd_torch_script *script, json_t *env)
{
	return add_number(
		       env, "GROUP_WORLD_SIZE", script->local_mode ? 1 : script->num_processes) ||
	       append_escaped_variable(env, "ROLE_NAME", script->role) ||
	       add_variable(env, "ROLE_RANK", "$(RANK)") ||
	       add_number(env, "ROLE_WORLD_SIZE", script->num_processes) ||
	       (script->run_id ? append_escaped_variable(env, RUN_ID, script->run_id)
			       : add_variable(env, RUN_ID, "$(SUMMAND_JOB_ID)")) ||
	       add_number(env, "TORCHELASTIC_MAX_RESTARTS", script->max_restarts) ||
	       add_variable(env, "TORCHELASTIC_USE_AGENT_STORE", "False") ||
	       (script->master_port && add_number(env, "MASTER_PORT", script->master_port));
}

static int add_given(const struct smd_torch_script *script, json_t *env)
{
	for (size_t i = 0; i < script->nenv; i++) {
		size_t length = strcspn(script->env[i], "=");
		char *name = strndup(script->env[i], length);
		int failed =
			!name || append_escaped_variable(env, name, script->env[i] + length + 1);

		free(name);
		if (failed) {
			return -1;
		}
	}
	return 0;
}

static json_t *make_env(const struct smd_torch_script *script)
{
	json_t *env = json_array();

	if (!env ||
		(script->gpus != SMD_TORCH_GPUS_LEFT &&
			add_variable(env, DEVICES, script->devices)) ||
		(script->local_mode && add_node(script, env)) || add_elastic(script, env) ||
		(script->limits_threads && add_variable(env, "OMP_NUM_THREADS", "1")) ||
		(script->ends_on_nccl_errors &&
			add_variable(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")) ||
		add_given(script, env)) {
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

static json_t *make_command(const struct smd_torch_script *script)
{
	int chooses = script->gpus == SMD_TORCH_GPUS_DEALT && !script->local_mode;
	json_t *command =
		chooses ? json_pack("[s,s,s,s]", "sh", "-c", OWN_DEVICE, "sh") : json_array();
	/* Not buffered, as torchrun starts it: what it says is shown at once. */
	int failed =
		!command ||
		(script->uses_python && (json_array_append_new(command, json_string("python3")) ||
						json_array_append_new(command, json_string("-u"))));

	failed = failed || (script->is_module && json_array_append_new(command, json_string("-m")));

	for (int i = 0; i < script->nwords && !failed; i++) {
		failed = append_escaped(command, script->words[i]);
	}
	if (failed) {
		json_decref(command);
		return NULL;
	}
	return command;
}

static json_t *make_pool(const struct smd_torch_script *script, int replicas)
{
	return json_pack("{s:i, s:{s:s, s:o, s:o}}", "replicaCount", replicas, "containerSpec",
		"imageUri", "torch-run", "command", make_command(script), "env", make_env(script));
}

/* Chief, workers, reduction servers; a pool that is not used keeps its place. */
static json_t *make_pools(const struct smd_torch_script *script)
{
	json_t *pools = json_pack("[o]", make_pool(script, 1));
	int failed = !pools;

	if (!failed && (script->num_processes > 1 || script->reduction_servers > 0)) {
		failed = json_array_append_new(pools,
			script->num_processes > 1 ? make_pool(script, script->num_processes - 1)
						  : json_object());
	}
	if (!failed && script->reduction_servers > 0) {
		failed = json_array_append_new(pools,
			json_pack("{s:i, s:{s:s}}", "replicaCount", script->reduction_servers,
				"containerSpec", "imageUri", "reductionserver"));
	}
	if (failed) {
		json_decref(pools);
		return NULL;
	}
	return pools;
}

/* torchrun starts all again, at once. */
static int add_restarts(const struct smd_torch_script *script, json_t *labels)
{
	char number[NUMBER_SIZE];

	snprintf(number, sizeof(number), "%d", script->max_restarts);
	return script->max_restarts > 0 &&
	       (json_object_set_new(labels, "summand-restart-policy", json_string("on-failure")) ||
		       json_object_set_new(labels, "summand-restart-scope", json_string("job")) ||
		       json_object_set_new(labels, "summand-restart-backoff", json_string("0")) ||
		       json_object_set_new(labels, "summand-max-restarts", json_string(number)));
}

static int add_timeout(const struct smd_torch_script *script, json_t *job)
{
	char text[NUMBER_SIZE];

	snprintf(text, sizeof(text), "%llus", (unsigned long long)script->timeout_s);
	return script->timeout_s > 0 &&
	       json_object_set_new(job, "scheduling", json_pack("{s:s}", "timeout", text));
}

/* A CustomJob of one process per replica. NULL: out of memory, or an argument is not UTF-8. */
static char *make_spec(const struct smd_torch_script *script)
{
	json_t *job = json_pack("{s:o}", "workerPoolSpecs", make_pools(script));
	json_t *labels = json_pack("{s:s, s:s}", "summand-distribution", "pytorch",
		"summand-success-policy", "all-workers");
	json_t *spec = NULL;
	char *text = NULL;

	if (job && labels && !add_restarts(script, labels) && !add_timeout(script, job)) {
		spec = json_pack("{s:s, s:O, s:O}", "displayName", "torch-run", "labels", labels,
			"jobSpec", job);
	}
	text = spec ? json_dumps(spec, JSON_INDENT(2)) : NULL;
	json_decref(spec);
	json_decref(labels);
	json_decref(job);
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
		ret = smd_frontend_decode(document, diagnostics, job);
		smd_node_free(document);
	}
	smd_diagnostics_print(diagnostics, "torch-run", SMD_SEVERITY_WARNING, stderr);
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	return ret;
}

int smd_torch_job_create(const struct smd_torch_script *script, struct smd_job **out, char **text)
{
	char *spec = make_spec(script);
	int ret = spec ? decode(spec, out) : -EINVAL;

	if (ret) {
		free(spec);
		return ret;
	}
	*text = spec;
	return 0;
}
