/*
 * Operations that ranks do among themselves, where memory is short, or a rank's bytes come late:
 * none ends with a wrong result, and none is given up that all ranks have contributed to
 * (specs/design/exchange.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/exchange_piece.h"

enum { RANKS = 3, COUNT = 8, LATE_S = 4, MANY = 20000 };

/* ---- memory is short ---- */

static atomic_bool short_of_memory; /* at rank 0 */

struct smd_exchange_piece *__real_smd_exchange_piece_add(struct smd_exchanges *exchanges);
struct smd_exchange_piece *__wrap_smd_exchange_piece_add(struct smd_exchanges *exchanges);

struct smd_exchange_piece *__wrap_smd_exchange_piece_add(struct smd_exchanges *exchanges)
{
	return exchanges->comm->rank == 0 && atomic_load(&short_of_memory)
		       ? NULL
		       : __real_smd_exchange_piece_add(exchanges);
}

static void work_without_memory(struct pool_rank *rank)
{
	pthread_barrier_t *all = rank->argument;
	float values[COUNT] = {1};

	pool_await_exchanges(rank);
	pthread_barrier_wait(all);
	if (rank->rank == 0) {
		atomic_store(&short_of_memory, true);
	}
	pthread_barrier_wait(all);
	CHECK(smd_allreduce(rank->comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == -ENOMEM);
	CHECK(strstr(smd_error_message(), "out of memory"));
}

static void no_result_comes_without_memory(void **state)
{
	pthread_barrier_t all;
	struct pool pool;

	(void)state;
	pthread_barrier_init(&all, NULL, RANKS);
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "memory", work_without_memory, &all);
	pool_stop(&pool);
	pthread_barrier_destroy(&all);
	atomic_store(&short_of_memory, false);
}

/* ---- the hub's bytes come late, and another rank leaves ---- */

static struct smd_comm *hub;     /* of what is held back, */
static atomic_bool holds;        /* if something shall be: */
static struct smd_frame held;    /* its result for rank 0 */
static struct smd_send *sending;
static struct smd_lane *lane;

void __real_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send);
void __wrap_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send);

static void send_at_last(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	CHECK(hub->exchanges->mesh->peers[0].lane == lane); /* it has not been given up */
	__real_smd_lane_send(lane, &held, sending);
}

void __wrap_smd_lane_send(struct smd_lane *own, struct smd_frame *frame, struct smd_send *send)
{
	const struct timeval late = {LATE_S, 0};

	if (frame->kind == SMD_FRAME_RESULT && frame->rank == 1 && atomic_load(&holds) &&
		own == hub->exchanges->mesh->peers[0].lane) {
		atomic_store(&holds, false);
		held = *frame;
		sending = send;
		lane = own;
		event_base_once(
			hub->context->progress.base, -1, EV_TIMEOUT, send_at_last, NULL, &late);
		return;
	}
	__real_smd_lane_send(own, frame, send);
}

/* So that rank 1 sums in the next one. */
static void come_to_turn_of_rank_1(struct pool_rank *rank)
{
	float value = 1;

	while ((rank->comm->next_operation / 16) % RANKS != RANKS - 1 - 1) {
		CHECK(smd_allreduce(rank->comm, &value, &value, 1, SMD_FLOAT32, SMD_SUM) == 0);
	}
}

static void work_until_one_leaves(struct pool_rank *rank)
{
	pthread_barrier_t *all = rank->argument;
	float values[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1};

	pool_await_exchanges(rank);
	come_to_turn_of_rank_1(rank);
	if (rank->rank == 1) {
		hub = rank->comm;
		atomic_store(&holds, true);
	}
	pthread_barrier_wait(all);
	CHECK(smd_allreduce(rank->comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(values[0] == RANKS && values[COUNT - 1] == RANKS);
} /* rank 2 is here long before rank 0, and leaves */

static void who_leaves_takes_nothing_along(void **state)
{
	pthread_barrier_t all;
	struct pool pool;

	(void)state;
	pthread_barrier_init(&all, NULL, RANKS);
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "late", work_until_one_leaves, &all);
	pool_stop(&pool);
	pthread_barrier_destroy(&all);
	assert_false(atomic_load(&holds)); /* there was something to hold back */
}

/* ---- very many at once ---- */

/* Each takes no longer for the others that are in flight: then servers would take the ranks for
 * silent. */
static void begin_many(struct pool_rank *rank)
{
	float *values = calloc(MANY, sizeof(*values));
	smd_request **requests = calloc(MANY, sizeof(*requests));

	pool_await_exchanges(rank);
	for (int i = 0; i < MANY; i++) {
		values[i] = (float)(rank->rank + i);
		CHECK(smd_allreduce_start(rank->comm, &values[i], &values[i], 1, SMD_FLOAT32,
			      SMD_SUM, &requests[i]) == 0);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(smd_request_wait(requests[i]) == 0);
		CHECK(values[i] == (float)(RANKS * i + 3));
	}
	free(values);
	free(requests);
}

static void very_many_are_in_flight(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, RANKS, "many", begin_many, NULL);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_result_comes_without_memory),
		cmocka_unit_test(who_leaves_takes_nothing_along),
		cmocka_unit_test(very_many_are_in_flight),
	};

	setenv("SUMMAND_EXCHANGE", "on", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
