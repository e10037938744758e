/* Lets ranks into communicators: which one is theirs, and whether they fit together. */
#include "reduction_server/engine/join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/resources.h"

/* Whether a communicator may begin to form: there are few enough, and it could have a slot. */
static int join_may_form(const struct smd_comms *comms, const char *name,
	const struct smd_member *member, const struct smd_join *join, struct smd_error *error)
{
	const struct smd_buffer_pool *pool = &comms->resources->pool;
	const struct smd_server_job *job = smd_jobs_find(&comms->jobs, member->peer->hello.job);
	const struct smd_server_comm *comm;
	unsigned forming_of_job = 0;
	unsigned forming = 0;

	if (join->nranks + 1u > pool->total) {
		return smd_server_comm_no_slot(name, join->nranks, pool, error);
	}
	TAILQ_FOREACH (comm, &comms->list, link) {
		if (comm->state == SMD_SERVER_COMM_FORMING) {
			forming++;
			forming_of_job += comm->job == job;
		}
	}
	if (forming_of_job >= SMD_FORMING_JOB_MAX) {
		return smd_error_set(error, EAGAIN,
			"group %s: at most %d groups of a job may form at once on a shard of the "
			"reduction server",
			name, SMD_FORMING_JOB_MAX);
	}
	if (forming >= SMD_FORMING_SHARD_MAX) {
		return smd_error_set(error, EAGAIN,
			"group %s: at most %d groups may form at once on a shard of the reduction "
			"server",
			name, SMD_FORMING_SHARD_MAX);
	}
	/* A server that was started again gets the streams of all of a process's communicators at
	 * once. */
	if (!(join->id && !join->optional) && !smd_peer_may_form(member, join->id != 0)) {
		return smd_error_set(error, EAGAIN,
			"group %s: at most %d groups of a process may form at once, got one more "
			"from %s",
			name, SMD_FORMING_LANE_MAX, smd_peer_replica(member));
	}
	return 0;
}

/* A lane that is in no group may be ended where they are many, so a job may not have all the others
 * that there can be. */
static int join_may_keep_lane(const struct smd_comms *comms, const char *name,
	const struct smd_member *member, struct smd_error *error)
{
	const struct smd_server_job *job = smd_jobs_find(&comms->jobs, member->peer->hello.job);

	if (job && member->peer->in_groups == 0 && job->lanes >= comms->resources->job_lanes) {
		return smd_error_set(error, EMFILE,
			"group %s: a job may have at most %u connections in groups on a shard of "
			"the reduction server, got one more from %s",
			name, comms->resources->job_lanes, smd_peer_replica(member));
	}
	return 0;
}

static struct smd_member *join_any_member(const struct smd_server_comm *comm)
{
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r]) {
			return comm->members[r];
		}
	}
	return NULL;
}

/*
 * Ranks without a job are told apart from those of another one by nothing but what they say that
 * does not fit, so this goes with what does not.
 */
static const char *join_hint(const char *job)
{
	return job[0] ? "" : "; two jobs without SUMMAND_JOB_ID use one group name? Set it";
}

static bool join_names(
	const struct smd_server_comm *comm, const char *job, const struct smd_join *join)
{
	return comm->id == join->id && strcmp(comm->job->name, job) == 0 &&
	       strcmp(comm->group, join->group) == 0;
}

/*
 * The rank is there already. While the others have not begun nobody can know which of the two is
 * theirs, so all hear of it. Those who work are not disturbed; but where they have no job, and so
 * may be a mixture of two, they are warned, once.
 */
static int join_twice(
	struct smd_server_comm *comm, const struct smd_member *member, struct smd_error *error)
{
	int ret = smd_error_set(error, EEXIST,
		"group %.120s: rank %u may join once, got it from %.120s and again from %.120s%s",
		comm->name, member->rank, smd_peer_replica(comm->members[member->rank]),
		smd_peer_replica(member), join_hint(comm->job->name));

	if (comm->state == SMD_SERVER_COMM_FORMING && !smd_server_comm_lacks_memory(comm)) {
		smd_server_comm_abort(comm, -ret, error->text);
	} else if (comm->job->name[0] == '\0' && !comm->told_twice) {
		comm->told_twice = true;
		smd_server_comm_tell(comm, NULL, SMD_LOG_DEBUG, error->text);
	}
	return ret;
}

/* The communicator of that name that this rank belongs to: one that forms, or none yet. */
static int join_find(struct smd_comms *comms, const char *job, const struct smd_join *join,
	const struct smd_member *member, struct smd_server_comm **out, struct smd_error *error)
{
	struct smd_server_comm *comm;

	*out = NULL;
	TAILQ_FOREACH (comm, &comms->list, link) {
		if (!join_names(comm, job, join) || comm->state == SMD_SERVER_COMM_ABORTED) {
			continue;
		}
		if (member->rank < comm->nranks && comm->members[member->rank]) {
			return join_twice(comm, member, error);
		}
		if (comm->state == SMD_SERVER_COMM_FORMING && !smd_server_comm_lacks_memory(comm)) {
			*out = comm;
		}
	}
	return 0;
}

static int join_say_differ(const struct smd_server_comm *comm, const struct smd_member *one,
	const struct smd_member *other, struct smd_error *error)
{
	return smd_error_set(error, EINVAL,
		"group %.120s: all ranks must have the same reduction servers in the same order, "
		"but rank %u (%.100s) and rank %u (%.100s) differ, or a server was started again "
		"with other --threads or --bandwidth%s",
		comm->name, one->rank, smd_peer_replica(one), other->rank, smd_peer_replica(other),
		join_hint(comm->job->name));
}

