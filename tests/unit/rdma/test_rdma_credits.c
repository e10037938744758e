/* How many messages at most are on their way, how each end learns that the other has taken them, and when
 * one that says nothing is given up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/heartbeat.h"
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

/* ---- whether the other end is there ---- */

/* Looks as often as owners do, and asks when it is time, while nothing comes; how often. In *silent_ns
 * when the lane is given up. */
static unsigned ask_until_silent(
	struct peer *peer, struct link *link, uint64_t limit_ns, uint64_t *silent_ns)
{
	enum smd_heartbeat_state seen = SMD_HEARTBEAT_ALIVE;
	struct smd_heartbeat heartbeat;
	unsigned asked = 0;

	*silent_ns = 0;
	smd_heartbeat_begin(&heartbeat, peer->end.lane, 0);
	while (seen != SMD_HEARTBEAT_SILENT) {
		*silent_ns += limit_ns / SMD_HEARTBEAT_POLLS;
		seen = smd_heartbeat_poll(&heartbeat, peer->end.lane, *silent_ns, limit_ns);
		if (seen == SMD_HEARTBEAT_ASK) {
			assert_int_equal(smd_heartbeat_send(peer->end.lane, SMD_FRAME_PING), 0);
			stage_turn(link);
			asked++;
		}
	}
	return asked;
}

/*
 * A card sends again for seconds what a link that was cut has lost. The lane is given up at the limit all
 * the same. Until then each question goes out, though none before is acknowledged: when the link is
 * back, it has the other end's card ask for what is missing.
 */
static void a_cut_link_is_silent_at_the_limit(void **state)
{
	static const unsigned limits_ms[] = {500, 5000};
	struct link *link = *state;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t limit_ns = smd_heartbeat_limit_ns(limits_ms[i]);
		uint64_t silent_ns;
		struct peer peer;
		unsigned asked;
		unsigned n;

		peer_open(&peer, link);
		script.acknowledges = false;
		asked = ask_until_silent(&peer, link, limit_ns, &silent_ns);
		assert_in_range(silent_ns, limit_ns, limit_ns + limit_ns / SMD_HEARTBEAT_POLLS);
		assert_int_equal(asked, 8);
		script_sends(peer.id, &n);
		assert_int_equal(n, asked);
		script.acknowledges = true;
		script_acknowledge(peer.id, n);
		peer_close(&peer, link);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_more_messages_are_out_than_the_other_end_has_receive_buffers),
		STAGE(half_of_what_can_be_out_is_told),
		STAGE(a_frame_tells_too),
		STAGE(a_cut_link_is_silent_at_the_limit),
	};

	return cmocka_run_group_tests_name("rdma credits", tests, NULL, NULL);
}
