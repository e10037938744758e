/*
 * What a lane takes from the other end's greeting and messages, and how it ends when these are not
 * what they must be: with a reason, and before anything is handed out that was not sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"

/* ---- greetings ---- */

static const struct smd_rdma_greeting good = {
	.shard = 3, .receive_buffers = 32, .key = 0xfedcba98, .address = 0x123456789abcdef0};

static int decode(const uint8_t *bytes, size_t length, struct smd_error *error)
{
	struct smd_rdma_greeting out;

	*error = (struct smd_error){""};
	return smd_rdma_greeting_decode(bytes, length, &out, error);
}

static void assert_not_summand(const uint8_t *bytes, size_t length)
{
	struct smd_error error;

	assert_int_equal(decode(bytes, length, &error), -EPROTO);
	assert_string_equal(
		error.text, "the other end must be a Summand lane, and is something else");
}

static void a_greeting_comes_out_as_it_went_in(void **state)
{
	uint8_t bytes[SMD_RDMA_GREETING_SIZE + 8] = {0};
	struct smd_rdma_greeting out = {0};
	struct smd_error error = {""};

	(void)state;
	smd_rdma_greeting_encode(&good, bytes);
	for (size_t padding = 0; padding <= 8; padding++) {
		assert_int_equal(smd_rdma_greeting_decode(
					 bytes, SMD_RDMA_GREETING_SIZE + padding, &out, &error),
			0);
		assert_memory_equal(&out, &good, sizeof(good));
	}
}

static void a_greeting_must_be_one(void **state)
{
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];

	(void)state;
	smd_rdma_greeting_encode(&good, bytes);
	for (size_t length = 0; length < SMD_RDMA_GREETING_SIZE; length++) {
		assert_not_summand(bytes, length);
	}
	for (int i = 0; i < 4; i++) {
		bytes[i] ^= 1;
		assert_not_summand(bytes, sizeof(bytes));
		bytes[i] ^= 1;
	}
}

static void a_greeting_must_be_of_this_version(void **state)
{
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct smd_error error;

	(void)state;
	smd_rdma_greeting_encode(&good, bytes);
	bytes[4] = 1; /* whose payloads tell the other end, after the header */
	assert_int_equal(decode(bytes, sizeof(bytes), &error), -EPROTO);
	assert_string_equal(error.text, "the other end must speak version 4 over RDMA, got 1");
	bytes[4] = 2; /* which has no trial where the connection manager connects */
	assert_int_equal(decode(bytes, sizeof(bytes), &error), -EPROTO);
	assert_string_equal(error.text, "the other end must speak version 4 over RDMA, got 2");
	bytes[4] = 3; /* which knows no memory windows, and would not give their keys back */
	assert_int_equal(decode(bytes, sizeof(bytes), &error), -EPROTO);
	assert_string_equal(error.text, "the other end must speak version 4 over RDMA, got 3");
	bytes[4] = SMD_RDMA_VERSION + 1;
	assert_int_equal(decode(bytes, sizeof(bytes), &error), -EPROTO);
	assert_string_equal(error.text, "the other end must speak version 4 over RDMA, got 5");
}

static void a_greeting_must_have_receive_buffers_that_fit(void **state)
{
	struct smd_rdma_greeting greeting = good;
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct smd_error error;
	char text[160];

	(void)state;
	for (unsigned n = 0; n <= 2 * SMD_RDMA_BUFFERS_MAX; n++) {
		bool fits =
			n == 4 || n == 8 || n == 16 || n == 32 || n == 64 || n == 128 || n == 256;

		greeting.receive_buffers = (uint16_t)n;
		smd_rdma_greeting_encode(&greeting, bytes);
		assert_int_equal(decode(bytes, sizeof(bytes), &error), fits ? 0 : -EPROTO);
	}
	greeting = good;
	smd_rdma_greeting_encode(&greeting, bytes);
	bytes[24] ^= 1; /* their size */
	assert_int_equal(decode(bytes, sizeof(bytes), &error), -EPROTO);
	snprintf(text, sizeof(text),
		"the other end must have 4 to 256 receive buffers (a power of 2) of %u bytes, got "
		"32 of "
		"%u",
		SMD_RDMA_BUFFER_SIZE, SMD_RDMA_BUFFER_SIZE ^ 1);
	assert_string_equal(error.text, text);
}

