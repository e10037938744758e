/*
 * Operations on device memory: results, mixtures with host memory, the order of streams.
 *
 *   test_cuda [--device | --card]
 *
 * Against a fake driver, which crashes whoever touches device memory; with --device against the
 * machine's own. With --card a network card reads and writes device memory (card.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cuda/device_pool.h"

#define OUTSIDE 0x0badcafe /* no result */

/* ---- results ---- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const size_t counts[] = {0, 1, 3, 1000, 4096, 70001, 300007}; /* many chunks */
#else
static const size_t counts[] = {0, 1, 3, 1000, 4096, 70001, 1200007};
#endif
#define NCOUNTS (sizeof(counts) / sizeof(counts[0]))

/* Which of a rank's buffers are on the device; the argument of a body. */
struct placement {
	bool send[NRANKS];
	bool recv[NRANKS];
};
static const struct placement all_on_device = {{true, true, true}, {true, true, true}};
static const struct placement mixed = {{true, false, false}, {true, false, true}};
static const struct placement crossed = {{true, false, true}, {false, true, false}};

static void allreduce_out_of_place(struct pool_rank *rank)
{
	const struct placement *placement = rank->argument;

	for (size_t c = 0; c < NCOUNTS; c++) {
		struct buffer send;
		struct buffer recv;

		buffer_create(&send, placement->send[rank->rank], counts[c], rank->rank + 1);
		buffer_create(&recv, placement->recv[rank->rank], counts[c], -1);
		CHECK(smd_allreduce(rank->comm, send.data, recv.data, counts[c], SMD_INT32,
			      SMD_SUM) == 0);
		buffer_end(&send, rank->rank + 1);
		buffer_end(&recv, SUM);
	}
}

static void allreduce_in_place(struct pool_rank *rank)
{
	const struct placement *placement = rank->argument;

	for (size_t c = 0; c < NCOUNTS; c++) {
		struct buffer buffer;

		buffer_create(&buffer, placement->send[rank->rank], counts[c], rank->rank + 1);
		CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, counts[c], SMD_INT32,
			      SMD_SUM) == 0);
		buffer_end(&buffer, SUM);
	}
}

static void every_size_out_of_place(void **state)
{
	(void)state;
	device_run(allreduce_out_of_place, &all_on_device);
}

static void every_size_in_place(void **state)
{
	(void)state;
	device_run(allreduce_in_place, &all_on_device);
}

static void ranks_with_host_and_with_device_memory(void **state)
{
	(void)state;
	device_run(allreduce_out_of_place, &mixed);
	device_run(allreduce_in_place, &mixed);
}

static void from_device_to_host_and_the_other_way(void **state)
{
	(void)state;
	device_run(allreduce_out_of_place, &crossed);
}

/* Two stages are the least there can be: one to send from, the other for results. */
static void two_stages_are_enough(void **state)
{
	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "1", 1);
	device_run(allreduce_out_of_place, &all_on_device);
	device_run(allreduce_in_place, &mixed);
}

static void reduce_and_broadcast(struct pool_rank *rank)
{
	const struct placement *placement = rank->argument;
	bool on_device = placement->send[rank->rank];

	for (size_t c = 0; c < NCOUNTS; c++) {
		for (int root = 0; root < NRANKS; root++) {
			bool mine = root == rank->rank;
			struct buffer send;
			struct buffer recv;

			buffer_create(&send, on_device, counts[c], rank->rank + 1);
			buffer_create(&recv, on_device, counts[c], -1);
			CHECK(smd_reduce(rank->comm, send.data, mine ? recv.data : NULL, counts[c],
				      SMD_INT32, SMD_SUM, root) == 0);
			CHECK(smd_broadcast(rank->comm, send.data, counts[c], SMD_INT32, root) ==
				0);
			buffer_end(&send, root + 1);
			buffer_end(&recv, mine ? SUM : -1);
		}
	}
}

static void reductions_to_and_broadcasts_from_each_rank(void **state)
{
	(void)state;
	device_run(reduce_and_broadcast, &all_on_device);
	device_run(reduce_and_broadcast, &mixed);
}

/* Of two communicators, started in one order and waited for in another on each rank; all of them
 * together need many more stages than there are. */
