/*
 * What a lane makes of completions: of every kind and with every status, alone and among others',
 * of lanes that are there and of lanes that were.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

static struct ibv_wc completion_of(const struct peer *peer, enum ibv_wc_status status)
{
	return (struct ibv_wc){
		.wr_id = smd_rdma_wr_id(&peer->lane->pair, 0),
		.status = status,
		.opcode = IBV_WC_RDMA_WRITE,
	};
}

static void fail_with(struct peer *peer, enum ibv_wc_status status)
{
	struct ibv_wc completion = completion_of(peer, status);

	completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM; /* not valid, so it must not matter */
	script_complete(peer->id, &completion);
}

/* ---- kinds ---- */

static void what_lanes_do_goes_on(void **state)
{
	struct link *link = *state;
	struct parcel parcel;
	struct peer peer;

	peer_open(&peer, link);
	parcel_send(&parcel, &peer.end, 7, 100, NULL);
	peer_poll(&peer);
	peer_poll(&peer); /* a write of ours is complete */
	assert_int_equal(peer.lane->completed, 1);
	peer_frame(&peer, 1, 100); /* and one of theirs */
	peer_poll(&peer);
	assert_int_equal(peer.end.frames, 1);
	end_assert_payload(&peer.end);
	assert_int_equal(parcel.done, 1);
	assert_int_equal(peer.end.closed, 0);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

/* Of what was only flushed it says nothing. */
static void what_the_cards_maker_knows_is_told(void **state)
{
	struct link *link = *state;
	struct ibv_wc completion;
	struct peer peer;

	peer_open(&peer, link);
	completion = completion_of(&peer, IBV_WC_WR_FLUSH_ERR);
	completion.vendor_err = 0xf9;
	script_complete(peer.id, &completion);
	completion.status = IBV_WC_RETRY_EXC_ERR;
	completion.vendor_err = 0x81;
	script_complete(peer.id, &completion);
	peer_poll(&peer);
	end_assert_closed(&peer.end, -ETIMEDOUT,
		"the other end no longer answers (vendor error 0x81)");
	peer_close(&peer, link);
}

static void every_other_kind_of_completion_ends_the_lane(void **state)
{
	static const enum ibv_wc_opcode kinds[] = {IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
		IBV_WC_FETCH_ADD, IBV_WC_TSO, IBV_WC_ATOMIC_WRITE, IBV_WC_RECV, IBV_WC_TM_ADD,
		IBV_WC_TM_DEL, IBV_WC_TM_SYNC, IBV_WC_TM_RECV, IBV_WC_TM_NO_TAG, IBV_WC_DRIVER1,
		IBV_WC_DRIVER2, IBV_WC_DRIVER3, (enum ibv_wc_opcode)12345};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct peer peer;
		struct ibv_wc completion;
		char reason[96];

		peer_open(&peer, link);
		completion = completion_of(&peer, IBV_WC_SUCCESS);
		completion.opcode = kinds[i];
		script_complete(peer.id, &completion);
		script_complete(peer.id, &completion);
		peer_poll(&peer);
		snprintf(reason, sizeof(reason), "the other end must only write, got completion %d",
			(int)kinds[i]);
		end_assert_closed(&peer.end, -EPROTO, reason);
		peer_close(&peer, link);
	}
}

/* ---- statuses ---- */

struct cause {
	int err;
	const char *reason; /* NULL: what libibverbs calls it */
};

