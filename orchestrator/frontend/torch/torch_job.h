/*
 * A PyTorch script in several processes of one machine, as Spark's TorchDistributor describes it
 * and as torchrun starts it.
 *
 * In local mode the processes are ranks of one node and share its GPUs; else each is a node of its
 * own with a GPU of its own, as a Spark task is.
 */
#ifndef SMD_FRONTEND_TORCH_TORCH_JOB_H
#define SMD_FRONTEND_TORCH_TORCH_JOB_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"
#include "reduction_server/base/options.h"

#define SMD_TORCH_ENV_MAX     64
#define SMD_TORCH_OPTIONS_MAX 48

/* Who may use GPUs: TorchDistributor's rules, or torchrun's, which leaves them all to all. */
enum smd_torch_gpus { SMD_TORCH_GPUS_NONE, SMD_TORCH_GPUS_DEALT, SMD_TORCH_GPUS_LEFT };

struct smd_torch_script {
	const char *nproc_per_node; /* auto, cpu, gpu or a number; NULL: num_processes is given */
	int num_processes;          /* 0: not yet known */
	int local_mode;
	int use_gpu; /* -1: as the other options imply */
	enum smd_torch_gpus gpus;
	int is_module;   /* the first word is a Python module, not a file */
	int uses_python; /* 0: the first word is a program */
	int reduction_servers;
	int max_restarts;
	int master_port; /* 0: one that is free */
	uint64_t timeout_s;
	const char *run_id; /* or NULL */
	const char *role;
	const char *env[SMD_TORCH_ENV_MAX]; /* "NAME=VALUE" */
	size_t nenv;
	int limits_threads;      /* OMP_NUM_THREADS is 1 */
	int ends_on_nccl_errors; /* TORCH_NCCL_ASYNC_ERROR_HANDLING is 1 */
	char **words;            /* the script and its arguments */
	int nwords;
	int was_reduced; /* there are fewer GPUs than processes were asked for */
	char *devices;   /* what CUDA_VISIBLE_DEVICES will be; NULL: what it is */
};

/* What there is without options. */
extern const struct smd_torch_script smd_torch_defaults;

/* The options that describe the script: TorchDistributor's, torchrun's and some more. Returns how
 * many. */
size_t smd_torch_options(
	struct smd_torch_script *script, struct smd_option options[SMD_TORCH_OPTIONS_MAX]);

/* The options and words that are known only together: torchrun's -m, counts that are given twice.
 * -EINVAL: what must hold is in the error. */
int smd_torch_options_settle(struct smd_torch_script *script, struct smd_error *error);

/*
 * Chooses the processes and their GPUs, by TorchDistributor's rules (in local mode as many
 * processes are left as there are GPUs) or torchrun's. The caller frees script->devices. -EINVAL:
 * there are too few, and why is in the error.
 */
int smd_torch_devices_choose(struct smd_torch_script *script, struct smd_error *error);

/*
 * The job, and the CustomJob's text that describes it; the caller frees both. -EINVAL: a word is
 * not UTF-8.
 */
int smd_torch_job_create(const struct smd_torch_script *script, struct smd_job **out, char **text);

#endif