/*
 * Ranks that have other processes for servers deal alike. Who was there when one of these lived that
 * has been started again has lost that, and says so as soon as all have joined. A table that need not
 * be is not tried so.
 */
static bool join_fits(struct smd_server_comm *comm, const struct smd_member *there,
	const struct smd_member *member, const struct smd_join *join)
{
	uint64_t differs = join->table_hash ^ comm->table_hash;

	if (!join->table_hash || !comm->table_hash || !differs) {
		return true;
	}
	if (!comm->differs) {
		comm->differs = true;
		comm->one = there->rank;
		comm->other = member->rank;
	}
	return differs >> 32 == 0 && !comm->optional;
}

void smd_server_comm_check_servers(
	struct smd_server_comm *comm, uint64_t now_ns, uint64_t patience_ns)
{
	struct smd_error error;

	if (comm->differs && comm->state == SMD_SERVER_COMM_ACTIVE && comm->id == 0 &&
		comm->sought == 0 && now_ns - comm->since_ns > patience_ns &&
		comm->members[comm->one] && comm->members[comm->other]) {
		(void)join_say_differ(comm, comm->members[comm->one], comm->members[comm->other],
			&error);
		smd_server_comm_abort(comm, EINVAL, error.text);
	}
}

/* What this member says about the communicator must be what the others have said. */
static int join_agree(struct smd_server_comm *comm, const struct smd_member *member,
	const struct smd_join *join, struct smd_error *error)
{
	const struct smd_member *there = join_any_member(comm);
	int ret = 0;

	if (there && join->nranks != comm->nranks) {
		ret = smd_error_set(error, EINVAL,
			"group %.120s: all ranks must agree on their number, got %u from rank %u "
			"(%.100s) and %u from rank %u (%.100s)%s",
			comm->name, comm->nranks, there->rank, smd_peer_replica(there),
			join->nranks, member->rank, smd_peer_replica(member),
			join_hint(comm->job->name));
	} else if (there && !join_fits(comm, there, member, join)) {
		ret = join_say_differ(comm, there, member, error);
	}
	if (ret) {
		smd_server_comm_abort(comm, -ret, error->text);
	}
	return ret;
}

/* The lowest rank that is not there any more; as many as there are: all are. */
static unsigned first_missing(const struct smd_server_comm *comm)
{
	unsigned rank = 0;

	while (rank < comm->nranks && comm->members[rank]) {
		rank++;
	}
	return rank;
}

/* A stream of a later epoch is not begun where a rank has left the communicator, and so will not come;
 * one that need not be, not either where the rank's lane has ended. */
static int join_must_not_be_in_vain(const struct smd_comms *comms, const char *name,
	const char *job, const struct smd_join *join, struct smd_error *error)
{
	const struct smd_server_comm *comm;

	TAILQ_FOREACH (comm, &comms->list, link) {
		bool lacks = join->optional && comm->id == 0 && comm->attached < comm->nranks;

		if ((lacks || comm->deserted) && comm->state == SMD_SERVER_COMM_ACTIVE &&
			strcmp(comm->job->name, job) == 0 &&
			strcmp(comm->group, join->group) == 0) {
			return smd_error_set(error, ECONNRESET, "group %s: rank %u has left", name,
				first_missing(comm));
		}
	}
	return 0;
}

bool smd_comms_reach_all(const struct smd_comms *comms, const char *job)
{
	const struct smd_server_comm *comm;

	TAILQ_FOREACH (comm, &comms->list, link) {
		if (comm->id == 0 && comm->table_hash && comm->state != SMD_SERVER_COMM_ABORTED &&
			strcmp(comm->job->name, job) == 0) {
			return true;
		}
	}
	return false;
}

int smd_server_comm_join(struct smd_comms *comms, struct smd_member *member, const char *job,
	const struct smd_join *join, struct smd_error *error)
{
	char name[2 * SMD_STRING_MAX + 2];
	struct smd_server_comm *comm;
	int ret;

	snprintf(name, sizeof(name), "%s%s%s", job, job[0] ? "/" : "", join->group);
	if (comms->draining && join->id == 0) {
		return smd_error_set(
			error, ESHUTDOWN, "group %s: the reduction server is being drained", name);
	}
	if (member->rank >= join->nranks) {
		return smd_error_set(error, EINVAL, "group %s: rank must be below %u, got %u", name,
			join->nranks, member->rank);
	}
	ret = join->id ? join_must_not_be_in_vain(comms, name, job, join, error) : 0;
	ret = ret ? ret : join_may_keep_lane(comms, name, member, error);
	if (ret) {
		return ret;
	}
	ret = join_find(comms, job, join, member, &comm, error);
	if (ret == 0 && comm) {
		ret = join_agree(comm, member, join, error);
	} else if (ret == 0) {
		ret = join_may_form(comms, name, member, join, error);
		ret = ret ? ret : smd_server_comm_create(comms, name, job, join, &comm, error);
	}
	if (ret) {
		return ret;
	}
	comm->table_hash = comm->table_hash ? comm->table_hash : join->table_hash;
	comm->members[member->rank] = member;
	member->attempt = join->attempt;
	comm->attached++;
	comm->job->lanes += member->peer->in_groups++ == 0;
	member->comm = comm;
	if (comm->attached == comm->nranks) {
		smd_server_comm_activate(comm);
	}
	return 0;
}