static const struct cause causes[] = {
	[IBV_WC_LOC_LEN_ERR] = {-EIO, NULL},
	[IBV_WC_LOC_QP_OP_ERR] = {-EIO, NULL},
	[IBV_WC_LOC_EEC_OP_ERR] = {-EIO, NULL},
	[IBV_WC_LOC_PROT_ERR] = {-EFAULT, "memory to be sent is not registered"},
	[IBV_WC_WR_FLUSH_ERR] = {-ECONNRESET, "the queue pair was shut down"},
	[IBV_WC_MW_BIND_ERR] = {-EIO, NULL},
	[IBV_WC_BAD_RESP_ERR] = {-EIO, NULL},
	[IBV_WC_LOC_ACCESS_ERR] = {-EIO, NULL},
	[IBV_WC_REM_INV_REQ_ERR] = {-EPROTO, "the other end found a write invalid"},
	[IBV_WC_REM_ACCESS_ERR] = {-EACCES,
		"the other end has closed its memory, as when its process ends"},
	[IBV_WC_REM_OP_ERR] = {-EIO, "the other end could not do a write"},
	[IBV_WC_RETRY_EXC_ERR] = {-ETIMEDOUT, "the other end no longer answers"},
	[IBV_WC_RNR_RETRY_EXC_ERR] = {-EPROTO, "the other end had no receive ready"},
	[IBV_WC_LOC_RDD_VIOL_ERR] = {-EIO, NULL},
	[IBV_WC_REM_INV_RD_REQ_ERR] = {-EIO, NULL},
	[IBV_WC_REM_ABORT_ERR] = {-ECONNRESET, "the other end gave up a write"},
	[IBV_WC_INV_EECN_ERR] = {-EIO, NULL},
	[IBV_WC_INV_EEC_STATE_ERR] = {-EIO, NULL},
	[IBV_WC_FATAL_ERR] = {-EIO, "the device has failed"},
	[IBV_WC_RESP_TIMEOUT_ERR] = {-EIO, NULL},
	[IBV_WC_GENERAL_ERR] = {-EIO, NULL},
	[IBV_WC_TM_ERR] = {-EIO, NULL},
	[IBV_WC_TM_RNDV_INCOMPLETE] = {-EIO, NULL},
};
#define NSTATUSES (sizeof(causes) / sizeof(causes[0]))

static void assert_cause(const struct peer *peer, enum ibv_wc_status status)
{
	const char *reason = causes[status].reason;

	if (!reason) {
		reason = ibv_wc_status_str(status);
		assert_true(strlen(reason) > 0);
	}
	end_assert_closed(&peer->end, causes[status].err, reason);
}

static void every_status_ends_the_lane_once_and_says_why(void **state)
{
	struct link *link = *state;

	assert_int_equal(NSTATUSES, IBV_WC_TM_RNDV_INCOMPLETE + 1);
	for (unsigned status = IBV_WC_SUCCESS + 1; status < NSTATUSES; status++) {
		struct peer peer;

		peer_open(&peer, link);
		fail_with(&peer, (enum ibv_wc_status)status);
		fail_with(&peer, (enum ibv_wc_status)status);
		peer_poll(&peer);
		assert_cause(&peer, (enum ibv_wc_status)status);
		fail_with(&peer, IBV_WC_WR_FLUSH_ERR);
		peer_poll(&peer);
		assert_int_equal(peer.end.closed, 1);
		peer_close(&peer, link);
	}
}

/* When a pair fails, one request tells why and all others that they were flushed. */
static void what_is_flushed_does_not_hide_the_cause(void **state)
{
	struct link *link = *state;

	for (unsigned status = IBV_WC_SUCCESS + 1; status < NSTATUSES; status++) {
		for (int first = 0; first < 2; first++) {
			struct peer peer;

			peer_open(&peer, link);
			fail_with(&peer, first ? status : IBV_WC_WR_FLUSH_ERR);
			fail_with(&peer, first ? IBV_WC_WR_FLUSH_ERR : status);
			fail_with(&peer, IBV_WC_WR_FLUSH_ERR);
			peer_poll(&peer);
			assert_cause(&peer, (enum ibv_wc_status)status);
			peer_close(&peer, link);
		}
	}
}

static void the_first_of_two_causes_is_told(void **state)
{
	struct link *link = *state;
	struct peer peer;

	peer_open(&peer, link);
	fail_with(&peer, IBV_WC_WR_FLUSH_ERR);
	fail_with(&peer, IBV_WC_REM_ACCESS_ERR);
	fail_with(&peer, IBV_WC_RETRY_EXC_ERR);
	peer_poll(&peer);
	assert_cause(&peer, IBV_WC_REM_ACCESS_ERR);
	peer_close(&peer, link);
}

/* All that were posted are flushed, and every send is given back, once. */
static void a_pair_that_breaks_gives_its_sends_back(void **state)
{
	enum { PARCELS = 20 };
	struct link *link = *state;
	struct parcel parcels[PARCELS];
	struct peer peer;

	peer_open(&peer, link);
	script.carries = false;
	for (unsigned i = 0; i < PARCELS; i++) {
		parcel_send(&parcels[i], &peer.end, i, 20000, NULL);
	}
	peer_poll(&peer);
	script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 4; i++) {
		peer_poll(&peer);
	}
	assert_cause(&peer, IBV_WC_RETRY_EXC_ERR);
	peer_close(&peer, link);
	for (unsigned i = 0; i < PARCELS; i++) {
		assert_int_equal(parcels[i].done, 1);
		assert_true(parcels[i].err == 0 || parcels[i].err == -ECANCELED);
	}
	assert_int_equal(parcels[PARCELS - 1].err, -ECANCELED);
	parcels_free(parcels, PARCELS);
}

