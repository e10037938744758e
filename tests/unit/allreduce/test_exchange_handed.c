/*
 * What servers do of small all-reduces when two ranks have lost each other (specs/design/exchange.md),
 * while something else goes wrong: a server is lost after it, or is drained, or a rank leaves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/epoch.h"
#include "worker/libsummand/exchange_piece.h"

enum { RANKS = 3, COUNT = 8, LARGE = 300000, AHEAD = 6, HUBS = 48 };

static pthread_barrier_t all;

/* ---- a server is lost after it ---- */

static struct smd_lane *between; /* the lane from rank 1, the hub, to rank 2; */
static _Atomic uint64_t lacked;  /* this operation's result is lost on it. 0: none */
static _Atomic uint64_t held;    /* Of this one servers' results to rank 2 stay where they are */
static _Atomic uint64_t withheld; /* and of this one what rank 2 contributes */

void __real_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send);
void __wrap_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send);

void __wrap_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send)
{
	bool result = frame->kind == SMD_FRAME_RESULT;

	if (result && lacked && frame->operation == lacked && own == between) {
		shutdown(((struct tcp_lane *)own)->fd, SHUT_RDWR);
	}
	if (frame->rank == 2 && ((result && held && frame->operation == held) ||
					(frame->kind == SMD_FRAME_INPUT && withheld &&
						frame->operation == withheld))) {
		send->done(send, -ECANCELED);
		return;
	}
	__real_smd_lane_send(own, frame, send);
}

static unsigned server_of(const struct smd_comm *comm, uint64_t chunk)
{
	return smd_epoch_flow_of(comm->now, chunk)->target;
}

static int sum_one(struct smd_comm *comm)
{
	float one = 1;

	return smd_allreduce(comm, &one, &one, 1, SMD_FLOAT32, SMD_SUM);
}

/* Rank 2 lacks the first of two operations, and all have the second, which goes along. */
static void lack_the_first(struct pool_rank *rank)
{
	float first[COUNT], second[COUNT];
	smd_request *requests[2];

	pool_fill(first, rank->rank, 1, COUNT);
	pool_fill(second, rank->rank, 2, COUNT);
	CHECK(smd_allreduce_start(
		      rank->comm, first, first, COUNT, SMD_FLOAT32, SMD_SUM, &requests[0]) == 0);
	CHECK(smd_allreduce_start(
		      rank->comm, second, second, COUNT, SMD_FLOAT32, SMD_SUM, &requests[1]) == 0);
	CHECK(smd_request_wait(requests[1]) == 0);
	pool_check_sum(second, RANKS, 2, COUNT);
	pthread_barrier_wait(&all); /* before servers have it */
	if (rank->rank == 1) {
		held = lacked + 1;
	}
	pthread_barrier_wait(&all);
	CHECK(smd_request_wait(requests[0]) == 0);
	pool_check_sum(first, RANKS, 1, COUNT);
}

static void lose_the_server_of_the_second(struct pool_rank *rank)
{
	struct smd_comm *comm = rank->comm;

	pool_await_exchanges(rank);
	while (comm->next_operation % HUBS != 31) { /* rank 1 is the hub, and rank 0 of the next */
		CHECK(sum_one(comm) == 0);
	}
	if (rank->rank == 1) {
		between = comm->exchanges->mesh->peers[2].lane;
		lacked = comm->next_operation;
	}
	pthread_barrier_wait(&all);
	lack_the_first(rank);
	pthread_barrier_wait(&all);
	for (int i = 0; i < 2 && server_of(comm, comm->now->next_chunk) == server_of(comm, 0); i++) {
		CHECK(sum_one(comm) == 0); /* whose result says that all have the first */
	}
	pthread_barrier_wait(&all);
	held = 0;
	if (rank->rank == 2) {
		pool_lose(rank->context, server_of(comm, 1));
	}
	CHECK(sum_one(comm) == 0);
}

