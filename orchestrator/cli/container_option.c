/* Looks for what runs containers before anything is started. */
#include "orchestrator/cli/container_option.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "reduction_server/base/printable.h"
#include "worker/agent/host/container.h"

#define NO_SRUN 3

/* That there is no srun at all the engine says. */
static int knows_pyxis(void)
{
	int status = system("command -v srun >/dev/null || exit 3\n"
			    "srun --help 2>/dev/null | grep -q -e --container-image=");

	return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_SRUN);
}

static int check_pyxis(const struct smd_job *job, const struct smd_local_run_options *options)
{
	if (options->engine != SMD_LOCAL_RUN_SLURM) {
		smd_print_line(stderr,
			"summand: --container-runtime=pyxis: must come with --engine=slurm\n");
		return -1;
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];

		if (pool->replica_count > 0 && pool->image_uri && pool->ncommand == 0 &&
			pool->role != SMD_ROLE_REDUCTION_SERVER) {
			smd_print_line(stderr,
				"summand: --container-runtime=pyxis: workerpool%d must have a "
				"command: Pyxis does not run an image's own entry point\n",
				i);
			return -1;
		}
	}
	if (!knows_pyxis()) {
		smd_print_line(stderr,
			"summand: --container-runtime=pyxis: srun must know --container-image, "
			"here and on the nodes: Pyxis is not installed; podman and apptainer need "
			"nothing of Slurm\n");
		return -1;
	}
	return 0;
}

int smd_container_option_check(
	const struct smd_job *job, const struct smd_local_run_options *options)
{
	const struct smd_container_runtime *runtime =
		options->container_runtime ? smd_container_runtime_find(options->container_runtime)
					   : NULL;

	if (!runtime) {
		return 0;
	}
	if (runtime->is_step) {
		return check_pyxis(job, options);
	}
	if (options->engine == SMD_LOCAL_RUN_HERE && !smd_container_runtime_is_installed(runtime)) {
		smd_print_line(stderr, "summand: --container-runtime=%s: not found on PATH\n",
			options->container_runtime);
		return -1;
	}
	return 0;
}