static void many_in_flight(struct pool_rank *rank)
{
	enum { N = 16, COUNT = 60000 };
	smd_comm *comms[2] = {rank->comm, NULL};
	smd_request *requests[N];
	struct buffer buffers[N];

	CHECK(smd_comm_create(rank->context, "other", NRANKS, rank->rank, &comms[1]) == 0);
	for (int i = 0; i < N; i++) {
		smd_comm *comm = comms[(i + rank->rank) % 2];
		int32_t *data;

		buffer_create(&buffers[i], i % 5 != rank->rank, COUNT, rank->rank + 1);
		data = buffers[i].data;
		CHECK(smd_allreduce_start(
			      comm, data, data, COUNT, SMD_INT32, SMD_SUM, &requests[i]) == 0);
	}
	for (int k = 0; k < N; k++) {
		int i = (k * 5 + rank->rank) % N;

		while (rank->rank == 1 && !smd_request_test(requests[i])) {
		}
		CHECK(smd_request_wait(requests[i]) == 0);
		buffer_end(&buffers[i], SUM);
	}
	smd_comm_destroy(comms[1]);
}

static void many_operations_share_few_stages(void **state)
{
	(void)state;
	device_run(many_in_flight, NULL);
	setenv("SUMMAND_PROGRESS", "poll", 1);
	device_run(many_in_flight, NULL);
	unsetenv("SUMMAND_PROGRESS");
}

static void managed_memory(struct pool_rank *rank)
{
	enum { COUNT = 5000 };
	int32_t *data = gpu_alloc_managed(COUNT * sizeof(*data));

	for (int i = 0; i < COUNT; i++) {
		data[i] = i * (rank->rank + 1);
	}
	CHECK(smd_allreduce(rank->comm, data, data, COUNT, SMD_INT32, SMD_SUM) == 0);
	for (int i = 0; i < COUNT; i++) {
		CHECK(data[i] == i * SUM);
	}
	gpu_free(data);
}

static void managed_memory_is_host_memory(void **state)
{
	(void)state;
	device_run(managed_memory, NULL);
}

/* ---- streams ---- */

enum { WORDS = 30000 };

/*
 * Rank 0's stream is held, and behind the hold its input is made and its output overwritten. While
 * it is held an operation of another communicator, in no stream that is held, goes on.
 */
static void held_back(struct pool_rank *rank, CUstream stream, void *told)
{
	int32_t *send = gpu_alloc(WORDS * sizeof(*send));
	int32_t *recv = gpu_alloc(WORDS * sizeof(*recv));
	int32_t *result = malloc(WORDS * sizeof(*result));
	struct buffer other;
	CUstream idle = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	smd_comm *comm;
	smd_request *request;
	void *hold = NULL;

	CHECK(smd_comm_create(rank->context, "other", NRANKS, rank->rank, &comm) == 0);
	buffer_create(&other, true, WORDS, rank->rank + 1);
	/* Memory is pinned by the first operation, which a real driver may not do beside a hold. */
	CHECK(smd_allreduce(comm, send, recv, WORDS, SMD_INT32, SMD_SUM) == 0);
	if (rank->rank == 0) {
		hold = gpu_hold(stream);
	}
	gpu_fill(send, (uint32_t)rank->rank + 1, WORDS, stream);
	gpu_fill(recv, OUTSIDE, WORDS, stream);
	smd_comm_set_stream(rank->comm, told);
	CHECK(smd_allreduce_start(rank->comm, send, recv, WORDS, SMD_INT32, SMD_SUM, &request) ==
		0);
	smd_comm_set_stream(comm, idle);
	CHECK(smd_allreduce(comm, other.data, other.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	if (hold) {
		CHECK(smd_request_test(request) == 0);
		gpu_let_go(hold, stream);
	}
	CHECK(smd_request_wait(request) == 0);
	gpu_download(result, recv, WORDS * sizeof(*recv));
	for (int i = 0; i < WORDS; i++) {
		CHECK(result[i] == SUM);
	}
	CHECK(smd_broadcast(comm, recv, 0, SMD_INT32, 0) == 0); /* frees may wait for the device */
	smd_comm_destroy(comm);
	buffer_end(&other, SUM);
	gpu_stream_destroy(idle);
	gpu_free(send);
	gpu_free(recv);
	free(result);
}

static void in_a_stream_of_its_own(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);

	held_back(rank, stream, stream);
	gpu_stream_destroy(stream);
}

static void in_the_default_stream(struct pool_rank *rank)
{
	held_back(rank, NULL, NULL);
}

/* Streams that are made without flags are in order with the default stream. */
static void in_a_blocking_stream(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_DEFAULT);

	held_back(rank, stream, NULL);
	gpu_stream_destroy(stream);
}

