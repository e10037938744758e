/* AIP_* and CLOUD_ML_*: where the job writes and what it is called, as on Vertex AI. */
#include <errno.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

/* The bucket's own name cannot be written to on this machine, so an engine's directory stands in
 * for it; a job that asked for no output gets none. */
int smd_vertex_prepare(struct smd_contract *contract)
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

int smd_vertex_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out)
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

	(void)pool;
	(void)index;
	if (!ret && trial) {
		ret = smd_environment_set(out, "CLOUD_ML_TRIAL_ID", "%s", trial);
	}
	for (size_t i = 0; contract->output_dir && i < sizeof(places) / sizeof(places[0]); i++) {
		ret = ret ? ret
			  : smd_environment_set(out, places[i].name, "%s/%s%s%s/",
				    contract->output_dir, trial ? trial : "", trial ? "/" : "",
				    places[i].folder);
	}
	return ret;
}
