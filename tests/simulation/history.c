/* Runs the ranks of a plan beside its servers and faults, and checks every result. */
#include "tests/simulation/history.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/transport/testing/fault.h"
#include "reduction_server/transport/testing/loopback.h"
#include "tests/simulation/aftermath.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/liveness.h"
#include "tests/simulation/server_list.h"
#include "tests/simulation/servers.h"
#include "tests/simulation/virtual_time.h"
#include "tests/simulation/world.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/epoch.h"
#include "worker/summand.h"

#define MS_NS 1000000ull

struct world world;
static FILE *report;

/* What it waits for may be seen from that. */
static void tell_comms(const struct simulated_rank *rank)
{
	static const char *const states[] = {"joining", "active", "failed"};

	for (unsigned c = 0; c < world.plan.ncomms; c++) {
		const struct smd_comm *comm = rank->comms[c];

		if (comm) {
			fprintf(report,
				"    communicator %u: %s, epoch %u without 0x%llx, closed "
				"0x%llx%s%s%s%s\n",
				c, states[comm->state], comm->now->index,
				(unsigned long long)(comm->now->dead & 0xff),
				(unsigned long long)(comm->agreement.closed & 0xff),
				comm->agreement.sealed ? ", sealed" : "",
				comm->candidate ? ", with a candidate" : "",
				comm->rescue_late ? ", rescuing" : "",
				comm->end != SMD_COMM_NO_END ? ", ending" : "");
		}
	}
}

void world_fail(const char *what)
{
	fprintf(report, "wrong, at %.6f s, step %llu: %s\n", (double)virtual_now_ns() / 1e9 - 1000,
		(unsigned long long)virtual_steps(), what);
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];

		fprintf(report, "  rank %d: %d operations done%s%s%s\n", r, rank->done,
			rank->dead ? ", was killed" : "", rank->err ? ", then: " : "", rank->error);
		if (!rank->dead && !rank->over) {
			tell_comms(rank);
		}
	}
	fflush(NULL);
	_exit(1);
}

/* ---- ranks ---- */

struct operation_in_flight {
	int number;
	float *send;
	float *recv;
	smd_request *request;
};

/* Spans of zeros, of all ranks or of some, longer than a block that is not sent; with a negative
 * one here and there, which is none. */
static bool is_zero(int rank, int number, size_t i)
{
	size_t span = i / 2500 + (size_t)number;

	return span % 3 == 0 || (span + (size_t)rank) % 5 == 0;
}

/* Different at all places, and with bits that a sum in another order would not have. */
static float input(int rank, int number, size_t i)
{
	uint32_t mixed =
		(uint32_t)((unsigned)rank * 7919u + (unsigned)number * 104729u + i) * 2654435761u;

	if (is_zero(rank, number, i)) {
		return i % 4999 == 17 ? -0.0f : 0.0f;
	}
	return (float)(mixed >> 8) * 1e-3f;
}

static float reduced(int number, size_t i)
{
	float sum = input(0, number, i);

	for (int r = 1; r < world.plan.nranks; r++) {
		sum += input(r, number, i);
	}
	return sum;
}

static void check_result(
	const struct simulated_rank *rank, const struct operation_in_flight *flight)
{
	const struct planned_operation *operation = plan_operation(&world.plan, flight->number);
	bool receives = operation->collective == ALLREDUCE || operation->collective == BROADCAST ||
			rank->rank == operation->root;
	char text[128];

	for (size_t i = 0; receives && i < operation->count; i++) {
		float wanted = operation->collective == BROADCAST
				       ? input(operation->root, flight->number, i)
				       : reduced(flight->number, i);

		if (memcmp(&flight->recv[i], &wanted, sizeof(wanted)) != 0) {
			snprintf(text, sizeof(text),
				"rank %d, operation %d, element %zu: must be %a, got %a",
				rank->rank, flight->number, i, (double)wanted,
				(double)flight->recv[i]);
			world_fail(text);
		}
	}
}

