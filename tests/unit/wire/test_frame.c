/* The 64 bytes of a frame's header: each field at its place, and every wrong one refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/wire/frame.h"

/* Every byte of every field differs, so a field at the wrong place or of the wrong width shows. */
static const struct smd_frame sample = {
	.kind = SMD_FRAME_INPUT,
	.dtype = 7,
	.op = 3,
	.collective = 2,
	.length = 0x00a3a2a1,
	.comm = 0xb4b3b2b1,
	.lag = 0xc1,
	.open = 0xc2,
	.root = 0xf2f1,
	.rank = 0xd2d1,
	.window = 0xe2e1,
	.chunk = 0x1817161514131211,
	.operation = 0x2827262524232221,
	.count = 0x3837363534333231,
	.offset = 0x4847464544434241,
	.ordinal = 0x5857565554535251,
};

static const uint8_t sample_bytes[SMD_FRAME_SIZE] = {
	'S', 'M', 'D', 6, 7, 7, 3, 2, /* magic, version, kind, dtype, op, collective */
	0xa1, 0xa2, 0xa3, 0x00,       /* 8 length */
	0xb1, 0xb2, 0xb3, 0xb4,       /* 12 comm */
	0xc1, 0xc2, 0xf1, 0xf2,       /* 16 lag, 17 open, 18 root */
	0xd1, 0xd2, 0xe1, 0xe2,       /* 20 rank, 22 window */
	0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* 24 chunk */
	0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, /* 32 operation */
	0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, /* 40 count */
	0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, /* 48 offset */
	0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, /* 56 ordinal */
};

static void fields_lie_where_the_table_says(void **state)
{
	uint8_t bytes[SMD_FRAME_SIZE];

	(void)state;
	memset(bytes, 0x99, sizeof(bytes));
	smd_frame_encode(&sample, bytes);
	assert_memory_equal(bytes, sample_bytes, sizeof(bytes));
}

static void what_is_encoded_is_decoded(void **state)
{
	struct smd_error error = {""};
	struct smd_frame frame;

	(void)state;
	memset(&frame, 0xff, sizeof(frame));
	assert_int_equal(smd_frame_decode(sample_bytes, &frame, &error), 0);
	assert_int_equal(frame.kind, sample.kind);
	assert_int_equal(frame.dtype, sample.dtype);
	assert_int_equal(frame.op, sample.op);
	assert_int_equal(frame.collective, sample.collective);
	assert_int_equal(frame.length, sample.length);
	assert_int_equal(frame.comm, sample.comm);
	assert_int_equal(frame.lag, sample.lag);
	assert_int_equal(frame.open, sample.open);
	assert_int_equal(frame.root, sample.root);
	assert_int_equal(frame.rank, sample.rank);
	assert_int_equal(frame.window, sample.window);
	assert_int_equal(frame.chunk, sample.chunk);
	assert_int_equal(frame.operation, sample.operation);
	assert_int_equal(frame.count, sample.count);
	assert_int_equal(frame.offset, sample.offset);
	assert_int_equal(frame.ordinal, sample.ordinal);
	assert_string_equal(error.text, "");
}

/* One byte of a good header is changed: the header is refused with that text. */
static void wrong_envelopes_are_refused_by_field(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
		const char *text;
	} cases[] = {
		{0, 'X', "frame: magic must be SMD, got 584d44"},
		{1, 'm', "frame: magic must be SMD, got 536d44"},
		{2, 0, "frame: magic must be SMD, got 534d00"},
		{3, 0, "frame: version must be 6, got 0"},
		{3, 1, "frame: version must be 6, got 1"},
		{4, 0, "frame: kind must be 1 to 32, got 0"},
		{4, 33, "frame: kind must be 1 to 32, got 33"},
		{4, 255, "frame: kind must be 1 to 32, got 255"},
		{7, 4, "frame: collective must be 0 to 3, got 4"},
		{7, 128, "frame: collective must be 0 to 3, got 128"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_frame untouched = {.kind = 77};
		struct smd_error error = {""};
		uint8_t bytes[SMD_FRAME_SIZE];

		memcpy(bytes, sample_bytes, sizeof(bytes));
		bytes[cases[i].at] = cases[i].value;
		assert_int_equal(smd_frame_decode(bytes, &untouched, &error), -EPROTO);
		assert_string_equal(error.text, cases[i].text);
		assert_int_equal(untouched.kind, 77);
	}
}

static uint32_t longest_payload(unsigned kind)
{
	switch (kind) {
	case SMD_FRAME_INPUT:
	case SMD_FRAME_RESULT:
	case SMD_FRAME_DATA:
		return 16u << 20;
	case SMD_FRAME_JOINED:
	case SMD_FRAME_LEFT:
	case SMD_FRAME_PING:
	case SMD_FRAME_PONG:
	case SMD_FRAME_BUFFERS:
	case SMD_FRAME_SHRINK:
	case SMD_FRAME_SHRUNK:
	case SMD_FRAME_HELD:
	case SMD_FRAME_DRAINS:
	case SMD_FRAME_OTHERS:
	case SMD_FRAME_LOST:
		return 0;
	case SMD_FRAME_ZEROS:
		return 512;
	default:
		return 2048;
	}
}