/* ---- a message's first bytes ---- */

static void every_prefix_that_fits_comes_out_as_it_went_in(void **state)
{
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE];

	(void)state;
	for (unsigned flags = 0; flags < 4; flags++) {
		for (unsigned remote_buffers = 0; remote_buffers <= SMD_REMOTE_BUFFERS_MAX + 1;
			remote_buffers++) {
			uint32_t least = SMD_RDMA_PREFIX_SIZE + (flags & 1 ? SMD_FRAME_SIZE : 0) +
					 remote_buffers * SMD_RDMA_REMOTE_BUFFER_SIZE;

			for (uint32_t length = 0; length < SMD_RDMA_BUFFER_SIZE + 20; length++) {
				struct smd_rdma_prefix in = {.length = length,
					.taken = 0x80000001u + length,
					.remote_buffers = (uint8_t)remote_buffers,
					.begins = flags & 1,
					.direct = flags & 2};
				struct smd_rdma_prefix out = {0};
				struct smd_error error = {""};
				bool fits = length >= least && length <= SMD_RDMA_BUFFER_SIZE &&
					    remote_buffers <= SMD_REMOTE_BUFFERS_MAX &&
					    (in.begins || (!in.direct && remote_buffers == 0)) &&
					    (!in.direct || length == least);

				smd_rdma_prefix_encode(&in, bytes);
				assert_int_equal(smd_rdma_prefix_decode(bytes, &out, &error),
					fits ? 0 : -EPROTO);
				assert_int_equal(fits, error.text[0] == '\0');
				assert_int_equal(out.length, in.length);
				assert_int_equal(out.taken, in.taken);
				assert_int_equal(out.remote_buffers, in.remote_buffers);
				assert_int_equal(out.begins, in.begins);
				assert_int_equal(out.direct, in.direct);
			}
		}
	}
}

static void a_place_comes_out_as_it_went_in(void **state)
{
	const struct smd_remote_buffer in = {0xfedcba9876543210, 0x89abcdef, 0xffffffff};
	struct smd_remote_buffer out = {0};
	uint8_t bytes[SMD_RDMA_REMOTE_BUFFER_SIZE];

	(void)state;
	smd_rdma_remote_buffer_encode(&in, bytes);
	smd_rdma_remote_buffer_decode(bytes, &out);
	assert_memory_equal(&in, &out, sizeof(in));
}

/* ---- messages that are good ---- */

static void frames_come_in_pieces_of_any_size(void **state)
{
	enum { LENGTH = 10000 };
	struct link *link = *state;
	struct peer peer;
	uint32_t at = 1;
	uint32_t piece;

	peer_open(&peer, link);
	peer_begin_frame(&peer, 5, LENGTH, 1);
	for (piece = 0; at < LENGTH; at += piece, piece = piece * 2 + 1) {
		if (piece > LENGTH - at) {
			piece = LENGTH - at;
		}
		peer_go_on(&peer, 5, at, piece);
		peer_poll(&peer);
		assert_int_equal(peer.end.frames, at + piece == LENGTH);
	}
	assert_int_equal(peer.end.headers, 1);
	assert_int_equal(peer.end.frames, 1);
	end_assert_payload(&peer.end);
	peer_frame(&peer, 6, 0);
	peer_frame(&peer, 7, SMD_RDMA_EAGER);
	peer_poll(&peer);
	assert_int_equal(peer.end.frames, 3);
	end_assert_payload(&peer.end);
	peer_close(&peer, link);
}