/* ---- lanes side by side ---- */

static void a_lane_that_fails_leaves_others_alone(void **state)
{
	struct link *link = *state;
	struct peer peers[3];

	for (int i = 0; i < 3; i++) {
		peer_open(&peers[i], link);
	}
	peer_frame(&peers[0], 1, 10);
	fail_with(&peers[1], IBV_WC_REM_OP_ERR);
	peer_frame(&peers[2], 1, 10);
	peer_frame(&peers[1], 1, 10); /* an ended lane takes nothing */
	peer_poll(&peers[0]);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(peers[i].end.closed, i == 1);
		assert_int_equal(peers[i].end.frames, i != 1);
	}
	peer_frame(&peers[0], 2, 10);
	peer_poll(&peers[2]); /* one queue serves all */
	assert_int_equal(peers[0].end.frames, 2);
	for (int i = 0; i < 3; i++) {
		peer_close(&peers[i], link);
	}
}

/* The same place in the table, another number. */
static void completions_of_a_closed_lane_are_nobodys(void **state)
{
	struct link *link = *state;
	struct peer old;
	struct peer other;
	struct peer young;
	struct ibv_wc completion;

	peer_open(&other, link); /* so that the queue stays */
	peer_open(&old, link);
	completion = completion_of(&old, IBV_WC_REM_ACCESS_ERR);
	peer_close(&old, link);
	script_complete(other.id, &completion);
	peer_poll(&other);
	peer_open(&young, link);
	assert_int_equal(
		young.lane->pair.number & 0xffff, (uint32_t)(completion.wr_id >> 32) & 0xffff);
	assert_int_not_equal(young.lane->pair.number, completion.wr_id >> 32);
	script_complete(other.id, &completion);
	completion.status = IBV_WC_SUCCESS;
	script_complete(other.id, &completion);
	completion.wr_id = (uint64_t)999 << 32; /* and of one that never was */
	script_complete(other.id, &completion);
	peer_poll(&other);
	assert_int_equal(young.end.closed, 0);
	assert_int_equal(other.end.closed, 0);
	peer_close(&young, link);
	peer_close(&other, link);
}

/* A lane that closes looks through the queue for its own, and leaves the others theirs. */
static void a_lane_that_closes_leaves_others_their_completions(void **state)
{
	enum { FRAMES = 30 };
	struct link *link = *state;
	struct parcel parcel;
	struct peer peers[4];

	for (int i = 0; i < 4; i++) {
		peer_open(&peers[i], link);
	}
	script.acknowledges = false;
	parcel_send(&parcel, &peers[0].end, 0, 10, NULL);
	peer_poll(&peers[0]);
	for (unsigned i = 0; i < FRAMES; i++) {
		for (int k = 1; k < 4; k++) {
			peer_frame(&peers[k], i, 10 + i);
		}
	}
	script_acknowledge(peers[0].id, 1);
	peer_close(&peers[0], link);
	RUN_UNTIL(link, peers[1].end.frames == FRAMES && peers[2].end.frames == FRAMES &&
				peers[3].end.frames == FRAMES);
	for (int k = 1; k < 4; k++) {
		assert_int_equal(peers[k].end.closed, 0);
		end_assert_payload(&peers[k].end);
		peer_close(&peers[k], link);
	}
	parcels_free(&parcel, 1);
}

static void a_queue_that_fails_ends_all_its_lanes(void **state)
{
	struct link *link = *state;
	struct peer peers[3];

	for (int i = 0; i < 3; i++) {
		peer_open(&peers[i], link);
	}
	script.calls[SCRIPT_queue_poll].fail_at = script.calls[SCRIPT_queue_poll].count + 1;
	script.calls[SCRIPT_queue_poll].err = -EIO;
	peer_poll(&peers[1]);
	for (int i = 0; i < 3; i++) {
		end_assert_closed(&peers[i].end, -EIO, "the device's completion queue has failed");
		peer_close(&peers[i], link);
	}
}

