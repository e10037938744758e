/* Kills, stops, drains and cuts, and says whether all ranks must go on nevertheless. */
#include "tests/simulation/faults.h"

#include <errno.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/testing/loopback.h"
#include "tests/simulation/liveness.h"
#include "tests/simulation/server_list.h"
#include "tests/simulation/servers.h"
#include "tests/simulation/virtual_time.h"
#include "tests/simulation/world.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/epoch_drain.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/group_receiver.h"

#define MS_NS 1000000ull

static bool begun[FAULTS_MAX]; /* or never will */
static unsigned count;

/* ---- who is left ---- */

/* The communicator has begun, and knows of the server. */
static bool comm_knows(const struct smd_comm *comm, const struct simulated_server *server)
{
	return comm->state == SMD_COMM_ACTIVE && server->index < comm->context->ntargets;
}

/* Its table has that life of the server, and nothing is known against it. */
static bool comm_has(const struct smd_comm *comm, const struct simulated_server *server)
{
	const struct smd_epoch *now = comm->now;
	const struct smd_target *target = &comm->context->targets[server->index];

	if (!comm_knows(comm, server) || target->lost ||
		target->reconnection.since_ns < server->since_ns ||
		(now->dead | comm->agreement.closed) >> server->index & 1) {
		return false;
	}
	for (unsigned k = 0; k < now->nserving; k++) {
		const struct smd_flow *flow = &now->flows[now->remotes[k]];

		if (flow->target == server->index && (flow->dead || flow->over || flow->gone)) {
			return false;
		}
	}
	return true;
}

/* It was there at the start, and no rank has lost it. */
static bool is_first(const struct simulated_server *server)
{
	return server->index < world.plan.nservers && server == &world.lives[server->index];
}

/* It is in all tables. */
static bool all_have(const struct simulated_server *server)
{
	for (int r = 0; r < world.plan.nranks && !is_first(server); r++) {
		for (unsigned c = 0; c < world.plan.ncomms; c++) {
			const struct smd_comm *comm = world.ranks[r].comms[c];

			if (!comm || !comm_has(comm, server)) {
				return false;
			}
		}
	}
	return true;
}

/* Some shard has said that all are there, maybe not to all. */
static bool has_heard_joined(const struct smd_context *context)
{
	for (unsigned i = 0; i < SMD_COMMS_MAX; i++) {
		const struct smd_comm *comm = (const struct smd_comm *)context->comms[i];

		if (comm && context->comms[i]->ops == &smd_group_receiver &&
			comm->state == SMD_COMM_JOINING && comm->joined_first) {
			return true;
		}
	}
	return false;
}

/* A rank that has connected, and joins a group that nobody has begun, reaches it. */
static bool rank_may_join_at(
	const struct simulated_rank *rank, const struct simulated_server *server)
{
	const struct smd_context *context = rank->context;

	return !rank->over && (!context || (smd_context_reach(context) >> server->index & 1 &&
						   !has_heard_joined(context)));
}

/* The communicator has begun on all ranks, or on none. */
static bool all_may_go_on_with(const struct simulated_server *server, unsigned c)
{
	bool works = world.ranks[0].comms[c] != NULL;

	if (!works && server->index >= world.plan.nservers) {
		return false;
	}
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct smd_comm *comm = world.ranks[r].comms[c];

		if (works ? !comm || !comm_knows(comm, server)
			  : comm || !rank_may_join_at(&world.ranks[r], server)) {
			return false;
		}
	}
	return true;
}

/* It was there at the start, or was started again or added since, and may be in no table yet. */
static bool all_may_go_on(const struct simulated_server *server)
{
	bool may = true;

	for (unsigned c = 0; c < world.plan.ncomms && may && !is_first(server); c++) {
		may = all_may_go_on_with(server, c);
	}
	return may;
}

static bool some_server_stays(bool (*stays)(const struct simulated_server *server))
{
	for (unsigned i = 0; i < world.nservers; i++) {
		const struct simulated_server *server = world.servers[i];

		if (server && server_is_there(server) && !server->harmed && stays(server)) {
			return true;
		}
	}
	return false;
}

static bool all_have_begun(void)
{
	bool begun_all = true;

	for (int r = 0; r < world.plan.nranks; r++) {
		for (unsigned c = 0; c < world.plan.ncomms; c++) {
			begun_all &= world.ranks[r].comms[c] != NULL;
		}
	}
	return begun_all;
}

/* Who calls nothing for a while does not come in time to a server that is in no table, where others
 * do not expect that. */
static bool all_are_alike(void)
{
	for (int r = 1; r < world.plan.nranks; r++) {
		if (world.plan.poll[r] != world.plan.poll[0]) {
			return false;
		}
	}
	return true;
}

/* A rank whose lanes are cut is taken for dead where no table has another server, if it is not soon
 * at one: it may call nothing just then, or the group that it joins may not have begun. */
static bool find_none_stays(const struct planned_fault *fault)
{
	bool comes =
		all_are_alike() &&
		(fault->kind != LANES_CUT || (!world.plan.poll[fault->rank] && all_have_begun()));

	return !some_server_stays(comes ? all_may_go_on : all_have);
}

static void note_harm(const struct planned_fault *fault)
{
	if (fault->kind != RANK_KILLED) {
		world.servers[fault->server]->harmed = true;
	}
	/* A context needs all of its servers at the start. */
	world.none_stays = find_none_stays(fault);
	world.may_be_cut |= fault->operation == AT_START || !some_server_stays(all_have);
	/* A rank that nobody is in a group with hears of none. */
	world.may_be_cut |= world.nconnected < world.plan.nranks &&
			    fault->operation == OTHERS_WAIT && fault->kind == RANK_KILLED;
	world.may_fail |=
		fault->kind == RANK_KILLED || fault->operation == AT_START || world.none_stays;
	liveness_disturbed(fault);
}