static void what_all_have_had_is_done_again_once_more(void **state)
{
	static const struct smd_server_config one = {
		.shards = 1, .memory_bytes = 256u << 20, .heartbeat_ms = 60000};
	const struct smd_server_config configs[2] = {one, one};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, configs);
	pool_run(&pool, RANKS, "lost", lose_the_server_of_the_second, NULL);
	pool_stop(&pool);
	lacked = 0;
}

/* ---- a server is drained meanwhile ---- */

static struct pool *draining;

static void *drain(void *arg)
{
	(void)arg;
	pool_end_server(draining, 1, 0);
	return NULL;
}

/* The table without it is agreed on when ranks have ended what rank 0 has begun: others wait for that. */
static void await_candidate(const struct smd_comm *comm)
{
	uint64_t end_ns = smd_clock_ns() + 60 * SMD_SECOND_NS;

	while (!(comm->candidate && comm->agreement.waits)) {
		CHECK(smd_clock_ns() < end_ns);
		usleep(10000);
	}
}

static void work_while_drained(struct pool_rank *rank)
{
	float *buffers[AHEAD];
	smd_request *requests[AHEAD];
	pthread_t thread;

	pool_await_exchanges(rank);
	pthread_barrier_wait(&all);
	for (int i = 0; i < AHEAD; i++) {
		buffers[i] = malloc(LARGE * sizeof(float));
		pool_fill(buffers[i], rank->rank, i, LARGE);
		if (rank->rank == 0) {
			CHECK(smd_allreduce_start(rank->comm, buffers[i], buffers[i], LARGE,
				      SMD_FLOAT32, SMD_SUM, &requests[i]) == 0);
		}
	}
	if (rank->rank == 0) {
		CHECK(pthread_create(&thread, NULL, drain, NULL) == 0);
	}
	if (rank->rank == 1) {
		await_candidate(rank->comm);
		pool_cut_ranks(rank->comm, 2);
	}
	pthread_barrier_wait(&all);
	for (int i = 0; i < AHEAD; i++) {
		CHECK((rank->rank == 0 ? smd_request_wait(requests[i])
				       : smd_allreduce(rank->comm, buffers[i], buffers[i], LARGE,
						 SMD_FLOAT32, SMD_SUM)) == 0);
		pool_check_sum(buffers[i], RANKS, i, LARGE);
		free(buffers[i]);
	}
	if (rank->rank == 0) {
		pthread_join(thread, NULL);
	}
}

static void a_table_that_waits_gives_way(void **state)
{
	static const struct smd_server_config patient = {
		.memory_bytes = 256u << 20, .drain_s = 60, .heartbeat_ms = 600000};
	const struct smd_server_config configs[2] = {patient, patient};
	struct pool pool;

	(void)state;
	draining = &pool;
	pool_start(&pool, "tcp", 2, configs);
	pool_run(&pool, RANKS, "drained", work_while_drained, NULL);
	pool_stop(&pool);
}

/* ---- a rank leaves ---- */

static void leave(struct pool_rank *rank)
{
	const int *leaver = rank->argument;
	float *buffer = calloc(LARGE, sizeof(*buffer));
	char text[48];

	pool_await_exchanges(rank);
	for (int i = 0; i < 40; i++) { /* so that all streams of the table have been used */
		CHECK(smd_broadcast(rank->comm, buffer, 70000, SMD_FLOAT32, 0) == 0);
	}
	CHECK(smd_allreduce(rank->comm, buffer, buffer, LARGE, SMD_FLOAT32, SMD_SUM) == 0);
	if (rank->rank != *leaver) {
		CHECK(smd_allreduce(rank->comm, buffer, buffer, 10, SMD_FLOAT32, SMD_SUM) ==
			-ECONNRESET);
		snprintf(text, sizeof(text), "rank %d (rank-%d) ", *leaver, *leaver);
		CHECK(strstr(smd_error_message(), text));
		CHECK(!strstr(smd_error_message(), "connection between"));
	}
	free(buffer);
}

static void who_has_left_is_named_and_not_the_network(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	for (int leaver = 0; leaver < RANKS; leaver++) {
		pool_run(&pool, RANKS, "leaving", leave, &leaver);
	}
	pool_stop(&pool);
}

