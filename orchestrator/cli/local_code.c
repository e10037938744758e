/* Looks whether a job's code and packages are on this machine. */
#include "orchestrator/cli/local_code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

static const char *why_no_package(const char *path)
{
	if (strstr(path, "://")) {
		return "nothing here fetches it";
	}
	return access(path, R_OK) ? strerror(errno) : NULL;
}

static int check_package(const struct smd_loaded_job *loaded, const char *what, const char *path)
{
	const char *reason = why_no_package(path);

	if (reason) {
		smd_print_line(stderr,
			"summand: %s: %s: must be on this machine for local-run, got %s: %s\n",
			loaded->source.name, what, path, reason);
	}
	return reason ? -1 : 0;
}

int smd_local_code_check(const struct smd_loaded_job *loaded)
{
	const char *code_dir = loaded->job->code_dir;
	struct stat status;

	if (code_dir && (stat(code_dir, &status) != 0 || !S_ISDIR(status.st_mode))) {
		smd_print_line(stderr,
			"summand: %s: code must be a directory on this machine for local-run, got "
			"%s\n",
			loaded->source.name, code_dir);
		return -1;
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &loaded->job->pools[i];
		char what[64];

		snprintf(what, sizeof(what), "packageUris of worker pool %d", i);
		for (size_t n = 0; n < pool->npackage_uris; n++) {
			if (check_package(loaded, what, pool->package_uris[n])) {
				return -1;
			}
		}
	}
	for (size_t n = 0; n < loaded->job->nextra_packages; n++) {
		if (check_package(loaded, "extra-packages", loaded->job->extra_packages[n])) {
			return -1;
		}
	}
	return 0;
}