static int decode_length(unsigned kind, uint32_t length, struct smd_error *error)
{
	const struct smd_frame frame = {.kind = (uint8_t)kind, .length = length};
	uint8_t bytes[SMD_FRAME_SIZE];
	struct smd_frame out;

	smd_frame_encode(&frame, bytes);
	return smd_frame_decode(bytes, &out, error);
}

static void payloads_are_as_long_as_their_kind_allows(void **state)
{
	(void)state;
	for (unsigned kind = SMD_FRAME_HELLO; kind < SMD_FRAME_KIND_END; kind++) {
		uint32_t most = longest_payload(kind);
		struct smd_error error = {""};

		assert_int_equal(decode_length(kind, 0, &error), 0);
		assert_int_equal(decode_length(kind, most, &error), 0);
		assert_int_equal(decode_length(kind, most + 1, &error), -EPROTO);
		assert_int_equal(decode_length(kind, UINT32_MAX, NULL), -EPROTO);
		assert_non_null(strstr(error.text, "length must be at most"));
		assert_ptr_equal(strstr(error.text, smd_frame_kind_name(kind)), error.text);
	}
}

static void too_long_says_both_lengths(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(decode_length(SMD_FRAME_JOIN, 4000, &error), -EPROTO);
	assert_string_equal(error.text, "JOIN: length must be at most 2048, got 4000");
}

static void kinds_have_names(void **state)
{
	(void)state;
	assert_string_equal(smd_frame_kind_name(SMD_FRAME_HELLO), "HELLO");
	assert_string_equal(smd_frame_kind_name(SMD_FRAME_AGREE), "AGREE");
	assert_string_equal(smd_frame_kind_name(0), "kind 0");
	assert_string_equal(smd_frame_kind_name(33), "kind 33");
}

static void collectives_have_their_numbers(void **state)
{
	(void)state;
	assert_int_equal(SMD_COLLECTIVE_END, 4);
	assert_string_equal(smd_collective_name(0), "all-reduce");
	assert_string_equal(smd_collective_name(1), "reduce");
	assert_string_equal(smd_collective_name(2), "broadcast");
	assert_string_equal(smd_collective_name(3), "out-of-place broadcast");
	assert_string_equal(smd_collective_name(4), "collective 4");
}

/* Who says something, and who is told something: all but a broadcast's others, a reduction's. */
static void elements_go_where_the_collective_says(void **state)
{
	enum { ROOT = 1 };

	(void)state;
	for (unsigned r = 0; r < 3; r++) {
		assert_true(smd_collective_sends(SMD_COLLECTIVE_ALLREDUCE, 0, r));
		assert_true(smd_collective_receives(SMD_COLLECTIVE_ALLREDUCE, 0, r));
		assert_true(smd_collective_sends(SMD_COLLECTIVE_REDUCE, ROOT, r));
		assert_int_equal(
			smd_collective_receives(SMD_COLLECTIVE_REDUCE, ROOT, r), r == ROOT);
		assert_int_equal(
			smd_collective_sends(SMD_COLLECTIVE_BROADCAST, ROOT, r), r == ROOT);
		assert_int_equal(
			smd_collective_receives(SMD_COLLECTIVE_BROADCAST, ROOT, r), r != ROOT);
		assert_int_equal(
			smd_collective_sends(SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE, ROOT, r),
			r == ROOT);
		assert_true(
			smd_collective_receives(SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE, ROOT, r));
	}
}

/* The numbers are the wire's: a changed one is another version. */
static void kinds_have_their_numbers(void **state)
{
	static const char *const names[] = {NULL, "HELLO", "WELCOME", "REFUSE", "JOIN", "JOINED",
		"LEAVE", "INPUT", "RESULT", "ABORT", "LATE", "PING", "PONG", "GONE", "AGREE",
		"LEFT", "GREET", "ACCEPT", "BUFFERS", "POST", "DATA", "CHALLENGE", "PROOF", "IDLE",
		"SHRINK", "SHRUNK", "HELD", "DRAINS", "PAIR", "ZEROS", "OTHERS", "LOST", "MESH"};

	(void)state;
	assert_int_equal(SMD_FRAME_KIND_END, 33);
	for (unsigned kind = 1; kind < SMD_FRAME_KIND_END; kind++) {
		assert_string_equal(smd_frame_kind_name(kind), names[kind]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_lie_where_the_table_says),
		cmocka_unit_test(what_is_encoded_is_decoded),
		cmocka_unit_test(wrong_envelopes_are_refused_by_field),
		cmocka_unit_test(payloads_are_as_long_as_their_kind_allows),
		cmocka_unit_test(too_long_says_both_lengths),
		cmocka_unit_test(kinds_have_names),
		cmocka_unit_test(kinds_have_their_numbers),
		cmocka_unit_test(collectives_have_their_numbers),
		cmocka_unit_test(elements_go_where_the_collective_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
