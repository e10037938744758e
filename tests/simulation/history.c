/* Runs the servers and ranks of a plan, does the faults, and checks every result. */
#include "tests/simulation/history.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/engine/server.h"
#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/testing/fault.h"
#include "reduction_server/transport/testing/loopback.h"
#include "tests/simulation/aftermath.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/virtual_time.h"
#include "worker/libsummand/tuning.h"
#include "worker/summand.h"

#define MS_NS    1000000ull
#define LIMIT_NS (600 * SMD_SECOND_NS) /* of a whole history */

/* Processes: 0 is the test's own, then servers, then ranks, then servers that were started again.
 */
static unsigned server_process(unsigned life)
{
	return 1 + life + (life < SERVERS_MAX ? 0 : RANKS_MAX);
}

static unsigned rank_process(int rank)
{
	return 1 + SERVERS_MAX + (unsigned)rank;
}

struct simulated_server {
	unsigned process;
	struct event_base *base;
	struct smd_server *server;
	struct smd_wakeup ask;
	unsigned index;
	bool listening;
	bool ended; /* by its drain; */
	bool lost;  /* not there any more, by a fault, */
	bool again; /* and another has been started in its place */
	pthread_t thread;
};

struct simulated_rank {
	int rank;
	bool dead;
	int err; /* the first one that it was given, */
	char error[512];
	int done; /* operations that gave 0 */
	bool over;
};

static struct plan plan;
static struct simulated_server lives[SERVERS_MAX + FAULTS_MAX];
static unsigned nlives;
static struct simulated_server *servers[SERVERS_MAX]; /* the last life of each */
static struct simulated_rank ranks[RANKS_MAX];
static int nconnected;
static unsigned nfaults_over;
static struct aftermath aftermath;
static char server_list[512];
static FILE *report;

static void fail(const char *what)
{
	fprintf(report, "wrong, at %.6f s, step %llu: %s\n", (double)virtual_now_ns() / 1e9 - 1000,
		(unsigned long long)virtual_steps(), what);
	for (int r = 0; r < plan.nranks; r++) {
		fprintf(report, "  rank %d: %d operations done%s%s%s\n", r, ranks[r].done,
			ranks[r].dead ? ", was killed" : "", ranks[r].err ? ", then: " : "",
			ranks[r].error);
	}
	fflush(NULL);
	_exit(1);
}

/* ---- servers ---- */

static void on_ask(void *owner)
{
	struct simulated_server *one = owner;

	smd_server_drain(one->server, false);
}

static void on_ended(void *owner)
{
	struct simulated_server *one = owner;

	event_base_loopbreak(one->base);
}

static void *serve(void *arg)
{
	struct simulated_server *one = arg;
	char listen[32];
	const struct smd_server_config config = {
		.transports = {{smd_transport_find("fault"), true}},
		.listen = listen,
		.shards = plan.shards,
		.memory_bytes = (size_t)plan.shards << 23,
		.chunk_bytes = plan.chunk_bytes,
		.window = plan.window,
		.piece_bytes = 64,
		.heartbeat_ms = plan.heartbeat_ms,
		.on_ended = on_ended,
		.owner = one,
	};
	struct smd_shard_stats stats;
	struct smd_error error;

	snprintf(listen, sizeof(listen), "loopback:%u", one->index);
	one->base = event_base_new();
	if (smd_wakeup_create(&one->ask, one->base, on_ask, one) ||
		smd_server_start(one->base, &config, &one->server, &error)) {
		fail("a server cannot start");
	}
	one->listening = true;
	event_base_loop(one->base, EVLOOP_NO_EXIT_ON_EMPTY);
	smd_server_join(one->server, &stats);
	event_base_loop(one->base, EVLOOP_NONBLOCK);
	smd_wakeup_destroy(&one->ask);
	smd_server_free(one->server);
	smd_loop_free(one->base);
	one->ended = true;
	return NULL;
}

static void start_server(unsigned index)
{
	struct simulated_server *one = &lives[nlives];

	one->index = index;
	one->process = server_process(nlives++);
	servers[index] = one;
	one->thread = virtual_start(one->process, serve, one);
}

