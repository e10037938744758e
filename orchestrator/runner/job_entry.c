/* Makes a job's entry, without its secrets. */
#include "orchestrator/runner/job_entry.h"

#include <errno.h>
#include <string.h>

#include "orchestrator/job/secret.h"
#include "reduction_server/base/printable.h"

int smd_job_entry_open(struct smd_entry *entry, const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_error *error)
{
	json_t *shown = options->show_secrets ? json_incref(job->resolved)
					      : smd_secret_mask_json(job->resolved, NULL);
	int ret = shown ? smd_entry_open(entry, options->kind, shown, job->display_name,
				  options->dir->path, error)
			: smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	json_decref(shown);
	return ret;
}

/* What cannot be found later can be run all the same. */
struct smd_entry *smd_job_entry_get(const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_entry *own)
{
	struct smd_error error = {""};

	if (options->entry || options->is_unlisted) {
		return options->entry;
	}
	if (smd_job_entry_open(own, job, options, &error)) {
		smd_print_line(stderr, "summand: warning: `list` will not show this job: %s\n",
			error.text);
		return NULL;
	}
	return own;
}
