/*
 * One chunk's way through a shard, over lanes that only keep what is sent on them: which state
 * follows which, when buffers are taken and given back, and what an abort leaves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/piece.h"
#include "reduction_server/engine/resources.h"
#include "worker/summand.h"

enum { RANKS = 3, ELEMENTS = 4, BUFFERS = 8 };

/* A lane that keeps its last send until the test says that it has left. */
struct keeping_lane {
	struct smd_lane lane;
	struct smd_send *kept;
	unsigned turn; /* so many were kept before, on all lanes */
};

static unsigned nkept;

static void keep(struct smd_lane *lane, struct smd_send *send)
{
	struct keeping_lane *keeping = (struct keeping_lane *)lane;

	keeping->kept = send;
	keeping->turn = nkept++;
}

static const struct smd_transport_ops keeping_transport = {.name = "keeping", .send = keep};

/* A shard with one ACTIVE communicator of one slot. */
struct bench {
	struct smd_resources resources;
	struct smd_comms comms;
	struct smd_server_job *job;
	struct smd_server_comm comm;
	struct smd_slot slot;
	struct smd_member members[RANKS];
	struct smd_member *table[RANKS];
	struct smd_peer peers[RANKS];
	struct keeping_lane lanes[RANKS];
	void *parts[RANKS];
	struct smd_send sends[RANKS];
	struct smd_remote_buffer remote_buffers[RANKS];
	uint8_t whole[RANKS];
	uint32_t got[RANKS];
	struct smd_piece pieces[RANKS];
	const void *rest[RANKS];
};

static const struct smd_frame shape = {
	.kind = SMD_FRAME_INPUT,
	.dtype = SMD_INT32,
	.op = SMD_SUM,
	.length = ELEMENTS * 4,
	.count = ELEMENTS,
	.ordinal = 5,
};

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench || smd_buffer_pool_create(&bench->resources.pool,
			      BUFFERS * SMD_BUFFER_POOL_STRIDE(4096), 4096)) {
		return -1;
	}
	bench->resources.window = 1;
	bench->resources.piece_bytes = SMD_PIECE_BYTES;
	bench->job = smd_jobs_take(&bench->comms.jobs, "slot");
	if (!bench->job) {
		return -1;
	}
	bench->comm = (struct smd_server_comm){
		.comms = &bench->comms,
		.job = bench->job,
		.resources = &bench->resources,
		.state = SMD_SERVER_COMM_ACTIVE,
		.nranks = RANKS,
		.members = bench->table,
		.attached = RANKS,
		.window = 1,
		.reserved_window = 1,
		.done = shape.ordinal,
		.nslots = 1,
		.slots = &bench->slot,
		.pieces = bench->pieces,
		.rest = bench->rest,
	};
	bench->slot = (struct smd_slot){
		.comm = &bench->comm,
		.resources = &bench->resources,
		.parts = bench->parts,
		.sends = bench->sends,
		.remote_buffers = bench->remote_buffers,
		.whole = bench->whole,
		.got = bench->got,
	};
	for (unsigned r = 0; r < RANKS; r++) {
		bench->lanes[r].lane.ops = &keeping_transport;
		bench->peers[r].lane = &bench->lanes[r].lane;
		smd_turns_begin(&bench->peers[r].turns, bench->peers[r].lane);
		bench->members[r] = (struct smd_member){
			.peer = &bench->peers[r],
			.turn = {.take = smd_slot_take_turn},
			.lane = &bench->lanes[r].lane,
			.turns = &bench->peers[r].turns,
			.answered = shape.ordinal,
			.resources = &bench->resources,
			.comm = &bench->comm,
			.number = 100 + r,
			.rank = (uint16_t)r,
		};
		bench->table[r] = &bench->members[r];
	}
	*state = bench;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	smd_buffer_pool_destroy(&bench->resources.pool);
	smd_job_give(bench->job);
	free(bench);
	return 0;
}

static size_t taken(const struct bench *bench)
{
	return bench->resources.pool.total - bench->resources.pool.nfree;
}

