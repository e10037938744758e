/*
 * Remote buffers: memory that is advertised goes to the other end with the next frame, in order,
 * and is let go when the buffer is revoked; what the other end writes there arrives without a copy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

#define LENGTH 5000u

static const uint32_t starts[] = {0, 0x7ffffff0u, 0xfffffff0u};
#define NSTARTS (sizeof(starts) / sizeof(starts[0]))

static const struct smd_extent nowhere = {NULL, 0};

/* Memory of which pieces are advertised; the piece's length is its number. */
static uint8_t *memory;

static int direct_set_up(void **state)
{
	setenv("SUMMAND_RDMA_BOUNCE", "0", 1); /* test_rdma_bounce has those */
	memory = calloc(1000, LENGTH);
	return stage_set_up(state);
}

static int direct_tear_down(void **state)
{
	free(memory);
	return stage_tear_down(state);
}

static struct smd_advertisement *advertisement(struct peer *peer, unsigned n)
{
	struct smd_advertisement *made =
		smd_lane_advertise(peer->end.lane, memory + n * LENGTH, LENGTH + n, nowhere);

	assert_non_null(made);
	return made;
}

/* The remote buffers that came with the lane's message are those from `first` on, and so many. */
static void assert_remote_buffers(
	const struct peer *peer, uint32_t number, unsigned first, unsigned n)
{
	const uint8_t *at;
	struct smd_rdma_prefix prefix = peer_read(peer, number, &at);

	assert_true(prefix.begins);
	assert_int_equal(prefix.remote_buffers, n);
	at += SMD_FRAME_SIZE;
	for (unsigned i = first; i < first + n; i++, at += SMD_RDMA_REMOTE_BUFFER_SIZE) {
		struct smd_remote_buffer remote_buffer;

		smd_rdma_remote_buffer_decode(at, &remote_buffer);
		assert_int_equal(remote_buffer.address, (uintptr_t)memory + i * LENGTH);
		assert_int_equal(remote_buffer.length, LENGTH + i);
	}
}

static void send_one(struct peer *peer, struct parcel *parcel, unsigned ordinal, void *owner)
{
	parcel_send(parcel, &peer->end, ordinal, 10, owner);
}

static void advertised_buffers_go_with_the_next_frame(void **state)
{
	struct link *link = *state;

	for (size_t s = 0; s < NSTARTS; s++) {
		struct parcel parcels[20];
		unsigned n = 0;
		struct peer peer;

		peer_open(&peer, link);
		peer_count_from(&peer, starts[s]);
		for (unsigned i = 0; i < 20; i++) {
			for (unsigned k = 0; k < i % 4; k++) {
				advertisement(&peer, n++);
			}
			send_one(&peer, &parcels[i], i, NULL);
		}
		peer_poll(&peer);
		n = 0;
		for (unsigned i = 0; i < 20; i++) {
			assert_remote_buffers(&peer, starts[s] + i, n, i % 4);
			n += i % 4;
		}
		peer_close(&peer, link);
		parcels_free(parcels, 20);
	}
}

/* A frame takes no more than it has room for; the next ones take the rest. Nor are there ever too
 * many to remember. */
