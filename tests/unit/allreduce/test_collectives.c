/*
 * Reduce and broadcast as frames on lanes: who sends elements, who gets them, that everyone gets
 * the credit, and what is said when ranks disagree about them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/kernels.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 5, RANKS = 3, CHUNK = 4096, COUNT = 100 };

static struct pool pool;

static int set_up(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.window = 4,
		.memory_bytes = 256 * SMD_BUFFER_POOL_STRIDE(CHUNK)};

	(void)state;
	capture_begin();
	pool_start(&pool, "tcp", 1, &config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	capture_end();
	return 0;
}

static void open_ranks(struct raw ranks[RANKS], const char *group)
{
	for (unsigned r = 0; r < RANKS; r++) {
		char name[16];

		snprintf(name, sizeof(name), "pool-%u", r);
		raw_open(&ranks[r], &pool, 0);
		raw_greet(&ranks[r], name);
		raw_join(&ranks[r], NUMBER, group, RANKS, r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&ranks[r], SMD_FRAME_JOINED);
	}
}

static void close_ranks(struct raw ranks[RANKS])
{
	for (unsigned r = 0; r < RANKS; r++) {
		raw_leave(&ranks[r], NUMBER, r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_close(&ranks[r]);
	}
}

static struct smd_frame input(unsigned rank, uint64_t ordinal, unsigned collective, unsigned root)
{
	struct smd_frame frame = raw_input(NUMBER, rank, ordinal, COUNT);

	frame.collective = (uint8_t)collective;
	frame.root = (uint16_t)root;
	return frame;
}

/* The result is this rank's next frame, with this payload, and tells what it is a result of. */
static void expect_result(
	struct raw *raw, const struct smd_frame *asked, const void *payload, size_t length)
{
	raw_expect(raw, SMD_FRAME_RESULT);
	assert_int_equal(raw->frame.ordinal, asked->ordinal);
	assert_int_equal(raw->frame.operation, asked->operation);
	assert_int_equal(raw->frame.collective, asked->collective);
	assert_int_equal(raw->frame.root, asked->root);
	assert_int_equal(raw->frame.rank, asked->rank);
	assert_in_range(raw->frame.window, 1, 4);
	assert_int_equal(raw->frame.length, length);
	assert_memory_equal(raw->payload, payload, length);
}

/* Each root in turn, many times over, so that the slots are used again and again. */
static void a_reduction_reaches_its_root_alone(void **state)
{
	struct raw ranks[RANKS];
	int32_t values[RANKS][COUNT];
	int32_t sums[COUNT];

	(void)state;
	open_ranks(ranks, "reduce");
	for (unsigned k = 0; k < 60; k++) {
		unsigned root = k % RANKS;

		memset(sums, 0, sizeof(sums));
		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = input(r, k, SMD_COLLECTIVE_REDUCE, root);

			for (int i = 0; i < COUNT; i++) {
				values[r][i] = (int32_t)(r * 1000 + k) * i;
				sums[i] += values[r][i];
			}
			raw_send(&ranks[r], frame, values[r], sizeof(values[r]));
		}
		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = input(r, k, SMD_COLLECTIVE_REDUCE, root);

			expect_result(&ranks[r], &frame, sums, r == root ? sizeof(sums) : 0);
		}
	}
	close_ranks(ranks);
}

/* No kernel is asked, so it works for every element type, and for bytes that are no numbers. */
static void a_broadcast_reaches_all_but_its_root_in_every_type(void **state)
{
	struct raw ranks[RANKS];
	uint8_t bytes[COUNT * 8];

	(void)state;
	open_ranks(ranks, "broadcast");
	for (unsigned k = 0; k < 5 * SMD_DTYPE_COUNT; k++) {
		unsigned root = k % RANKS;
		unsigned dtype = k % SMD_DTYPE_COUNT;
		size_t length = COUNT * smd_dtype_bytes(dtype);

		for (size_t i = 0; i < length; i++) {
			bytes[i] = (uint8_t)(255 - i * k);
		}
		for (unsigned i = 0; i < RANKS; i++) {
			unsigned r = (i + k / RANKS) % RANKS;
			struct smd_frame frame = input(r, k, SMD_COLLECTIVE_BROADCAST, root);

			frame.dtype = (uint8_t)dtype;
			raw_send(&ranks[r], frame, bytes, r == root ? length : 0);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = input(r, k, SMD_COLLECTIVE_BROADCAST, root);

			expect_result(&ranks[r], &frame, bytes, r == root ? 0 : length);
		}
	}
	close_ranks(ranks);
}

