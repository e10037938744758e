/*
 * Servers are drained while ranks work or rest: groups go on without them, nothing is lost, nobody
 * is warned, and the servers end long before their time is over (specs/design/epochs.md).
 *
 * Nothing here is measured: everything waits for what must come, however long that takes.
 *
 *   test_drained_server [--card]
 *
 * With --card network cards write results into workers' memory (tests/unit/cuda/card.h), as over
 * rdma: nothing is lost, so operations in place go on there too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"

static bool over_card;

enum {
	RANKS = 3,
	SERVERS = 3,
	COMMS = 2,
	LARGE = 30000,
	CHUNK = 64 << 10,
	WINDOW = 8,
	/* A working communicator's window fits, and not beside it what other streams must leave. */
	SCARCE = WINDOW * (RANKS + 1) + 20
};

/* Who waits for the end of it waits for longer than the test may take; and no machine is so slow
 * that somebody seems to be silent. */
static const struct smd_server_config patient = {
	.memory_bytes = 256u << 20, .drain_s = 3600, .heartbeat_ms = 600000};

static const struct smd_server_config scarce = {.shards = 1,
	.window = WINDOW,
	.chunk_bytes = CHUNK,
	.memory_bytes = SCARCE * SMD_BUFFER_POOL_STRIDE(CHUNK),
	.drain_s = 3600,
	.heartbeat_ms = 600000};

struct history {
	struct pool *pool;
	const struct smd_server_config *config; /* NULL: patient */
	unsigned ndrained;                      /* of the servers, from the first one on */
	bool rests;                             /* no operation begins meanwhile */
	bool again;        /* and others are started in their places: until they serve */
	atomic_uint begun; /* ranks that have */
	atomic_bool over;
};

static void reduce_and_check(struct smd_comm *comm, int rank, int operation, float *buffer)
{
	static const size_t sizes[] = {1, 1000, LARGE};
	size_t count = sizes[operation % 3];

	pool_fill(buffer, rank, operation, count);
	CHECK(smd_allreduce(comm, buffer, buffer, count, SMD_FLOAT32, SMD_SUM) == 0);
	pool_check_sum(buffer, RANKS, operation, count);
}

/* All ranks do the same: rank 0 says whether it goes on. */
static bool goes_on(struct smd_comm *comm, int rank, bool mine)
{
	int32_t more = rank == 0 && mine;

	CHECK(smd_broadcast(comm, &more, 1, SMD_INT32, 0) == 0);
	return more;
}

static void run_operations(struct pool_rank *rank)
{
	struct history *history = rank->argument;
	float *buffer = malloc(LARGE * sizeof(*buffer));
	smd_comm *comms[COMMS] = {rank->comm};
	int k = 0;

	CHECK(smd_comm_create(rank->context, "second", RANKS, rank->rank, &comms[1]) == 0);
	if (!history->rests) { /* a group that has never done anything is drained too */
		reduce_and_check(comms[k % COMMS], rank->rank, k, buffer);
	}
	atomic_fetch_add(&history->begun, 1);
	while (history->rests && !atomic_load(&history->over)) {
		usleep(1000);
	}
	do {
		k++;
		reduce_and_check(comms[k % COMMS], rank->rank, k, buffer);
	} while (goes_on(rank->comm, rank->rank, !atomic_load(&history->over)));
	for (int more = 0; more < 6; more++) {
		k++;
		reduce_and_check(comms[k % COMMS], rank->rank, k, buffer);
	}
	smd_comm_destroy(comms[1]);
	free(buffer);
}

struct ending {
	struct pool *pool;
	unsigned server;
	pthread_t thread;
};

static void *end_server(void *arg)
{
	const struct ending *ending = arg;

	pool_end_server(ending->pool, ending->server, 0); /* returns when it has ended */
	return NULL;
}

static void *drain_servers(void *arg)
{
	struct history *history = arg;
	struct ending endings[SERVERS];
	char serves[160];

	while (atomic_load(&history->begun) < RANKS) {
		usleep(1000);
	}
	for (unsigned i = 0; i < history->ndrained; i++) { /* all at once */
		endings[i] = (struct ending){.pool = history->pool, .server = i};
		CHECK(pthread_create(&endings[i].thread, NULL, end_server, &endings[i]) == 0);
	}
	for (unsigned i = 0; i < history->ndrained; i++) {
		pthread_join(endings[i].thread, NULL);
	}
	for (unsigned i = 0; i < history->ndrained && history->again; i++) {
		pool_restart_server(history->pool, i, &patient);
		snprintf(serves, sizeof(serves), "reduction server %s is there and serves again",
			history->pool->servers[i].address);
		while (!capture_has(serves, NULL)) {
			usleep(10000);
		}
	}
	atomic_store(&history->over, true);
	return NULL;
}

static void run(const char *transport, struct history *history)
{
	const struct smd_server_config config = history->config ? *history->config : patient;
	const struct smd_server_config configs[SERVERS] = {config, config, config};
	struct pool pool;
	pthread_t thread;

	history->pool = &pool;
	card_reset((struct card_plan){0});
	pool_start(&pool, over_card ? "fault" : transport, SERVERS, configs);
	CHECK(pthread_create(&thread, NULL, drain_servers, history) == 0);
	pool_run(&pool, RANKS, "drained", run_operations, history);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	assert_true(!over_card || card_counts().to_host > 0);
	assert_false(capture_has("warn libsummand", NULL));
	assert_false(capture_has("error libsummand", NULL));
}

static void one_leaves_ranks_that_work(void **state)
{
	struct history tcp = {.ndrained = 1};
	struct history loopback = {.ndrained = 1};

	(void)state;
	run("tcp", &tcp);
	run("loopback", &loopback);
}

static void two_leave_at_once(void **state)
{
	struct history history = {.ndrained = 2};

	(void)state;
	run("tcp", &history);
}

/* Windows grow until nothing is left for the streams of another table: they give way to it. */
static void one_with_little_memory_leaves(void **state)
{
	struct history history = {.ndrained = 1, .config = &scarce};

	(void)state;
	run("tcp", &history);
}

static void one_leaves_ranks_that_rest(void **state)
{
	struct history history = {.ndrained = 1, .rests = true};

	(void)state;
	run("tcp", &history);
}

static void one_that_left_is_taken_in_again(void **state)
{
	struct history history = {.ndrained = 1, .again = true};

	(void)state;
	run("tcp", &history);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_leaves_ranks_that_work),
		cmocka_unit_test(two_leave_at_once),
		cmocka_unit_test(one_with_little_memory_leaves),
		cmocka_unit_test(one_leaves_ranks_that_rest),
		cmocka_unit_test(one_that_left_is_taken_in_again),
	};
	int ret;

	over_card = argc > 1 && strcmp(argv[1], "--card") == 0;
	setenv("SUMMAND_HEARTBEAT_LIMIT", "600s", 1);
	capture_begin();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	capture_end();
	return ret;
}
