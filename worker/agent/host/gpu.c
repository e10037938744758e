/* Finds and deals out GPUs. */
#include "worker/agent/host/gpu.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"

#define DRIVER_FOLDER "/proc/driver/nvidia/gpus" /* has a folder for each GPU */

static int add(struct smd_gpus *gpus, const char *id, size_t length)
{
	char **ids = realloc(gpus->ids, (gpus->count + 1) * sizeof(*ids));

	if (!ids) {
		return -ENOMEM;
	}
	gpus->ids = ids;
	ids[gpus->count] = strndup(id, length);
	return ids[gpus->count] ? (gpus->count++, 0) : -ENOMEM;
}

static int has(const struct smd_gpus *gpus, const char *id, size_t length)
{
	for (size_t i = 0; i < gpus->count; i++) {
		if (strlen(gpus->ids[i]) == length && strncmp(gpus->ids[i], id, length) == 0) {
			return 1;
		}
	}
	return 0;
}

static int find_all(struct smd_gpus *gpus)
{
	DIR *folder = opendir(DRIVER_FOLDER);
	struct dirent *entry;
	int ret = 0;

	while (!ret && folder && (entry = readdir(folder))) {
		char id[16];

		if (entry->d_name[0] != '.') {
			snprintf(id, sizeof(id), "%zu", gpus->count);
			ret = add(gpus, id, strlen(id));
		}
	}
	if (folder) {
		closedir(folder);
	}
	return ret;
}

int smd_gpus_find(struct smd_gpus *gpus, const char *visible)
{
	int ret = 0;

	*gpus = (struct smd_gpus){0};
	if (!visible) {
		ret = find_all(gpus);
	}
	while (!ret && visible && *visible) {
		size_t length = strcspn(visible, ",");

		if (length == 0 || visible[0] == '-') {
			break; /* CUDA too sees those before a wrong one only */
		}
		ret = has(gpus, visible, length) ? 0 : add(gpus, visible, length);
		visible += length + (visible[length] == ',');
	}
	if (ret) {
		smd_gpus_clear(gpus);
	}
	return ret;
}

/* A pool that names no GPUs but a machine type that has them takes part where there are any. */
static int count_of(const struct smd_gpus *gpus, const struct smd_job_pool *pool)
{
	if (!pool->accelerator_type || smd_job_pool_has_tpus(pool) ||
		(pool->accelerators_are_built_in && gpus->count == 0)) {
		return 0;
	}
	return pool->accelerator_count;
}

int smd_gpus_deal_some(struct smd_gpus *gpus, const struct smd_job *job,
	const int counts[SMD_JOB_POOLS_MAX], int may_share, const char *where,
	struct smd_error *error)
{
	int asked = 0;

	gpus->wanted = 0;
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];

		gpus->first[i] = gpus->wanted;
		gpus->each[i] = count_of(gpus, pool);
		gpus->wanted += gpus->each[i] * counts[i];
		asked += pool->accelerators_are_built_in ? 0 : gpus->each[i] * counts[i];
	}
	if ((size_t)asked > gpus->count && !may_share) {
		return smd_error_set(error, EBUSY,
			"%s%sGPUs: there must be %d for this job, got %zu; with --oversubscribe "
			"replicas "
			"share what there is",
			where ? where : "", where ? ": " : "", asked, gpus->count);
	}
	if ((size_t)gpus->wanted > gpus->count && asked < gpus->wanted) {
		smd_log(SMD_LOG_WARN, "engine",
			"GPUs: the machines of this job have %d, %s has %zu: replicas share "
			"them",
			gpus->wanted, where ? where : "this one", gpus->count);
	}
	return 0;
}

int smd_gpus_deal(
	struct smd_gpus *gpus, const struct smd_job *job, int may_share, struct smd_error *error)
{
	int counts[SMD_JOB_POOLS_MAX];

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		counts[i] = job->pools[i].replica_count;
	}
	return smd_gpus_deal_some(gpus, job, counts, may_share, NULL, error);
}

char *smd_gpus_of(const struct smd_gpus *gpus, int pool, int index)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	size_t first = (size_t)(gpus->first[pool] + index * gpus->each[pool]);
	size_t count = (size_t)gpus->each[pool];

	if (!file) {
		return NULL;
	}
	if (count > gpus->count) {
		count = gpus->count; /* no replica has one twice */
	}
	for (size_t i = 0; i < count; i++) {
		fprintf(file, "%s%s", i ? "," : "", gpus->ids[(first + i) % gpus->count]);
	}
	if (fclose(file)) {
		free(text);
		return NULL;
	}
	return text;
}

void smd_gpus_clear(struct smd_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		free(gpus->ids[i]);
	}
	free(gpus->ids);
	*gpus = (struct smd_gpus){0};
}
