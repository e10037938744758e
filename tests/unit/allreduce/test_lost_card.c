/*
 * A server is lost whose card writes results into workers' memory (tests/unit/cuda/card.c), after
 * one was written and before its rank has heard of it: what is done again is right, or is refused
 * (specs/design/epochs.md).
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

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"

enum { RANKS = 3, OPERATIONS = 24, COUNT = 70000, LOSSES = 8 };

struct card_loss {
	struct pool pool;
	bool in_place;
	bool narrow; /* float32 is sent as bfloat16 */
	unsigned server;
};

/* bfloat16 has these and their sums. */
static float element(int rank, int operation, int i)
{
	return (float)((i % 30) * (rank + 1) + operation % 16);
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

static void check_sum(const float *result, int operation)
{
	for (int i = 0; i < COUNT; i++) {
		float sum = 0;

		for (int r = 0; r < RANKS; r++) {
			sum += element(r, operation, i);
		}
		CHECK(result[i] == sum);
	}
}

/* In place until the card's doing cannot be undone. */
static void go_on(struct pool_rank *rank)
{
	const struct card_loss *loss = rank->argument;
	float *send = malloc(COUNT * sizeof(*send));
	float *recv = loss->in_place ? send : malloc(COUNT * sizeof(*recv));
	int ret = 0;

	CHECK(smd_comm_set_wire(rank->comm, loss->narrow ? SMD_BFLOAT16 : SMD_FLOAT32) == 0);
	for (int k = 0; k < OPERATIONS && ret == 0; k++) {
		for (int i = 0; i < COUNT; i++) {
			send[i] = element(rank->rank, k, i);
		}
		ret = smd_allreduce(rank->comm, send, recv, COUNT, SMD_FLOAT32, SMD_SUM);
		if (ret == 0) {
			check_sum(recv, k);
		}
	}
	if (loss->in_place) {
		CHECK(ret == -ECONNRESET && strstr(smd_error_message(), "over its input"));
	} else {
		CHECK(ret == 0);
		free(recv);
	}
	free(send);
}

static void lose(bool in_place, bool narrow)
{
	const struct smd_server_config config = {.shards = 1, .chunk_bytes = 16384};
	const struct smd_server_config configs[] = {config, config};

	for (unsigned i = 0; i < LOSSES; i++) {
		struct card_loss loss = {.in_place = in_place, .narrow = narrow, .server = i % 2};
		pthread_t thread;

		card_reset((struct card_plan){
			.mute_server = loss.server + 1, .mute_from = 1 + 17 * i});
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
	lose(false, false);
	lose(false, true);
}

static void what_was_written_over_its_input_is_refused(void **state)
{
	(void)state;
	lose(true, false);
	lose(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_beside_its_input_is_done_again),
		cmocka_unit_test(what_was_written_over_its_input_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