/* An operation of nothing is a meeting of all ranks, and takes no memory. */
static void nothing_at_all_is_a_result_too(void **state)
{
	struct raw ranks[RANKS];

	(void)state;
	open_ranks(ranks, "nothing");
	for (unsigned k = 0; k < 3 * SMD_COLLECTIVE_END; k++) {
		unsigned collective = k % SMD_COLLECTIVE_END;
		unsigned root = collective == SMD_COLLECTIVE_ALLREDUCE ? 0 : k / SMD_COLLECTIVE_END;

		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = input(r, k, collective, root);

			frame.count = 0;
			raw_send(&ranks[r], frame, NULL, 0);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			struct smd_frame frame = input(r, k, collective, root);

			expect_result(&ranks[r], &frame, "", 0);
		}
	}
	close_ranks(ranks);
}

/* ---- ranks that disagree ---- */

struct disagreement {
	const char *name;
	struct smd_frame requests[2]; /* of rank 0, and of rank 1 */
	const char *texts[2];         /* what is said that they ask for */
};

/* One field of raw_input() after the other. */
#define REQUEST(collective_, root_, dtype_, op_, count_)                                           \
	{                                                                                          \
		.dtype = (dtype_), .op = (op_), .collective = (collective_), .root = (root_),      \
		.count = (count_)                                                                  \
	}

static const struct disagreement disagreements[] = {
	{"on_the_collective",
		{REQUEST(SMD_COLLECTIVE_ALLREDUCE, 0, SMD_INT32, SMD_SUM, COUNT),
			REQUEST(SMD_COLLECTIVE_REDUCE, 0, SMD_INT32, SMD_SUM, COUNT)},
		{"all-reduce, int32 sum of 100 in operation 0",
			"reduce to rank 0, int32 sum of 100 in operation 0"}},
	{"on_the_root_of_a_reduction",
		{REQUEST(SMD_COLLECTIVE_REDUCE, 1, SMD_INT32, SMD_SUM, COUNT),
			REQUEST(SMD_COLLECTIVE_REDUCE, 2, SMD_INT32, SMD_SUM, COUNT)},
		{"reduce to rank 1, int32 sum of 100", "reduce to rank 2, int32 sum of 100"}},
	{"on_the_root_of_a_broadcast",
		{REQUEST(SMD_COLLECTIVE_BROADCAST, 0, SMD_INT32, 0, COUNT),
			REQUEST(SMD_COLLECTIVE_BROADCAST, 1, SMD_INT32, 0, COUNT)},
		{"broadcast from rank 0, int32 elements of 100",
			"broadcast from rank 1, int32 elements of 100"}},
	{"on_the_count_of_a_broadcast",
		{REQUEST(SMD_COLLECTIVE_BROADCAST, 0, SMD_INT32, 0, COUNT),
			REQUEST(SMD_COLLECTIVE_BROADCAST, 0, SMD_INT32, 0, COUNT + 1)},
		{"broadcast from rank 0, int32 elements of 100",
			"broadcast from rank 0, int32 elements of 101"}},
	{"on_the_count_of_a_reduction",
		{REQUEST(SMD_COLLECTIVE_REDUCE, 0, SMD_INT32, SMD_SUM, COUNT),
			REQUEST(SMD_COLLECTIVE_REDUCE, 0, SMD_INT32, SMD_SUM, COUNT + 1)},
		{"reduce to rank 0, int32 sum of 100", "reduce to rank 0, int32 sum of 101"}},
	{"on_the_type",
		{REQUEST(SMD_COLLECTIVE_ALLREDUCE, 0, SMD_FLOAT32, SMD_SUM, COUNT),
			REQUEST(SMD_COLLECTIVE_ALLREDUCE, 0, SMD_INT32, SMD_SUM, COUNT)},
		{"all-reduce, float32 sum of 100", "all-reduce, int32 sum of 100"}},
	{"on_the_type_of_a_broadcast",
		{REQUEST(SMD_COLLECTIVE_BROADCAST, 0, SMD_INT64, 0, COUNT),
			REQUEST(SMD_COLLECTIVE_BROADCAST, 0, SMD_BFLOAT16, 0, COUNT)},
		{"broadcast from rank 0, int64 elements of 100",
			"broadcast from rank 0, bfloat16 elements of 100"}},
};
#define NDISAGREEMENTS (sizeof(disagreements) / sizeof(disagreements[0]))