static void what_a_frame_has_no_room_for_goes_with_the_next(void **state)
{
	enum { ADVERTISED = 300, FRAMES = ADVERTISED / SMD_REMOTE_BUFFERS_MAX + 2 };
	struct link *link = *state;

	for (size_t s = 0; s < NSTARTS; s++) {
		struct parcel parcels[FRAMES];
		unsigned left = ADVERTISED;
		struct peer peer;

		peer_open(&peer, link);
		peer_count_from(&peer, starts[s]);
		for (unsigned i = 0; i < ADVERTISED; i++) {
			advertisement(&peer, i);
		}
		for (unsigned i = 0; i < FRAMES; i++) {
			send_one(&peer, &parcels[i], i, NULL);
		}
		peer_poll(&peer);
		for (unsigned i = 0; i < FRAMES; i++) {
			unsigned n = left < SMD_REMOTE_BUFFERS_MAX ? left : SMD_REMOTE_BUFFERS_MAX;

			assert_remote_buffers(&peer, starts[s] + i, ADVERTISED - left, n);
			left -= n;
		}
		assert_int_equal(left, 0);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

/* Its remote buffers go nowhere; those of the frames before and behind it are theirs. */
static void a_cancelled_frame_takes_its_remote_buffers_with_it(void **state)
{
	enum { OPENING = RDMA_BUFFERS, WAITING = 9, FRAMES = OPENING + WAITING };
	struct link *link = *state;

	for (size_t s = 0; s < NSTARTS; s++) {
		struct parcel parcels[FRAMES];
		int owners[2];
		uint32_t number;
		struct peer peer;

		peer_open(&peer, link);
		peer_count_from(&peer, starts[s]);
		for (unsigned i = 0; i < FRAMES; i++) {
			advertisement(&peer, 2 * i);
			advertisement(&peer, 2 * i + 1);
			send_one(&peer, &parcels[i], i, &owners[i % 3 == 1]);
			if (i == OPENING - 1) {
				peer_poll(&peer); /* these leave; there is room for no more */
			}
		}
		peer_poll(&peer);
		assert_int_equal(peer_messages(&peer), OPENING);
		smd_lane_cancel(peer.end.lane, &owners[1]);
		smd_lane_cancel(peer.end.lane, &owners[1]);
		peer_tell_taken(&peer, starts[s] + OPENING);
		peer_poll(&peer);
		peer_poll(&peer);
		number = starts[s] + OPENING;
		for (unsigned i = 0; i < FRAMES; i++) {
			bool cancelled = i >= OPENING && i % 3 == 1;

			assert_int_equal(parcels[i].done, 1);
			assert_int_equal(parcels[i].err, cancelled ? -ECANCELED : 0);
			if (i >= OPENING && !cancelled) {
				assert_remote_buffers(&peer, number++, 2 * i, 2);
			}
		}
		assert_int_equal(peer_messages(&peer), number - starts[s]);
		peer_close(&peer, link);
		parcels_free(parcels, FRAMES);
	}
}

/* Half of it is at the other end already. */
static void a_frame_that_has_begun_is_not_cancelled(void **state)
{
	struct link *link = *state;
	struct parcel parcel;
	struct peer peer;

	peer_open(&peer, link);
	parcel_send(&parcel, &peer.end, 1, 200000, &parcel);
	peer_poll(&peer);
	assert_int_equal(peer_messages(&peer), RDMA_BUFFERS);
	smd_lane_cancel(peer.end.lane, &parcel);
	assert_int_equal(parcel.done, 0);
	peer_tell_taken(&peer, RDMA_BUFFERS);
	peer_poll(&peer);
	peer_poll(&peer);
	assert_int_equal(parcel.done, 1);
	assert_int_equal(parcel.err, 0);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

/* What is queued before the lane is open is not yet anywhere. */
static void frames_are_cancelled_before_the_lane_is_open(void **state)
{
	struct link *link = *state;
	struct parcel parcels[2];
	struct smd_frame frame;
	const uint8_t *at;
	struct peer peer;

	peer_ask(&peer, link);
	advertisement(&peer, 0);
	send_one(&peer, &parcels[0], 0, &parcels[0]);
	advertisement(&peer, 1);
	send_one(&peer, &parcels[1], 1, &parcels[1]);
	smd_lane_cancel(peer.end.lane, &parcels[0]);
	assert_int_equal(parcels[0].err, -ECANCELED);
	peer_accept(&peer, link);
	peer_try(&peer, link);
	assert_remote_buffers(&peer, 0, 1, 1);
	peer_read(&peer, 0, &at);
	assert_int_equal(smd_frame_decode(at, &frame, NULL), 0);
	assert_int_equal(frame.ordinal, 1);
	peer_close(&peer, link);
	parcels_free(parcels, 2);
}

/* It takes its turn among the others, with length 0. */
static void what_cannot_be_advertised_is_a_remote_buffer_of_length_0(void **state)
{
	struct link *link = *state;
	struct script_call *reg = &script.calls[SCRIPT_region_create];
	struct smd_remote_buffer remote_buffer;
	struct parcel parcel;
	const uint8_t *at;
	struct peer peer;

	script.unwatched = true;
	peer_open(&peer, link);
	advertisement(&peer, 0);
	assert_null(smd_lane_advertise(peer.end.lane, memory, 0, nowhere));
	reg->err = -ENOMEM;
	reg->fail_at = reg->count + 1;
	reg->always = true;
	assert_null(smd_lane_advertise(peer.end.lane, memory, LENGTH, nowhere));
	reg->fail_at = 0;
	advertisement(&peer, 3);
	send_one(&peer, &parcel, 0, NULL);
	peer_poll(&peer);
	assert_int_equal(peer_read(&peer, 0, &at).remote_buffers, 4);
	for (unsigned i = 0; i < 4; i++) {
		smd_rdma_remote_buffer_decode(
			at + SMD_FRAME_SIZE + i * SMD_RDMA_REMOTE_BUFFER_SIZE, &remote_buffer);
		assert_int_equal(remote_buffer.length, i % 3 ? 0 : LENGTH + i);
	}
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

static void an_advertisement_keeps_its_memory_registered(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *advertisements[3];
	unsigned before;
	struct peer other; /* keeps the device in use */
	struct peer peer;

	script.unwatched = true;
	peer_open(&other, link);
	peer_open(&peer, link);
	before = script.regions;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++) {
			advertisements[i] = advertisement(&peer, i);
		}
		assert_int_equal(script.regions, before + 3);
		smd_lane_revoke(peer.end.lane, advertisements[1]);
		assert_int_equal(script.regions, before + 2);
		smd_lane_revoke(peer.end.lane, advertisements[0]);
		smd_lane_revoke(peer.end.lane, advertisements[2]);
		smd_lane_revoke(peer.end.lane, NULL);
		assert_int_equal(script.regions, before);
	}
	advertisement(&peer, 0);
	advertisement(&peer, 1);
	peer_close(&peer, link);
	assert_int_equal(script.regions, before - 1); /* nor its receive buffers */
	peer_close(&other, link);
}

/* Once, however often it is advertised, until the device is let go. */
static void registered_memory_is_registered_once(void **state)
{
	struct link *link = *state;
	unsigned before;
	struct peer peer;

	script.unwatched = true;
	peer_open(&peer, link);
	smd_lane_register(
		peer.end.lane, (struct smd_extent){memory, 100 * LENGTH}, 2 * LENGTH, false);
	before = script.regions;
	for (uint64_t generation = 1; generation < 4; generation++) {
		smd_lane_invalidate(peer.end.lane, generation);
		smd_lane_revoke(peer.end.lane, advertisement(&peer, 0));
		smd_lane_revoke(peer.end.lane, advertisement(&peer, 90));
		assert_int_equal(script.regions, before + 1);
		smd_lane_revoke(peer.end.lane, advertisement(&peer, 200)); /* not part of it */
		assert_int_equal(script.regions, before + 1);
	}
	peer_close(&peer, link);
	assert_int_equal(script.regions, 0);
}

static void memory_that_is_there_for_good_is_registered_at_once(void **state)
{
	struct link *link = *state;
	unsigned before;
	struct peer peer;

	script.unwatched = true;
	peer_open(&peer, link);
	before = script.regions;
	smd_lane_register(
		peer.end.lane, (struct smd_extent){memory, 100 * LENGTH}, 2 * LENGTH, true);
	assert_int_equal(script.regions, before + 1);
	smd_lane_revoke(peer.end.lane, advertisement(&peer, 0));
	assert_int_equal(script.regions, before + 1);
	peer_close(&peer, link);
}

/* ---- two real ends ---- */

/* The far end answers each frame into the remote buffer that came with it. */
static struct parcel answers[64];
static unsigned nanswers;
static unsigned direct;

static void answer(struct end *end)
{
	assert_int_equal(end->lane->nremote_buffers, 1);
	parcel_send_to(&answers[nanswers++], end, end->frame.ordinal,
		end->lane->remote_buffers[0].length, end->lane->remote_buffers[0]);
}

static void look_at_answer(struct end *end)
{
	const uint8_t *at = memory + end->frame.ordinal * LENGTH;

	direct += end->lane->direct;
	for (unsigned i = 0; end->lane->direct && i < end->frame.length; i++) {
		assert_int_equal(at[i], parcel_byte(end->frame.ordinal, i));
	}
}

static void answers_come_to_their_buffers(void **state)
{
	enum { FRAMES = 64 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open(link);
	nanswers = 0;
	direct = 0;
	link->far.then = answer;
	link->near.then = look_at_answer;
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_non_null(smd_lane_advertise(
			link->near.lane, memory + i * LENGTH, LENGTH - i, nowhere));
		parcel_send(&parcels[i], &link->near, i, 50, NULL);
	}
	RUN_UNTIL(link, link->near.frames == FRAMES);
	assert_int_equal(direct, FRAMES);
	assert_int_equal(link->far.closed + link->near.closed, 0);
	RUN_UNTIL(link, answers[FRAMES - 1].done);
	parcels_free(parcels, FRAMES);
	parcels_free(answers, FRAMES);
}

/* A device does not let be written what is not advertised any more. */
static void a_place_that_is_gone_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct smd_remote_buffer remote_buffer = {(uintptr_t)memory, 12345, LENGTH};
	struct parcel parcel;

	link_open(link);
	parcel_send_to(&parcel, &link->near, 1, LENGTH, remote_buffer);
	RUN_UNTIL(link, link->near.closed && link->far.closed);
	end_assert_closed(&link->near, -EACCES,
		"the other end has closed its memory, as when its process ends");
	assert_int_equal(parcel.done, 1);
	assert_int_equal(parcel.err, -ECANCELED);
	parcels_free(&parcel, 1);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, direct_set_up, direct_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(advertised_buffers_go_with_the_next_frame),
		STAGE(what_a_frame_has_no_room_for_goes_with_the_next),
		STAGE(a_cancelled_frame_takes_its_remote_buffers_with_it),
		STAGE(a_frame_that_has_begun_is_not_cancelled),
		STAGE(frames_are_cancelled_before_the_lane_is_open),
		STAGE(what_cannot_be_advertised_is_a_remote_buffer_of_length_0),
		STAGE(an_advertisement_keeps_its_memory_registered),
		STAGE(registered_memory_is_registered_once),
		STAGE(memory_that_is_there_for_good_is_registered_at_once),
		STAGE(answers_come_to_their_buffers),
		STAGE(a_place_that_is_gone_ends_the_lane),
	};

	return cmocka_run_group_tests_name("rdma remote buffers", tests, NULL, NULL);
}
