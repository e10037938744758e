/*
 * A group of more ranks than a byte counts: a shard's end of the lanes is the engine's, the other
 * ends are the test's, and all parts and results are written to places.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/engine/bare_shard.h"
#include "tests/unit/rdma/halves.h"
#include "worker/summand.h"

enum { RANKS = 300, CHUNK = 8192, ELEMENTS = CHUNK / 4 };

struct many_rank {
	struct smd_send send; /* first */
	struct end near;
	struct end far;
	struct half first;
	struct half second;
	struct smd_remote_buffer place; /* for its part */
	unsigned said[64];              /* by the shard, by kind */
	bool direct;                    /* the result was written to where it said */
	uint8_t control[SMD_CONTROL_MAX];
	int32_t part[ELEMENTS];
	int32_t result[ELEMENTS];
};

static struct smd_shard shard;
static struct many_rank *ranks; /* [RANKS] */

static int rank_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct many_rank *rank = owner;
	const struct smd_lane *lane = rank->second.end->lane;

	(void)error;
	rank->said[frame->kind]++;
	rank->direct = lane->direct;
	*payload = rank->control;
	if (frame->kind == SMD_FRAME_JOINED) {
		assert_int_equal(lane->nremote_buffers, 1);
		rank->place = lane->remote_buffers[0];
	}
	return 0;
}

static int rank_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	(void)owner;
	(void)frame;
	(void)payload;
	(void)error;
	return 0;
}

static void rank_on_closed(void *owner, int err, const char *reason)
{
	(void)owner;
	fail_msg("a lane ended: %d, %s", err, reason);
}

static const struct smd_lane_callbacks rank_callbacks = {
	.on_header = rank_on_header, .on_frame = rank_on_frame, .on_closed = rank_on_closed};

/* Its lane is there, and greeted. */
static void rank_connect(struct many_rank *rank, struct link *link)
{
	const struct smd_handshake handshake = {.hello = {.replica = "worker", .job = "job"}};
	struct smd_error error = {""};

	half_begin(&rank->first, link, &rank->far);
	half_begin(&rank->second, link, &rank->near);
	assert_int_equal(half_offer(&rank->first, link, NULL, &error), 0);
	assert_int_equal(half_offer(&rank->second, link, &rank->first.offer, &error), 0);
	assert_int_equal(half_join(&rank->second, &rank->first, &error), 0);
	assert_int_equal(half_join(&rank->first, &rank->second, &error), 0);
	RUN_UNTIL(link, rank->near.opened == 1 && rank->far.opened == 1);
	assert_int_equal(smd_peer_create(&shard, rank->far.lane, &handshake), 0);
	assert_int_equal(smd_lane_attach(rank->near.lane, link->base, &rank_callbacks, rank), 0);
}

static void rank_join(struct many_rank *rank)
{
	struct smd_join join = {.nranks = RANKS, .group = "many"};
	struct smd_frame frame = {
		.kind = SMD_FRAME_JOIN, .comm = 1, .rank = (uint16_t)(rank - ranks)};
	uint8_t payload[SMD_CONTROL_MAX];

	assert_int_equal(smd_lane_send_control(
				 rank->near.lane, &frame, payload, smd_join_encode(&join, payload)),
		0);
}

static void rank_on_sent(struct smd_send *send, int err)
{
	(void)send;
	assert_int_equal(err, 0);
}

/* A part that is its number, everywhere. */
static void rank_input(struct many_rank *rank)
{
	const struct smd_extent result = {rank->result, CHUNK};
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT,
		.dtype = SMD_INT32,
		.op = SMD_SUM,
		.comm = 1,
		.rank = (uint16_t)(rank - ranks),
		.count = ELEMENTS};

	for (unsigned i = 0; i < ELEMENTS; i++) {
		rank->part[i] = (int32_t)(rank - ranks);
	}
	assert_non_null(smd_lane_advertise(rank->near.lane, rank->result, CHUNK, result));
	rank->send = (struct smd_send){.payload = rank->part,
		.length = CHUNK,
		.done = rank_on_sent,
		.remote_buffer = rank->place,
		.extent = {rank->part, CHUNK}};
	smd_lane_send(rank->near.lane, &frame, &rank->send);
}

static bool all_have(enum smd_frame_kind kind)
{
	bool all = true;

	for (unsigned r = 0; r < RANKS; r++) {
		all &= ranks[r].said[kind] > 0;
	}
	return all;
}

static void three_hundred_ranks_reduce(void **state)
{
	struct link *link = *state;

	ranks = calloc(RANKS, sizeof(*ranks));
	bare_shard_make(&shard, RANKS + 1, CHUNK, 1);
	shard.base = link->base;
	for (unsigned r = 0; r < RANKS; r++) {
		rank_connect(&ranks[r], link);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		rank_join(&ranks[r]);
	}
	RUN_UNTIL(link, all_have(SMD_FRAME_JOINED));
	for (unsigned r = 0; r < RANKS; r++) {
		rank_input(&ranks[r]);
	}
	RUN_UNTIL(link, all_have(SMD_FRAME_RESULT));
	for (unsigned r = 0; r < RANKS; r++) {
		assert_true(ranks[r].direct);
		for (unsigned i = 0; i < ELEMENTS; i++) {
			assert_int_equal(ranks[r].result[i], RANKS * (RANKS - 1) / 2);
		}
		end_close(&ranks[r].near);
	}
	bare_shard_end(&shard);
	stage_turn(link);
	free(ranks);
}

/* With memory windows at both ends. */
static int windows_set_up(void **state)
{
	setenv("SUMMAND_RDMA_WINDOWS", "1", 1);
	return stage_set_up(state);
}

static int windows_tear_down(void **state)
{
	unsetenv("SUMMAND_RDMA_WINDOWS");
	return stage_tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			three_hundred_ranks_reduce, stage_set_up, stage_tear_down),
		cmocka_unit_test_setup_teardown(
			three_hundred_ranks_reduce, windows_set_up, windows_tear_down),
	};

	return cmocka_run_group_tests_name("rdma ranks", tests, NULL, NULL);
}