/* Announces a part as it is in this collective. */
static void announce(struct bench *bench, unsigned rank, unsigned collective, unsigned root)
{
	struct smd_frame frame = shape;
	int32_t *part;

	frame.rank = (uint16_t)rank;
	frame.collective = (uint8_t)collective;
	frame.root = (uint16_t)root;
	frame.ordinal = bench->comm.done;
	frame.length = smd_collective_sends(collective, root, rank) ? shape.length : 0;
	if (bench->slot.state == SMD_SLOT_FREE) {
		smd_slot_open(&bench->slot, &frame);
	}
	part = smd_slot_receive(&bench->slot, &frame, NULL);
	assert_int_equal(part != NULL, frame.length != 0);
	for (int i = 0; part && i < ELEMENTS; i++) {
		part[i] = (int32_t)(rank + 1) * (i + 1);
	}
}

static void begin_part(struct bench *bench, unsigned rank)
{
	announce(bench, rank, SMD_COLLECTIVE_ALLREDUCE, 0);
}

static void part_of(struct bench *bench, unsigned rank, unsigned collective, unsigned root)
{
	announce(bench, rank, collective, root);
	smd_slot_received(&bench->slot, rank, 1);
}

static void part(struct bench *bench, unsigned rank)
{
	begin_part(bench, rank);
	smd_slot_received(&bench->slot, rank, 1);
}

static void sent(struct bench *bench, unsigned rank, int err)
{
	struct smd_send *send = bench->lanes[rank].kept;

	bench->lanes[rank].kept = NULL;
	send->done(send, err);
}

static void abort_comm(struct bench *bench)
{
	bench->comm.state = SMD_SERVER_COMM_ABORTED;
	smd_slot_advance(&bench->slot);
}

/* ---- the way of a chunk ---- */

static void parts_are_gathered_in_any_order_and_the_sum_goes_to_all(void **state)
{
	struct bench *bench = *state;

	part(bench, 2);
	assert_int_equal(bench->slot.state, SMD_SLOT_GATHERING);
	part(bench, 0);
	assert_int_equal(bench->slot.state, SMD_SLOT_GATHERING);
	assert_int_equal(taken(bench), 2);
	part(bench, 1);
	assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
	assert_int_equal(taken(bench), 1); /* of a reduced slot only the result is kept */
	assert_int_equal(bench->resources.chunks, 1);
	for (unsigned r = 0; r < RANKS; r++) {
		const struct smd_send *send = bench->lanes[r].kept;
		struct smd_frame frame;

		assert_int_equal(smd_frame_decode(send->header, &frame, NULL), 0);
		assert_int_equal(frame.kind, SMD_FRAME_RESULT);
		assert_int_equal(frame.comm, 100 + r);
		assert_int_equal(frame.rank, r);
		assert_int_equal(frame.ordinal, shape.ordinal);
		assert_int_equal(frame.window, 1);
		assert_int_equal(send->length, shape.length);
		assert_memory_equal(
			send->payload, ((const int32_t[]){6, 12, 18, 24}), shape.length);
	}
}

static void assert_result(const struct bench *bench, unsigned rank, const int32_t *expected)
{
	const struct smd_send *send = bench->lanes[rank].kept;
	struct smd_frame frame;

	assert_int_equal(smd_frame_decode(send->header, &frame, NULL), 0);
	assert_int_equal(frame.kind, SMD_FRAME_RESULT);
	assert_int_equal(frame.length, expected ? shape.length : 0);
	assert_int_equal(send->length, frame.length);
	if (expected) {
		assert_memory_equal(send->payload, expected, shape.length);
	}
}

static void a_reduction_goes_to_its_root(void **state)
{
	static const int32_t sums[] = {6, 12, 18, 24};
	struct bench *bench = *state;

	for (unsigned r = RANKS; r-- > 0;) {
		part_of(bench, r, SMD_COLLECTIVE_REDUCE, 2);
	}
	assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
	assert_int_equal(taken(bench), 1);
	for (unsigned r = 0; r < RANKS; r++) {
		assert_result(bench, r, r == 2 ? sums : NULL);
		sent(bench, r, 0);
	}
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
}

/* One buffer is enough, whoever comes first. */
static void a_broadcast_takes_one_buffer_and_spares_its_root(void **state)
{
	static const int32_t roots[] = {2, 4, 6, 8};
	struct bench *bench = *state;

	for (unsigned first = 0; first < RANKS; first++) {
		for (unsigned i = 0; i < RANKS; i++) {
			part_of(bench, (first + i) % RANKS, SMD_COLLECTIVE_BROADCAST, 1);
			assert_in_range(taken(bench), 0, 1);
		}
		assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
		assert_int_equal(taken(bench), 1);
		for (unsigned r = 0; r < RANKS; r++) {
			assert_result(bench, r, r != 1 ? roots : NULL);
			sent(bench, r, 0);
		}
		assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
		assert_int_equal(taken(bench), 0);
	}
}

