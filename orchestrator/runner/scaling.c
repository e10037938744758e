/* Starts additional reduction servers and ends surplus ones, as requests want it. */
#include "orchestrator/runner/scaling.h"

#include <errno.h>
#include <string.h>

#include "orchestrator/runner/addition.h"
#include "orchestrator/runner/announce.h"
#include "orchestrator/runner/steps.h"
#include "reduction_server/base/clock.h"

#define SERVER_POOL 2
#define LOOK_NS     100000000u

static struct smd_replica *server_of(struct smd_run *run, int index)
{
	for (size_t i = 0; i < run->status.count; i++) {
		if (run->status.replicas[i].role == SMD_ROLE_REDUCTION_SERVER &&
			run->status.replicas[i].index == index) {
			return &run->status.replicas[i];
		}
	}
	return NULL;
}

static void answer(struct smd_run *run, const char *text)
{
	run->scaling.wanted = 0;
	smd_announce_scaling(&run->display, &run->stream, text);
	/* Whoever asked reads it at once. */
	smd_record_write(&run->record, &run->status);
}

static void refuse(struct smd_run *run, const char *reason)
{
	char text[2 * SMD_SCALE_REFUSED_SIZE];

	snprintf(run->status.scale_refused, sizeof(run->status.scale_refused), "%s", reason);
	snprintf(text, sizeof(text), "%d reduction servers stay, and are not %d: %s",
		run->status.nservers - run->status.nreducers, run->scaling.wanted - run->status.nreducers,
		run->status.scale_refused);
	answer(run, text);
}

static void finish(struct smd_run *run)
{
	char text[SMD_SCALE_REFUSED_SIZE];

	snprintf(text, sizeof(text), "scaled from %d to %d reduction servers",
		run->scaling.before - run->status.nreducers, run->status.nservers - run->status.nreducers);
	answer(run, text);
}

/* ---- fewer ---- */

static int serve_below(struct smd_run *run, int count)
{
	for (int index = 0; index < count; index++) {
		const struct smd_replica *replica = server_of(run, index);

		if (replica && replica->state == SMD_REPLICA_RUNNING) {
			return 1;
		}
	}
	return 0;
}

/* The highest index first. */
static void take_away(struct smd_run *run)
{
	while (run->status.nservers > run->scaling.wanted) {
		struct smd_replica *replica = server_of(run, run->status.nservers - 1);

		run->status.nservers--;
		if (replica && smd_replica_is_alive(replica)) {
			smd_run_stop(run, replica);
		} else if (replica) {
			replica->restart_ns = 0;
		}
	}
	finish(run);
}

/* ---- more ---- */

/* One that was taken away before. 0, or -errno with a text. */
static int start_again(struct smd_run *run, struct smd_replica *replica, struct smd_error *error)
{
	if (!smd_hosts_can_start(&run->hosts, replica)) {
		return smd_error_set(error, EHOSTUNREACH, "%s: its host is gone", replica->name);
	}
	if (smd_replica_is_alive(replica)) {
		return smd_error_set(
			error, EBUSY, "%s: has been asked to end and has not yet", replica->name);
	}
	run->status.nservers++;
	smd_run_retry_alone(run, replica);
	smd_run_start(run, replica);
	return 0;
}

