/* Starts and stops pools for tests. */
#include "tests/unit/allreduce/fixture.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/exchange_piece.h"

static void on_ended(void *owner)
{
	struct pool_server *one = owner;

	event_base_loopbreak(one->base);
}

static void on_ask(evutil_socket_t fd, short what, void *arg)
{
	struct pool_server *one = arg;

	(void)fd;
	(void)what;
	if (one->now > 1) {
		smd_server_drain(one->server, 0);
	}
	smd_server_drain(one->server, one->now > 0);
}

static void *serve(void *arg)
{
	struct pool_server *one = arg;

	event_base_loop(one->base, EVLOOP_NO_EXIT_ON_EMPTY);
	smd_server_join(one->server, &one->stats);
	event_base_loop(one->base, EVLOOP_NONBLOCK);
	return NULL;
}

/* Each lane takes a quarter of a second to make there, all memory is touched when it is registered, and on a
 * busy host the processors stand still for seconds. */
static void set_emulated_defaults(struct smd_server_config *config)
{
	config->shards = config->shards ? config->shards : 1;
	config->memory_bytes = config->memory_bytes ? config->memory_bytes : 8u << 20;
	config->chunk_bytes = config->chunk_bytes ? config->chunk_bytes : SMD_CHUNK_DEFAULT / 8;
	config->heartbeat_ms = config->heartbeat_ms ? config->heartbeat_ms : 60000;
	config->greeting_s = config->greeting_s ? config->greeting_s : 60;
}

/* At that address; its own is what it finds there. */
static void start_at(struct pool *pool, struct pool_server *one, const char *listen,
	const struct smd_server_config *wanted)
{
	struct smd_server_config config = *wanted;
	struct smd_error error = {""};

	config.transports[0] = (struct smd_server_transport){
		smd_transport_find(pool->over_rdma || pool->over_shm ? "tcp" : pool->transport),
		true};
	if (pool->over_rdma || pool->over_shm) {
		config.transports[1] =
			(struct smd_server_transport){smd_transport_find(pool->transport), true};
	}
	config.listen = listen;
	config.on_ended = on_ended;
	config.owner = one;
	if (pool->over_rdma) {
		set_emulated_defaults(&config);
	}
	config.shards = config.shards ? config.shards : 2;
	config.memory_bytes = config.memory_bytes ? config.memory_bytes : 64u << 20;
	one->base = event_base_new();
	one->ask = event_new(one->base, -1, EV_PERSIST, on_ask, one);
	if (smd_server_start(one->base, &config, &one->server, &error)) {
		fprintf(stderr, "fixture: %s\n", error.text);
		abort();
	}
	CHECK(pthread_create(&one->thread, NULL, serve, one) == 0);
}

static void start_one(struct pool *pool, unsigned index, const struct smd_server_config *wanted)
{
	static int counter;
	struct pool_server *one = &pool->servers[index];
	const char *address;
	char listen[64];
	size_t length;

	if (pool->over_rdma) {
		snprintf(listen, sizeof(listen), "0.0.0.0:0");
	} else if (pool->over_tcp) {
		snprintf(listen, sizeof(listen), "127.0.0.1:0");
	} else {
		snprintf(listen, sizeof(listen), "loopback:test-%d", counter++);
	}
	start_at(pool, one, listen, wanted);
	address = smd_server_address(one->server);
	if (pool->over_rdma) { /* it listens everywhere */
		snprintf(one->address, sizeof(one->address), "%s%s", getenv("SUMMAND_TEST_RDMA"),
			strrchr(address, ':'));
	} else {
		snprintf(one->address, sizeof(one->address), "%s", address);
	}
	length = strlen(pool->list);
	snprintf(pool->list + length, sizeof(pool->list) - length, "%s%s", index ? "," : "",
		one->address);
}

void pool_restart_server(struct pool *pool, unsigned index, const struct smd_server_config *config)
{
	static const struct smd_server_config defaults;
	struct pool_server *one = &pool->servers[index];

	one->now = 0;
	start_at(pool, one, one->address, config ? config : &defaults);
}

bool pool_is_rdma(void)
{
	return getenv("SUMMAND_TEST_RDMA") != NULL;
}

bool pool_is_shm(void)
{
	const char *shm = getenv("SUMMAND_TEST_SHM");

	return shm && strcmp(shm, "1") == 0;
}