/* From the byte on that comes next. */
static void the_rest_of_a_payload_may_go_elsewhere(void **state)
{
	struct link *link = *state;
	uint8_t *first;
	struct peer peer;

	peer_open(&peer, link);
	peer_begin_frame(&peer, 5, 100, 40);
	peer_poll(&peer);
	first = peer.end.room;
	peer.end.room = calloc(1, ROOM);
	smd_lane_redirect(peer.end.lane, peer.end.room);
	peer_go_on(&peer, 5, 40, 60);
	peer_poll(&peer);
	assert_int_equal(peer.end.frames, 1);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(i < 40 ? first[i] : peer.end.room[i], parcel_byte(5, i));
	}
	free(first);
	smd_lane_redirect(peer.end.lane, NULL); /* nothing is being received */
	peer_frame(&peer, 6, 10);
	peer_poll(&peer);
	end_assert_payload(&peer.end);
	peer_close(&peer, link);
}

/* ---- owners that change ---- */

static void detach(struct end *end)
{
	smd_lane_detach(end->lane);
}

static void a_lane_may_change_its_owner_on_its_loop(void **state)
{
	struct link *link = *state;
	struct end next = {.base = link->base, .room = malloc(ROOM)};
	struct peer peer;

	peer_open(&peer, link);
	peer.end.then = detach;
	peer_frame(&peer, 1, 10);
	peer_poll(&peer);
	assert_int_equal(smd_lane_attach(peer.end.lane, link->base, &link_callbacks, &next), 0);
	peer_frame(&peer, 2, 10);
	peer_poll(&peer);
	assert_int_equal(peer.end.frames, 1);
	assert_int_equal(next.frames, 1);
	end_assert_payload(&next);
	free(next.room);
	peer_close(&peer, link);
}

static void a_lane_cannot_change_its_loop(void **state)
{
	struct link *link = *state;
	struct event_base *other = event_base_new();
	struct peer peer;

	peer_open(&peer, link);
	peer.end.then = detach;
	peer_frame(&peer, 1, 10);
	peer_poll(&peer);
	assert_int_equal(
		smd_lane_attach(peer.end.lane, other, &link_callbacks, &peer.end), -EINVAL);
	peer_close(&peer, link);
	event_base_free(other);
}

/* Whoever takes it next. */
static void the_end_of_a_detached_lane_is_told_to_its_next_owner(void **state)
{
	struct link *link = *state;

	for (int broken = 0; broken < 2; broken++) {
		struct peer peer;

		peer_open(&peer, link);
		peer.end.then = detach;
		peer_frame(&peer, 1, 10);
		peer_poll(&peer);
		if (broken) {
			script_break(peer.id, IBV_WC_RETRY_EXC_ERR);
			peer_poll(&peer);
		}
		script_tell(peer.id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
		stage_turn(link);
		assert_int_equal(peer.end.closed, 0);
		assert_int_equal(
			smd_lane_attach(peer.end.lane, link->base, &link_callbacks, &peer.end), 0);
		assert_int_equal(peer.end.closed, 0); /* from the loop only */
		stage_turn(link);
		end_assert_closed(&peer.end, -ECONNRESET,
			broken ? "the queue pair was shut down"
			       : "the other end closed the connection");
		peer_close(&peer, link);
	}
}

/* ---- messages that are not ---- */

/* A prefix and nothing that it speaks of. */
static void write_prefix(struct peer *peer, struct smd_rdma_prefix prefix)
{
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE];

	smd_rdma_prefix_encode(&prefix, bytes);
	peer_write(peer, bytes, sizeof(bytes), prefix.length);
}

static void unknown_flag(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, 0);
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE];

	smd_rdma_prefix_encode(&prefix, bytes);
	bytes[9] = 8;
	peer_write(peer, bytes, sizeof(bytes), prefix.length);
}

static void remote_buffers_without_frame(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_RDMA_REMOTE_BUFFER_SIZE);

	prefix.remote_buffers = 1;
	write_prefix(peer, prefix);
}

static void too_many_remote_buffers(struct peer *peer)
{
	struct smd_rdma_prefix prefix =
		peer_prefix(peer, SMD_FRAME_SIZE + 33 * SMD_RDMA_REMOTE_BUFFER_SIZE);

	prefix.begins = true;
	prefix.remote_buffers = 33;
	write_prefix(peer, prefix);
}

static void too_short(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE - 1);

	prefix.begins = true;
	write_prefix(peer, prefix);
}

