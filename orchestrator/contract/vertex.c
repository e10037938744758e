/* AIP_* and CLOUD_ML_*: where the job writes and what it is called, as on Vertex AI. */
#include <errno.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define METRIC_FILE "CLOUD_ML_HP_METRIC_FILE"

/* The bucket's own name cannot be written to on this machine, so an engine's directory stands in
 * for it; a job that asked for no output gets none. */
int smd_output_prepare(struct smd_contract *contract)
{
	const char *base = contract->job->output_uri;
	size_t length;

	if (!base) {
		return 0;
	}
	if (contract->placement->output_dir) {
		base = contract->placement->output_dir;
	}
	length = strlen(base);
	while (length > 0 && base[length - 1] == '/') {
		length--;
	}
	contract->output_dir = strndup(base, length);
	return contract->output_dir ? 0 : -ENOMEM;
}

/* As on Vertex AI, where a replica is alone on its machine; here it is not, so where there is a
 * place for them, the file of metrics is the process's own. */
static int add_trial(const struct smd_contract *contract, const struct smd_position *position,
	const char *trial, struct smd_environment *out)
{
	int ret = smd_environment_set(out, "CLOUD_ML_TRIAL_ID", "%s", trial);

	if (contract->placement->metrics_dir) {
		return ret ? ret
			   : smd_environment_set(out, METRIC_FILE, "%s/workerpool%d-%d.%d",
				     contract->placement->metrics_dir, position->pool,
				     position->index, position->process);
	}
	return ret ? ret
		   : smd_environment_set(out, METRIC_FILE, "%s", "/tmp/hypertune/output.metrics");
}

/* projects/P/locations/L/tensorboards/T: the whole name, and L's address. */
static int add_tensorboard(const struct smd_contract *contract, struct smd_environment *out)
{
	static const char before[] = "/locations/";
	const char *name = json_string_value(json_object_get(contract->job->spec, "tensorboard"));
	const char *location = name ? strstr(name, before) : NULL;
	int ret;

	if (!location) {
		return 0;
	}
	location += sizeof(before) - 1;
	ret = smd_environment_set(out, "AIP_TENSORBOARD_RESOURCE_NAME", "%s", name);
	return ret ? ret
		   : smd_environment_set(out, "AIP_TENSORBOARD_API_URI",
			     "https://%.*s-aiplatform.googleapis.com", (int)strcspn(location, "/"),
			     location);
}

int smd_vertex_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	static const struct {
		const char *name;
		const char *folder;
	} places[] = {
		{"AIP_MODEL_DIR", "model"},
		{"AIP_CHECKPOINT_DIR", "checkpoints"},
		{"AIP_TENSORBOARD_LOG_DIR", "logs"},
	};
	const char *trial = contract->job->trial;
	int ret = smd_environment_set(out, "CLOUD_ML_JOB_ID", "%s", contract->job->id);

	if (!ret && trial) {
		ret = add_trial(contract, position, trial, out);
	}
	ret = ret ? ret : add_tensorboard(contract, out);
	for (size_t i = 0; contract->output_dir && i < sizeof(places) / sizeof(places[0]); i++) {
		ret = ret ? ret
			  : smd_environment_set(out, places[i].name, "%s/%s%s%s/",
				    contract->output_dir, trial ? trial : "", trial ? "/" : "",
				    places[i].folder);
	}
	return ret;
}
