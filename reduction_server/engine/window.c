/* Grants windows, and has idle ones given back. */
#include "reduction_server/engine/window.h"

#include <errno.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/receive_buffer.h"
#include "reduction_server/engine/resources.h"

#define SHORT_LOOKS 2 /* who has just worked is idle at the second */
#define YIELD_NS    (5 * SMD_SECOND_NS) /* ranks ask twice more within it (refusals.h) */

size_t smd_window_buffers(const struct smd_server_comm *comm, unsigned window)
{
	return (size_t)window * (comm->nranks + 1);
}

void smd_windows_want(struct smd_resources *resources)
{
	resources->short_looks = SHORT_LOOKS;
}

/* What is granted with memory windows cannot be had back at once: it is kept. */
static bool window_is_held(const struct smd_server_comm *comm)
{
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (comm->members[r] && smd_member_holds_buffers(comm->members[r])) {
			return true;
		}
	}
	return false;
}

bool smd_windows_yield(const struct smd_server_comm *comm, size_t more)
{
	size_t granted = 0;
	const struct smd_server_comm *one;

	smd_windows_want(comm->resources);
	TAILQ_FOREACH (one, &comm->comms->list, link) {
		if (one->job == comm->job && one->reserved_window > 1 && !window_is_held(one)) {
			granted += smd_window_buffers(one, one->reserved_window - 1);
		}
	}
	if (granted < more) {
		return false;
	}
	comm->job->yields_until_ns = smd_clock_ns() + YIELD_NS;
	return true;
}

static bool window_yields(const struct smd_server_job *job)
{
	return job->yields_until_ns != 0 && smd_clock_ns() < job->yields_until_ns;
}

/* More window while the shard has plenty, back to one slot when it runs short, or the job has more
 * than its share where there are others. */
static void window_adjust(struct smd_server_comm *comm)
{
	struct smd_buffer_pool *pool = &comm->resources->pool;
	struct smd_jobs *jobs = &comm->comms->jobs;
	unsigned most = comm->resources->window;
	size_t spare = pool->total - pool->reserved;
	size_t share = smd_jobs_share(jobs, pool);
	bool yields = window_yields(comm->job);
	bool enough = !yields && spare >= pool->total / 8 &&
		      (jobs->working == 1 || comm->job->reserved <= share);

	if (comm->reserved_window < most && !yields) {
		size_t more = smd_window_buffers(comm, most - comm->reserved_window);

		if (spare >= more + pool->total / 4 &&
			smd_job_reserve(jobs, comm->job, pool, more, share)) {
			comm->reserved_window = most;
		} else {
			smd_windows_want(comm->resources);
		}
	}
	if (comm->window < comm->reserved_window && enough) {
		comm->window = comm->reserved_window;
	} else if (comm->window > 1 && !enough) {
		comm->window = 1;
		comm->shrink_at = comm->limit;
	}
}

unsigned smd_window_grant(struct smd_server_comm *comm, uint64_t ordinal)
{
	uint64_t limit;

	if (comm->shrinking == 0) {
		window_adjust(comm);
	}
	limit = ordinal + 1 + comm->window;
	if (limit > comm->limit) {
		comm->limit = limit;
	}
	return comm->window;
}

void smd_window_granted(
	struct smd_server_comm *comm, unsigned rank, uint64_t ordinal, unsigned window)
{
	struct smd_member *member = comm->members[rank];

	if (!member) {
		return;
	}
	if (ordinal + 1 + window > member->limit) {
		member->limit = ordinal + 1 + window;
	}
	if (member->shrinks) {
		member->kept = ordinal + 1 + window;
	}
}

/* Nothing that was granted under a larger window is used, or will be. */
static bool window_is_over(const struct smd_server_comm *comm)
{
	return comm->done >= comm->shrink_at
		       ? comm->busy_slots <= comm->window
		       : comm->busy_slots == 0 && comm->limit <= comm->done + comm->window;
}

