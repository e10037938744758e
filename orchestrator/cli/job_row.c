/* Gives a stored job's texts their keys. */
#include "orchestrator/cli/job_row.h"

#include <string.h>

const char *const smd_job_row_keys[] = {"name", "displayName", "state", "createTime", "startTime",
	"endTime", "updateTime", "error", "labels", NULL};

int smd_job_row_is_key(const char *key)
{
	for (const char *const *known = smd_job_row_keys; *known; known++) {
		if (strcmp(key, *known) == 0) {
			return 1;
		}
	}
	return 0;
}

int smd_job_row_is_text(const char *key)
{
	return smd_job_row_is_key(key) && strcmp(key, "labels") != 0 && strcmp(key, "error") != 0;
}

const char *smd_job_row_text(
	const struct smd_stored_job *job, const char *key, char buffer[SMD_STORE_NAME_SIZE])
{
	const struct {
		const char *key;
		const char *text;
	} texts[] = {
		{"displayName", job->display_name},
		{"state", job->state},
		{"createTime", job->create_time},
		{"startTime", job->start_time},
		{"endTime", job->end_time},
		{"updateTime", job->update_time},
		{"error", job->error_message},
	};

	if (strcmp(key, "name") == 0) {
		if (job->resource_name) {
			return job->resource_name;
		}
		smd_stored_job_name(buffer, job);
		return buffer;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			return texts[i].text;
		}
	}
	return NULL;
}

static int add_error(json_t *row, const struct smd_stored_job *job)
{
	return job->error_message && json_object_set_new(row, "error",
					     json_pack("{s:i, s:s}", "code", job->error_code,
						     "message", job->error_message));
}

json_t *smd_job_row_json(const struct smd_stored_job *job)
{
	char buffer[SMD_STORE_NAME_SIZE];
	json_t *row = json_object();
	int failed = !row || add_error(row, job) ||
		     (strcmp(job->labels, "{}") != 0 &&
			     json_object_set_new(row, "labels", json_loads(job->labels, 0, NULL)));

	for (const char *const *key = smd_job_row_keys; *key && !failed; key++) {
		const char *text = smd_job_row_text(job, *key, buffer);

		if (text && strcmp(*key, "error") != 0) {
			failed = json_object_set_new_nocheck(row, *key, json_string(text));
		}
	}
	if (failed) {
		json_decref(row);
		return NULL;
	}
	return row;
}