static void an_out_of_place_broadcast_does_not_spare_its_root(void **state)
{
	static const int32_t roots[] = {2, 4, 6, 8};
	struct bench *bench = *state;

	for (unsigned r = 0; r < RANKS; r++) {
		part_of(bench, r, SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE, 1);
	}
	assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
	assert_int_equal(taken(bench), 1);
	for (unsigned r = 0; r < RANKS; r++) {
		assert_result(bench, r, roots);
		sent(bench, r, 0);
	}
	assert_int_equal(taken(bench), 0);
}

static void an_abort_of_a_broadcast_frees_its_one_buffer(void **state)
{
	struct bench *bench = *state;

	part_of(bench, 0, SMD_COLLECTIVE_BROADCAST, 2);
	announce(bench, 2, SMD_COLLECTIVE_BROADCAST, 2);
	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
	smd_slot_received(&bench->slot, 2, 0);
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
}

/* ---- pieces ---- */

enum { LONG = 1024, PIECE = 64 }; /* bytes of the parts, and of the shortest piece */

/* Of a chunk of LONG bytes so many are there. */
static void grow(struct bench *bench, unsigned rank, uint32_t bytes)
{
	struct smd_frame frame = shape;
	int32_t *part = bench->parts[rank];

	bench->resources.piece_bytes = PIECE;
	frame.rank = (uint16_t)rank;
	frame.length = LONG;
	frame.count = LONG / 4;
	if (bench->slot.state == SMD_SLOT_FREE) {
		smd_slot_open(&bench->slot, &frame);
	}
	if (!part) {
		part = smd_slot_receive(&bench->slot, &frame, NULL);
		memset(part, 0x55, LONG); /* nothing of what is not there may be seen */
	}
	for (uint32_t i = bench->got[rank] / 4; i < bytes / 4; i++) {
		part[i] = (int32_t)((rank + 1) * (i + 1));
	}
	if (bytes == LONG) {
		smd_slot_received(&bench->slot, rank, 1);
	} else {
		smd_piece_grow(&bench->slot, rank, bytes);
	}
}

static void assert_piece(const struct bench *bench, unsigned rank, uint32_t from, uint32_t to)
{
	const struct smd_send *send = bench->lanes[rank].kept;
	const int32_t *sums = send->payload;
	struct smd_frame frame;

	assert_non_null(send);
	assert_int_equal(smd_frame_decode(send->header, &frame, NULL), 0);
	assert_int_equal(frame.kind, SMD_FRAME_RESULT);
	assert_int_equal(frame.ordinal, shape.ordinal);
	assert_int_equal(frame.offset, from / 4);
	assert_int_equal(frame.window, to == LONG); /* more follows, or it is all */
	assert_int_equal(send->length, to - from);
	for (uint32_t i = from / 4; i < to / 4; i++) {
		assert_int_equal(sums[i - from / 4], 6 * (i + 1));
	}
}

static void what_all_have_sent_leaves_before_the_rest_is_there(void **state)
{
	struct bench *bench = *state;

	grow(bench, 0, LONG);
	grow(bench, 1, LONG / 2);
	assert_null(bench->lanes[0].kept); /* rank 2 has not begun */
	grow(bench, 2, PIECE + 4);
	for (unsigned r = 0; r < RANKS; r++) {
		assert_piece(bench, r, 0, PIECE);
	}
	sent(bench, 0, 0);
	assert_null(bench->lanes[0].kept);
	grow(bench, 2, 4 * PIECE);
	assert_piece(bench, 0, PIECE, 4 * PIECE);
	assert_piece(bench, 1, 0, PIECE); /* its lane has not taken that yet */
	sent(bench, 1, 0);
	assert_piece(bench, 1, PIECE, 4 * PIECE);
	grow(bench, 2, LONG);
	assert_int_equal(bench->slot.state, SMD_SLOT_GATHERING); /* rank 1 has sent one half */
	sent(bench, 0, 0);
	sent(bench, 2, 0);
	sent(bench, 1, 0);
	assert_piece(bench, 0, 4 * PIECE, LONG / 2);
	for (unsigned r = 0; r < RANKS; r++) {
		sent(bench, r, 0);
	}
	grow(bench, 1, LONG);
	assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
	for (unsigned r = 0; r < RANKS; r++) {
		assert_piece(bench, r, LONG / 2, LONG);
		sent(bench, r, 0);
	}
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
	assert_int_equal(bench->resources.chunks, 1);
}

