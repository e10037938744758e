/* Finds the GPUs of this machine, and gives a script those that TorchDistributor or torchrun would.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/frontend/torch/torch_job.h"

#define DEVICES "CUDA_VISIBLE_DEVICES"

/* "0,1,2": the devices of this machine, or those that we were given. NULL: out of memory. */
static char *find_devices(void)
{
	const char *given = getenv(DEVICES);
	char *list = NULL;
	size_t length;
	glob_t found;
	FILE *out;

	if (given) {
		return strdup(given);
	}
	out = open_memstream(&list, &length);
	if (!out) {
		return NULL;
	}
	if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			fprintf(out, "%s%zu", i ? "," : "", i);
		}
		globfree(&found);
	}
	if (fclose(out)) {
		free(list);
		return NULL;
	}
	return list;
}

static int count_devices(const char *list)
{
	int count = *list != '\0';

	for (; *list; list++) {
		count += *list == ',';
	}
	return count;
}

/* Cuts the list after so many. */
static void keep_devices(char *list, int count)
{
	for (; *list; list++) {
		if (*list == ',' && --count == 0) {
			*list = '\0';
			return;
		}
	}
}

static int refuse_without_gpus(struct smd_error *error)
{
	return smd_error_set(error, EINVAL,
		"--use-gpu: GPUs were unable to be found on this machine; --use-gpu=false does "
		"without");
}

/* TorchDistributor's rules, for GPUs that are dealt. */
static int deal(struct smd_torch_script *script, int count, struct smd_error *error)
{
	if (count == 0) {
		return refuse_without_gpus(error);
	}
	if (script->num_processes > count && !script->local_mode) {
		return smd_error_set(error, EINVAL,
			"--num-processes: must be at most the number of GPUs, which is %d: each "
			"process has one, got %d",
			count, script->num_processes);
	}
	if (script->num_processes > count) {
		script->num_processes = count;
		script->was_reduced = 1;
	}
	keep_devices(script->devices, script->num_processes);
	return 0;
}

/* torchrun's --nproc-per-node: a number, and as many as there are processors or GPUs. */
static int count_processes(struct smd_torch_script *script, int devices, struct smd_error *error)
{
	const char *word = script->nproc_per_node;
	int wants_gpus = strcmp(word, "gpu") == 0 || (strcmp(word, "auto") == 0 && devices > 0);

	if (wants_gpus && devices == 0) {
		return smd_error_set(error, EINVAL,
			"--nproc-per-node: GPUs were unable to be found on this machine; cpu or a "
			"number does without");
	}
	if (wants_gpus) {
		script->num_processes = devices;
	} else if (*word < '0' || *word > '9') {
		script->num_processes = (int)sysconf(_SC_NPROCESSORS_ONLN);
		script->use_gpu = script->use_gpu > 0;
	} else {
		script->num_processes = (int)strtol(word, NULL, 10);
		script->gpus = script->use_gpu < 0 ? SMD_TORCH_GPUS_LEFT : script->gpus;
	}
	if (script->num_processes > SMD_JOB_PROCESSES_MAX) {
		script->num_processes = SMD_JOB_PROCESSES_MAX;
	}
	return 0;
}

int smd_torch_devices_choose(struct smd_torch_script *script, struct smd_error *error)
{
	int count;
	int ret = 0;

	script->devices = find_devices();
	if (!script->devices) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	count = count_devices(script->devices);
	script->gpus = SMD_TORCH_GPUS_DEALT;
	if (script->nproc_per_node) {
		ret = count_processes(script, count, error);
	} else if (script->num_processes == 0) {
		script->num_processes = 1;
	}
	if (!ret && script->use_gpu == 0) {
		script->gpus = SMD_TORCH_GPUS_NONE;
		*script->devices = '\0';
	} else if (!ret && script->gpus == SMD_TORCH_GPUS_DEALT) {
		ret = deal(script, count, error);
	}
	return ret;
}