static void an_operation_follows_its_stream_and_only_that(void **state)
{
	(void)state;
	device_run(in_a_stream_of_its_own, NULL);
}

static void without_a_stream_it_follows_the_default_one(void **state)
{
	(void)state;
	device_run(in_the_default_stream, NULL);
	device_run(in_a_blocking_stream, NULL);
}

/* As NCCL's proxy, which knows that its buffers are ready, while kernels in all streams wait for
 * it. */
static void in_no_stream(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_DEFAULT);
	struct buffer buffer;
	void *hold = NULL;

	buffer_create(&buffer, true, WORDS, rank->rank + 1);
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	buffer_end(&buffer, SUM);
	buffer_create(&buffer, true, WORDS, rank->rank + 1);
	smd_comm_set_stream(rank->comm, SMD_STREAM_NONE);
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		hold = gpu_hold(stream);
	}
	CHECK(smd_allreduce(rank->comm, buffer.data, buffer.data, WORDS, SMD_INT32, SMD_SUM) == 0);
	if (hold) {
		gpu_let_go(hold, stream);
	}
	CHECK(smd_barrier(rank->comm) == 0); /* frees may wait for the device */
	buffer_end(&buffer, SUM);
	gpu_stream_destroy(stream);
}

static void with_no_stream_it_follows_nothing(void **state)
{
	(void)state;
	device_run(in_no_stream, NULL);
}

/* Whoever only receives waits for its stream too: what is in there may still use the buffer. */
static void overwrite(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	struct buffer buffer;
	smd_request *request;
	void *hold = NULL;

	buffer_create(&buffer, true, WORDS, rank->rank + 1);
	CHECK(smd_broadcast(rank->comm, buffer.data, 1, SMD_INT32, 0) == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	smd_comm_set_stream(rank->comm, stream);
	if (rank->rank) {
		hold = gpu_hold(stream);
		gpu_fill(buffer.data, OUTSIDE, WORDS, stream);
	}
	CHECK(smd_broadcast_start(rank->comm, buffer.data, WORDS, SMD_INT32, 0, &request) == 0);
	if (hold) {
		usleep(20000); /* time for a result that does not wait to be overwritten */
		gpu_let_go(hold, stream);
	}
	CHECK(smd_request_wait(request) == 0);
	CHECK(smd_barrier(rank->comm) == 0); /* frees may wait for the device */
	buffer_end(&buffer, 1);
	gpu_stream_destroy(stream);
}

static void a_result_follows_the_stream_too(void **state)
{
	(void)state;
	device_run(overwrite, NULL);
}

static pthread_barrier_t all_ready;

/* All servers go while every rank's stream is held: the operations end all the same. */
static void lose_the_servers(struct pool_rank *rank)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);
	int32_t *data = gpu_alloc(WORDS * sizeof(*data));
	smd_request *request;
	void *hold;

	gpu_fill(data, 1, WORDS, NULL);
	CHECK(smd_allreduce(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM) == 0);
	hold = gpu_hold(stream);
	smd_comm_set_stream(rank->comm, stream);
	CHECK(smd_allreduce_start(rank->comm, data, data, WORDS, SMD_INT32, SMD_SUM, &request) ==
		0);
	if (pthread_barrier_wait(&all_ready) == PTHREAD_BARRIER_SERIAL_THREAD) {
		pool_end_server(rank->argument, 0, 1);
		pool_end_server(rank->argument, 1, 1);
	}
	CHECK(smd_request_wait(request) == -ECONNRESET);
	smd_comm_destroy(rank->comm);
	rank->comm = NULL;
	pthread_barrier_wait(&all_ready);
	gpu_let_go(hold, stream);
	gpu_free(data);
	gpu_stream_destroy(stream);
}