static int start_operation(
	smd_comm *comm, const struct simulated_rank *rank, struct operation_in_flight *flight)
{
	const struct planned_operation *operation = plan_operation(&world.plan, flight->number);
	size_t bytes = operation->count * sizeof(float) + 1;
	bool apart = !operation->in_place && operation->collective != BROADCAST;

	flight->send = malloc(bytes);
	flight->recv = apart ? malloc(bytes) : flight->send;
	for (size_t i = 0; i < operation->count; i++) {
		flight->send[i] = input(rank->rank, flight->number, i);
	}
	switch (operation->collective) {
	case REDUCE:
		return smd_reduce_start(comm, flight->send, flight->recv, operation->count,
			SMD_FLOAT32, SMD_SUM, operation->root, &flight->request);
	case BROADCAST:
		return smd_broadcast_start(comm, flight->send, operation->count, SMD_FLOAT32,
			operation->root, &flight->request);
	default:
		return smd_allreduce_start(comm, flight->send, flight->recv, operation->count,
			SMD_FLOAT32, SMD_SUM, &flight->request);
	}
}

/* The buffers are the caller's again: what is still read from them or written to them shows. */
static void release_buffers(struct operation_in_flight *flight)
{
	size_t bytes = plan_operation(&world.plan, flight->number)->count * sizeof(float);

	memset(flight->send, 0xee, bytes);
	if (flight->recv != flight->send) {
		memset(flight->recv, 0xee, bytes);
		free(flight->recv);
	}
	free(flight->send);
}

/* One that was killed: by its name, or by its number where it has joined nobody yet. */
static bool names_a_dead_rank(const char *text)
{
	char name[32];
	char number[16];

	for (int r = 0; r < world.plan.nranks; r++) {
		snprintf(name, sizeof(name), "rank %d (rank-%d)", r, r);
		snprintf(number, sizeof(number), "rank %d", r);
		if (world.ranks[r].dead && (strstr(text, name) || (strstr(text, "not joined yet") &&
									  strstr(text, number)))) {
			return true;
		}
	}
	return false;
}

static void note_error(struct simulated_rank *rank, int err)
{
	if (err == 0 || rank->err) {
		return;
	}
	rank->err = err;
	snprintf(rank->error, sizeof(rank->error), "%s", smd_error_message());
	if (!world.may_fail) {
		world_fail("a rank has failed, though all reach a server");
	}
	if (!world.may_be_cut && !names_a_dead_rank(rank->error)) {
		world_fail("a rank has failed, and does not hear of which that was killed");
	}
}

static void finish_operation(struct simulated_rank *rank, struct operation_in_flight *flight)
{
	int err = smd_request_wait(flight->request);

	if (err == 0) {
		check_result(rank, flight);
		rank->done++;
	}
	liveness_moved(rank->rank, 0);
	note_error(rank, err);
	release_buffers(flight);
}

/* It does something else. */
static void pause_for(const struct simulated_rank *rank, uint64_t ns)
{
	liveness_moved(rank->rank, ns);
	virtual_sleep(ns);
}

/* What tables of servers take does not grow with their number: the first one, those that operations
 * need, a candidate, and one more for each server that is lost before the next change. */
static void check_tables(struct simulated_rank *rank, smd_context *context)
{
	uint64_t most = 2 + SMD_EPOCHS_NEEDED_MAX + world.plan.nservers - 1;
	struct smd_stats stats;
	char text[160];

	smd_context_stats(context, &stats);
	if (rank->table_bytes == 0) {
		rank->table_bytes = stats.table_bytes;
	}
	if (stats.tables > most || stats.table_bytes > most / 2 * rank->table_bytes) {
		snprintf(text, sizeof(text),
			"rank %d: %llu of %llu tables at once, %llu bytes, where one has %llu",
			rank->rank, (unsigned long long)stats.tables, (unsigned long long)most,
			(unsigned long long)stats.table_bytes,
			(unsigned long long)rank->table_bytes);
		world_fail(text);
	}
}

static void run_operations(struct simulated_rank *rank)
{
	struct operation_in_flight flights[DEPTH_MAX];
	int depth = world.plan.depth[rank->rank];
	int begun = 0;
	int ended = 0;

	for (; begun < world.plan.noperations && !rank->err; begun++) {
		struct operation_in_flight *flight = &flights[begun % depth];
		int err;

		if (begun - ended == depth) {
			finish_operation(rank, &flights[ended++ % depth]);
		}
		if (world.plan.pause_us[rank->rank]) {
			pause_for(rank, virtual_draw(world.plan.pause_us[rank->rank]) * 1000 + 1);
		}
		if (rank->rank == 0) {
			faults_begin(begun);
		}
		if (world.plan.loses) {
			check_tables(rank, rank->comms[0]->context);
		}
		*flight = (struct operation_in_flight){.number = begun};
		liveness_begins(rank->rank);
		err = start_operation(rank->comms[world.plan.operations[begun].comm], rank, flight);
		if (err) {
			note_error(rank, err);
			release_buffers(flight);
			break;
		}
	}
	while (ended < begun) {
		finish_operation(rank, &flights[ended++ % depth]);
	}
}