bool pool_is_exchange(void)
{
	const char *exchange = getenv("SUMMAND_TEST_EXCHANGE");

	return exchange && strcmp(exchange, "1") == 0;
}

int pool_rounds(int rounds)
{
	return pool_is_rdma() ? (rounds + 3) / 4 : rounds;
}

size_t pool_count(size_t elements)
{
	return pool_is_rdma() ? (elements + 7) / 8 : elements;
}

void pool_start(struct pool *pool, const char *transport, unsigned nservers,
	const struct smd_server_config *configs)
{
	static const struct smd_server_config defaults;

	evthread_use_pthreads();
	if (pool_is_exchange()) {
		setenv("SUMMAND_EXCHANGE", "on", 1);
	}
	memset(pool, 0, sizeof(*pool));
	pool->transport = strncmp(transport, "fault", 5) ? transport : "fault";
	pool->over_tcp = strstr(transport, "tcp") || strcmp(transport, "rdma") == 0 ||
			 strcmp(transport, "carried") == 0;
	if (pool_is_rdma() && strcmp(pool->transport, "fault") != 0) {
		pool->over_rdma = true;
		pool->transport = "rdma";
	}
	if ((pool_is_shm() && strcmp(pool->transport, "fault") != 0 &&
		    strcmp(pool->transport, "carried") != 0) ||
		strcmp(pool->transport, "shm") == 0) {
		pool->over_shm = true;
		pool->over_tcp = true;
		pool->transport = "shm";
	}
	pool->nservers = nservers;
	for (unsigned i = 0; i < nservers; i++) {
		start_one(pool, i, configs ? &configs[i] : &defaults);
	}
}

void pool_end_server(struct pool *pool, unsigned index, int now)
{
	struct pool_server *one = &pool->servers[index];

	one->now = now;
	event_active(one->ask, EV_READ, 1);
	pthread_join(one->thread, NULL);
	smd_server_free(one->server);
	event_free(one->ask);
	smd_loop_free(one->base);
	one->base = NULL;
}

void pool_stop(struct pool *pool)
{
	for (unsigned i = 0; i < pool->nservers; i++) {
		if (pool->servers[i].base) {
			pool_end_server(pool, i, 0);
		}
	}
}

struct lane_cut {
	struct smd_task task;
	void (*cut)(const struct lane_cut *cut);
	smd_context *context;
	unsigned server;
	const smd_comm *comm;
	unsigned peer;
	bool done;
};

static void cut_now(struct smd_task *task)
{
	struct lane_cut *cut = (struct lane_cut *)task;

	cut->cut(cut);
	smd_progress_lock(&cut->context->progress);
	cut->done = true;
	smd_progress_publish(&cut->context->progress);
}

static bool cut_done(const void *arg)
{
	return ((const struct lane_cut *)arg)->done;
}

static void cut_on_owner(struct lane_cut *cut)
{
	static const struct smd_goal goal = {.done = cut_done};

	cut->task.run = cut_now;
	smd_progress_await(&cut->context->progress, &cut->task, &goal, cut, 0);
}

static void cut_server(const struct lane_cut *cut)
{
	smd_context_lose(cut->context, 1ull << cut->server, "the test has cut its lanes");
}

void pool_lose(smd_context *context, unsigned server)
{
	struct lane_cut cut = {.cut = cut_server, .context = context, .server = server};

	cut_on_owner(&cut);
}

static void cut_servers(const struct lane_cut *cut)
{
	for (unsigned t = 0; t < cut->server; t++) {
		smd_context_lose(cut->context, 1ull << t, "the test has cut its lanes");
	}
}

void pool_lose_first(smd_context *context, unsigned servers)
{
	struct lane_cut cut = {.cut = cut_servers, .context = context, .server = servers};

	cut_on_owner(&cut);
}

smd_context *pool_context(const struct pool *pool, int rank)
{
	char name[32];
	const struct smd_context_options options = {
		.servers = pool->list,
		.replica = name,
		.job = "test",
		.transport = pool->transport,
		.connect_timeout_s = pool->over_rdma ? 150 : 60,
	};
	const char *segment = getenv("SUMMAND_TEST_SEGMENT");
	smd_context *context;

	snprintf(name, sizeof(name), "rank-%d", rank);
	CHECK(smd_context_create(&options, &context) == 0);
	if (segment) {
		context->segment_bytes = strtoul(segment, NULL, 10);
	}
	return context;
}

/* What bodies have exchanged, of all ranks and runs. */
static atomic_ullong exchanged;

