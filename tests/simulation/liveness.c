/* Bounds the time in which no rank gets on. */
#include "tests/simulation/liveness.h"

#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/heartbeat.h"
#include "tests/simulation/servers.h"
#include "tests/simulation/virtual_time.h"
#include "tests/simulation/world.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/group.h"

#define MS_NS        1000000ull
#define MARGIN_NS    (200 * MS_NS) /* beyond all that is named here */
#define SETTLE_NS    (200 * MS_NS) /* in which who fails hears of more that are lost */
#define CHUNK_LEAST  16384u        /* deal.c has these two: */
#define WINDOW_LEAST 2u            /* of a slow shard, and weights that are drawn are few Mbit/s */
#define ROUNDS_LEAST 4u
/* What the threads take that a frame of each rank needs: some have few turns. */
#define TURNS_NS (MS_NS / 2)
#define HELD_ROUNDS                                                                                \
	2u /* more, of each segment that counts as large: others are asked, and hear of it */
#define BEGIN_NS   (3 * SMD_SECOND_NS)  /* what a late rank gives a server that is missing, */
#define CONNECT_NS (30 * SMD_SECOND_NS) /* and any other rank; or a group a rank of its own */
#define TRY_NS     (5 * SMD_SECOND_NS) /* a lost server is tried again so late at most, */
#define ATTEMPT_NS (10 * SMD_SECOND_NS) /* for so long */
#define HURRY_NS   (700 * MS_NS) /* for so long who has no server tries others once more */
#define REFUSED_NS (60 * SMD_SECOND_NS) /* a table is asked for again so late at most */

static uint64_t busy_until_ns[RANKS_MAX];
static uint64_t settled_ns; /* all that has gone wrong is found out and mended by then */
static uint64_t work_ns;
static uint64_t until_ns;   /* now allowed */
static bool in_vain;        /* with the time for who waits in vain, */
static bool settles;        /* and for who has failed and hears of more that are lost */
static bool hurries;        /* and for who has no server, and tries those that were lost before */
static uint64_t longest_ns; /* of work_ns, */
static uint64_t longest_at_ns;

static uint64_t longer(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static size_t find_most_bytes(const struct plan *plan)
{
	int count = plan->noperations + (plan->aftermath ? AFTERMATH_OPERATIONS : 0);
	size_t elements = 0;

	for (int k = 0; k < count; k++) {
		size_t one = plan_operation(plan, k)->count;

		elements = one > elements ? one : elements;
	}
	return elements * sizeof(float);
}

/* How many frames of the largest operation follow each other, there or back: where weights change all chunks may be
 * dealt to one shard, and be twice as many, since they are whole rounds of the pattern; and a window may be of one
 * where memory is scarce. */
static uint64_t find_rounds(const struct plan *plan, size_t bytes)
{
	uint64_t segment = plan->segment_bytes ? plan->segment_bytes : bytes + 1;
	uint64_t chunk = plan->chunk_bytes < CHUNK_LEAST ? plan->chunk_bytes : CHUNK_LEAST;
	bool weighted = plan->changes || plan->measured;
	uint64_t shards = weighted ? 1 : plan->shards;
	uint64_t most = plan->scarce ? 1 : WINDOW_LEAST;
	uint64_t window = plan->window < most ? plan->window : most;
	uint64_t chunks = (weighted ? 2 : 1) * (bytes / chunk + 1);
	uint64_t held = plan->larger ? HELD_ROUNDS * (bytes / segment + 1) : 0;

	return ROUNDS_LEAST + held + bytes / segment + chunks / (shards * window);
}

/* What the largest operation of the plan may take. */
static uint64_t find_work(const struct plan *plan)
{
	size_t bytes = find_most_bytes(plan);
	uint64_t wire_ns =
		plan->rate_least_mbps ? 2 * DEPTH_MAX * bytes * 8000 / plan->rate_least_mbps : 0;
	uint64_t round_ns = 2 * plan->delay_ms * MS_NS + (unsigned)plan->nranks * TURNS_NS;

	return MARGIN_NS + wire_ns + find_rounds(plan, bytes) * round_ns;
}

static bool has_joined(const struct simulated_rank *rank)
{
	bool all = true;

	for (unsigned i = 0; i < world.plan.ncomms; i++) {
		all = all && rank->comms[i];
	}
	return all;
}

/* It has failed there, as the last server of its table was lost: whoever reaches one that is there
 * again may still wait for it. */
static bool has_failed(const struct simulated_rank *rank)
{
	for (unsigned i = 0; i < world.plan.ncomms; i++) {
		if (rank->comms[i] && rank->comms[i]->state == SMD_COMM_FAILED) {
			return true;
		}
	}
	return false;
}

/* It has lost all servers of a table, and waits for the others at one that is there. */
static bool is_rescued(const struct simulated_rank *rank)
{
	for (unsigned i = 0; i < world.plan.ncomms; i++) {
		if (rank->comms[i] && rank->comms[i]->rescue_late) {
			return true;
		}
	}
	return false;
}

/* A rank joins others of which one does not come any more, and nobody can know that. */
static bool waits_in_vain(void)
{
	bool joins = false;
	bool is_rescuing = false;
	bool is_missing = false;
	bool has_ended = false; /* and could not say so, or only where nobody was yet */

	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];
		bool is_gone = rank->dead || rank->err || rank->over;

		is_missing |= is_gone || has_failed(rank);
		has_ended |= rank->dead || rank->err || has_failed(rank);
		joins |= !is_gone && !has_joined(rank);
		is_rescuing |= !rank->dead && !rank->over && is_rescued(rank);
	}
	return (joins && is_missing) || (is_rescuing && has_ended);
}

