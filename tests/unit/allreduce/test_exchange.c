/*
 * Small all-reduces that ranks do among themselves (specs/design/exchange.md) have the same bits as
 * servers' have, in any order and number, whatever happens to servers meanwhile; and where one rank
 * cannot meet the others, servers do all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/random.h"
#include "reduction_server/kernels/kernels.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/context.h"

enum { PIECE = 256 << 10, LARGEST = 16 << 20 };

static const struct smd_server_config enough = {.memory_bytes = 256u << 20};

/* Servers with room for what they must keep. */
static void start(struct pool *pool, unsigned nservers)
{
	const struct smd_server_config configs[2] = {enough, enough};

	pool_start(pool, "tcp", nservers, configs);
}

/* ---- bits ---- */

struct kind {
	enum smd_dtype dtype;
	enum smd_op op;
};

static const struct kind kinds[] = {{SMD_FLOAT32, SMD_SUM}, {SMD_FLOAT32, SMD_AVG},
	{SMD_BFLOAT16, SMD_SUM}, {SMD_INT8, SMD_MAX}, {SMD_FLOAT64, SMD_PROD},
	{SMD_FLOAT16, SMD_MIN}, {SMD_UINT64, SMD_SUM}, {SMD_FLOAT8E4M3, SMD_AVG},
	{SMD_INT32, SMD_PROD}, {SMD_INT64, SMD_AVG}};

/* Every float of them is one, and not far from the others: sums and products stay in range. */
static void fill(uint8_t *buffer, size_t count, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < count * size; i++) {
		buffer[i] = (uint8_t)smd_random_next(&seed);
		if (i % size == size - 1) {
			buffer[i] = (uint8_t)(0x38 | (buffer[i] & 0x83));
		}
	}
}

/* By an exchange, and by servers: a reduce and a broadcast. */
static void compare_of(struct pool_rank *rank, const struct kind *kind, const void *input,
	size_t count, bool in_place)
{
	size_t bytes = count * smd_dtype_size(kind->dtype);
	uint8_t *ours = malloc(bytes);
	uint8_t *servers = malloc(bytes);
	uint64_t before = pool_exchanges(rank->context);

	memcpy(ours, input, bytes);
	CHECK(smd_allreduce(rank->comm, in_place ? ours : input, ours, count, kind->dtype,
		      kind->op) == 0);
	CHECK(pool_exchanges(rank->context) == before + (bytes <= LARGEST));
	CHECK(smd_reduce(rank->comm, input, servers, count, kind->dtype, kind->op, 0) == 0);
	CHECK(smd_broadcast(rank->comm, servers, count, kind->dtype, 0) == 0);
	CHECK(pool_exchanges(rank->context) == before + (bytes <= LARGEST));
	CHECK(memcmp(ours, servers, bytes) == 0);
	free(ours);
	free(servers);
}

static void compare(struct pool_rank *rank, const struct kind *kind, size_t count, bool in_place)
{
	size_t size = smd_dtype_size(kind->dtype);
	uint8_t *input = malloc(count * size);

	fill(input, count, size, (uint64_t)rank->rank << 32 | count);
	compare_of(rank, kind, input, count, in_place);
	free(input);
}

/* What crosses in half the bytes is, among ranks too, what servers sum in that type. */
static void compare_narrow(
	struct pool_rank *rank, enum smd_dtype wire, enum smd_op op, size_t count, bool in_place)
{
	float *input = malloc(count * sizeof(*input));
	float *ours = malloc(count * sizeof(*ours));
	float *servers = malloc(count * sizeof(*servers));
	uint16_t *narrow = malloc(count * sizeof(*narrow));
	bool exchanged = count * sizeof(*input) <= LARGEST; /* more is cut into segments */
	uint64_t before = pool_exchanges(rank->context);

	fill((uint8_t *)input, count, sizeof(*input), (uint64_t)rank->rank << 32 | count);
	smd_narrow_find(wire)(narrow, input, count);
	memcpy(ours, input, count * sizeof(*ours));
	CHECK(smd_comm_set_wire(rank->comm, wire) == 0);
	CHECK(smd_allreduce(rank->comm, in_place ? ours : input, ours, count, SMD_FLOAT32, op) ==
		0);
	CHECK(pool_exchanges(rank->context) == before + exchanged);
	CHECK(smd_reduce(rank->comm, narrow, narrow, count, wire, op, 0) == 0);
	CHECK(smd_broadcast(rank->comm, narrow, count, wire, 0) == 0);
	smd_widen_find(wire)(servers, narrow, count);
	CHECK(memcmp(ours, servers, count * sizeof(*ours)) == 0);
	CHECK(smd_comm_set_wire(rank->comm, SMD_FLOAT32) == 0);
	free(input);
	free(ours);
	free(servers);
	free(narrow);
}