/* Servers that are there, and will be, and must be in all tables. */
static uint64_t find_living(void)
{
	uint64_t living = 0;

	for (unsigned i = 0; i < world.nservers; i++) {
		living |= (uint64_t)server_is_there(world.servers[i]) << i;
	}
	return living;
}

/* Rank 0 decides whether another operation follows; the others wait for that. */
static bool aftermath_goes_on(const struct simulated_rank *rank, int number)
{
	if (rank->rank == 0) {
		const char *wrong =
			world.nfaults_over < world.plan.nfaults
				? NULL
				: aftermath_look(&world.aftermath, rank->comms, world.plan.ncomms,
					  find_living(), world.plan.scarce ? 0 : world.plan.window,
					  liveness_mend_ns());

		if (wrong) {
			world_fail(wrong);
		}
		world.aftermath.decided = number + 1;
	}
	while (world.aftermath.decided <= number && !world.ranks[0].err && !world.ranks[0].dead) {
		if (world.plan.poll[rank->rank]) {
			aftermath_poll(rank->comms[0]);
		}
		virtual_sleep(MS_NS);
	}
	return world.aftermath.decided > number &&
	       (!world.aftermath.last || number < world.aftermath.last);
}

/* Many more operations, with pauses, until all servers that are there are used again as at the
 * beginning. */
static void run_aftermath(struct simulated_rank *rank)
{
	if (rank->rank == 0) {
		faults_end_waiting();
	}
	for (int number = world.plan.noperations; !rank->err && aftermath_goes_on(rank, number);
		number++) {
		struct operation_in_flight flight = {.number = number};
		unsigned comm = plan_operation(&world.plan, number)->comm;
		int err;

		if (virtual_draw(4) == 0) {
			pause_for(
				rank, virtual_draw(virtual_draw(4) ? 300 : PAUSE_MOST_NS / MS_NS) *
						      MS_NS +
					      1);
		}
		liveness_begins(rank->rank);
		err = start_operation(rank->comms[comm], rank, &flight);
		if (err) {
			note_error(rank, err);
			release_buffers(&flight);
			break;
		}
		finish_operation(rank, &flight);
	}
}

/* Those that are not late, and have not connected yet. */
static bool others_connect(void)
{
	for (int r = 0; r < world.plan.nranks; r++) {
		const struct simulated_rank *rank = &world.ranks[r];

		if (!world.plan.late_ns[r] && !rank->connected && !rank->dead) {
			return true;
		}
	}
	return false;
}

static void await_beginning(const struct simulated_rank *rank)
{
	if (world.plan.late_ns[rank->rank]) {
		while (others_connect()) {
			virtual_sleep(MS_NS);
		}
		pause_for(rank, world.plan.late_ns[rank->rank]);
	}
}

static void *run_rank(void *arg)
{
	struct simulated_rank *rank = arg;
	char name[16];
	const struct smd_context_options options = {
		.servers = server_list_first(),
		.replica = name,
		.job = "simulation",
		.transport = "fault",
		.progress = world.plan.poll[rank->rank] ? SMD_PROGRESS_POLL : SMD_PROGRESS_THREAD,
	};
	smd_context *context = NULL;

	snprintf(name, sizeof(name), "rank-%d", rank->rank);
	await_beginning(rank);
	liveness_connects();
	note_error(rank, smd_context_create(&options, &context));
	liveness_moved(rank->rank, 0);
	if (context && world.plan.segment_bytes) {
		context->segment_bytes = world.plan.segment_bytes;
	}
	rank->connected = true;
	rank->context = context;
	if (!others_connect()) {
		faults_begin(OTHERS_WAIT);
	}
	if (++world.nconnected == world.plan.nranks) {
		faults_begin(CONNECTED);
	}
	for (unsigned i = 0; i < world.plan.ncomms && !rank->err; i++) {
		char group[16];

		snprintf(group, sizeof(group), "group-%u", i);
		note_error(rank, smd_comm_create(context, group, world.plan.nranks, rank->rank,
					 &rank->comms[i]));
		liveness_moved(rank->rank, 0);
	}
	if (!rank->err) {
		run_operations(rank);
		if (world.plan.aftermath) {
			run_aftermath(rank);
		}
	}
	for (unsigned i = 0; i < world.plan.ncomms && rank->comms[i]; i++) {
		smd_comm *comm = rank->comms[i];

		rank->comms[i] = NULL;
		smd_comm_destroy(comm);
		liveness_moved(rank->rank, 0);
	}
	if (context) {
		smd_context_destroy(context);
	}
	liveness_moved(rank->rank, 0);
	rank->over = true;
	return NULL;
}