static void expect(void)
{
	uint64_t from = longer(virtual_now_ns(), settled_ns);

	for (int r = 0; r < world.plan.nranks; r++) {
		if (!world.ranks[r].dead) {
			from = longer(from, busy_until_ns[r]);
		}
	}
	in_vain = waits_in_vain();
	settles = false;
	hurries = false;
	until_ns = from + work_ns + (world.may_fail ? SETTLE_NS : 0) + (in_vain ? CONNECT_NS : 0);
	virtual_allow_until(until_ns);
}

static bool some_settle(void)
{
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];

		for (unsigned i = 0; i < world.plan.ncomms && !rank->dead && !rank->over; i++) {
			if (rank->comms[i] && rank->comms[i]->settling) {
				return true;
			}
		}
	}
	return false;
}

/* A drained server ends when its time is over, which is no fault of the plan. */
static bool some_hurry(void)
{
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];

		if (!rank->dead && !rank->over && rank->comms[0] &&
			smd_reconnection_tries(rank->comms[0]->context)) {
			return true;
		}
	}
	return false;
}

/* A communicator fails without a word to this: who waits in vain since has its time, once. */
static bool look_again(void)
{
	if (!in_vain && waits_in_vain()) {
		in_vain = true;
		until_ns += CONNECT_NS;
	} else if (!hurries && some_hurry()) {
		hurries = true;
		until_ns += HURRY_NS;
	} else if (!settles && some_settle()) {
		settles = true;
		until_ns += SETTLE_NS;
	} else {
		return false;
	}
	virtual_allow_until(until_ns);
	return true;
}

void liveness_begin(void)
{
	virtual_on_limit = look_again;
	work_ns = find_work(&world.plan);
	settled_ns = virtual_now_ns();
	expect();
}

static void note_wait(void)
{
	uint64_t now = virtual_now_ns();

	if (now + work_ns > until_ns && now + work_ns - until_ns > longest_ns) {
		longest_ns = now + work_ns - until_ns;
		longest_at_ns = now;
	}
}

/* How long a rank that begins waits for a server that is not there. */
static uint64_t find_patience(void)
{
	return world.may_be_cut ? CONNECT_NS : BEGIN_NS;
}

/* A silent one is found out at the second look after the limit at the latest. */
static uint64_t find_silence(void)
{
	uint64_t limit_ns = world.plan.heartbeat_ms * MS_NS;

	return limit_ns + 2 * limit_ns / SMD_HEARTBEAT_POLLS;
}