static void compare_all_narrow(struct pool_rank *rank)
{
	const size_t piece = PIECE / sizeof(uint16_t);
	const size_t counts[] = {1024, 1024 + 7, piece / 2 + 1, piece, 3 * piece - 7,
		LARGEST / sizeof(float), LARGEST / sizeof(float) + 1};

	pool_await_exchanges(rank);
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		compare_narrow(rank, SMD_BFLOAT16, SMD_SUM, counts[c], c % 2);
		compare_narrow(
			rank, SMD_FLOAT16, c % 2 ? SMD_AVG : SMD_MAX, counts[c], (c + 1) % 2);
	}
}

static void compare_all(struct pool_rank *rank)
{
	pool_await_exchanges(rank);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t piece = PIECE / smd_dtype_size(kinds[k].dtype);
		const size_t counts[] = {1, 1001, piece, piece + 1, 3 * piece - 7};

		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			compare(rank, &kinds[k], counts[c], (k + c) % 2);
		}
	}
	for (size_t more = 0; more < 2; more++) {
		compare(rank, &kinds[0], LARGEST / sizeof(float) + more, more);
	}
}

static void bits_are_those_of_servers(void **state)
{
	static const int nranks[] = {2, 3, 5};
	struct pool pool;

	(void)state;
	start(&pool, 2);
	for (size_t i = 0; i < sizeof(nranks) / sizeof(nranks[0]); i++) {
		pool_run(&pool, nranks[i], "bits", compare_all, NULL);
		pool_run(&pool, nranks[i], "half the bytes", compare_all_narrow, NULL);
	}
	pool_stop(&pool);
}

/* ---- zeros ---- */

enum { SPARSE = 16384, SIGNED = 8192, BLOCK = 1024, HUB_ROUND = 16, SPARSE_RANKS = 3 };

/* A tenth is not zero; of two blocks all ranks have -0.0 in the one, and rank 0 alone in the other.
 */
static void fill_sparse(float *values, int rank)
{
	for (int i = 0; i < SPARSE; i++) {
		bool all_signed = i / BLOCK == SIGNED / BLOCK;
		bool one_signed = i / BLOCK == SIGNED / BLOCK + 1 && rank == 0;

		values[i] = i < SPARSE / 10            ? (float)(rank + 1)
			    : all_signed || one_signed ? -0.0f
						       : 0;
	}
}

static struct smd_stats stats_of(const struct pool_rank *rank)
{
	struct smd_stats stats;

	smd_context_stats(rank->context, &stats);
	return stats;
}

/* Each rank is the hub as often as the others. */
static void sum_sparse(struct pool_rank *rank, float *values)
{
	for (int i = 0; i < HUB_ROUND * SPARSE_RANKS; i++) {
		fill_sparse(values, rank->rank);
		CHECK(smd_allreduce(rank->comm, values, values, SPARSE, SMD_FLOAT32, SMD_SUM) == 0);
		CHECK(values[0] == 6 && values[SPARSE - 1] == 0);
		CHECK(signbit(values[SIGNED]) && !signbit(values[SIGNED + BLOCK]));
	}
}

static pthread_barrier_t counted;