/* ---- faults ---- */

static void start_again(struct simulated_server *server, const struct planned_fault *fault)
{
	if (!fault->again) {
		return;
	}
	virtual_sleep(fault->for_ns);
	if (servers[fault->server] == server && !server->again) {
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

static void *do_fault(void *arg)
{
	const struct planned_fault *fault = arg;
	struct simulated_server *server;

	virtual_sleep(fault->after_ns);
	server = servers[fault->server];
	switch (fault->kind) {
	case SERVER_KILLED:
		if (server->listening && !server->ended) {
			kill_server(server, fault);
		}
		break;
	case SERVER_STOPPED:
		if (!server->lost) {
			virtual_freeze(server->process, true);
			virtual_sleep(fault->for_ns);
			virtual_freeze(server->process, server->lost);
		}
		break;
	case SERVER_DRAINED:
		if (server->listening && !server->ended && !server->lost) {
			drain_server(server, fault);
		}
		break;
	case LANES_CUT:
		smd_loopback_cut((int)rank_process(fault->rank), (int)server->process, fault->keep);
		break;
	case RANK_KILLED:
		ranks[fault->rank].dead = true;
		virtual_freeze(rank_process(fault->rank), true);
		smd_loopback_cut((int)rank_process(fault->rank), SMD_LOOPBACK_ANY, fault->keep);
		break;
	default:
		break;
	}
	nfaults_over++;
	return NULL;
}

static void begin_faults(int operation)
{
	for (unsigned i = 0; i < plan.nfaults; i++) {
		if (plan.faults[i].operation == operation) {
			virtual_start(0, do_fault, &plan.faults[i]);
		}
	}
}

/* ---- other tables ---- */

/* Instead of what rank 0 has measured, which is not much here. */
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	unsigned changes =
		aftermath.decided ? 5 * plan.changes : plan.changes; /* to see it settle */

	(void)now_ns;
	if (changes == 0 || virtual_draw(changes)) {
		return false;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	tuning->scale = (int)virtual_draw(SMD_CHUNK_SCALE_MOST - SMD_CHUNK_SCALE_LEAST + 1) +
			SMD_CHUNK_SCALE_LEAST;
	tuning->search.wanted = tuning->scale;
	for (unsigned s = 0; s < tuning->balance.nshards; s++) {
		tuning->weights[s] = 1 + (uint32_t)virtual_draw(100);
	}
	return true;
}

/* ---- ranks ---- */

struct operation_in_flight {
	int number;
	float *send;
	float *recv;
	smd_request *request;
};

/* Different at all places, and with bits that a sum in another order would not have. */
static float input(int rank, int number, size_t i)
{
	uint32_t mixed =
		(uint32_t)((unsigned)rank * 7919u + (unsigned)number * 104729u + i) * 2654435761u;

	return (float)(mixed >> 8) * 1e-3f;
}

static float reduced(int number, size_t i)
{
	float sum = input(0, number, i);

	for (int r = 1; r < plan.nranks; r++) {
		sum += input(r, number, i);
	}
	return sum;
}

static void check_result(
	const struct simulated_rank *rank, const struct operation_in_flight *flight)
{
	const struct planned_operation *operation = plan_operation(&plan, flight->number);
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
			fail(text);
		}
	}
}

static int start_operation(
	smd_comm *comm, const struct simulated_rank *rank, struct operation_in_flight *flight)
{
	const struct planned_operation *operation = plan_operation(&plan, flight->number);
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
	size_t bytes = plan_operation(&plan, flight->number)->count * sizeof(float);

	memset(flight->send, 0xee, bytes);
	if (flight->recv != flight->send) {
		memset(flight->recv, 0xee, bytes);
		free(flight->recv);
	}
	free(flight->send);
}

static void note_error(struct simulated_rank *rank, int err)
{
	if (err && !rank->err) {
		rank->err = err;
		snprintf(rank->error, sizeof(rank->error), "%s", smd_error_message());
	}
}