static struct smd_frame requested(const struct disagreement *disagreement, unsigned rank)
{
	struct smd_frame frame = raw_input(NUMBER, rank, 0, COUNT);
	const struct smd_frame *request = &disagreement->requests[rank];

	frame.collective = request->collective;
	frame.root = request->root;
	frame.dtype = request->dtype;
	frame.op = request->op;
	frame.count = request->count;
	return frame;
}

/* Everyone is told, whoever came first: both ranks, both replicas, both values. */
static void ranks_that_disagree_are_both_named(void **state)
{
	const struct disagreement *disagreement = *state;
	static const uint8_t bytes[COUNT * 8];
	struct raw ranks[RANKS];
	char text[300];

	open_ranks(ranks, disagreement->name);
	for (unsigned r = 0; r < 2; r++) {
		struct smd_frame frame = requested(disagreement, r);
		bool sends = smd_collective_sends(frame.collective, frame.root, r);

		raw_send(&ranks[r], frame, bytes, sends ? COUNT * smd_dtype_bytes(frame.dtype) : 0);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&ranks[r], SMD_FRAME_ABORT);
		assert_int_equal(ranks[r].payload[0], EINVAL);
		for (unsigned said = 0; said < 2; said++) {
			const char *in = (const char *)ranks[r].payload + 4;

			snprintf(text, sizeof(text), "rank %u (pool-%u) ", said, said);
			assert_non_null(strstr(in, text));
			assert_non_null(strstr(in, disagreement->texts[said]));
		}
	}
	close_ranks(ranks);
}

/* Both can be done, so what is said is that they differ. */
static void ranks_that_disagree_on_the_reduction_are_both_named(void **state)
{
	static const int32_t values[COUNT];
	struct smd_frame frame = raw_input(NUMBER, 1, 0, COUNT);
	struct raw ranks[RANKS];
	char text[64];
	unsigned op = SMD_SUM + 1;

	(void)state;
	while (op < SMD_OP_COUNT && !smd_kernel_find(SMD_INT32, op)) {
		op++;
	}
	if (op == SMD_OP_COUNT) {
		skip(); /* there is nothing but sums */
	}
	frame.op = (uint8_t)op;
	open_ranks(ranks, "reduction");
	raw_send(&ranks[0], raw_input(NUMBER, 0, 0, COUNT), values, sizeof(values));
	raw_send(&ranks[1], frame, values, sizeof(values));
	raw_expect_text(&ranks[2], SMD_FRAME_ABORT, "all-reduce, int32 sum of 100 in operation 0");
	snprintf(text, sizeof(text), "all-reduce, int32 %s of 100 in operation 0", smd_op_name(op));
	assert_non_null(strstr((const char *)ranks[2].payload + 4, text));
	close_ranks(ranks);
}

/* The same operation, in chunks of other sizes: then the chunks are what is named. */
static void ranks_that_cut_differently_are_told_of_chunks(void **state)
{
	static const int32_t values[COUNT];
	struct raw ranks[RANKS];

	(void)state;
	open_ranks(ranks, "cut");
	raw_send(&ranks[0], raw_input(NUMBER, 0, 0, COUNT), values, sizeof(values));
	raw_send(&ranks[1], raw_input(NUMBER, 1, 0, COUNT), values, sizeof(values) / 2);
	raw_expect_text(&ranks[2], SMD_FRAME_ABORT, "for chunk 0, 400 bytes from element 0 on");
	assert_non_null(strstr(
		(const char *)ranks[2].payload + 4, "for chunk 0, 200 bytes from element 0 on"));
	close_ranks(ranks);
}