/* `argument` is the rank whose zeros cross, both ways, or NULL. */
static void exchange_zeros(struct pool_rank *rank)
{
	static const struct kind of_zeros[] = {
		{SMD_FLOAT32, SMD_SUM}, {SMD_FLOAT32, SMD_MIN}, {SMD_FLOAT32, SMD_MAX}};
	const size_t payloads = (size_t)HUB_ROUND * 4 * (SPARSE_RANKS - 1) * SPARSE * sizeof(float);
	const int *refuses = rank->argument;
	float *values = malloc(SPARSE * sizeof(*values));
	struct smd_stats before;
	struct smd_stats after;
	uint64_t bytes;
	uint64_t skipped;

	if (refuses && *refuses == rank->rank) {
		rank->context->config.zeros_skipped = false;
	}
	pool_await_exchanges(rank);
	before = stats_of(rank);
	pthread_barrier_wait(&counted); /* an input may come before this rank has begun */
	sum_sparse(rank, values);
	after = stats_of(rank);
	bytes = after.bytes_sent - before.bytes_sent + after.bytes_received - before.bytes_received;
	skipped = after.bytes_skipped - before.bytes_skipped;
	CHECK(bytes + skipped >= payloads);
	CHECK(refuses || bytes < payloads / 3);
	CHECK((skipped == 0) == (refuses && *refuses == rank->rank));
	for (size_t k = 0; k < sizeof(of_zeros) / sizeof(of_zeros[0]); k++) {
		fill_sparse(values, rank->rank);
		compare_of(rank, &of_zeros[k], values, SPARSE, k == 1);
	}
	free(values);
}

static void zeros_do_not_cross_where_both_ranks_want_it(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, 1);
	pthread_barrier_init(&counted, NULL, SPARSE_RANKS);
	pool_run(&pool, SPARSE_RANKS, "zeros", exchange_zeros, NULL);
	for (int refuses = 0; refuses < SPARSE_RANKS; refuses++) {
		pool_run(&pool, SPARSE_RANKS, "some zeros", exchange_zeros, &refuses);
	}
	pthread_barrier_destroy(&counted);
	pool_stop(&pool);
}

/* ---- many at once ---- */

enum { MANY = 100, ROUNDS = 3 };

static size_t size_of(int operation)
{
	static const size_t sizes[] = {1, 100, 5000, 70000, 200001};

	return operation % 40 == 20 ? LARGEST / sizeof(float) + 1 : sizes[operation * 3 % 5];
}

static int root_of(const struct pool_rank *rank, int operation)
{
	return operation % rank->nranks;
}

static bool is_reduce(int operation)
{
	return operation % 7 == 3;
}

static bool is_broadcast(int operation)
{
	return operation % 11 == 5 && !is_reduce(operation);
}

static void begin(struct pool_rank *rank, int operation, float *buffer, smd_request **request)
{
	size_t count = size_of(operation);
	int ret;

	pool_fill(buffer, rank->rank, operation, count);
	if (is_reduce(operation)) {
		ret = smd_reduce_start(rank->comm, buffer, buffer, count, SMD_FLOAT32, SMD_SUM,
			root_of(rank, operation), request);
	} else if (is_broadcast(operation)) {
		ret = smd_broadcast_start(
			rank->comm, buffer, count, SMD_FLOAT32, root_of(rank, operation), request);
	} else {
		ret = smd_allreduce_start(
			rank->comm, buffer, buffer, count, SMD_FLOAT32, SMD_SUM, request);
	}
	CHECK(ret == 0);
}

static void check(const struct pool_rank *rank, int operation, const float *buffer)
{
	size_t count = size_of(operation);
	int root = root_of(rank, operation);

	if (is_broadcast(operation)) {
		for (size_t i = 0; i < count; i++) {
			CHECK(buffer[i] == pool_element(root, operation, i));
		}
	} else if (!is_reduce(operation) || rank->rank == root) {
		pool_check_sum(buffer, rank->nranks, operation, count);
	}
}

/* One rank after the other is late, so that inputs wait for each as a hub. */
static void do_many(struct pool_rank *rank)
{
	float *buffers[MANY];
	smd_request *requests[MANY];
	uint64_t before;

	pool_await_exchanges(rank);
	before = pool_exchanges(rank->context);
	for (int round = 0; round < ROUNDS; round++) {
		if (rank->rank == round % rank->nranks) {
			usleep(200000);
		}
		for (int i = 0; i < MANY; i++) {
			buffers[i] = malloc(size_of(i) * sizeof(float));
			begin(rank, i, buffers[i], &requests[i]);
		}
		for (int i = 0; i < MANY; i++) {
			int operation = (i * 37 + 5) % MANY;

			CHECK(smd_request_wait(requests[operation]) == 0);
			check(rank, operation, buffers[operation]);
			free(buffers[operation]);
		}
	}
	CHECK(pool_exchanges(rank->context) > before + MANY);
}

static void many_at_once_are_right(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, 2);
	pool_run(&pool, 3, "many", do_many, NULL);
	pool_stop(&pool);
}

