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

/* Those that requests are about: nobody asks for reducers by number. */
static int count(const struct smd_run *run)
{
	return run->status.nservers - run->status.nreducers;
}

/* The n-th of them from 0; NULL: it has never been there. */
static struct smd_replica *server_of(struct smd_run *run, int n)
{
	int index = smd_job_status_server_index(&run->status, n);

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
	run->scaling.is_asked = 0;
	smd_announce_scaling(&run->display, &run->stream, text);
	/* Whoever asked reads it at once. */
	smd_record_write(&run->record, &run->status);
}

static void refuse(struct smd_run *run, const char *reason)
{
	char text[2 * SMD_SCALE_REFUSED_SIZE];

	snprintf(run->status.scale_refused, sizeof(run->status.scale_refused), "%s", reason);
	snprintf(text, sizeof(text), "%d reduction server%s, not %d: %s", count(run),
		count(run) == 1 ? " stays" : "s stay", run->scaling.wanted, run->status.scale_refused);
	answer(run, text);
}

static void finish(struct smd_run *run)
{
	char text[SMD_SCALE_REFUSED_SIZE];

	snprintf(text, sizeof(text), "scaled from %d to %d reduction servers", run->scaling.before,
		count(run));
	answer(run, text);
}

/* ---- fewer ---- */

/* Whether ranks have somebody to go on with: a server that would stay, or a reducer. */
static int one_stays(struct smd_run *run)
{
	struct smd_job_status then = run->status;

	then.nservers = run->scaling.wanted + then.nreducers;
	for (size_t i = 0; i < then.count; i++) {
		const struct smd_replica *replica = &then.replicas[i];

		if (replica->role == SMD_ROLE_REDUCTION_SERVER &&
			replica->state == SMD_REPLICA_RUNNING && smd_job_status_wants(&then, replica)) {
			return 1;
		}
	}
	return 0;
}

/* The highest index first. */
static void take_away(struct smd_run *run)
{
	while (count(run) > run->scaling.wanted) {
		struct smd_replica *replica = server_of(run, count(run) - 1);

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
	replica->restarts++;
	replica->returns++; /* which is no failure, and draws from no budget */
	smd_run_retry(run, replica);
	smd_run_start(run, replica);
	return 0;
}

static int start_new(struct smd_run *run, struct smd_error *error)
{
	struct smd_job_status *status = &run->status;
	struct smd_replica *replica = &status->replicas[status->count];
	int index = smd_job_status_server_index(status, count(run));
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

	while (count(run) < run->scaling.wanted && !ret) {
		struct smd_replica *replica = server_of(run, count(run));

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
	int max = SMD_JOB_SERVERS_MAX - run->status.nreducers;
	char text[SMD_SCALE_REFUSED_SIZE];

	if (!can_scale(run)) {
		refuse(run, "the ranks of the job must run, and do not yet, or no longer");
	} else if (run->scaling.wanted == 0 && run->status.nreducers == 0) {
		refuse(run, "one must stay where no reducers run on the workers' hosts");
	} else if (run->scaling.wanted > count(run) && run->scaling.wanted > max) {
		snprintf(text, sizeof(text),
			"there may be %d at most: a rank can use %d, of which %d are reducers on "
			"the workers' hosts",
			max, SMD_JOB_SERVERS_MAX, run->status.nreducers);
		refuse(run, text);
	} else if (run->scaling.wanted < count(run) && !one_stays(run)) {
		refuse(run, "none of those that would stay serves");
	} else if (run->scaling.wanted < count(run)) {
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
		strlen(id) < SMD_SCALE_ID_SIZE && wanted >= 0) {
		snprintf(run->status.scale_request, sizeof(run->status.scale_request), "%s", id);
		run->status.scale_refused[0] = '\0';
		run->scaling.is_asked = 1;
		run->scaling.before = count(run);
		run->scaling.wanted = wanted;
	}
	json_decref(request);
}

void smd_scaling_turn(struct smd_run *run)
{
	uint64_t now = smd_clock_ns();

	if (run->status.nservers == 0 || run->status.phase == SMD_PHASE_ENDED) {
		return;
	}
	if (!run->scaling.is_asked && now - run->scaling.seen_ns >= LOOK_NS) {
		run->scaling.seen_ns = now;
		look(run);
	}
	if (run->scaling.is_asked) {
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