/* It is armed once, and looked at no more until something comes. */
static void an_idle_queue_is_left_alone(void **state)
{
	struct link *link = *state;
	unsigned looks;
	unsigned armed;
	struct peer peer;

	peer_open(&peer, link);
	armed = script.calls[SCRIPT_queue_arm].count;
	peer_frame(&peer, 1, 10);
	RUN_UNTIL(link, script.calls[SCRIPT_queue_arm].count == armed + 1);
	looks = script.calls[SCRIPT_queue_poll].count;
	for (int i = 0; i < 100; i++) {
		stage_turn(link);
	}
	assert_int_equal(script.calls[SCRIPT_queue_poll].count, looks);
	peer_frame(&peer, 2, 10);
	RUN_UNTIL(link, peer.end.frames == 2);
	peer_close(&peer, link);
}

/* ---- sends that are done ---- */

#define LARGE 50000u

/* What follows when a send is done: frames of three messages each, so many that they are posted at
 * once. */
#define FOLLOWING        8u
#define FOLLOWING_LENGTH (2 * SMD_RDMA_BUFFER_SIZE + 100)

static struct parcel following[FOLLOWING];

static void send_following(struct smd_send *send, int err)
{
	struct parcel *parcel = (struct parcel *)send;

	parcel->done++;
	parcel->err = err;
	for (unsigned i = 0; i < FOLLOWING; i++) {
		parcel_send(&following[i], parcel->from, 100 + i, FOLLOWING_LENGTH, NULL);
	}
}

/*
 * One completion is of 4 frames that are taken already and of 12 that are not. The first of these
 * sends more when it is done, as callers do, while the device has the room of all 16 again: what it
 * sends leaves, and the memory of all 16 is let go.
 */
static void what_is_sent_when_a_send_is_done_takes_no_place_of_another(void **state)
{
	enum { FRAMES = 16, TAKEN = 4 };
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcels[FRAMES];
	unsigned before;
	struct peer peer;

	script.unwatched = true; /* so that nothing is kept */
	script.limits.queue_depth = RDMA_RECEIVES;
	script.acknowledges = false;
	peer_ask(&peer, link);
	assert_int_equal(peer.lane->depth, 2 * FRAMES);
	before = script.regions;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send_to(&parcels[i], &peer.end, i, LARGE, remote_buffer);
	}
	parcels[TAKEN].send.done = send_following;
	peer_accept(&peer, link);
	peer_try(&peer, link); /* now all of them leave, with one doorbell */
	peer_tell_taken(&peer, TAKEN);
	peer_poll(&peer);
	assert_int_equal(parcels[TAKEN - 1].done, 1);
	assert_int_equal(script.regions, before + FRAMES);
	for (unsigned taken = FRAMES; taken <= FRAMES + 3 * FOLLOWING; taken += 8) {
		script_acknowledge(peer.id, 1000);
		peer_poll(&peer);
		assert_int_equal(script.regions, before);
		peer_tell_taken(&peer, taken);
		peer_poll(&peer);
	}
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
	}
	assert_int_equal(peer_messages(&peer), FRAMES + 3 * FOLLOWING);
	for (unsigned i = 0; i < FOLLOWING; i++) {
		assert_int_equal(following[i].done, 1);
		assert_int_equal(following[i].err, 0);
	}
	script.acknowledges = true;
	peer_close(&peer, link);
	parcels_free(parcels, FRAMES);
	parcels_free(following, FOLLOWING);
	free(memory);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(what_lanes_do_goes_on),
		STAGE(what_the_cards_maker_knows_is_told),
		STAGE(every_other_kind_of_completion_ends_the_lane),
		STAGE(every_status_ends_the_lane_once_and_says_why),
		STAGE(what_is_flushed_does_not_hide_the_cause),
		STAGE(the_first_of_two_causes_is_told),
		STAGE(a_pair_that_breaks_gives_its_sends_back),
		STAGE(a_lane_that_fails_leaves_others_alone),
		STAGE(completions_of_a_closed_lane_are_nobodys),
		STAGE(a_lane_that_closes_leaves_others_their_completions),
		STAGE(a_queue_that_fails_ends_all_its_lanes),
		STAGE(an_idle_queue_is_left_alone),
		STAGE(what_is_sent_when_a_send_is_done_takes_no_place_of_another),
	};

	setenv("SUMMAND_RDMA_BOUNCE", "0", 1); /* test_rdma_bounce has those */
	return cmocka_run_group_tests_name("rdma completions", tests, NULL, NULL);
}