/* ---- a rank begins it only when servers have taken over ---- */

static bool servers_have_taken_over(const void *arg)
{
	return ((const struct smd_comm *)arg)->exchanged == 0;
}

static void await_servers(struct smd_comm *comm)
{
	static const struct smd_goal goal = {.done = servers_have_taken_over};

	CHECK(smd_progress_await(&comm->context->progress, NULL, &goal, comm,
		      smd_clock_ns() + 60 * SMD_SECOND_NS) == 0);
}

static void come_late(struct pool_rank *rank)
{
	struct smd_comm *comm = rank->comm;
	float values[COUNT];

	pool_await_exchanges(rank);
	do { /* until the next one's hub is rank 1, and needs rank 2 */
		CHECK(sum_one(comm) == 0);
	} while (comm->next_operation % HUBS != HUBS / 3);
	pthread_barrier_wait(&all);
	pool_fill(values, rank->rank, 1, COUNT);
	if (rank->rank == 2) {
		usleep(300000); /* the others have begun it */
		pool_cut_ranks(comm, 1);
		await_servers(comm);
	}
	CHECK(smd_allreduce(comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	pool_check_sum(values, RANKS, 1, COUNT);
}

/* Its pieces are dealt to the new streams as it begins, and sent. */
static void who_begins_it_later_contributes(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "late", come_late, NULL);
	pool_stop(&pool);
}

/* ---- a rank leaves before it has done its part of that ---- */

/* Of the second, which the others have begun, they have no word by themselves: of the first, which
 * they have returned, they wait for nothing. */
static void leave_with_the_first(struct pool_rank *rank)
{
	struct smd_comm *comm = rank->comm;
	float first[COUNT];
	float second[COUNT] = {0};
	smd_request *request;
	uint64_t end_ns;

	pool_await_exchanges(rank);
	while (comm->next_operation % HUBS != HUBS / 3) { /* rank 1 is the hub */
		CHECK(sum_one(comm) == 0);
	}
	if (rank->rank == 1) {
		between = comm->exchanges->mesh->peers[2].lane;
		lacked = comm->next_operation;
	}
	pthread_barrier_wait(&all);
	pool_fill(first, rank->rank, 1, COUNT);
	CHECK(smd_allreduce_start(comm, first, first, COUNT, SMD_FLOAT32, SMD_SUM, &request) == 0);
	if (rank->rank != 2) {
		CHECK(smd_request_wait(request) == 0);
		pool_check_sum(first, RANKS, 1, COUNT);
	}
	withheld = lacked;
	pthread_barrier_wait(&all);
	if (rank->rank == 2) {
		await_servers(comm);
		return;
	}
	end_ns = smd_clock_ns() + 30 * SMD_SECOND_NS;
	CHECK(smd_allreduce_start(comm, second, second, COUNT, SMD_FLOAT32, SMD_SUM, &request) ==
		0);
	while (smd_request_test(request) == 0) {
		CHECK(smd_clock_ns() < end_ns);
		usleep(10000);
	}
	CHECK(smd_request_wait(request) == -ECANCELED);
	CHECK(strstr(smd_error_message(), "rank 2 (rank-2) has destroyed its communicator"));
}

static void nobody_waits_behind_what_has_returned(void **state)
{
	static const struct smd_server_config one = {.shards = 1}; /* has both */
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &one);
	pool_run(&pool, RANKS, "left", leave_with_the_first, NULL);
	pool_stop(&pool);
	lacked = 0;
	withheld = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_all_have_had_is_done_again_once_more),
		cmocka_unit_test(a_table_that_waits_gives_way),
		cmocka_unit_test(who_has_left_is_named_and_not_the_network),
		cmocka_unit_test(who_begins_it_later_contributes),
		cmocka_unit_test(nobody_waits_behind_what_has_returned),
	};

	setenv("SUMMAND_EXCHANGE", "on", 1);
	pthread_barrier_init(&all, NULL, RANKS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