struct rank_thread {
	struct pool_rank rank;
	void (*body)(struct pool_rank *rank);
	pthread_t thread;
};

static void *run_rank(void *arg)
{
	struct rank_thread *thread = arg;
	struct pool_rank *rank = &thread->rank;
	uint64_t before;

	rank->context = pool_context(rank->pool, rank->rank);
	CHECK(smd_comm_create(rank->context, rank->group, rank->nranks, rank->rank, &rank->comm) ==
		0);
	pool_meet(rank);
	before = pool_exchanges(rank->context);
	thread->body(rank);
	atomic_fetch_add(&exchanged, pool_exchanges(rank->context) - before);
	smd_comm_destroy(rank->comm);
	smd_context_destroy(rank->context);
	return NULL;
}

void pool_run(const struct pool *pool, int nranks, const char *group,
	void (*body)(struct pool_rank *rank), void *argument)
{
	struct rank_thread *threads = calloc((size_t)nranks, sizeof(*threads));

	for (int r = 0; r < nranks; r++) {
		threads[r].rank = (struct pool_rank){
			.pool = pool,
			.rank = r,
			.nranks = nranks,
			.group = group,
			.argument = argument,
		};
		threads[r].body = body;
		CHECK(pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]) == 0);
	}
	for (int r = 0; r < nranks; r++) {
		pthread_join(threads[r].thread, NULL);
	}
	free(threads);
}

/* ---- exchanges ---- */

uint64_t pool_exchanges(smd_context *context)
{
	struct smd_stats stats;

	smd_context_stats(context, &stats);
	return stats.exchanges;
}

void pool_await_exchanges(struct pool_rank *rank)
{
	uint64_t before = pool_exchanges(rank->context);
	uint64_t end_ns = smd_clock_ns() + 60 * SMD_SECOND_NS;
	int32_t all;

	do {
		CHECK(smd_clock_ns() < end_ns);
		usleep(1000);
		all = pool_exchanges(rank->context) > before;
		CHECK(smd_allreduce(rank->comm, &all, &all, 1, SMD_INT32, SMD_MIN) == 0);
	} while (!all);
}

static void cut_peer(const struct lane_cut *cut)
{
	const struct smd_lane *lane = cut->comm->exchanges->mesh->peers[cut->peer].lane;

	shutdown(((const struct tcp_lane *)lane)->fd, SHUT_RDWR);
}

void pool_cut_ranks(smd_comm *comm, unsigned peer)
{
	struct lane_cut cut = {
		.cut = cut_peer, .context = comm->context, .comm = comm, .peer = peer};

	cut_on_owner(&cut);
}

static bool may_meet(const struct pool_rank *rank)
{
	const struct smd_config *config = &rank->context->config;
	bool tcp = false;

	for (unsigned i = 0; i < config->ntransports; i++) {
		tcp |= strcmp(config->transports[i]->name, "tcp") == 0;
	}
	return tcp && !config->poll && !config->encrypt && rank->nranks > 1;
}

void pool_meet(struct pool_rank *rank)
{
	if (pool_is_exchange() && may_meet(rank)) {
		pool_await_exchanges(rank);
	}
}

int pool_check_exchanged(void **state)
{
	(void)state;
	CHECK(!pool_is_exchange() || atomic_load(&exchanged) > 0);
	return 0;
}

/* ---- what is summed ---- */

/* Inline, since a sanitizer notes each call, and there are millions. */
static inline float element_of(int rank, int operation, size_t i)
{
	uint32_t mixed = (uint32_t)((unsigned)rank * 7919u + (unsigned)operation * 104729u + i) *
			 2654435761u;

	return (float)(mixed >> 8) * 1e-3f;
}

static inline float sum_of(int nranks, int operation, size_t i)
{
	float sum = element_of(0, operation, i);

	for (int r = 1; r < nranks; r++) {
		sum += element_of(r, operation, i);
	}
	return sum;
}

static inline uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

float pool_element(int rank, int operation, size_t i)
{
	return element_of(rank, operation, i);
}

float pool_sum(int nranks, int operation, size_t i)
{
	return sum_of(nranks, operation, i);
}

void pool_fill(float *buffer, int rank, int operation, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		buffer[i] = element_of(rank, operation, i);
	}
}

void pool_check_sum(const float *buffer, int nranks, int operation, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		CHECK(bits_of(buffer[i]) == bits_of(sum_of(nranks, operation, i)));
	}
}
