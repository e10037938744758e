/* Builds the CustomJob of a PyTorch script. */
#include "orchestrator/frontend/torch/torch_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/frontend.h"

#define DEVICES     "CUDA_VISIBLE_DEVICES"
#define NUMBER_SIZE 16

/* Picks the process's own device; the words are a spec's, where $$ is $. */
#define OWN_DEVICE                                                                                 \
	"export " DEVICES "=$$(echo \"$$" DEVICES "\" | cut -d, -f$$((RANK + 1))); exec \"$@\""

static int add_variable(json_t *env, const char *name, const char *value)
{
	return json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

/* Ranks of one node: the contract takes each replica for a node. */
static json_t *make_env(const struct smd_torch_script *script)
{
	json_t *env = json_array();
	char number[NUMBER_SIZE];
	int failed = !env || add_variable(env, DEVICES, script->devices);

	if (!failed && script->local_mode) {
		snprintf(number, sizeof(number), "%d", script->num_processes);
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

static json_t *make_command(const struct smd_torch_script *script)
{
	int chooses = script->use_gpu && !script->local_mode;
	json_t *command =
		chooses ? json_pack("[s,s,s,s]", "sh", "-c", OWN_DEVICE, "sh") : json_array();
	int failed = !command || json_array_append_new(command, json_string("python3"));

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

/* A CustomJob of one process per replica. NULL: out of memory, or an argument is not UTF-8. */
static char *make_spec(const struct smd_torch_script *script)
{
	json_t *pools = json_pack("[o]", make_pool(script, 1));
	json_t *spec;
	char *text;

	if (pools && script->num_processes > 1 &&
		json_array_append_new(pools, make_pool(script, script->num_processes - 1))) {
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
