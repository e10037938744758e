/*
 * What a lane posts for the frames that it is given: how many work requests of which kind, where
 * they write, and which of them complete.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

#define LARGE 50000u

/* ---- one frame ---- */

static void assert_into_receive_buffer(
	const struct peer *peer, const struct script_send *send, uint32_t number, uint32_t length)
{
	assert_int_equal(send->remote,
		peer->own.address + number % peer->own.receive_buffers * SMD_RDMA_BUFFER_SIZE);
	assert_int_equal(send->rkey, peer->own.key);
	assert_int_equal(send->length, length);
}

static void a_small_frame_is_one_write(void **state)
{
	struct link *link = *state;
	struct parcel parcel;
	struct smd_frame frame;
	const struct script_send *sends;
	const uint8_t *at;
	struct peer peer;
	unsigned n;

	peer_open(&peer, link);
	peer_send_frames(&peer, &parcel, 0, 1, SMD_RDMA_EAGER);
	sends = script_sends(peer.id, &n);
	assert_int_equal(n, 1);
	assert_int_equal(sends->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(sends->immediate, 0);
	assert_into_receive_buffer(
		&peer, sends, 0, SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE + SMD_RDMA_EAGER);
	assert_true(peer_read(&peer, 0, &at).begins);
	assert_int_equal(smd_frame_decode(at, &frame, NULL), 0);
	assert_int_equal(frame.length, SMD_RDMA_EAGER);
	assert_memory_equal(at + SMD_FRAME_SIZE, parcel.payload, SMD_RDMA_EAGER);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

/* A large one with a remote buffer goes there from where it is: a plain write of the payload, then
 * one of the header, which tells. */
static void a_large_frame_is_written_to_its_place(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcel;
	const struct script_send *sends;
	const uint8_t *at;
	struct smd_rdma_prefix prefix;
	struct peer peer;
	unsigned n;

	peer_open(&peer, link);
	parcel_send_to(&parcel, &peer.end, 3, LARGE, remote_buffer);
	peer_poll(&peer);
	sends = script_sends(peer.id, &n);
	assert_int_equal(n, 2);
	assert_int_equal(sends[0].opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(sends[0].local, (uintptr_t)parcel.payload);
	assert_int_equal(sends[0].remote, remote_buffer.address);
	assert_int_equal(sends[0].rkey, remote_buffer.key);
	assert_int_equal(sends[0].length, LARGE);
	assert_int_equal(sends[0].flags, 0);
	assert_into_receive_buffer(&peer, &sends[1], 0, SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE);
	assert_int_equal(sends[1].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(sends[1].immediate, 0);
	assert_int_equal(sends[1].flags, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
	assert_int_equal(sends[0].doorbell, sends[1].doorbell);
	prefix = peer_read(&peer, 0, &at);
	assert_true(prefix.begins && prefix.direct);
	assert_memory_equal(memory, parcel.payload, LARGE);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
	free(memory);
}

/* A small one too, where a processor cannot copy it: in memory of a device, which is here, or
 * there, where nothing else has so small a remote buffer. */
static void assert_written_to_place(
	struct link *link, uint8_t *from, uint32_t length, uint32_t room)
{
	uint8_t *to = calloc(1, room);
	struct smd_remote_buffer remote_buffer = {(uintptr_t)to, script_expose(to, room), room};
	struct smd_extent memory = {from, SMD_RDMA_EAGER};
	struct parcel parcel;
	const struct script_send *sends;
	const uint8_t *at;
	struct peer peer;
	unsigned n;

	peer_open(&peer, link);
	assert_false(smd_lane_can_dma(peer.end.lane, from, length));
	assert_int_equal(smd_lane_register_device(peer.end.lane, memory, 0, 0), 0);
	assert_true(smd_lane_can_dma(peer.end.lane, from, length));
	assert_false(smd_lane_can_dma(peer.end.lane, from, 0));
	parcel_send_to(&parcel, &peer.end, 3, length, remote_buffer);
	if (room > SMD_RDMA_EAGER) {
		memcpy(from, parcel.payload, length);
		parcel.send.payload = from;
	}
	peer_poll(&peer);
	sends = script_sends(peer.id, &n);
	assert_int_equal(n, 2);
	assert_int_equal(sends[0].local, (uintptr_t)parcel.send.payload);
	assert_int_equal(sends[0].flags & IBV_SEND_INLINE, 0);
	assert_int_equal(sends[0].remote, remote_buffer.address);
	assert_int_equal(sends[0].length, length);
	assert_into_receive_buffer(&peer, &sends[1], 0, SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE);
	assert_true(peer_read(&peer, 0, &at).direct);
	assert_memory_equal(to, parcel.payload, length);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
	free(to);
}

static void a_small_frame_that_cannot_be_copied_is_written_to_its_place(void **state)
{
	uint8_t *memory = calloc(1, SMD_RDMA_EAGER);
	struct link *link = *state;

	assert_written_to_place(link, memory, 1, LARGE);
	assert_written_to_place(link, memory, SMD_RDMA_EAGER, LARGE);
	assert_written_to_place(link, memory, 1, 1);
	assert_written_to_place(link, memory, 20, SMD_RDMA_EAGER);
	free(memory);
}

/* The frame is in the receive buffers, from the first message that has it on. */
static void assert_streamed(const struct peer *peer, const struct parcel *parcel)
{
	uint32_t got = 0;

	for (uint32_t number = 0; got < parcel->send.length; number++) {
		const uint8_t *at;
		struct smd_rdma_prefix prefix = peer_read(peer, number, &at);
		uint32_t piece = prefix.length - SMD_RDMA_PREFIX_SIZE;

		assert_int_equal(prefix.begins, number == 0);
		assert_false(prefix.direct);
		if (number == 0) {
			at += SMD_FRAME_SIZE;
			piece -= SMD_FRAME_SIZE;
		}
		assert_true(piece <= parcel->send.length - got);
		assert_memory_equal(at, parcel->payload + got, piece);
		got += piece;
	}
}

enum hindrance { NO_PLACE, PLACE_TOO_SMALL, WRITE_TOO_LONG, NOT_REGISTERED, HINDRANCES };

static void what_cannot_go_to_a_remote_buffer_goes_through_receive_buffers(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);

	for (int hindrance = NO_PLACE; hindrance < HINDRANCES; hindrance++) {
		struct smd_remote_buffer remote_buffer = {
			(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
		struct script_call *reg = &script.calls[SCRIPT_region_create];
		struct parcel parcel;
		struct peer peer;

		script.limits.message_bytes = hindrance == WRITE_TOO_LONG ? LARGE - 1 : LARGE;
		peer_open(&peer, link);
		remote_buffer.length = hindrance == NO_PLACE          ? 0
				       : hindrance == PLACE_TOO_SMALL ? LARGE - 1
								      : LARGE;
		reg->err = -ENOMEM;
		reg->fail_at = hindrance == NOT_REGISTERED ? reg->count + 1 : 0;
		reg->always = true;
		parcel_send_to(&parcel, &peer.end, 3, LARGE, remote_buffer);
		peer_poll(&peer);
		peer_poll(&peer);
		reg->fail_at = 0;
		assert_int_equal(peer_messages(&peer), LARGE / SMD_RDMA_BUFFER_SIZE + 1);
		assert_streamed(&peer, &parcel);
		assert_int_equal(parcel.done, 1);
		peer_close(&peer, link);
		parcels_free(&parcel, 1);
	}
	free(memory);
}

/* Cards refuse what is too much, do not say what is not, and give as much as they are asked for. */
static void inline_is_what_the_device_takes(void **state)
{
	static const uint32_t mosts[] = {0, 64, 96, 101, 200, 256, 8192};
	static const uint32_t taken[] = {0, 0, 96, 96, 128, 256, 256};
	static const uint32_t lengths[] = {0, 1, 16, 17, 20, 21, 22, 176, 177, 4096, 4097, 10000};
	enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };
	struct link *link = *state;

	for (size_t m = 0; m < sizeof(mosts) / sizeof(mosts[0]); m++) {
		struct parcel parcels[LENGTHS];
		const struct script_send *sends;
		struct peer peer;
		unsigned n;

		script.inline_most = mosts[m];
		peer_open(&peer, link);
		for (unsigned i = 0; i < LENGTHS; i++) {
			peer_send_frames(&peer, parcels, i, i + 1, lengths[i]);
		}
		parcels_assert_done(parcels, LENGTHS, LENGTHS);
		sends = script_sends(peer.id, &n);
		for (unsigned i = 0; i < n; i++) {
			assert_int_equal((sends[i].flags & IBV_SEND_INLINE) != 0,
				sends[i].length <= taken[m]);
		}
		peer_close(&peer, link);
		parcels_free(parcels, LENGTHS);
	}
}

/* Of a payload that goes to its place, with a buffer that is advertised: 96 bytes, as bnxt_re
 * takes. */
static void a_payload_s_header_is_inline_from_96_bytes_on(void **state)
{
	static const uint32_t mosts[] = {64, 96, 101};
	struct link *link = *state;
	uint8_t *memory = calloc(2, LARGE);

	for (size_t m = 0; m < sizeof(mosts) / sizeof(mosts[0]); m++) {
		struct smd_remote_buffer place = {
			(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
		const struct script_send *sends;
		struct parcel parcel;
		struct peer peer;
		unsigned n;

		script.inline_most = mosts[m];
		peer_open(&peer, link);
		assert_non_null(smd_lane_advertise(
			peer.end.lane, memory + LARGE, LARGE, (struct smd_extent){NULL, 0}));
		parcel_send_to(&parcel, &peer.end, 0, LARGE, place);
		peer_poll(&peer);
		sends = script_sends(peer.id, &n);
		assert_int_equal(n, 2);
		assert_int_equal(sends[1].length, 96);
		assert_int_equal((sends[1].flags & IBV_SEND_INLINE) != 0, mosts[m] >= 96);
		peer_close(&peer, link);
		parcels_free(&parcel, 1);
	}
	free(memory);
}

/* ---- completions ---- */

static void only_the_last_of_a_doorbell_is_signalled(void **state)
{
	enum { FRAMES = 200 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	const struct script_send *sends;
	struct peer peer;
	unsigned doorbells = 0;
	unsigned n;

	peer_open(&peer, link);
	for (unsigned i = 0; i < FRAMES; i += 20) {
		peer_send_frames(&peer, parcels, i, i + 20, 10);
		peer_tell_taken(&peer, i + 20);
		peer_poll(&peer);
	}
	sends = script_sends(peer.id, &n);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal((sends[i].flags & IBV_SEND_SIGNALED) != 0, sends[i].last);
		doorbells += sends[i].last;
	}
	assert_int_equal(peer.lane->lane.counts.requests, n);
	assert_int_equal(peer.lane->lane.counts.doorbells, doorbells);
	assert_true(doorbells < n);
	peer_close(&peer, link);
	parcels_free(parcels, FRAMES);
}

/* Small frames wait for others while two doorbells are not acknowledged, and large ones do not. */
static void who_fills_a_doorbell_does_not_wait(void **state)
{
	enum { FRAMES = 6 };
	uint8_t *memory = calloc(1, LARGE);
	const struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};

	for (int large = 0; large < 2; large++) {
		struct link *link = *state;
		struct parcel parcels[FRAMES];
		struct peer peer;
		unsigned n;

		peer_open(&peer, link);
		script.acknowledges = false;
		for (unsigned i = 0; i < FRAMES; i++) {
			parcel_send_to(&parcels[i], &peer.end, i, large ? LARGE : 10,
				large ? remote_buffer : (struct smd_remote_buffer){.length = 0});
			stage_turn(link);
		}
		script_sends(peer.id, &n);
		assert_int_equal(n, large ? 2 * FRAMES : 2);
		script.acknowledges = true;
		script_acknowledge(peer.id, n);
		stage_turn(link);
		assert_int_equal(peer_messages(&peer), FRAMES);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
	free(memory);
}

/*
 * Memory that is sent from where it is stays registered until the device is finished with it, even
 * when the other end is known to have it all.
 */
static void memory_stays_registered_until_its_write_is_complete(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcel;
	unsigned before;
	struct peer peer;

	script.unwatched = true; /* so that nothing is kept */
	peer_open(&peer, link);
	before = script.regions;
	script.acknowledges = false;
	parcel_send_to(&parcel, &peer.end, 3, LARGE, remote_buffer);
	peer_poll(&peer);
	assert_int_equal(script.regions, before + 1);
	assert_int_equal(parcel.done, 0);
	peer_tell_taken(&peer, 1);
	peer_poll(&peer);
	assert_int_equal(parcel.done, 1);
	assert_int_equal(script.regions, before + 1);
	script_acknowledge(peer.id, 2);
	peer_poll(&peer);
	assert_int_equal(script.regions, before);
	assert_int_equal(parcel.done, 1);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
	free(memory);
}

static struct parcel *asked;

static void assert_done(struct peer *peer)
{
	(void)peer;
	assert_int_equal(asked->done, 1);
	assert_int_equal(asked->err, 0);
}

/* Its completion may come later than the answer. */
static void a_send_is_done_before_its_answer_comes(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	struct smd_remote_buffer remote_buffer = {
		(uintptr_t)memory, script_expose(memory, LARGE), LARGE};
	struct parcel parcel;
	struct peer peer;

	peer_open(&peer, link);
	script.acknowledges = false;
	parcel_send_to(&parcel, &peer.end, 3, LARGE, remote_buffer);
	peer_poll(&peer);
	assert_int_equal(parcel.done, 0);
	asked = &parcel;
	peer.then = assert_done;
	peer.taken = 1;
	peer_frame(&peer, 1, 10);
	peer_poll(&peer);
	assert_int_equal(peer.end.frames, 1);
	script_acknowledge(peer.id, 2);
	peer_poll(&peer);
	assert_int_equal(parcel.done, 1);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
	free(memory);
}

/* Writes to remote buffers that complete, or are known to be taken, in any mixture. */
static void sends_are_done_once_and_in_order(void **state)
{
	enum { FRAMES = 24 };
	struct link *link = *state;
	uint8_t *memory = calloc(FRAMES, LARGE);
	uint32_t key = script_expose(memory, FRAMES * (size_t)LARGE);

	for (unsigned mixture = 0; mixture < 8; mixture++) {
		for (size_t s = 0; s < PEER_STARTS; s++) {
			struct parcel parcels[FRAMES];
			struct peer peer;

			peer_open(&peer, link);
			peer_count_from(&peer, peer_starts[s]);
			script.acknowledges = false;
			parcels_done = 0;
			for (unsigned i = 0; i < FRAMES; i++) {
				struct smd_remote_buffer remote_buffer = {
					(uintptr_t)memory + i * LARGE, key, LARGE};

				if (i % 3) {
					parcel_send_to(
						&parcels[i], &peer.end, i, LARGE, remote_buffer);
				} else {
					parcel_send(&parcels[i], &peer.end, i, 100, NULL);
				}
				peer_poll(&peer);
				if (mixture & 1 && i % 2) {
					script_acknowledge(peer.id, 1 + i % 3);
				}
				if (mixture & 2 && i % 5 == 0) {
					peer_tell_taken(
						&peer, peer_starts[s] + peer_messages(&peer) / 2);
				}
				if (mixture & 4) {
					peer_poll(&peer);
				}
			}
			for (int i = 0; i < 20; i++) { /* what waited is posted, too */
				script_acknowledge(peer.id, 3);
				peer_poll(&peer);
			}
			script_acknowledge(peer.id, 1000);
			peer_poll(&peer);
			parcels_assert_done(parcels, FRAMES, FRAMES);
			script.acknowledges = true;
			peer_close(&peer, link);
			parcels_free(parcels, FRAMES);
		}
	}
	free(memory);
}

/* A device that has room for few writes gets no more, and all frames leave all the same. */
static void no_more_is_posted_than_the_device_has_room_for(void **state)
{
	enum { FRAMES = 300 };
	static const uint32_t depths[] = {RDMA_RECEIVES, 37, 40, 63, 64, 100, 127};
	struct link *link = *state;
	uint8_t *memory = calloc(1, LARGE);
	uint32_t key = script_expose(memory, LARGE);

	for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
		for (size_t s = 0; s < PEER_STARTS; s++) {
			struct parcel parcels[FRAMES];
			unsigned frames = 0;
			struct peer peer;

			script.limits.queue_depth = depths[d];
			peer_open(&peer, link);
			peer_count_from(&peer, peer_starts[s]);
			script.acknowledges = false;
			parcels_done = 0;
			for (unsigned i = 0; i < FRAMES; i++) {
				struct smd_remote_buffer remote_buffer = {
					(uintptr_t)memory, key, LARGE};

				if (i % 2) {
					parcel_send_to(
						&parcels[i], &peer.end, i, 5000, remote_buffer);
				} else {
					parcel_send(&parcels[i], &peer.end, i, 1, NULL);
				}
				if (i % 10 == 9) {
					peer_poll(&peer);
				}
			}
			while (frames < FRAMES) { /* the lane learns of both at its own pace */
				assert_int_equal(peer.end.closed, 0);
				script_acknowledge(peer.id, 7);
				peer_poll(&peer);
				frames = peer_messages(&peer);
				peer_tell_taken(&peer, peer_starts[s] + frames);
				peer_poll(&peer);
			}
			script_acknowledge(peer.id, 1000);
			peer_poll(&peer);
			parcels_assert_done(parcels, FRAMES, FRAMES);
			script.acknowledges = true;
			peer_close(&peer, link);
			parcels_free(parcels, FRAMES);
		}
	}
	free(memory);
}

/* It asks for an acknowledgement only: nothing is written, and no receive is taken for it. */
static void an_idle_lane_is_probed_by_a_write_of_nothing(void **state)
{
	struct link *link = *state;
	const struct script_send *sends;
	struct parcel parcel;
	struct peer peer;
	unsigned n;

	peer_ask(&peer, link);
	smd_rdma_probe(peer.lane); /* not open yet */
	peer_accept(&peer, link);
	smd_rdma_probe(peer.lane); /* nor now */
	peer_try(&peer, link);
	script.acknowledges = false;
	smd_rdma_probe(peer.lane);
	smd_rdma_probe(peer.lane); /* the first is not acknowledged */
	sends = script_sends(peer.id, &n);
	assert_int_equal(n, 1);
	assert_int_equal(sends->opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(sends->length, 0);
	assert_true(sends->flags & IBV_SEND_SIGNALED);
	script_acknowledge(peer.id, 1);
	peer_poll(&peer);
	peer_send_frames(&peer, &parcel, 0, 1, 10);
	smd_rdma_probe(peer.lane); /* that one tells as much */
	script_sends(peer.id, &n);
	assert_int_equal(n, 2);
	script_acknowledge(peer.id, 1);
	peer_poll(&peer);
	smd_rdma_probe(peer.lane);
	script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
	peer_poll(&peer);
	end_assert_closed(&peer.end, -ETIMEDOUT, "the other end no longer answers");
	smd_rdma_probe(peer.lane);
	script_sends(peer.id, &n);
	assert_int_equal(n, 3);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(a_small_frame_is_one_write),
		STAGE(a_large_frame_is_written_to_its_place),
		STAGE(a_small_frame_that_cannot_be_copied_is_written_to_its_place),
		STAGE(what_cannot_go_to_a_remote_buffer_goes_through_receive_buffers),
		STAGE(inline_is_what_the_device_takes),
		STAGE(a_payload_s_header_is_inline_from_96_bytes_on),
		STAGE(only_the_last_of_a_doorbell_is_signalled),
		STAGE(who_fills_a_doorbell_does_not_wait),
		STAGE(memory_stays_registered_until_its_write_is_complete),
		STAGE(a_send_is_done_before_its_answer_comes),
		STAGE(sends_are_done_once_and_in_order),
		STAGE(an_idle_lane_is_probed_by_a_write_of_nothing),
		STAGE(no_more_is_posted_than_the_device_has_room_for),
	};

	setenv("SUMMAND_RDMA_BOUNCE", "0", 1); /* test_rdma_bounce has those */
	return cmocka_run_group_tests_name("rdma posting", tests, NULL, NULL);
}
