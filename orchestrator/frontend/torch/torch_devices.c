/* Finds the GPUs of this machine, and gives a script as many as TorchDistributor would. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int smd_torch_devices_choose(struct smd_torch_script *script, struct smd_error *error)
{
	int count;

	script->devices = script->use_gpu ? find_devices() : strdup("");
	if (!script->devices) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (!script->use_gpu) {
		return 0;
	}
	count = count_devices(script->devices);
	if (count == 0) {
		return smd_error_set(error, EINVAL,
			"--use-gpu: GPUs were unable to be found on this machine; --use-gpu=false "
			"does without");
	}
	if (script->num_processes > count && !script->local_mode) {
		return smd_error_set(error, EINVAL,
			"--num-processes: must be at most the number of GPUs, which is %d: each "
			"process has one, got %d",
			count, script->num_processes);
	}
	if (script->num_processes > count) {
		script->num_processes = count;
	}
	keep_devices(script->devices, script->num_processes);
	return 0;
}
