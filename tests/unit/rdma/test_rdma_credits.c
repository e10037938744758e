/* How many messages at most are on their way, and how each end learns that the other has taken them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

static void no_more_messages_are_out_than_the_other_end_has_receive_buffers(void **state)
{
	enum { FRAMES = 100 };
	struct link *link = *state;

	for (uint16_t receive_buffers = 4; receive_buffers <= 256; receive_buffers *= 2) {
		for (size_t s = 0; s < PEER_STARTS; s++) {
			unsigned window =
				receive_buffers < RDMA_BUFFERS ? receive_buffers : RDMA_BUFFERS;
			struct parcel parcels[FRAMES];
			unsigned taken = 0;
			struct peer peer;

			peer_open_with(&peer, link, receive_buffers);
			peer_count_from(&peer, peer_starts[s]);
			peer_send_frames(&peer, parcels, 0, FRAMES, 10);
			for (unsigned step = 0; taken < FRAMES; step = (step + 1) % window) {
				unsigned most = taken + window < FRAMES ? taken + window : FRAMES;

				assert_int_equal(peer_messages(&peer), most);
				taken = taken + step < most ? taken + step : most;
				peer_tell_taken(&peer, peer_starts[s] + taken);
				for (int i = 0; i < 4; i++) {
					peer_poll(&peer);
				}
			}
			parcels_assert_done(parcels, FRAMES, FRAMES);
			assert_int_equal(peer.end.closed, 0);
			peer_close(&peer, link);
			parcels_free(parcels, FRAMES);
		}
	}
}

/* The writes that only say how many receive buffers are empty. */
static unsigned tellings(const struct peer *peer, uint32_t *last)
{
	unsigned posted;
	unsigned n = 0;
	const struct script_send *sends = script_sends(peer->id, &posted);

	for (unsigned i = 0; i < posted; i++) {
		if (sends[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
			sends[i].immediate & SMD_RDMA_TAKEN_ONLY) {
			assert_int_equal(sends[i].length, 0);
			*last = sends[i].immediate & SMD_RDMA_COUNT_MASK;
			n++;
		}
	}
	return n;
}

/* Who has few receive buffers has few messages out, and waits for the answer sooner. */
static void half_of_what_can_be_out_is_told(void **state)
{
	struct link *link = *state;

	for (uint16_t receive_buffers = 4; receive_buffers <= 256; receive_buffers *= 2) {
		for (size_t s = 0; s < PEER_STARTS; s++) {
			unsigned window =
				receive_buffers < RDMA_BUFFERS ? receive_buffers : RDMA_BUFFERS;
			uint32_t last = 0;
			struct peer peer;

			peer_open_with(&peer, link, receive_buffers);
			peer_count_from(&peer, peer_starts[s]);
			for (unsigned i = 1; i <= 3 * window; i++) {
				peer_frame(&peer, i, 10);
				peer_poll(&peer);
				assert_int_equal(tellings(&peer, &last), i / (window / 2));
			}
			assert_int_equal(last, (peer_starts[s] + 3 * window) & SMD_RDMA_COUNT_MASK);
			assert_int_equal(script_receives(peer.id), RDMA_RECEIVES);
			peer_close(&peer, link);
		}
	}
}

static void a_frame_tells_too(void **state)
{
	struct link *link = *state;
	struct parcel parcels[5];
	const uint8_t *at;
	uint32_t last;
	struct peer peer;

	peer_open(&peer, link);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned k = 0; k < RDMA_BUFFERS / 2 - 1; k++) {
			peer_frame(&peer, k, 10);
		}
		peer_poll(&peer);
		peer_send_frames(&peer, parcels, i, i + 1, 10);
		assert_int_equal(peer_read(&peer, i, &at).taken, (i + 1) * (RDMA_BUFFERS / 2 - 1));
	}
	assert_int_equal(tellings(&peer, &last), 0);
	peer_close(&peer, link);
	parcels_free(parcels, 5);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_more_messages_are_out_than_the_other_end_has_receive_buffers),
		STAGE(half_of_what_can_be_out_is_told),
		STAGE(a_frame_tells_too),
	};

	return cmocka_run_group_tests_name("rdma credits", tests, NULL, NULL);
}