static void pieces_are_not_shorter_than_that(void **state)
{
	struct bench *bench = *state;

	grow(bench, 0, LONG);
	grow(bench, 1, LONG);
	grow(bench, 2, PIECE - 4);
	assert_null(bench->lanes[0].kept);
	grow(bench, 2, LONG);
	assert_piece(bench, 0, 0, LONG);
}

static void an_abort_waits_for_pieces_on_their_way(void **state)
{
	struct bench *bench = *state;

	for (unsigned r = 0; r < RANKS; r++) {
		grow(bench, r, r ? LONG / 2 : LONG);
	}
	assert_piece(bench, 2, 0, LONG / 2);
	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
	for (unsigned r = 1; r < RANKS; r++) {
		smd_slot_received(&bench->slot, r, 0);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
		sent(bench, r, r == 1 ? -ECANCELED : 0);
	}
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
}

static void of_a_lane_one_result_goes_in_pieces(void **state)
{
	struct bench *bench = *state;

	bench->peers[1].turns.in_pieces = &bench->members[0]; /* another communicator's, say */
	for (unsigned r = 0; r < RANKS; r++) {
		grow(bench, r, LONG / 2);
	}
	assert_piece(bench, 0, 0, LONG / 2);
	assert_null(bench->lanes[1].kept);
	sent(bench, 0, 0);
	sent(bench, 2, 0);
	for (unsigned r = 0; r < RANKS; r++) {
		grow(bench, r, LONG);
	}
	assert_piece(bench, 0, LONG / 2, LONG);
	assert_piece(bench, 1, 0, LONG);
}

static void a_slot_is_free_when_the_last_result_has_left(void **state)
{
	struct bench *bench = *state;

	for (unsigned r = 0; r < RANKS; r++) {
		part(bench, r);
	}
	sent(bench, 1, 0);
	sent(bench, 0, -ECANCELED); /* a lane that ended needs the buffer as little */
	assert_int_equal(bench->slot.state, SMD_SLOT_SENDING);
	assert_int_equal(bench->comm.busy_slots, 1);
	sent(bench, 2, 0);
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(bench->comm.busy_slots, 0);
	assert_int_equal(taken(bench), 0);
}

static void a_slot_is_used_again(void **state)
{
	struct bench *bench = *state;

	for (int round = 0; round < 100; round++) {
		for (unsigned r = 0; r < RANKS; r++) {
			part(bench, (r + (unsigned)round) % RANKS);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			sent(bench, r, 0);
		}
		assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	}
	assert_int_equal(bench->resources.chunks, 100);
}

static void each_rank_is_the_first_in_turn(void **state)
{
	struct bench *bench = *state;

	for (unsigned ordinal = (unsigned)shape.ordinal; ordinal < shape.ordinal + 2 * RANKS;
		ordinal++) {
		struct smd_frame frame = shape;

		nkept = 0;
		frame.ordinal = ordinal;
		smd_slot_open(&bench->slot, &frame);
		for (unsigned r = 0; r < RANKS; r++) {
			part(bench, r);
		}
		for (unsigned i = 0; i < RANKS; i++) {
			assert_int_equal(bench->lanes[(ordinal + i) % RANKS].turn, i);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			sent(bench, r, 0);
		}
	}
}

/* ---- the communicator ends ---- */

static void an_abort_frees_what_no_lane_uses(void **state)
{
	struct bench *bench = *state;

	part(bench, 0);
	part(bench, 2);
	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
	assert_int_equal(bench->comm.busy_slots, 0);
}

static void an_abort_waits_for_parts_that_are_coming_in(void **state)
{
	struct bench *bench = *state;

	part(bench, 0);
	begin_part(bench, 1);
	begin_part(bench, 2);
	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
	assert_int_equal(taken(bench), 3);
	smd_slot_received(&bench->slot, 1, 1);
	assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
	smd_slot_received(&bench->slot, 2, 0); /* its lane ended */
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
	assert_int_equal(bench->resources.chunks, 0);
}

