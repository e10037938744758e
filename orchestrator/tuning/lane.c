/* Deals GPUs to the trials that run at once. */
#include "orchestrator/tuning/lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/agent/host/gpu.h"

static char *gpus_of_lane(const struct smd_gpus *gpus, size_t lane)
{
	size_t wanted = (size_t)gpus->wanted < gpus->count ? (size_t)gpus->wanted : gpus->count;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t i = 0; out && i < wanted; i++) {
		fprintf(out, "%s%s", i ? "," : "", gpus->ids[(lane * wanted + i) % gpus->count]);
	}
	if (out && fclose(out)) {
		free(text);
		text = NULL;
	}
	return text;
}

static int split(const struct smd_gpus *gpus, size_t lanes, char ***out)
{
	char **list = calloc(lanes + 1, sizeof(*list));

	for (size_t i = 0; list && i < lanes; i++) {
		list[i] = gpus_of_lane(gpus, i);
		if (!list[i]) {
			smd_lanes_close(list);
			list = NULL;
		}
	}
	*out = list;
	return list ? 0 : -ENOMEM;
}

/* A trial that already has fewer than its machine type says shares what there is. */
int smd_lanes_open(const struct smd_job *job, int may_share, char ***out, struct smd_error *error)
{
	struct smd_gpus gpus = {.count = 0};
	size_t lanes = (size_t)job->parallel_trial_count;
	int ret = smd_gpus_find(&gpus, getenv("CUDA_VISIBLE_DEVICES"));

	*out = NULL;
	ret = ret ? ret : smd_gpus_deal(&gpus, job, may_share, error);
	if (!ret && !may_share && (size_t)gpus.wanted <= gpus.count &&
		lanes * (size_t)gpus.wanted > gpus.count) {
		ret = smd_error_set(error, EBUSY,
			"GPUs: %zu trials at once with %d each need %zu, got %zu: lower "
			"parallelTrialCount, or let trials share them with --oversubscribe",
			lanes, gpus.wanted, lanes * (size_t)gpus.wanted, gpus.count);
	}
	if (!ret && gpus.wanted > 0 && gpus.count > 0) {
		ret = split(&gpus, lanes, out);
	}
	smd_gpus_clear(&gpus);
	return ret;
}

void smd_lanes_close(char **lanes)
{
	for (size_t i = 0; lanes && lanes[i]; i++) {
		free(lanes[i]);
	}
	free(lanes);
}
