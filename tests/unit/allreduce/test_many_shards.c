/*
 * Servers of so many shards that what ranks agree on when some are lost does not fit into a frame
 * (epoch_message.h): it comes in several.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/epoch_message.h"
#include "worker/libsummand/epoch_parts.h"

enum { RANKS = 2, SERVERS = 4, SHARDS = 64, ELEMENTS = 200000 };

static pthread_barrier_t barrier;

static void reduce_and_check(struct pool_rank *rank)
{
	int32_t *values = malloc(ELEMENTS * sizeof(*values));

	for (int i = 0; i < ELEMENTS; i++) {
		values[i] = i + rank->rank;
	}
	CHECK(smd_allreduce(rank->comm, values, values, ELEMENTS, SMD_INT32, SMD_SUM) == 0);
	for (int i = 0; i < ELEMENTS; i++) {
		CHECK(values[i] == RANKS * i + 1);
	}
	free(values);
}

/* Ranks in poll mode do nothing between the barriers, so what ends there ends at once for them. */
static void reduce_beside_losses(struct pool_rank *rank)
{
	for (int losses = 0; losses < 2; losses++) {
		reduce_and_check(rank);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	reduce_and_check(rank);
	reduce_and_check(rank);
}

static void *run_ranks(void *arg)
{
	pool_run(arg, RANKS, "many", reduce_beside_losses, NULL);
	return NULL;
}

/* One is lost, for a second epoch; and then two together, which have 64 streams each in both. */
static void two_servers_of_64_shards_are_lost(void **state)
{
	const struct smd_server_config many = {
		.shards = SHARDS, .chunk_bytes = 4096, .memory_bytes = 64u << 20};
	const struct smd_server_config configs[SERVERS] = {many, many, many, many};
	struct pool pool;
	pthread_t ranks;

	(void)state;
	assert_int_equal(setenv("SUMMAND_PROGRESS", "poll", 1), 0);
	pthread_barrier_init(&barrier, NULL, RANKS + 1);
	pool_start(&pool, "loopback", SERVERS, configs);
	assert_int_equal(pthread_create(&ranks, NULL, run_ranks, &pool), 0);
	pthread_barrier_wait(&barrier);
	pool_end_server(&pool, 3, 1);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	pool_end_server(&pool, 1, 1);
	pool_end_server(&pool, 2, 1);
	pthread_barrier_wait(&barrier);
	pthread_join(ranks, NULL);
	pool_stop(&pool);
	unsetenv("SUMMAND_PROGRESS");
}

/* ---- the frames ---- */

static struct smd_epoch_message said;
static struct smd_epoch_message heard;

/* Whether the message is whole by that frame of it, through that stream. */
static bool hear(struct smd_epoch_parts *parts, const void *stream, unsigned begin, unsigned *end)
{
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};
	size_t length = smd_epoch_message_encode(&said, begin, end, payload);

	memset(&heard, 0, sizeof(heard));
	assert_int_equal(smd_epoch_message_decode(payload, length, &heard, &error), 0);
	return smd_epoch_parts_complete(parts, stream, &heard);
}

static void say_many(void)
{
	said = (struct smd_epoch_message){.kind = SMD_EPOCH_AHEAD, .rank = 3, .epoch = 7, .dead = 5};
	said.nstreams = 300;
	said.nweights = SMD_EPOCH_WEIGHTS_MAX;
	for (unsigned i = 0; i < said.nstreams; i++) {
		said.streams[i] = 1000000000000ull + i;
	}
	for (unsigned i = 0; i < said.nweights; i++) {
		said.weights[i] = 10 * i;
	}
}

static void assert_heard(void)
{
	assert_memory_equal(heard.streams, said.streams, said.nstreams * sizeof(*said.streams));
	assert_memory_equal(heard.weights, said.weights, said.nweights * sizeof(*said.weights));
}

static void frames_make_a_message(void **state)
{
	struct smd_epoch_parts parts = {NULL};
	const char streams[2] = {0};
	unsigned count;
	unsigned ends[2] = {0, 0};
	unsigned frames = 0;
	bool whole[2] = {false, false};

	(void)state;
	say_many();
	count = smd_epoch_message_count(&said);
	while (!whole[0]) { /* the same through another stream, of which this one's first is not */
		assert_true(ends[0] < count);
		whole[0] = hear(&parts, &streams[0], ends[0], &ends[0]);
		if (whole[0]) {
			assert_heard();
		}
		whole[1] |= frames > 0 && hear(&parts, &streams[1], ends[1], &ends[1]);
		frames++;
	}
	assert_int_equal(ends[0], count);
	assert_true(frames > 8 && !whole[1]);
	assert_true(hear(&parts, &streams[1], ends[1], &ends[1]));
	assert_heard();
	assert_null(parts.first);
}

/* Who has joined a stream in the middle of a message hears the next one. */
static void frames_without_the_first_are_none(void **state)
{
	struct smd_epoch_parts parts = {NULL};
	unsigned end;

	(void)state;
	say_many();
	(void)smd_epoch_message_encode(&said, 0, &end, (uint8_t[SMD_CONTROL_MAX]){0});
	while (end < smd_epoch_message_count(&said)) {
		assert_false(hear(&parts, &parts, end, &end));
	}
	assert_null(parts.first);
	assert_false(hear(&parts, &parts, 0, &end));
	said.epoch++; /* another message */
	assert_false(hear(&parts, &parts, end, &end));
	smd_epoch_parts_free(&parts);
	assert_null(parts.first);
}

static void a_short_one_is_whole_at_once(void **state)
{
	struct smd_epoch_parts parts = {NULL};
	unsigned end;

	(void)state;
	said = (struct smd_epoch_message){.kind = SMD_EPOCH_SEALED, .rank = 1, .nstreams = 250};
	assert_true(hear(&parts, &parts, 0, &end));
	assert_int_equal(end, 250);
	said.nstreams = 0;
	assert_true(hear(&parts, &parts, 0, &end));
	assert_null(parts.first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_one_is_whole_at_once),
		cmocka_unit_test(frames_make_a_message),
		cmocka_unit_test(frames_without_the_first_are_none),
		cmocka_unit_test(two_servers_of_64_shards_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
