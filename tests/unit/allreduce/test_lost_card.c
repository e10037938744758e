/*
 * A server is lost whose card writes results into workers' memory (tests/unit/cuda/card.c), after
 * one was written and before its rank has heard of it, over its input too: what is done again is
 * right (specs/design/epochs.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"

enum { RANKS = 3, OPERATIONS = 24, MOST = 70000 };

#ifdef __SANITIZE_THREAD__
enum { LOSSES = 3 };
#else
enum { LOSSES = 8 };
#endif

/* What ranks do. */
struct work {
	bool in_place;
	bool narrow;      /* float32 is sent as bfloat16 */
	const char *undo; /* SUMMAND_UNDO_BYTES */
};

struct card_loss {
	struct pool pool;
	const struct work *work;
	unsigned server;
};

static bool is_narrow; /* set before ranks begin */

/* Where it is sent as bfloat16, that has these and their sums. */
static float element(int rank, int operation, int i)
{
	return is_narrow ? (float)((i % 30) * (rank + 1) + operation % 16)
			 : pool_element(rank, operation, (size_t)i);
}

static void *end_muted(void *arg)
{
	struct card_loss *loss = arg;

	while (!card_counts().muted) {
		usleep(50);
	}
	pool_end_server(&loss->pool, loss->server, 1);
	return NULL;
}

/* A large one, and one of which copies are kept when it returns. */
static int count_of(int operation)
{
	return operation % 3 ? MOST : MOST / 4;
}

/* Of a reduce the others keep what they had. */
static void check(const float *result, const struct pool_rank *rank, int operation, bool is_sum)
{
	for (int i = 0; i < count_of(operation); i++) {
		float sum = element(0, operation, i);

		for (int r = 1; r < RANKS; r++) {
			sum += element(r, operation, i);
		}
		CHECK(result[i] == (is_sum ? sum : element(rank->rank, operation, i)));
	}
}

static void reduce(struct pool_rank *rank, int k, const float *send, float *recv)
{
	int root = k % RANKS;
	bool to_all = k % 4;

	CHECK((to_all ? smd_allreduce(
				rank->comm, send, recv, (size_t)count_of(k), SMD_FLOAT32, SMD_SUM)
		      : smd_reduce(rank->comm, send, recv, (size_t)count_of(k), SMD_FLOAT32,
				SMD_SUM, root)) == 0);
	if (to_all || rank->rank == root || send == recv) {
		check(recv, rank, k, to_all || rank->rank == root);
	}
}

/* Only what results are written over is copied. */
static void check_copies(const struct pool_rank *rank, const struct work *work)
{
	struct smd_stats stats;

	smd_context_stats(rank->context, &stats);
	CHECK(stats.undo_bytes <= stats.undo_limit);
	CHECK((stats.undo_bytes > 0) == (work->in_place && stats.undo_limit > 0));
}

static void go_on(struct pool_rank *rank)
{
	const struct work *work = ((const struct card_loss *)rank->argument)->work;
	float *send = malloc(MOST * sizeof(*send));
	float *recv = work->in_place ? send : malloc(MOST * sizeof(*recv));

	CHECK(smd_comm_set_wire(rank->comm, work->narrow ? SMD_BFLOAT16 : SMD_FLOAT32) == 0);
	for (int k = 0; k < OPERATIONS; k++) {
		for (int i = 0; i < count_of(k); i++) {
			send[i] = element(rank->rank, k, i);
		}
		reduce(rank, k, send, recv);
	}
	check_copies(rank, work);
	if (!work->in_place) {
		free(recv);
	}
	free(send);
}

static void lose(const struct work *work)
{
	const struct smd_server_config config = {.shards = 1, .chunk_bytes = 16384};
	const struct smd_server_config configs[] = {config, config};

	is_narrow = work->narrow;
	setenv("SUMMAND_UNDO_BYTES", work->undo, 1);
	for (unsigned i = 0; i < LOSSES; i++) {
		struct card_loss loss = {.work = work, .server = i % 2};
		pthread_t thread;

		card_reset((struct card_plan){
			.mute_server = loss.server + 1, .mute_from = 1 + 11 * i});
		pool_start(&loss.pool, "fault", 2, configs);
		CHECK(pthread_create(&thread, NULL, end_muted, &loss) == 0);
		pool_run(&loss.pool, RANKS, "card", go_on, &loss);
		pthread_join(thread, NULL);
		pool_stop(&loss.pool);
	}
}

static void what_was_written_beside_its_input_is_done_again(void **state)
{
	(void)state;
	lose(&(struct work){.undo = "64M"});
	lose(&(struct work){.narrow = true, .undo = "64M"});
}

static void what_was_written_over_its_input_is_done_again(void **state)
{
	(void)state;
	lose(&(struct work){.in_place = true, .undo = "64M"});
	lose(&(struct work){.in_place = true, .narrow = true, .undo = "64M"});
}

/* Some results are written in place, and the others come in messages. */
static void with_few_copies_too(void **state)
{
	(void)state;
	lose(&(struct work){.in_place = true, .undo = "32K"});
}

/* The card is never let write over an input. */
static void go_on_without_copies(struct pool_rank *rank)
{
	float *buffer = malloc(MOST * sizeof(*buffer));

	for (int k = 0; k < 3; k++) {
		for (int i = 0; i < count_of(k); i++) {
			buffer[i] = element(rank->rank, k, i);
		}
		reduce(rank, k, buffer, buffer);
	}
	free(buffer);
}

static void without_memory_for_copies_nothing_is_written_in_place(void **state)
{
	struct pool pool;

	(void)state;
	is_narrow = false;
	setenv("SUMMAND_UNDO_BYTES", "0", 1);
	card_reset((struct card_plan){.mute_server = 1, .mute_from = 1});
	pool_start(&pool, "fault", 1, NULL);
	pool_run(&pool, RANKS, "card", go_on_without_copies, NULL);
	pool_stop(&pool);
	assert_false(card_counts().muted); /* it would be from the first such write on */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_beside_its_input_is_done_again),
		cmocka_unit_test(what_was_written_over_its_input_is_done_again),
		cmocka_unit_test(with_few_copies_too),
		cmocka_unit_test(without_memory_for_copies_nothing_is_written_in_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