static void finish_operation(struct simulated_rank *rank, struct operation_in_flight *flight)
{
	int err = smd_request_wait(flight->request);

	if (err == 0) {
		check_result(rank, flight);
		rank->done++;
	}
	note_error(rank, err);
	release_buffers(flight);
}

static void run_operations(struct simulated_rank *rank, smd_comm *const *comms)
{
	struct operation_in_flight flights[DEPTH_MAX];
	int depth = plan.depth[rank->rank];
	int begun = 0;
	int ended = 0;

	for (; begun < plan.noperations && !rank->err; begun++) {
		struct operation_in_flight *flight = &flights[begun % depth];
		int err;

		if (begun - ended == depth) {
			finish_operation(rank, &flights[ended++ % depth]);
		}
		if (plan.pause_us[rank->rank]) {
			virtual_sleep(virtual_draw(plan.pause_us[rank->rank]) * 1000 + 1);
		}
		if (rank->rank == 0) {
			begin_faults(begun);
		}
		*flight = (struct operation_in_flight){.number = begun};
		err = start_operation(comms[plan.operations[begun].comm], rank, flight);
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

/* Servers that are there, and will be. */
static uint64_t find_living(void)
{
	uint64_t living = 0;

	for (unsigned i = 0; i < plan.nservers; i++) {
		living |=
			(uint64_t)(servers[i]->listening && !servers[i]->ended && !servers[i]->lost)
			<< i;
	}
	return living;
}

/* Rank 0 decides whether another operation follows; the others wait for that. */
static bool aftermath_goes_on(const struct simulated_rank *rank, smd_comm *const *comms, int number)
{
	if (rank->rank == 0) {
		const char *wrong = nfaults_over < plan.nfaults
					    ? NULL
					    : aftermath_look(&aftermath, comms, plan.ncomms,
						      find_living(), plan.window);

		if (wrong) {
			fail(wrong);
		}
		aftermath.decided = number + 1;
	}
	while (aftermath.decided <= number && !ranks[0].err && !ranks[0].dead) {
		if (plan.poll[rank->rank]) {
			aftermath_poll(comms[0]);
		}
		virtual_sleep(MS_NS);
	}
	return aftermath.decided > number && (!aftermath.last || number < aftermath.last);
}

/* Many more operations, with pauses, until all servers that are there are used again as at the
 * beginning. */
static void run_aftermath(struct simulated_rank *rank, smd_comm *const *comms)
{
	for (int number = plan.noperations; !rank->err && aftermath_goes_on(rank, comms, number);
		number++) {
		struct operation_in_flight flight = {.number = number};
		unsigned comm = plan_operation(&plan, number)->comm;
		int err;

		if (virtual_draw(4) == 0) {
			virtual_sleep(virtual_draw(virtual_draw(4) ? 300 : 5000) * MS_NS + 1);
		}
		err = start_operation(comms[comm], rank, &flight);
		if (err) {
			note_error(rank, err);
			release_buffers(&flight);
			break;
		}
		finish_operation(rank, &flight);
	}
}

static void *run_rank(void *arg)
{
	struct simulated_rank *rank = arg;
	char name[16];
	const struct smd_context_options options = {
		.servers = server_list,
		.replica = name,
		.job = "simulation",
		.transport = "fault",
		.progress = plan.poll[rank->rank] ? SMD_PROGRESS_POLL : SMD_PROGRESS_THREAD,
	};
	smd_comm *comms[COMMS_MAX] = {NULL};
	smd_context *context = NULL;

	snprintf(name, sizeof(name), "rank-%d", rank->rank);
	note_error(rank, smd_context_create(&options, &context));
	if (++nconnected == plan.nranks) {
		begin_faults(CONNECTED);
	}
	for (unsigned i = 0; i < plan.ncomms && !rank->err; i++) {
		char group[16];

		snprintf(group, sizeof(group), "group-%u", i);
		note_error(
			rank, smd_comm_create(context, group, plan.nranks, rank->rank, &comms[i]));
	}
	if (!rank->err) {
		run_operations(rank, comms);
		if (plan.aftermath) {
			run_aftermath(rank, comms);
		}
	}
	for (unsigned i = 0; i < plan.ncomms && comms[i]; i++) {
		smd_comm_destroy(comms[i]);
	}
	if (context) {
		smd_context_destroy(context);
	}
	rank->over = true;
	return NULL;
}

/* ---- the whole ---- */

static bool has_fault(enum fault_kind kind)
{
	for (unsigned i = 0; i < plan.nfaults; i++) {
		if (plan.faults[i].kind == kind) {
			return true;
		}
	}
	return false;
}

/* Some server is there, and reached by all, from start to end. */
static bool must_succeed(void)
{
	bool harmed[SERVERS_MAX] = {false};

	for (unsigned i = 0; i < plan.nfaults; i++) {
		harmed[plan.faults[i].server] = true;
		if (plan.faults[i].operation == AT_START) {
			return false; /* a context needs all of its servers */
		}
	}
	if (has_fault(RANK_KILLED)) {
		return false;
	}
	for (unsigned i = 0; i < plan.nservers; i++) {
		if (!harmed[i]) {
			return true;
		}
	}
	return false;
}

/* Where servers are only drained, nobody is warned of one. */
static bool only_drains(void)
{
	for (unsigned i = 0; i < plan.nfaults; i++) {
		if (plan.faults[i].kind != SERVER_DRAINED || plan.faults[i].operation < 0) {
			return false;
		}
	}
	return must_succeed();
}

static void on_log(enum smd_log_level level, const char *component, const char *sentence)
{
	if (getenv("SUMMAND_LOG")) {
		fprintf(stderr, "%d %s: %s\n", (int)level, component, sentence);
	}
	if (level <= SMD_LOG_WARN && strcmp(component, "libsummand") == 0 &&
		strstr(sentence, "reduction servers go on") && only_drains()) {
		fail(sentence);
	}
}

static void set_up(void)
{
	char text[64];

	snprintf(text, sizeof(text), "%ums", plan.heartbeat_ms);
	setenv("SUMMAND_HEARTBEAT_LIMIT", text, 1);
	snprintf(text, sizeof(text), "delay=0..%ums,seed=%llu", plan.delay_ms,
		(unsigned long long)plan.seed);
	if (plan.delay_ms && smd_fault_configure(text, &(struct smd_error){""})) {
		fail("the fault transport does not take its items");
	}
	smd_log_set_sink(on_log);
	smd_loopback_process = virtual_process;
	for (unsigned i = 0; i < plan.nservers; i++) {
		size_t length = strlen(server_list);

		snprintf(server_list + length, sizeof(server_list) - length, "%sloopback:%u",
			i ? "," : "", i);
	}
	evthread_use_pthreads();
}

static void check_ends(void)
{
	for (int r = 0; r < plan.nranks; r++) {
		if (ranks[r].err && must_succeed()) {
			fail("a rank has failed, though all reach a server");
		}
	}
}

int history_run(uint64_t seed, FILE *out)
{
	report = out;
	virtual_on_stuck = fail;
	plan_draw(&plan, seed);
	plan_print(&plan, out);
	virtual_begin(seed, LIMIT_NS);
	set_up();
	nlives = 0;
	for (unsigned i = 0; i < plan.nservers; i++) {
		start_server(i);
	}
	nlives = SERVERS_MAX;
	for (unsigned i = 0; i < plan.nservers; i++) {
		while (!servers[i]->listening) {
			virtual_sleep(1000);
		}
	}
	begin_faults(AT_START);
	for (int r = 0; r < plan.nranks; r++) {
		ranks[r].rank = r;
		virtual_start(rank_process(r), run_rank, &ranks[r]);
	}
	for (int r = 0; r < plan.nranks; r++) {
		while (!ranks[r].over && !ranks[r].dead) {
			virtual_sleep(MS_NS);
		}
	}
	check_ends();
	fprintf(out, "right: %.6f s, %llu steps\n", (double)virtual_now_ns() / 1e9 - 1000,
		(unsigned long long)virtual_steps());
	return 0;
}