static int start_new(struct smd_run *run, struct smd_error *error)
{
	struct smd_job_status *status = &run->status;
	struct smd_replica *replica = &status->replicas[status->count];
	int index = status->nservers;
	int ret;

	ret = smd_replica_init(replica, &status->job->pools[SERVER_POOL], index, 0, 1);
	if (ret) {
		return smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	ret = smd_hosts_add_server(&run->hosts, index, error);
	if (ret) {
		smd_replica_clear(replica);
		return ret;
	}
	status->count++;
	status->nservers++;
	run->display.count = status->count;
	smd_run_start(run, replica);
	return 0;
}

static void add(struct smd_run *run)
{
	struct smd_error error = {""};
	int ret = 0;

	while (run->status.nservers < run->scaling.wanted && !ret) {
		struct smd_replica *replica = server_of(run, run->status.nservers);

		ret = replica ? start_again(run, replica, &error) : start_new(run, &error);
	}
	if (!ret) {
		finish(run);
	} else if (ret != -EAGAIN) {
		refuse(run, error.text);
	}
}

/* ---- requests ---- */

static int can_scale(const struct smd_run *run)
{
	return run->status.phase == SMD_PHASE_RUNNING && run->status.outcome == SMD_OUTCOME_OPEN &&
	       !run->status.decisive;
}

static void carry_out(struct smd_run *run)
{
	int given = run->status.job->pools[SERVER_POOL].replica_count;
	int max = SMD_JOB_SERVERS_MAX - run->status.nreducers;
	char text[SMD_SCALE_REFUSED_SIZE];

	if (!can_scale(run)) {
		refuse(run, "the ranks of the job must run, and do not yet, or no longer");
	} else if (run->status.nreducers > 0 && run->scaling.wanted < given + run->status.nreducers) {
		snprintf(text, sizeof(text),
			"reducers on the workers' hosts have what %d servers leave to them; with "
			"--hybrid=off a job may have fewer",
			given);
		refuse(run, text);
	} else if (run->scaling.wanted > run->status.nservers &&
		   run->scaling.wanted > SMD_JOB_SERVERS_MAX) {
		snprintf(text, sizeof(text),
			"there may be %d at most: a rank can use %d, of which %d are reducers on "
			"the workers' hosts",
			max, SMD_JOB_SERVERS_MAX, run->status.nreducers);
		refuse(run, text);
	} else if (run->scaling.wanted < run->status.nservers &&
		   !serve_below(run, run->scaling.wanted)) {
		refuse(run, "none of those that would stay serves");
	} else if (run->scaling.wanted < run->status.nservers) {
		take_away(run);
	} else {
		add(run);
	}
}

/* A replica may have put anything in the request's place. */
static void look(struct smd_run *run)
{
	json_t *request =
		smd_jobdir_read_json(run->dir, SMD_SCALE_REQUEST_MAX, SMD_SCALE_REQUEST);
	const char *id;
	int wanted;

	if (!request) {
		return;
	}
	smd_jobdir_remove(run->dir, SMD_SCALE_REQUEST);
	if (json_unpack(request, "{s:s, s:i}", "request", &id, "replicas", &wanted) == 0 &&
		strlen(id) < SMD_SCALE_ID_SIZE && wanted > 0) {
		snprintf(run->status.scale_request, sizeof(run->status.scale_request), "%s", id);
		run->status.scale_refused[0] = '\0';
		run->scaling.before = run->status.nservers;
		run->scaling.wanted = wanted + run->status.nreducers;
	}
	json_decref(request);
}

void smd_scaling_turn(struct smd_run *run)
{
	uint64_t now = smd_clock_ns();

	if (run->status.nservers == 0 || run->status.phase == SMD_PHASE_ENDED) {
		return;
	}
	if (run->scaling.wanted == 0 && now - run->scaling.seen_ns >= LOOK_NS) {
		run->scaling.seen_ns = now;
		look(run);
	}
	if (run->scaling.wanted > 0) {
		carry_out(run);
	}
}

void smd_scaling_forget(struct smd_run *run)
{
	struct smd_job_status *status = &run->status;
	int given = smd_job_has_servers(status->job) ? status->job->pools[SERVER_POOL].replica_count
						     : 0;

	while (status->nservers > 0 && status->count > 0 &&
		status->replicas[status->count - 1].role == SMD_ROLE_REDUCTION_SERVER &&
		status->replicas[status->count - 1].index >= given) {
		smd_replica_clear(&status->replicas[--status->count]);
	}
	status->nservers = given;
	status->nreducers = 0;
	run->hosts.count = status->count;
	run->display.count = status->count;
}
