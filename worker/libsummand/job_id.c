/* Takes a job's id from what launchers say. */
#include "worker/libsummand/job_id.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The first one that there is. Most of them are nested (a launcher of MPI or torch inside a job of
 * Slurm), and the inner one tells jobs apart that the outer one has in common. TORCHELASTIC_RUN_ID
 * is not among them: it is "none" unless somebody has thought of one.
 */
static const struct {
	const char *launcher;
	const char *first;
	const char *second; /* NULL: there is none */
	char between;
	bool second_needed;
	const char *told;
} sources[] = {
	{"mpi", "PMIX_NAMESPACE", NULL, 0, false, "PMIX_NAMESPACE"},
	{"horovod", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", ':', true,
		"HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT"},
	{"torch", "MASTER_ADDR", "MASTER_PORT", ':', true, "MASTER_ADDR and MASTER_PORT"},
	{"slurm", "SLURM_JOB_ID", "SLURM_STEP_ID", '.', false, "SLURM_JOB_ID and SLURM_STEP_ID"},
	{"pbs", "PBS_JOBID", NULL, 0, false, "PBS_JOBID"},
	{"lsf", "LSB_JOBID", NULL, 0, false, "LSB_JOBID"},
};

static const char *value_of(const char *variable)
{
	const char *value = variable ? getenv(variable) : NULL;

	return value && *value ? value : NULL;
}

/* Every host has one of these, so it tells jobs apart together with the host only. */
static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 ||
	       strcmp(address, "::1") == 0;
}

const char *smd_job_id_find(char *out, size_t size)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		const char *first = value_of(sources[i].first);
		const char *second = value_of(sources[i].second);
		char between[2] = {second ? sources[i].between : '\0', '\0'};
		char host[128] = "";

		if (!first || (!second && sources[i].second_needed)) {
			continue;
		}
		if (is_loopback(first)) {
			gethostname(host, sizeof(host) - 2);
			strcat(host, "/");
		}
		snprintf(out, size, "%s:%s%s%s%s", sources[i].launcher, host, first, between,
			second ? second : "");
		return sources[i].told;
	}
	out[0] = '\0';
	return NULL;
}
