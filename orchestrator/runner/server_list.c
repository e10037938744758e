/* Writes the list of reduction servers that serve, in the form of SUMMAND_REDUCTION_SERVERS. */
#include "orchestrator/runner/server_list.h"

#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"

#define SERVER_POOL 2

static int serves(const struct smd_run *run, const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER &&
	       replica->state == SMD_REPLICA_RUNNING && smd_job_status_wants(&run->status, replica);
}

static int has_been_told(const struct smd_run *run, const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER &&
	       smd_job_status_was_told(&run->status, replica);
}

static int is_further(const struct smd_run *run, const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER && !has_been_told(run, replica);
}

/* In the order of their indices: those that were added are the last replicas. */
static const char *write_those(const struct smd_run *run,
	int (*names)(const struct smd_run *run, const struct smd_replica *replica), const char *comma,
	FILE *file)
{
	char *const *endpoints = run->hosts.placement->endpoints[SERVER_POOL];

	for (size_t i = 0; i < run->status.count; i++) {
		const struct smd_replica *replica = &run->status.replicas[i];

		if (names(run, replica)) {
			fprintf(file, "%s%s", comma, endpoints[replica->index]);
			comma = ",";
		}
	}
	return comma;
}

/* Those that serve; and all that there have been (libsummand/server_file.h), first those that ranks
 * were told of. The caller frees it. */
static char *make_list(const struct smd_run *run)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);

	if (file) {
		const char *comma;

		write_those(run, serves, "", file);
		fputc('\n', file);
		comma = write_those(run, has_been_told, "", file);
		write_those(run, is_further, comma, file);
		fputc('\n', file);
		fclose(file);
	}
	return text;
}

void smd_server_list_turn(struct smd_run *run)
{
	char *text;

	if (!run->servers_changed || run->status.nservers == 0 || !run->is_placed) {
		return;
	}
	run->servers_changed = 0;
	text = make_list(run);
	if (!text || smd_jobdir_write(run->dir, SMD_SERVER_LIST, text, strlen(text))) {
		smd_log(SMD_LOG_WARN, "runner", "%s/" SMD_SERVER_LIST ": cannot be written",
			run->dir->path);
	}
	if (text) {
		smd_hosts_send_file(&run->hosts, SMD_SERVER_LIST, text);
	}
	free(text);
}
