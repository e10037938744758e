/* Names a job's state as Vertex AI does. */
#include "orchestrator/runner/job_status.h"

#include <errno.h>

#define SERVER_POOL 2

const struct smd_exit *smd_job_status_cause(const struct smd_job_status *status)
{
	static const struct smd_exit absent = {.kind = SMD_EXIT_ERRNO, .value = EHOSTUNREACH, .is_lost = 1};

	return status->decisive ? &status->decisive->end : &absent;
}

const char *smd_job_state_name(const struct smd_job_status *status)
{
	static const char *const announced[] = {
#define X(name, usual, cancelled) [SMD_PHASE_##name] = usual,
		SMD_JOB_PHASES(X)
#undef X
	};
	static const char *const when_cancelled[] = {
#define X(name, usual, cancelled) [SMD_PHASE_##name] = cancelled,
		SMD_JOB_PHASES(X)
#undef X
	};

	if (status->outcome == SMD_OUTCOME_CANCELLED) {
		return when_cancelled[status->phase];
	}
	if (status->phase == SMD_PHASE_ENDED) {
		return status->outcome == SMD_OUTCOME_SUCCEEDED ? "JOB_STATE_SUCCEEDED"
								: "JOB_STATE_FAILED";
	}
	return announced[status->phase];
}

/* Reducers are behind these, and servers that were added behind reducers. */
static int given(const struct smd_job_status *status)
{
	return smd_job_has_servers(status->job) ? status->job->pools[SERVER_POOL].replica_count : 0;
}

int smd_job_status_server_index(const struct smd_job_status *status, int n)
{
	return n < given(status) ? n : n + status->nreducers;
}

/* Reducers stay, whatever the number of the others. */
static int is_among(const struct smd_job_status *status, int index, int nservers)
{
	int n = index < given(status) ? index : index - status->nreducers;

	return (index >= given(status) && n < given(status)) || n < nservers - status->nreducers;
}

int smd_job_status_wants(const struct smd_job_status *status, const struct smd_replica *replica)
{
	return replica->role != SMD_ROLE_REDUCTION_SERVER ||
	       is_among(status, replica->index, status->nservers);
}

int smd_job_status_was_told(const struct smd_job_status *status, const struct smd_replica *replica)
{
	return is_among(status, replica->index, status->ntold);
}

int smd_job_status_gap(const struct smd_job_status *status)
{
	int others = status->nservers - status->nreducers;

	return status->nreducers > 0 && others < given(status) ? given(status) - others : 0;
}

/* A parameter server's work may be done before the others begin. */
static int is_done(const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_PARAMETER_SERVER && replica->state == SMD_REPLICA_SUCCEEDED;
}

int smd_job_status_servers_run(const struct smd_job_status *status)
{
	for (size_t i = 0; i < status->count; i++) {
		const struct smd_replica *replica = &status->replicas[i];

		if (smd_replica_is_server(replica) && smd_job_status_wants(status, replica) &&
			replica->state != SMD_REPLICA_RUNNING && !is_done(replica)) {
			return 0;
		}
	}
	return 1;
}

int smd_job_status_serving(const struct smd_job_status *status)
{
	int count = 0;

	for (size_t i = 0; i < status->count; i++) {
		count += status->replicas[i].role == SMD_ROLE_REDUCTION_SERVER &&
			 status->replicas[i].state == SMD_REPLICA_RUNNING;
	}
	return count;
}

unsigned smd_job_status_restarts_of(
	const struct smd_job_status *status, const struct smd_replica *replica)
{
	return status->restarts + replica->restarts;
}