/* ---- servers that are lost, and come back ---- */

struct server_gone_and_back {
	struct pool *pool;
	int now; /* or it is drained */
	atomic_uint begun;
	pthread_barrier_t lost;
	pthread_barrier_t back;
};

static void sum_once(struct pool_rank *rank, int operation)
{
	enum { COUNT = 40000 };
	static _Thread_local float buffer[COUNT];

	pool_fill(buffer, rank->rank, operation, COUNT);
	CHECK(smd_allreduce(rank->comm, buffer, buffer, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	pool_check_sum(buffer, rank->nranks, operation, COUNT);
}

static uint64_t epochs(smd_context *context)
{
	struct smd_stats stats;

	smd_context_stats(context, &stats);
	return stats.epochs;
}

/* All ranks: until each has another table than then. */
static void await_epoch(struct pool_rank *rank, uint64_t before)
{
	int32_t all;

	do {
		usleep(1000);
		all = epochs(rank->context) > before;
		CHECK(smd_allreduce(rank->comm, &all, &all, 1, SMD_INT32, SMD_MIN) == 0);
	} while (!all);
}

static void work_through_a_loss(struct pool_rank *rank)
{
	struct server_gone_and_back *loss = rank->argument;
	uint64_t before;

	pool_await_exchanges(rank);
	before = epochs(rank->context);
	atomic_fetch_add(&loss->begun, 1);
	for (int i = 0; i < 300; i++) {
		sum_once(rank, i);
	}
	pthread_barrier_wait(&loss->lost);
	await_epoch(rank, before);
	pool_await_exchanges(rank);
	before = epochs(rank->context);
	pthread_barrier_wait(&loss->back);
	await_epoch(rank, before);
	pool_await_exchanges(rank);
	for (int i = 0; i < 50; i++) {
		sum_once(rank, i);
	}
}

static void *lose_one(void *arg)
{
	struct server_gone_and_back *loss = arg;

	while (atomic_load(&loss->begun) < 3) {
		usleep(1000);
	}
	pool_end_server(loss->pool, 0, loss->now);
	pthread_barrier_wait(&loss->lost);
	pthread_barrier_wait(&loss->back);
	pool_restart_server(loss->pool, 0, &enough);
	return NULL;
}

static void lose_and_take_back(int now)
{
	struct pool pool;
	struct server_gone_and_back loss = {.pool = &pool, .now = now};
	pthread_t loser;

	start(&pool, 2);
	pthread_barrier_init(&loss.lost, NULL, 4);
	pthread_barrier_init(&loss.back, NULL, 4);
	assert_int_equal(pthread_create(&loser, NULL, lose_one, &loss), 0);
	pool_run(&pool, 3, "loss", work_through_a_loss, &loss);
	pthread_join(loser, NULL);
	pthread_barrier_destroy(&loss.lost);
	pthread_barrier_destroy(&loss.back);
	pool_stop(&pool);
}

static void a_lost_server_takes_nothing_of_exchanges(void **state)
{
	(void)state;
	lose_and_take_back(1);
}

static void nor_does_one_that_is_drained(void **state)
{
	(void)state;
	lose_and_take_back(0);
}

/* ---- ranks that meet, or do not ---- */

static void work_among_themselves(struct pool_rank *rank)
{
	uint64_t before;

	pool_await_exchanges(rank);
	before = pool_exchanges(rank->context);
	for (int i = 0; i < 40; i++) { /* so that more than one is the hub */
		sum_once(rank, i);
	}
	CHECK(pool_exchanges(rank->context) == before + 40);
}

static void so_many_ranks_as_16_meet(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, 1);
	pool_run(&pool, 16, "sixteen", work_among_themselves, NULL);
	pool_stop(&pool);
}

/* Who is next to a rank sits on another processor (seat.h). */
static void look_at_seats(struct pool_rank *rank)
{
	const struct smd_seat *seat = &rank->comm->seat;
	int32_t indices[16] = {0};

	work_among_themselves(rank);
	CHECK(seat->look_ns && seat->ranks == 16);
	indices[rank->rank] = (int32_t)seat->index;
	CHECK(smd_allreduce(rank->comm, indices, indices, 16, SMD_INT32, SMD_SUM) == 0);
	for (int i = 1; i < 16; i++) {
		CHECK(indices[i] != indices[i - 1]);
	}
}

static void look_for_no_seats(struct pool_rank *rank)
{
	work_among_themselves(rank);
	CHECK(rank->comm->seat.look_ns == 0);
}

static void ranks_of_a_machine_sit_in_turns(void **state)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	bool crowded = processors > 1 && processors <= 16 &&
		       access("/proc/sys/kernel/random/boot_id", R_OK) == 0;
	struct pool pool;

	(void)state;
	start(&pool, 1);
	pool_run(&pool, 16, "crowd", crowded ? look_at_seats : look_for_no_seats, NULL);
	setenv("SUMMAND_AFFINITY", "any", 1);
	pool_run(&pool, 16, "anywhere", look_for_no_seats, NULL);
	unsetenv("SUMMAND_AFFINITY");
	pool_stop(&pool);
}