static void too_long(struct peer *peer)
{
	write_prefix(peer, peer_prefix(peer, SMD_RDMA_BUFFER_SIZE));
}

static void direct_with_payload(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE + 1);

	prefix.begins = true;
	prefix.direct = true;
	write_prefix(peer, prefix);
}

static void more_taken_than_sent(struct peer *peer)
{
	peer->taken = 1;
	peer_frame(peer, 1, 10);
}

static void fewer_taken_than_before(struct peer *peer)
{
	peer->taken = (uint32_t)-1;
	peer_frame(peer, 1, 10);
}

static void more_taken_than_sent_alone(struct peer *peer)
{
	peer_tell_taken(peer, 3);
}

static void number_left_out(struct peer *peer)
{
	peer->written++;
	peer_frame(peer, 1, 10);
}

static void number_twice(struct peer *peer)
{
	peer_frame(peer, 1, 10);
	peer->written--;
	peer_frame(peer, 2, 10);
}

static void fewer_bytes_than_said(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE + 4);
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .length = 4};
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE + 4] = {0};

	prefix.begins = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	smd_frame_encode(&frame, bytes + SMD_RDMA_PREFIX_SIZE);
	peer_write(peer, bytes, sizeof(bytes), sizeof(bytes) - 1);
}

static void write_direct(struct peer *peer, uint32_t length, uint32_t told)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE);
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .length = length};
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE];

	prefix.begins = true;
	prefix.direct = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	smd_frame_encode(&frame, bytes + SMD_RDMA_PREFIX_SIZE);
	peer_write(peer, bytes, sizeof(bytes), told);
}

/* As version 1 told it. */
static void the_payloads_length_for_the_headers(struct peer *peer)
{
	peer->advertised = true;
	write_direct(peer, 5000, 5000);
}

static void in_a_buffer_that_was_not_advertised(struct peer *peer)
{
	write_direct(peer, 5000, SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE);
}

static void going_on_with_nothing(struct peer *peer)
{
	peer_go_on(peer, 1, 0, 10);
}

static void going_on_after_the_end(struct peer *peer)
{
	peer_frame(peer, 1, 10);
	peer_go_on(peer, 1, 10, 1);
}

static void a_frame_inside_a_frame(struct peer *peer)
{
	peer_begin_frame(peer, 1, 100, 99);
	peer_frame(peer, 2, 10);
}

static void more_than_the_frame(struct peer *peer)
{
	peer_begin_frame(peer, 1, 10, 11);
}

static void more_than_is_missing(struct peer *peer)
{
	peer_begin_frame(peer, 1, 10, 8);
	peer_go_on(peer, 1, 8, 3);
}

static void no_frame(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE);
	uint8_t bytes[SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE] = {0};

	prefix.begins = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	peer_write(peer, bytes, sizeof(bytes), sizeof(bytes));
}

static const struct {
	void (*write)(struct peer *peer);
	unsigned headers;   /* that were handed out before, */
	unsigned frames;    /* and frames */
	const char *reason; /* how it begins */
} malformed[] = {
	{unknown_flag, 0, 0,
		"message: flags and remote buffers must fit, got flags 8 with 0 remote buffers"},
	{remote_buffers_without_frame, 0, 0,
		"message: flags and remote buffers must fit, got flags 0 with 1 remote buffers"},
	{too_many_remote_buffers, 0, 0,
		"message: flags and remote buffers must fit, got flags 1 with 33 remote buffers"},
	{too_short, 0, 0, "message: length must be 80 to 4688 bytes, got 79"},
	{too_long, 0, 0, "message: length must be 16 to 4688 bytes, got 4704"},
	{direct_with_payload, 0, 0, "message: length must be 80 to 80 bytes, got 81"},
	{more_taken_than_sent, 0, 0, "message: at most 0 can have been taken, got 1"},
	{fewer_taken_than_before, 0, 0, "message: at most 0 can have been taken, got 4294967295"},
	{more_taken_than_sent_alone, 0, 0, "message: at most 0 can have been taken, got 3"},
	{number_left_out, 0, 0, "message: number must be 0, got 1"},
	{number_twice, 1, 1, "message: number must be 1, got 0"},
	{fewer_bytes_than_said, 0, 0, "message: 84 bytes must have been written, got 83"},
	{the_payloads_length_for_the_headers, 0, 0,
		"message: 80 bytes must have been written, got 5000"},
	{in_a_buffer_that_was_not_advertised, 0, 0, "no buffer was advertised"},
	{going_on_with_nothing, 0, 0, "message: must begin a frame"},
	{going_on_after_the_end, 1, 1, "message: must begin a frame"},
	{a_frame_inside_a_frame, 1, 0, "message: must go on with a frame, got another"},
	{more_than_the_frame, 1, 0, "message: at most 10 bytes are missing, got 11"},
	{more_than_is_missing, 1, 0, "message: at most 2 bytes are missing, got 3"},
	{no_frame, 0, 0, "frame: "},
};