static uint64_t find_stop(const struct planned_fault *fault)
{
	uint64_t silence_ns = find_silence();

	return fault->for_ns < silence_ns ? fault->for_ns : silence_ns;
}

/* What ranks need to go on without a server that they know to be lost. */
static uint64_t find_change(void)
{
	return MARGIN_NS + 2 * ROUNDS_LEAST * world.plan.delay_ms * MS_NS;
}

void liveness_moved(int rank, uint64_t pause_ns)
{
	note_wait();
	busy_until_ns[rank] = virtual_now_ns() + pause_ns;
	expect();
}

void liveness_begins(int rank)
{
	const struct smd_context *context = world.ranks[rank].comms[0]->context;

	for (unsigned i = 0; i < world.nservers; i++) {
		const struct simulated_server *server = world.servers[i];

		if (server && server->stopped && server->index < context->ntargets &&
			!context->targets[server->index].lost) {
			settled_ns = longer(
				settled_ns, virtual_now_ns() + find_silence() + find_change());
			expect();
		}
	}
}

static bool some_join(void)
{
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];

		if (!rank->dead && !rank->err && !rank->over && !has_joined(rank)) {
			return true;
		}
	}
	return false;
}

/* Servers that are in no table of some rank, or will not be: who has no other is to find out
 * whether they are there. */
static bool some_are_out(void)
{
	for (unsigned i = 0; i < world.nservers; i++) {
		const struct simulated_server *server = world.servers[i];

		if (server && (!server_is_there(server) || server->stopped)) {
			return true;
		}
	}
	for (int r = 0; r < world.plan.nranks; r++) {
		for (unsigned i = 0; i < world.plan.ncomms; i++) {
			const struct smd_comm *comm = world.ranks[r].comms[i];

			if (comm && comm->agreement.closed &
					    smd_context_first(comm->context->ntargets)) {
				return true;
			}
		}
	}
	return false;
}

/* In how much time it is known to those who must. Where no server has all ranks of a group that joins, none can tell
 * the others. */
static uint64_t find_detection(const struct planned_fault *fault)
{
	bool begins = world.nconnected < world.plan.nranks;
	uint64_t limit_ns = world.plan.heartbeat_ms * MS_NS;

	if (world.none_stays && fault->kind != RANK_KILLED && some_join()) {
		return CONNECT_NS;
	}
	switch (fault->kind) {
	case RANK_KILLED:
		return begins ? 2 * limit_ns + SMD_SECOND_NS : 0;
	case LANES_CUT:
		return begins ? find_patience() : 0;
	case SERVER_STOPPED:
		return begins ? longer(find_patience(), find_stop(fault)) : find_stop(fault);
	default:
		return begins ? find_patience() : 0;
	}
}

void liveness_connects(void)
{
	bool all = true;

	for (unsigned i = 0; i < world.plan.nservers; i++) {
		all = all && server_is_there(world.servers[i]) && !world.servers[i]->stopped;
	}
	if (!all) {
		settled_ns = longer(settled_ns, virtual_now_ns() + find_patience());
		expect();
	}
}

void liveness_disturbed(const struct planned_fault *fault)
{
	note_wait();
	settled_ns =
		longer(settled_ns, virtual_now_ns() + find_detection(fault)) + find_change() +
		(world.none_stays || some_are_out() || fault->kind == RANK_KILLED ? HURRY_NS : 0);
	expect();
}

/* It is tried again at last, and then two tables, with it and by its rate, wait for two operations
 * of each communicator, before which ranks pause. One that was refused waits, too. */
uint64_t liveness_mend_ns(void)
{
	const struct plan *plan = &world.plan;

	return TRY_NS + ATTEMPT_NS + 4 * PAUSE_MOST_NS + (plan->refusals ? REFUSED_NS : 0) +
	       (plan->scarce ? REFUSED_NS : 0);
}

const char *liveness_tell(void)
{
	static char text[128];

	snprintf(text, sizeof(text), "longest wait %.3f of %.3f ms, at %.6f s",
		(double)longest_ns / 1e6, (double)work_ns / 1e6,
		longest_at_ns ? (double)longest_at_ns / 1e9 - 1000 : 0);
	return text;
}