/* ---- faults ---- */

static void start_again(struct simulated_server *server, const struct planned_fault *fault)
{
	if (!fault->again) {
		return;
	}
	virtual_sleep(fault->for_ns);
	if (world.servers[fault->server] == server && !server->again) {
		server->again = true;
		start_server(fault->server);
	}
}

static void kill_server(struct simulated_server *server, const struct planned_fault *fault)
{
	virtual_freeze(server->process, true);
	smd_loopback_cut((int)server->process, SMD_LOOPBACK_ANY, fault->keep);
	server->lost = true;
	start_again(server, fault);
}

static void drain_server(struct simulated_server *server, const struct planned_fault *fault)
{
	smd_wakeup_signal(&server->ask);
	while (!server->ended && !server->lost) {
		virtual_sleep(MS_NS);
	}
	start_again(server, fault);
}

/* Its number is the next one, whoever comes first, since the file goes on to name them. */
static void add_server(const struct planned_fault *fault)
{
	unsigned index = world.nservers++;

	if (fault->named_first) {
		server_list_name(index + 1);
		virtual_sleep(fault->for_ns);
		start_server(index);
		return;
	}
	start_server(index);
	virtual_sleep(fault->for_ns);
	server_list_name(index + 1);
}

static void do_to_rank(const struct planned_fault *fault)
{
	world.ranks[fault->rank].dead = true;
	note_harm(fault);
	virtual_freeze(rank_process(fault->rank), true);
	smd_loopback_cut((int)rank_process(fault->rank), SMD_LOOPBACK_ANY, fault->keep);
}

static void do_to_server(const struct planned_fault *fault)
{
	struct simulated_server *server = world.servers[fault->server];

	if (!server) {
		return; /* it has not been added yet */
	}
	note_harm(fault);
	switch (fault->kind) {
	case SERVER_KILLED:
		if (server->listening && !server->ended) {
			kill_server(server, fault);
		}
		break;
	case SERVER_STOPPED:
		if (!server->lost) {
			virtual_freeze(server->process, true);
			server->stopped = true;
			virtual_sleep(fault->for_ns);
			server->stopped = false;
			virtual_freeze(server->process, server->lost);
		}
		break;
	case SERVER_DRAINED:
		if (server_is_there(server)) {
			drain_server(server, fault);
		}
		break;
	case LANES_CUT:
		smd_loopback_cut((int)rank_process(fault->rank), (int)server->process, fault->keep);
		break;
	default:
		break;
	}
}

static void *do_fault(void *arg)
{
	const struct planned_fault *fault = arg;

	virtual_sleep(fault->after_ns);
	if (fault->kind == SERVER_ADDED) {
		add_server(fault);
	} else if (fault->kind == RANK_KILLED) {
		do_to_rank(fault);
	} else {
		do_to_server(fault);
	}
	world.nfaults_over++;
	return NULL;
}

static void begin(unsigned i)
{
	begun[i] = true;
	count++;
	virtual_start(0, do_fault, &world.plan.faults[i]);
}

void faults_begin(int operation)
{
	for (unsigned i = 0; i < world.plan.nfaults; i++) {
		if (world.plan.faults[i].operation == operation && !begun[i]) {
			begin(i);
		}
	}
}

void faults_end_waiting(void)
{
	for (unsigned i = 0; i < world.plan.nfaults; i++) {
		if (!begun[i]) {
			begun[i] = true;
			world.nfaults_over++;
		}
	}
}

unsigned faults_count(void)
{
	return count;
}

/* ---- while ranks agree ---- */

void __real_smd_epoch_say(struct smd_comm *comm, const struct smd_epoch_message *what);
void __wrap_smd_epoch_say(struct smd_comm *comm, const struct smd_epoch_message *what);

/* What the communicator's candidate is for. */
static bool is_about(const struct smd_comm *comm, enum change change)
{
	const struct smd_epoch *candidate = comm->candidate;

	switch (change) {
	case CHANGE_RETURN:
		return candidate && comm->now->dead & ~candidate->dead;
	case CHANGE_DRAIN:
		return candidate && comm->agreement.soon;
	default:
		return true;
	}
}

/* The faults that follow this message begin: just before it is said, or a little later. */
void __wrap_smd_epoch_say(struct smd_comm *comm, const struct smd_epoch_message *what)
{
	for (unsigned i = 0; i < world.plan.nfaults; i++) {
		struct planned_fault *fault = &world.plan.faults[i];

		if (fault->operation == AT_MESSAGE && !begun[i] && fault->message == what->kind &&
			is_about(comm, fault->about) && fault->messages-- == 0) {
			begin(i);
		}
	}
	__real_smd_epoch_say(comm, what);
}

int __real_smd_group_stand(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);
int __wrap_smd_group_stand(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table);

/* Some ranks have no memory for the candidate's streams, until the aftermath. */
int __wrap_smd_group_stand(struct smd_comm *comm, uint64_t id, const struct smd_epoch_table *table)
{
	if (world.plan.refusals && world.aftermath.decided == 0 &&
		virtual_draw(world.plan.refusals) == 0) {
		return -ENOMEM;
	}
	return __real_smd_group_stand(comm, id, table);
}
