/* Fills a job's directory before the job begins. */
#include "orchestrator/runner/layout.h"

#include <errno.h>
#include <string.h>

#include "orchestrator/runner/hosts.h"
#include "orchestrator/runner/job_token.h"

/* A folder of the job directory stands in for an output URI that is no path of this machine. */
static int place_output(
	const struct smd_jobdir *dir, const struct smd_job *job, struct smd_placement *placement)
{
	if (!job->output_uri || job->output_uri[0] == '/') {
		return 0;
	}
	placement->output_dir = smd_jobdir_path(dir, "output");
	return placement->output_dir ? smd_jobdir_make_folder(dir, "output") : -ENOMEM;
}

static int place_token(const struct smd_jobdir *dir, const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_placement *placement)
{
	if (!smd_job_has_token(job) || options->engine != SMD_LOCAL_RUN_HERE) {
		return 0;
	}
	placement->token_file = smd_jobdir_path(dir, SMD_JOB_TOKEN_FILE);
	return placement->token_file ? 0 : -ENOMEM;
}

/* A container would see the file that is there when it starts, and none that replaces it. */
static int place_server_list(const struct smd_jobdir *dir, const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_placement *placement)
{
	if (!smd_job_has_servers(job) || options->container_runtime ||
		options->engine != SMD_LOCAL_RUN_HERE) {
		return 0;
	}
	placement->servers_file = smd_jobdir_path(dir, SMD_SERVER_LIST);
	return placement->servers_file ? 0 : -ENOMEM;
}

/* What an earlier trial in the directory has reported is not this one's. */
static int place_metrics(const struct smd_jobdir *dir, const struct smd_job_status *status,
	struct smd_placement *placement)
{
	int ret;

	if (!status->job->trial) {
		return 0;
	}
	placement->metrics_dir = smd_jobdir_path(dir, "metrics");
	if (!placement->metrics_dir) {
		return -ENOMEM;
	}
	ret = smd_jobdir_make_folder(dir, "metrics");
	for (size_t i = 0; i < status->count && !ret; i++) {
		const struct smd_replica *replica = &status->replicas[i];
		char name[SMD_REPLICA_NAME_MAX + 32];

		snprintf(name, sizeof(name), SMD_METRIC_FILE, replica->pool, replica->index,
			replica->process);
		smd_jobdir_remove(dir, name);
	}
	return ret;
}

int smd_layout_make(const struct smd_jobdir *dir, const struct smd_job_status *status,
	const struct smd_local_run_options *options, struct smd_placement *placement)
{
	int ret = place_output(dir, status->job, placement);

	ret = ret ? ret : place_metrics(dir, status, placement);
	ret = ret ? ret : place_token(dir, status->job, options, placement);
	return ret ? ret : place_server_list(dir, status->job, options, placement);
}

int smd_layout_keep_inputs(const struct smd_jobdir *dir,
	const struct smd_local_run_options *options, const json_t *resolved)
{
	int ret = 0;

	smd_jobdir_remove(dir, "summary.json"); /* of an earlier job in it */
	if (options->spec_text) {
		ret = smd_jobdir_write(dir, "spec.json", options->spec_text, options->spec_length);
	}
	if (!ret && resolved) {
		ret = smd_jobdir_write_json(dir, "resolved.json", resolved);
	}
	if (!ret && options->plan_text) {
		ret = smd_jobdir_write(
			dir, "plan.txt", options->plan_text, strlen(options->plan_text));
	}
	return ret;
}

int smd_layout_share(const struct smd_jobdir *dir)
{
	static const char *const names[] = {"code", "packages", "output", "metrics", "errors"};
	int ret = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !ret; i++) {
		ret = smd_jobdir_share(dir, names[i]);
	}
	return ret;
}