/* All by servers; `argument` is the rank that does not want others, or NULL. */
static void work_by_servers(struct pool_rank *rank)
{
	const int *refuses = rank->argument;

	if (refuses && *refuses == rank->rank) {
		rank->context->config.exchange = SMD_EXCHANGE_OFF;
	}
	for (int i = 0; i < 200; i++) {
		sum_once(rank, i);
	}
	CHECK(pool_exchanges(rank->context) == 0);
}

static void a_rank_that_refuses_keeps_all_from_it(void **state)
{
	int refuses = 1;
	struct pool pool;

	(void)state;
	capture_begin();
	start(&pool, 1);
	pool_run(&pool, 3, "refused", work_by_servers, &refuses);
	pool_stop(&pool);
	capture_await(
		"small operations do not go from rank to rank: SUMMAND_EXCHANGE is off", NULL);
	capture_await("small operations do not go from rank to rank: rank 1 cannot", NULL);
	capture_end();
}

static void without_tcp_there_are_none(void **state)
{
	struct pool pool;

	(void)state;
	capture_begin();
	pool_start(&pool, "loopback", 1, NULL);
	pool_run(&pool, 2, "no tcp", work_by_servers, NULL);
	pool_stop(&pool);
	capture_await("small operations do not go from rank to rank: lanes are not TCP's", NULL);
	capture_end();
}

static void of_more_than_16_ranks_there_are_none(void **state)
{
	struct pool pool;

	(void)state;
	capture_begin();
	start(&pool, 1);
	pool_run(&pool, 17, "many ranks", work_by_servers, NULL);
	pool_stop(&pool);
	capture_await("small operations do not go from rank to rank: there are more than 16", NULL);
	capture_end();
}

static void of_one_rank_there_are_none(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, 1);
	pool_run(&pool, 1, "alone", work_by_servers, NULL);
	pool_stop(&pool);
}

/* ---- the end of a communicator ---- */

static void leave_soon(struct pool_rank *rank)
{
	const int *round = rank->argument;
	float value[3] = {1, 1, 1};

	for (int i = 0; i < 1 + *round % 4; i++) {
		CHECK(smd_allreduce(rank->comm, value, value, 3, SMD_FLOAT32, SMD_SUM) == 0);
	}
	usleep((useconds_t)(*round * 100));
}

/* In the middle of what ranks say to each other before they have all lanes, or just after. */
static void ranks_may_leave_while_they_meet(void **state)
{
	struct pool pool;

	(void)state;
	start(&pool, 1);
	for (int round = 0; round < 40; round++) {
		pool_run(&pool, 3, "short", leave_soon, &round);
	}
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_are_those_of_servers),
		cmocka_unit_test(zeros_do_not_cross_where_both_ranks_want_it),
		cmocka_unit_test(many_at_once_are_right),
		cmocka_unit_test(a_lost_server_takes_nothing_of_exchanges),
		cmocka_unit_test(nor_does_one_that_is_drained),
		cmocka_unit_test(so_many_ranks_as_16_meet),
		cmocka_unit_test(ranks_of_a_machine_sit_in_turns),
		cmocka_unit_test(a_rank_that_refuses_keeps_all_from_it),
		cmocka_unit_test(without_tcp_there_are_none),
		cmocka_unit_test(of_more_than_16_ranks_there_are_none),
		cmocka_unit_test(of_one_rank_there_are_none),
		cmocka_unit_test(ranks_may_leave_while_they_meet),
	};

	setenv("SUMMAND_EXCHANGE", "on", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