static void an_operation_ends_without_its_stream_when_all_servers_are_lost(void **state)
{
	struct pool pool;

	(void)state;
	device_pool_start(&pool);
	pthread_barrier_init(&all_ready, NULL, NRANKS);
	pool_run(&pool, NRANKS, "lost", lose_the_servers, &pool);
	pthread_barrier_destroy(&all_ready);
	pool_stop(&pool);
}

#ifdef __SANITIZE_THREAD__
#define TAKEOVERS 4
#else
#define TAKEOVERS 10
#endif

/* Which server ends, while what is done. */
struct takeover {
	struct pool pool;
	const struct placement *placement;
	unsigned server;
	unsigned delay_us;
	pthread_barrier_t begun;
};

static void *end_one(void *arg)
{
	struct takeover *takeover = arg;

	pthread_barrier_wait(&takeover->begun);
	usleep(takeover->delay_us);
	pool_end_server(&takeover->pool, takeover->server, 1);
	return NULL;
}

/* Large ones, of which all can be had again, in place and not. */
static void go_on(struct pool_rank *rank)
{
	struct takeover *takeover = rank->argument;
	bool on_device = takeover->placement->send[rank->rank];

	for (int k = 0; k < 12; k++) {
		size_t count = 70001u + 100000u * (unsigned)(k % 3);
		struct buffer send;
		struct buffer recv;

		buffer_create(&send, on_device, count, rank->rank + 1);
		buffer_create(&recv, on_device, count, -1);
		if (k == 2 && rank->rank == 0) {
			pthread_barrier_wait(&takeover->begun);
		}
		CHECK(smd_allreduce(rank->comm, send.data, k % 2 ? send.data : recv.data, count,
			      SMD_INT32, SMD_SUM) == 0);
		buffer_end(&send, k % 2 ? SUM : rank->rank + 1);
		buffer_end(&recv, k % 2 ? -1 : SUM);
	}
}

static void another_server_takes_over(void **state)
{
	const struct placement *placements[] = {&all_on_device, &mixed};

	(void)state;
	if (strcmp(device_transport, "fault") == 0) {
		return; /* a card writes results where they belong, and nobody knows how far it came */
	}
	for (unsigned i = 0; i < TAKEOVERS; i++) {
		struct takeover takeover = {.placement = placements[i % 2],
			.server = i / 2 % 2,
			.delay_us = i * 433};
		pthread_t thread;

		device_pool_start(&takeover.pool);
		pthread_barrier_init(&takeover.begun, NULL, 2);
		CHECK(pthread_create(&thread, NULL, end_one, &takeover) == 0);
		pool_run(&takeover.pool, NRANKS, "over", go_on, &takeover);
		pthread_join(thread, NULL);
		pthread_barrier_destroy(&takeover.begun);
		pool_stop(&takeover.pool);
	}
}

static void a_pool_of_no_size_is_refused(void **state)
{
	const struct smd_context_options options = {.servers = "127.0.0.1:1"};
	smd_context *context;

	(void)state;
	setenv("SUMMAND_STAGING_BYTES", "0", 1);
	assert_int_equal(smd_context_create(&options, &context), -EINVAL);
	assert_string_equal(
		smd_error_message(), "SUMMAND_STAGING_BYTES: must be 1 to 1024G, got \"0\"");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, device_begin, device_end)

static const struct CMUnitTest tests[] = {
	TEST(every_size_out_of_place),
	TEST(every_size_in_place),
	TEST(ranks_with_host_and_with_device_memory),
	TEST(from_device_to_host_and_the_other_way),
	TEST(two_stages_are_enough),
	TEST(reductions_to_and_broadcasts_from_each_rank),
	TEST(many_operations_share_few_stages),
	TEST(managed_memory_is_host_memory),
	TEST(an_operation_follows_its_stream_and_only_that),
	TEST(without_a_stream_it_follows_the_default_one),
	TEST(with_no_stream_it_follows_nothing),
	TEST(a_result_follows_the_stream_too),
	TEST(an_operation_ends_without_its_stream_when_all_servers_are_lost),
	TEST(another_server_takes_over),
	TEST(a_pool_of_no_size_is_refused),
};
int main(int argc, char **argv)
{
	bool card = argc > 1 && strcmp(argv[1], "--card") == 0;

	if (card) {
		device_transport = "fault";
	}
	if (!gpu_open_by(argc, argv, FAKE_DRIVER)) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
