/*
 * Lanes of one device share a queue of completions: when one is closed, in whatever turn, what is
 * in the queue for the others stays theirs.
 */
#include "tests/unit/rdma/peer.h"

/* What another closing lane found in the queue belongs to this one still, when it is closed next.
 */
static void lanes_may_be_closed_one_after_the_other(void **state)
{
	enum { LANES = 4, FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[LANES][FRAMES];
	struct peer peers[LANES];

	for (int i = 0; i < LANES; i++) {
		peer_open(&peers[i], link);
		peer_queue(&peers[i], parcels[i], FRAMES);
	}
	for (int i = 0; i < LANES; i++) {
		peer_tell_taken(&peers[i], RDMA_BUFFERS);
	}
	for (int i = 0; i < LANES; i++) {
		end_close(&peers[i].end);
		peer_assert_arrived(&peers[i], FRAMES - 1);
		parcels_assert_done(parcels[i], FRAMES, FRAMES);
	}
	for (int i = 0; i < LANES; i++) {
		peer_close(&peers[i], link);
		parcels_free(parcels[i], FRAMES);
	}
}

static struct peer *next;

static void close_both(struct end *end)
{
	end_close(end);
	end_close(&next->end);
}

/* Completions that were taken together with the one whose callback closes the lane. */
static void a_lane_may_be_closed_amid_its_completions(void **state)
{
	enum { FRAMES = 50 };
	struct link *link = *state;
	struct parcel parcels[2][FRAMES];
	struct peer peers[2];

	for (int i = 0; i < 2; i++) {
		peer_open(&peers[i], link);
		peer_queue(&peers[i], parcels[i], FRAMES);
	}
	next = &peers[1];
	peers[0].end.then = close_both;
	peer_frame(&peers[0], 1, 10);
	peer_tell_taken(&peers[0], RDMA_BUFFERS);
	peer_tell_taken(&peers[1], RDMA_BUFFERS);
	peer_poll(&peers[0]);
	for (int i = 0; i < 2; i++) {
		assert_null(peers[i].end.lane);
		peer_assert_arrived(&peers[i], FRAMES - 1);
		peer_close(&peers[i], link);
		for (unsigned k = 0; k < FRAMES; k++) {
			assert_int_equal(parcels[i][k].done, 1);
			assert_int_equal(parcels[i][k].err, 0);
		}
		parcels_free(parcels[i], FRAMES);
	}
}

/* Whether the device takes them out of the queue with the pair, or not. */
static void completions_that_come_too_late_are_nobodys(void **state)
{
	struct link *link = *state;

	for (int forgets = 0; forgets < 2; forgets++) {
		struct parcel parcel;
		struct peer other;
		struct peer peer;

		script.forgets = forgets;
		peer_open(&other, link);
		peer_open(&peer, link);
		peer_frame(&other, 1, 10);
		peer_frame(&peer, 1, 10);
		script.carries = false;
		parcel_send(&parcel, &peer.end, 1, 10, NULL);
		peer.end.close_at = ON_FRAME;
		peer_poll(&peer);
		script.carries = true;
		assert_null(peer.end.lane);
		assert_int_equal(parcel.done, 1);
		assert_int_equal(other.end.frames, 1);
		peer_frame(&other, 2, 10);
		peer_poll(&other);
		assert_int_equal(other.end.frames, 2);
		peer_close(&peer, link);
		peer_close(&other, link);
		parcels_free(&parcel, 1);
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(lanes_may_be_closed_one_after_the_other),
		STAGE(a_lane_may_be_closed_amid_its_completions),
		STAGE(completions_that_come_too_late_are_nobodys),
	};

	return cmocka_run_group_tests_name("rdma shared queue", tests, NULL, NULL);
}