static void an_abort_waits_for_results_on_their_way(void **state)
{
	struct bench *bench = *state;

	for (unsigned r = 0; r < RANKS; r++) {
		part(bench, r);
	}
	sent(bench, 0, 0);
	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_DRAINING);
	sent(bench, 1, -ECANCELED);
	assert_int_equal(taken(bench), 1);
	sent(bench, 2, 0);
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(taken(bench), 0);
}

static void an_abort_of_a_free_slot_changes_nothing(void **state)
{
	struct bench *bench = *state;

	abort_comm(bench);
	assert_int_equal(bench->slot.state, SMD_SLOT_FREE);
	assert_int_equal(bench->comm.busy_slots, 0);
}

/* ---- which state may follow which ---- */

/* Row: from; column: to; in the order of the enum. specs/design/engine.md has the same table. */
static const char *const followers[SMD_SLOT_STATE_COUNT] = {
	[SMD_SLOT_FREE] = "-G---",
	[SMD_SLOT_GATHERING] = "--R-D",
	[SMD_SLOT_REDUCING] = "---SD",
	[SMD_SLOT_SENDING] = "F---D",
	[SMD_SLOT_DRAINING] = "F----",
};

static void states_follow_each_other_as_the_table_says(void **state)
{
	static const unsigned predecessors[] = {
#define X(state_, predecessors_, meaning) [state_] = predecessors_,
		SMD_SLOT_STATES(X)
#undef X
	};

	(void)state;
	for (unsigned from = 0; from < SMD_SLOT_STATE_COUNT; from++) {
		for (unsigned to = 0; to < SMD_SLOT_STATE_COUNT; to++) {
			char expected = followers[from][to];
			int legal = (predecessors[to] & SMD_SLOT_BIT(from)) != 0;

			assert_int_equal(legal, expected != '-');
			assert_true(!legal ||
				    smd_slot_state_name((enum smd_slot_state)to)[0] == expected);
		}
	}
}

/* Does it in a process of its own; the signal that ended that process, or 0. */
static int signal_of(void (*body)(struct bench *bench), struct bench *bench)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr)) {
			_exit(1);
		}
		signal(SIGABRT, SIG_DFL); /* cmocka's would go on with the next test */
		body(bench);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void open_it(struct bench *bench)
{
	smd_slot_open(&bench->slot, &shape);
}

/* An illegal transition is a bug of ours, and ends the program instead of corrupting a result. */
static void only_a_free_slot_is_opened(void **state)
{
	struct bench *bench = *state;

	for (unsigned from = 0; from < SMD_SLOT_STATE_COUNT; from++) {
		bench->slot.state = (enum smd_slot_state)from;
		assert_int_equal(signal_of(open_it, bench), from == SMD_SLOT_FREE ? 0 : SIGABRT);
	}
}

static void send_twice(struct bench *bench)
{
	part(bench, 1);
	part(bench, 1);
}

static void a_rank_has_one_part_in_a_slot(void **state)
{
	assert_int_equal(signal_of(send_twice, *state), SIGABRT);
}

int main(void)
{
#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		BENCH_TEST(parts_are_gathered_in_any_order_and_the_sum_goes_to_all),
		BENCH_TEST(a_reduction_goes_to_its_root),
		BENCH_TEST(a_broadcast_takes_one_buffer_and_spares_its_root),
		BENCH_TEST(an_out_of_place_broadcast_does_not_spare_its_root),
		BENCH_TEST(an_abort_of_a_broadcast_frees_its_one_buffer),
		BENCH_TEST(what_all_have_sent_leaves_before_the_rest_is_there),
		BENCH_TEST(pieces_are_not_shorter_than_that),
		BENCH_TEST(an_abort_waits_for_pieces_on_their_way),
		BENCH_TEST(of_a_lane_one_result_goes_in_pieces),
		BENCH_TEST(a_slot_is_free_when_the_last_result_has_left),
		BENCH_TEST(a_slot_is_used_again),
		BENCH_TEST(each_rank_is_the_first_in_turn),
		BENCH_TEST(an_abort_frees_what_no_lane_uses),
		BENCH_TEST(an_abort_waits_for_parts_that_are_coming_in),
		BENCH_TEST(an_abort_waits_for_results_on_their_way),
		BENCH_TEST(an_abort_of_a_free_slot_changes_nothing),
		cmocka_unit_test(states_follow_each_other_as_the_table_says),
		BENCH_TEST(only_a_free_slot_is_opened),
		BENCH_TEST(a_rank_has_one_part_in_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
