/*
 * A PyTorch script in several processes of one machine, as Spark's TorchDistributor describes it.
 *
 * In local mode the processes are ranks of one node and share its GPUs; else each is a node of its
 * own with a GPU of its own, as a Spark task is.
 */
#ifndef SMD_FRONTEND_TORCH_TORCH_JOB_H
#define SMD_FRONTEND_TORCH_TORCH_JOB_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

struct smd_torch_script {
	int num_processes;
	int local_mode;
	int use_gpu;
	char **words; /* the script and its arguments */
	int nwords;
	char *devices; /* what CUDA_VISIBLE_DEVICES will be */
};

/*
 * Chooses the GPUs by TorchDistributor's rules: in local mode as many processes are left as there
 * are GPUs. The caller frees script->devices. -EINVAL: there are too few, and why is in the error.
 */
int smd_torch_devices_choose(struct smd_torch_script *script, struct smd_error *error);

/*
 * The job, and the CustomJob's text that describes it; the caller frees both. -EINVAL: a word is
 * not UTF-8.
 */
int smd_torch_job_create(const struct smd_torch_script *script, struct smd_job **out, char **text);

#endif