static void a_malformed_message_ends_the_lane(void **state)
{
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		const char *reason = malformed[i].reason;
		struct peer peer;

		peer_open(&peer, link);
		malformed[i].write(&peer);
		peer_poll(&peer);
		assert_int_equal(peer.end.headers, malformed[i].headers);
		assert_int_equal(peer.end.frames, malformed[i].frames);
		peer.end.reason[strnlen(peer.end.reason, strlen(reason))] = '\0';
		end_assert_closed(&peer.end, -EPROTO, reason);
		if (peer.end.lane) {
			peer_frame(&peer, 9, 10); /* nothing is taken after the end */
			peer_poll(&peer);
			assert_int_equal(peer.end.frames, malformed[i].frames);
		}
		peer_close(&peer, link);
	}
}

/* What the owner says of a header or frame is the reason too. */
static void an_owner_that_refuses_ends_the_lane(void **state)
{
	struct link *link = *state;

	for (int whole = 0; whole < 2; whole++) {
		struct peer peer;

		peer_open(&peer, link);
		peer.end.refuse_at = whole ? ON_FRAME : ON_HEADER;
		peer_frame(&peer, 1, 10);
		peer_frame(&peer, 2, 10);
		peer_poll(&peer);
		assert_int_equal(peer.end.headers, 1);
		end_assert_closed(&peer.end, -EPROTO, whole ? "not this frame" : "not this header");
		peer_close(&peer, link);
	}
}

static void a_lane_may_be_closed_while_it_is_handed_a_frame(void **state)
{
	static const enum moment moments[] = {ON_HEADER, ON_FRAME};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		struct peer peer;

		peer_open(&peer, link);
		peer.end.close_at = moments[i];
		peer_frame(&peer, 1, 10);
		peer_frame(&peer, 2, 10);
		peer_poll(&peer);
		assert_null(peer.end.lane);
		assert_int_equal(peer.end.headers, 1);
		assert_int_equal(peer.end.frames, moments[i] == ON_FRAME);
		assert_int_equal(peer.end.closed, 0);
		peer_close(&peer, link);
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_comes_out_as_it_went_in),
		cmocka_unit_test(a_greeting_must_be_one),
		cmocka_unit_test(a_greeting_must_be_of_this_version),
		cmocka_unit_test(a_greeting_must_have_receive_buffers_that_fit),
		cmocka_unit_test(every_prefix_that_fits_comes_out_as_it_went_in),
		cmocka_unit_test(a_place_comes_out_as_it_went_in),
		STAGE(frames_come_in_pieces_of_any_size),
		STAGE(the_rest_of_a_payload_may_go_elsewhere),
		STAGE(a_lane_may_change_its_owner_on_its_loop),
		STAGE(a_lane_cannot_change_its_loop),
		STAGE(the_end_of_a_detached_lane_is_told_to_its_next_owner),
		STAGE(a_malformed_message_ends_the_lane),
		STAGE(an_owner_that_refuses_ends_the_lane),
		STAGE(a_lane_may_be_closed_while_it_is_handed_a_frame),
	};

	return cmocka_run_group_tests_name("rdma messages", tests, NULL, NULL);
}