/* ---- what ends a lane ---- */

static void assert_lane_ends(const struct smd_frame *frame, size_t length, const char *reason)
{
	static const uint8_t bytes[COUNT * 8];
	struct raw ranks[RANKS];
	char text[300];

	open_ranks(ranks, "broken");
	raw_send(&ranks[1], *frame, bytes, length);
	raw_expect_end(&ranks[1]);
	snprintf(text, sizeof(text), "rank 1 (pool-1) was lost: %s", reason);
	raw_expect_text(&ranks[0], SMD_FRAME_GONE, text);
	raw_expect_text(&ranks[2], SMD_FRAME_GONE, text);
	close_ranks(ranks);
}

static void a_root_that_is_no_rank_ends_the_lane(void **state)
{
	struct smd_frame frame = input(1, 0, SMD_COLLECTIVE_REDUCE, RANKS);

	(void)state;
	assert_lane_ends(&frame, 4 * COUNT, "INPUT: root of reduce must be below 3, got 3");
	frame = input(1, 0, SMD_COLLECTIVE_BROADCAST, 65535);
	assert_lane_ends(&frame, 0, "INPUT: root of broadcast must be below 3, got 65535");
	frame = input(1, 0, SMD_COLLECTIVE_ALLREDUCE, 1);
	assert_lane_ends(&frame, 4 * COUNT, "INPUT: root of all-reduce must be below 1, got 1");
}

static void elements_from_another_than_the_root_end_the_lane(void **state)
{
	const struct smd_frame frame = input(1, 0, SMD_COLLECTIVE_BROADCAST, 2);

	(void)state;
	assert_lane_ends(&frame, 4 * COUNT,
		"INPUT: length must be 0 from rank 1 in a broadcast from rank 2, got 400");
}

static void a_broadcast_of_a_type_that_is_none_ends_the_lane(void **state)
{
	struct smd_frame frame = input(1, 0, SMD_COLLECTIVE_BROADCAST, 2);

	(void)state;
	frame.dtype = SMD_DTYPE_COUNT;
	assert_lane_ends(&frame, 0, "INPUT: length must be whole elements of type 12");
}

static void a_collective_that_is_none_ends_the_lane(void **state)
{
	const struct smd_frame frame = input(1, 0, SMD_COLLECTIVE_END, 0);

	(void)state;
	assert_lane_ends(&frame, 0, "frame: collective must be 0 to 3, got 4");
}

int main(void)
{
	const struct CMUnitTest others[] = {
		cmocka_unit_test(a_reduction_reaches_its_root_alone),
		cmocka_unit_test(a_broadcast_reaches_all_but_its_root_in_every_type),
		cmocka_unit_test(nothing_at_all_is_a_result_too),
		cmocka_unit_test(ranks_that_disagree_on_the_reduction_are_both_named),
		cmocka_unit_test(ranks_that_cut_differently_are_told_of_chunks),
		cmocka_unit_test(a_root_that_is_no_rank_ends_the_lane),
		cmocka_unit_test(elements_from_another_than_the_root_end_the_lane),
		cmocka_unit_test(a_broadcast_of_a_type_that_is_none_ends_the_lane),
		cmocka_unit_test(a_collective_that_is_none_ends_the_lane),
	};
	enum { NOTHERS = sizeof(others) / sizeof(others[0]) };
	struct CMUnitTest tests[NOTHERS + NDISAGREEMENTS];

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < NDISAGREEMENTS; i++) {
		tests[NOTHERS + i] = (struct CMUnitTest){disagreements[i].name,
			ranks_that_disagree_are_both_named, NULL, NULL, (void *)&disagreements[i]};
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
