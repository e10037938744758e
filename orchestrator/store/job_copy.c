/* Copies a row, to be kept. */
#include "orchestrator/store/job_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The texts of a row, one behind the other. */
int smd_job_copy_take(void *copy_of_job, const struct smd_stored_job *job)
{
	struct smd_job_copy *copy = copy_of_job;
	const char **const texts[] = {&copy->job.display_name, &copy->job.state,
		&copy->job.create_time, &copy->job.start_time, &copy->job.end_time,
		&copy->job.update_time, &copy->job.error_message, &copy->job.labels,
		&copy->job.directory, &copy->job.resource_name, &copy->job.project, &copy->job.location};
	size_t length = 0;
	size_t used = 0;

	copy->job = *job;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		length += *texts[i] ? strlen(*texts[i]) + 1 : 0;
	}
	copy->text = malloc(length);
	if (!copy->text) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (*texts[i]) {
			size_t size = strlen(*texts[i]) + 1;

			*texts[i] = memcpy(copy->text + used, *texts[i], size);
			used += size;
		}
	}
	return 0;
}

void smd_job_copy_free(struct smd_job_copy *copy)
{
	free(copy->text);
	copy->text = NULL;
}