void smd_window_settle(struct smd_server_comm *comm)
{
	if (comm->window < comm->reserved_window && window_is_over(comm)) {
		smd_job_release(&comm->comms->jobs, comm->job, &comm->resources->pool,
			smd_window_buffers(comm, comm->reserved_window - comm->window), 0);
		comm->reserved_window = comm->window;
	}
}

/* ---- idle ones ---- */

/* All results have left, so nothing that grants more is on its way before SHRINK. */
static bool window_rests(const struct smd_server_comm *comm)
{
	return comm->state == SMD_SERVER_COMM_ACTIVE && comm->attached == comm->nranks &&
	       comm->busy_slots == 0;
}

static bool window_is_idle(const struct smd_server_comm *comm)
{
	return window_rests(comm) && comm->looked_at == comm->done && !window_is_held(comm);
}

static void window_ask(struct smd_server_comm *comm)
{
	comm->window = 1;
	comm->shrink_at = comm->limit;
	comm->shrinking = comm->nranks;
	for (unsigned r = 0; r < comm->nranks; r++) {
		comm->members[r]->shrinks = true;
		comm->members[r]->kept = 0;
		comm->members[r]->advertised_then = comm->members[r]->advertised;
		smd_peer_send(comm->members[r], SMD_FRAME_SHRINK, 0, NULL, 0);
	}
}

void smd_windows_shrink_idle(struct smd_comms *comms)
{
	bool wanted = comms->resources->short_looks > 0;
	struct smd_server_comm *comm;

	comms->resources->short_looks -= wanted;
	TAILQ_FOREACH (comm, &comms->list, link) {
		if (wanted && comm->reserved_window > 1 && comm->shrinking == 0 &&
			window_is_idle(comm)) {
			window_ask(comm);
		}
		comm->looked_at = comm->done;
	}
}

/* Cards write into its buffers: what it is granted while it is asked would have none. */
static bool window_has_places(const struct smd_server_comm *comm)
{
	for (unsigned r = 0; r < comm->nranks; r++) {
		if (smd_lane_can_advertise(comm->members[r]->lane)) {
			return true;
		}
	}
	return false;
}

void smd_windows_shrink_now(const struct smd_server_comm *comm)
{
	struct smd_server_comm *one;

	TAILQ_FOREACH (one, &comm->comms->list, link) {
		if (one->job == comm->job && one->reserved_window > 1 && one->shrinking == 0 &&
			window_rests(one) && !window_has_places(one)) {
			window_ask(one);
		}
	}
}

static void window_shrink(struct smd_server_comm *comm)
{
	comm->limit = comm->done + comm->window; /* the results that are on their way grant that */
	for (unsigned r = 0; r < comm->nranks; r++) {
		const struct smd_member *member = comm->members[r];

		comm->limit = member->limit > comm->limit ? member->limit : comm->limit;
	}
	comm->shrink_at = comm->limit;
	smd_window_settle(comm);
}

int smd_window_shrunk(struct smd_member *member, uint64_t ordinal, struct smd_error *error)
{
	struct smd_server_comm *comm = member->comm;

	if (!member->shrinks || ordinal < member->next || ordinal > member->limit) {
		return smd_error_set(error, EPROTO,
			"SHRUNK: ordinal must be %llu to %llu, and answer SHRINK, got %llu",
			(unsigned long long)member->next, (unsigned long long)member->limit,
			(unsigned long long)ordinal);
	}
	member->shrinks = false;
	if (comm) {
		member->limit = ordinal > member->kept ? ordinal : member->kept;
		/* What was told since goes with results that have left before this was heard: it
		 * has used all before that, and its next ordinals have these places. */
		if (ordinal < member->advertised_then) {
			smd_member_withdraw(member, ordinal);
		}
		if (--comm->shrinking == 0 && comm->attached == comm->nranks) {
			window_shrink(comm);
		}
	}
	return 0;
}

void smd_window_forget(struct smd_server_comm *comm, struct smd_member *member)
{
	comm->shrinking -= member->shrinks;
}