/* ---- the whole ---- */

/* Where servers are only drained, nobody is warned of one. From the first rank's end on somebody may be: a drained server may end
 * before the word that a rank has left has come through all of them. */
static bool only_drains(void)
{
	for (int r = 0; r < world.plan.nranks; r++) {
		if (world.ranks[r].over) {
			return false;
		}
	}
	for (unsigned i = 0; i < world.plan.nfaults; i++) {
		if (world.plan.faults[i].kind != SERVER_DRAINED ||
			world.plan.faults[i].operation < 0) {
			return false;
		}
	}
	return !world.may_fail;
}

static void on_log(enum smd_log_level level, const char *component, const char *sentence)
{
	if (getenv("SUMMAND_LOG")) {
		fprintf(stderr, "%.6f process %u, %d %s: %s\n",
			(double)virtual_now_ns() / 1e9 - 1000, virtual_process(), (int)level,
			component, sentence);
	}
	if (level <= SMD_LOG_WARN && strcmp(component, "libsummand") == 0 &&
		strstr(sentence, "reduction servers go on") && only_drains()) {
		world_fail(sentence);
	}
}

static void set_up(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%ums", world.plan.heartbeat_ms);
	setenv("SUMMAND_HEARTBEAT_LIMIT", text, 1);
	snprintf(text, sizeof(text), "delay=0..%ums,seed=%llu", world.plan.delay_ms,
		(unsigned long long)world.plan.seed);
	if (world.plan.rate_most_mbps) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ",rate=%u..%umbit",
			world.plan.rate_least_mbps, world.plan.rate_most_mbps);
	}
	if ((world.plan.delay_ms || world.plan.rate_most_mbps) &&
		smd_fault_configure(text, &(struct smd_error){""})) {
		world_fail("the fault transport does not take its items");
	}
	smd_log_set_sink(on_log);
	smd_loopback_process = virtual_process;
	server_list_begin(world.plan.nservers, world.plan.nadded > 0);
	evthread_use_pthreads();
}

int history_run(enum plan_kind kind, uint64_t seed, FILE *out)
{
	report = out;
	virtual_on_stuck = world_fail;
	plan_draw(&world.plan, kind, seed);
	plan_print(&world.plan, out);
	virtual_begin(seed, SMD_SECOND_NS); /* for servers to listen */
	set_up();
	world.nlives = 0;
	for (unsigned i = 0; i < world.plan.nservers; i++) {
		start_server(i);
	}
	world.nlives = SERVERS_MAX;
	world.nservers = world.plan.nservers;
	for (unsigned i = 0; i < world.plan.nservers; i++) {
		while (!world.servers[i]->listening) {
			virtual_sleep(1000);
		}
	}
	faults_begin(AT_START);
	liveness_begin();
	for (int r = 0; r < world.plan.nranks; r++) {
		world.ranks[r].rank = r;
		virtual_start(rank_process(r), run_rank, &world.ranks[r]);
	}
	for (int r = 0; r < world.plan.nranks; r++) {
		while (!world.ranks[r].over && !world.ranks[r].dead) {
			virtual_sleep(MS_NS);
		}
	}
	fprintf(out,
		"right: %.6f s, %llu steps, %u of %u faults, %u tables wanted by measure, ranks "
		"%s; %s; mended in %.3f s\n",
		(double)virtual_now_ns() / 1e9 - 1000, (unsigned long long)virtual_steps(),
		faults_count(), world.plan.nfaults, world.nmeasured,
		world.may_fail ? "may fail" : "must go on", liveness_tell(),
		(double)world.aftermath.took_ns / 1e9);
	return 0;
}
