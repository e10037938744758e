/*
 * Blocks of zeros that do not cross a lane: what arrives is what was sent, to the bit, however the
 * stream comes in; and a map that is none ends the lane.
 */
#include "tests/unit/transport/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/wire/zeros.h"

enum { BLOCK = SMD_ZERO_BLOCK, FRAMES = 40, MOST = 40 * BLOCK };

/* What payloads are made of: every shape of a run, at the beginning, in the middle and at the end.
 */
static bool is_zero(uint64_t ordinal, uint32_t block)
{
	switch (ordinal % 8) {
	case 0:
		return false;
	case 1:
		return true;
	case 2:
		return block % 2;
	case 3:
		return block % 2 == 0;
	case 4:
		return block < 3;
	case 5:
		return block >= 3;
	case 6:
		return block == 7;
	default:
		return (block * 2654435761u + ordinal * 40503u) >> 7 & 1;
	}
}

static uint32_t length_of(uint64_t ordinal)
{
	static const uint32_t lengths[] = {
		MOST, BLOCK, BLOCK - 1, 5 * BLOCK + 17, 12 * BLOCK, 64, 0, 33 * BLOCK - 4};

	return lengths[ordinal / 3 % (sizeof(lengths) / sizeof(lengths[0]))];
}

static uint8_t byte_of(uint64_t ordinal, uint32_t i)
{
	return is_zero(ordinal, i / BLOCK) ? 0 : (uint8_t)(1 + (ordinal * 31 + i) % 255);
}

static void on_done(struct smd_send *send, int err)
{
	struct parcel *parcel = (struct parcel *)send;

	parcel->done++;
	parcel->err = err;
	memset(parcel->payload, 0xee, parcel->send.length); /* it is the sender's again */
}

static void parcel_fill(struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length)
{
	*parcel = (struct parcel){.from = from, .payload = malloc(length + 1)};
	for (uint32_t i = 0; i < length; i++) {
		parcel->payload[i] = byte_of(ordinal, i);
	}
	parcel->send = (struct smd_send){.payload = parcel->payload,
		.length = length,
		.done = on_done,
		.owner = parcel,
		.elements = true};
}

static void parcel_give(struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length)
{
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal};

	parcel_fill(parcel, from, ordinal, length);
	smd_lane_send(from->lane, &frame, &parcel->send);
}

static void check_payload(struct end *end)
{
	if (end->frame.kind != SMD_FRAME_INPUT) {
		return;
	}
	for (uint32_t i = 0; i < end->frame.length; i++) {
		if (end->room[i] != byte_of(end->frame.ordinal, i)) {
			fail_msg("frame %u: byte %u is wrong", (unsigned)end->frame.ordinal, i);
		}
	}
	memset(end->room, 0xaa, ROOM);
}

static void agree_on(struct link *link, bool careful)
{
	assert_int_equal(smd_lane_skip_zeros(link->near.lane, ROOM, careful), 0);
	assert_int_equal(smd_lane_skip_zeros(link->far.lane, ROOM, careful), 0);
	link->near.then = check_payload;
	link->far.then = check_payload;
	memset(link->near.room, 0xaa, ROOM);
	memset(link->far.room, 0xaa, ROOM);
}

static void agree(struct link *link)
{
	agree_on(link, false);
}

static void assert_payloads_arrive(struct link *link, bool careful)
{
	struct parcel there[FRAMES];
	struct parcel back[FRAMES];

	link_open(link);
	agree_on(link, careful);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_give(&there[i], &link->near, i, length_of(i));
		parcel_give(&back[i], &link->far, i + 5, length_of(i + 5));
		if (i % 3 == 0) {
			RUN_UNTIL(link, link->far.frames == i + 1 && link->near.frames == i + 1);
		}
	}
	RUN_UNTIL(link, link->far.frames == FRAMES && link->near.frames == FRAMES);
	for (unsigned i = 0; i < FRAMES; i++) {
		RUN_UNTIL(link, there[i].done && back[i].done);
		assert_int_equal(there[i].done + back[i].done, 2);
		assert_int_equal(there[i].err + back[i].err, 0);
	}
	parcels_free(there, FRAMES);
	parcels_free(back, FRAMES);
}

static void payloads_arrive_as_they_were(void **state)
{
	assert_payloads_arrive(*state, false);
}

static void payloads_of_careful_ends_arrive_as_they_were(void **state)
{
	assert_payloads_arrive(*state, true);
}

/* 64 KiB of zeros, and as much where every second block is some. */
static void zeros_do_not_cross(void **state)
{
	enum { LENGTH = 16 * BLOCK };
	static const struct {
		uint64_t ordinal;
		uint64_t most;
	} rows[] = {{1, 2 * SMD_FRAME_SIZE + 2}, {2, 2 * SMD_FRAME_SIZE + 2 + LENGTH / 2},
		{0, SMD_FRAME_SIZE + LENGTH}};
	struct link *link = *state;
	struct parcel parcel;

	link_open(link);
	agree(link);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t sent = link->near.lane->counts.bytes_sent;
		uint64_t received = link->far.lane->counts.bytes_received;

		parcel_give(&parcel, &link->near, rows[i].ordinal, LENGTH);
		RUN_UNTIL(link, link->far.frames == i + 1 && parcel.done);
		assert_int_equal(link->near.lane->counts.bytes_sent - sent, rows[i].most);
		assert_int_equal(link->far.lane->counts.bytes_received - received, rows[i].most);
		parcels_free(&parcel, 1);
	}
}

/* Bytes that a payload took. */
static uint64_t send_one(struct link *link, uint64_t ordinal, uint32_t length)
{
	uint64_t before = link->near.lane->counts.bytes_sent;
	unsigned frames = link->far.frames;
	struct parcel parcel;

	parcel_give(&parcel, &link->near, ordinal, length);
	RUN_UNTIL(link, link->far.frames == frames + 1 && parcel.done);
	parcels_free(&parcel, 1);
	return link->near.lane->counts.bytes_sent - before;
}

/* It looks less and less often where there are none, and at each payload where there are some. */
static void a_careful_lane_looks_where_zeros_are(void **state)
{
	enum { LENGTH = 16 * BLOCK, DENSE = 0, ALL = 1, NONE_AT_PLACES = 6, MANY = 200 };
	const uint64_t left_out = 2 * SMD_FRAME_SIZE + 2;
	const uint64_t whole = SMD_FRAME_SIZE + LENGTH;
	struct link *link = *state;
	unsigned passed = 0;

	link_open(link);
	agree_on(link, true);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(send_one(link, ALL, LENGTH), left_out);
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(send_one(link, DENSE, LENGTH), whole);
	}
	while (send_one(link, ALL, LENGTH) == whole) {
		passed++;
	}
	assert_in_range(passed, 1, 7);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(send_one(link, ALL, LENGTH), left_out);
	}
	/* A block that none of the places is in is not seen. */
	assert_int_equal(send_one(link, NONE_AT_PLACES, LENGTH), whole);
}

static void keep_error(struct smd_send *send, int err)
{
	*(int *)send->owner = err;
}

/* Who read it would be ended by a signal. */
static void a_hole_costs_a_careful_lane_alone(void **state)
{
	enum { LENGTH = 32 * BLOCK };
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT};
	uint8_t *memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = 1;
	struct smd_send send = {.payload = memory,
		.length = LENGTH,
		.done = keep_error,
		.owner = &err,
		.elements = true};

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(munmap(memory + 17 * BLOCK, BLOCK), 0);
	link_open(link);
	agree_on(link, true);
	smd_lane_send(link->near.lane, &frame, &send);
	RUN_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.err, -EFAULT);
	munmap(memory, LENGTH);
}

/* Of a payload that is not elements all is sent, and so is all where the ends have not agreed. */
static void what_is_not_agreed_on_crosses(void **state)
{
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_DATA, .ordinal = 1};
	struct parcel parcel;

	link_open(link);
	link->far.then = check_payload;
	parcel_give(&parcel, &link->near, 1, 4 * BLOCK);
	RUN_UNTIL(link, link->far.frames == 1 && parcel.done);
	assert_int_equal(link->far.lane->counts.bytes_received, SMD_FRAME_SIZE + 4 * BLOCK);
	parcels_free(&parcel, 1);
	agree(link);
	parcel_fill(&parcel, &link->near, 1, 4 * BLOCK);
	parcel.send.elements = false;
	smd_lane_send(link->near.lane, &frame, &parcel.send);
	RUN_UNTIL(link, link->far.frames == 2 && parcel.done);
	assert_int_equal(link->far.lane->counts.bytes_received, 2 * (SMD_FRAME_SIZE + 4 * BLOCK));
	parcels_free(&parcel, 1);
}

/* A frame whose map is made, but of which nothing has left, can be called back. */
static void a_frame_with_a_map_can_be_cancelled(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	unsigned sent = 0;

	link_open_deaf(link);
	agree(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_give(&parcels[i], &link->near, i % 2 ? 0 : 3, ROOM);
	}
	for (unsigned i = 0; i < FRAMES; i++) {
		smd_lane_cancel(link->near.lane, &parcels[i]);
		sent += parcels[i].done == 0 || parcels[i].err == 0;
	}
	assert_true(sent < FRAMES);
	link_listen(link);
	for (unsigned i = 0; i < 2; i++) { /* the lane goes on */
		parcels_free(&parcels[i], 1);
		RUN_UNTIL(link, link->far.frames == sent + i);
		parcel_give(&parcels[i], &link->near, 3, ROOM);
	}
	RUN_UNTIL(link, link->far.frames == sent + 2);
	parcels_free(parcels, FRAMES);
}

/* What a lane that parts has begun it finishes, without the zeros; or the socket was full between two frames. */
static void last_words_arrive_behind_zeros(void **state)
{
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_LATE};
	struct parcel parcels[FRAMES];
	unsigned sent = 0;

	link_open_deaf(link);
	agree(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_give(&parcels[i], &link->near, 2 + i % 2, ROOM);
		sent += parcels[i].done;
	}
	assert_true(sent < FRAMES);
	assert_int_equal(smd_lane_send_control(link->near.lane, &frame, "why", 3), 0);
	link->near.lane->parts = true;
	end_close(&link->near);
	link_listen(link);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frame.kind, SMD_FRAME_LATE);
	assert_in_range(link->far.frames, sent + 1, sent + 2);
	parcels_free(parcels, FRAMES);
}

/* ---- what a socket brings ---- */

static int raw_connect(struct link *link)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(strrchr(link->address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	RUN_UNTIL(link, link->far.lane != NULL);
	return fd;
}

/* A map, and a header behind it. Bytes in all. */
static size_t put_frames(
	uint8_t *bytes, const uint8_t *map, uint32_t map_bytes, unsigned kind, uint32_t length)
{
	const struct smd_frame zeros = {.kind = SMD_FRAME_ZEROS, .length = map_bytes};
	const struct smd_frame frame = {.kind = (uint8_t)kind, .length = length, .ordinal = 3};

	smd_frame_encode(&zeros, bytes);
	memcpy(bytes + SMD_FRAME_SIZE, map, map_bytes);
	smd_frame_encode(&frame, bytes + SMD_FRAME_SIZE + map_bytes);
	return SMD_FRAME_SIZE + map_bytes + SMD_FRAME_SIZE;
}

/* Byte by byte, and elsewhere from the middle on. */
static void a_payload_with_zeros_may_come_in_any_parts(void **state)
{
	enum { BLOCKS = 5, LENGTH = BLOCKS * BLOCK };
	const uint8_t map[1] = {0x15};
	uint8_t bytes[3 * SMD_FRAME_SIZE + LENGTH];
	struct link *link = *state;
	uint8_t *elsewhere = malloc(ROOM);
	uint8_t *first = link->far.room;
	int fd = raw_connect(link);
	size_t n = put_frames(bytes, map, 1, SMD_FRAME_RESULT, LENGTH);

	assert_int_equal(smd_lane_skip_zeros(link->far.lane, ROOM, false), 0);
	memset(elsewhere, 0xaa, ROOM);
	memset(first, 0xaa, ROOM);
	memset(bytes + n, 7, (size_t)2 * BLOCK);
	n += (size_t)2 * BLOCK;
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(write(fd, bytes + i, 1), 1);
		RUN_UNTIL(link, link->far.lane->counts.bytes_received == i + 1);
		if (i == n - BLOCK - 100) {
			link->far.room = elsewhere;
			smd_lane_redirect(link->far.lane, elsewhere);
		}
	}
	assert_int_equal(link->far.frames, 1);
	for (unsigned i = 0; i < LENGTH; i++) {
		unsigned block = i / BLOCK;
		const uint8_t *room = i < 2 * BLOCK - 99 ? first : elsewhere;

		assert_int_equal(room[i], map[0] >> block & 1 ? 0 : 7);
	}
	assert_int_equal(elsewhere[LENGTH], 0xaa);
	close(fd);
	link->far.room = first;
	free(elsewhere);
}

/* Many frames of zeros in one read: each is handed out. */
static void frames_of_zeros_may_come_together(void **state)
{
	enum { MANY = 50 };
	const uint8_t map[1] = {0x03};
	uint8_t bytes[MANY * (2 * SMD_FRAME_SIZE + 1)];
	struct link *link = *state;
	int fd = raw_connect(link);
	size_t n = 0;

	assert_int_equal(smd_lane_skip_zeros(link->far.lane, ROOM, false), 0);
	for (unsigned i = 0; i < MANY; i++) {
		n += put_frames(bytes + n, map, 1, SMD_FRAME_INPUT, BLOCK + 1);
	}
	assert_int_equal(write(fd, bytes, n), n);
	RUN_UNTIL(link, link->far.frames == MANY);
	for (unsigned i = 0; i < BLOCK + 1; i++) {
		assert_int_equal(link->far.room[i], 0);
	}
	close(fd);
}

static void a_map_that_is_none_ends_the_lane(void **state)
{
	static const struct {
		bool agreed;
		uint8_t map[2];
		uint32_t bytes;
		unsigned kind;
		uint32_t length;
		const char *reason;
	} rows[] = {
		{false, {1}, 1, SMD_FRAME_INPUT, BLOCK,
			"ZEROS: map must have 1 to 0 bytes where HELLO wants it, got 1"},
		{true, {0}, 0, SMD_FRAME_INPUT, BLOCK,
			"ZEROS: map must have 1 to 2 bytes where HELLO wants it, got 0"},
		{true, {1}, 1, SMD_FRAME_PING, 0,
			"ZEROS: the next frame must be INPUT or RESULT, got PING"},
		{true, {1}, 1, SMD_FRAME_ZEROS, 1, "ZEROS: must come once for a frame"},
		{true, {2}, 1, SMD_FRAME_INPUT, BLOCK,
			"ZEROS: must name at least one of the 1 blocks of the next frame, and no "
			"other"},
		{true, {0}, 1, SMD_FRAME_INPUT, BLOCK,
			"ZEROS: must name at least one of the 1 blocks of the next frame, and no "
			"other"},
		{true, {1}, 2, SMD_FRAME_INPUT, BLOCK,
			"ZEROS: must have a bit for each of the 1 blocks of the next frame, got 2 "
			"bytes"},
		{true, {1}, 1, SMD_FRAME_RESULT, 0,
			"ZEROS: must have a bit for each of the 0 blocks of the next frame, got 1 "
			"bytes"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *link_state = (void *)"tcp";
		uint8_t bytes[3 * SMD_FRAME_SIZE];
		struct link *link;
		size_t n =
			put_frames(bytes, rows[i].map, rows[i].bytes, rows[i].kind, rows[i].length);
		int fd;

		link_set_up(&link_state);
		link = link_state;
		fd = raw_connect(link);
		if (rows[i].agreed) {
			assert_int_equal(smd_lane_skip_zeros(link->far.lane, 16 * BLOCK, false), 0);
		}
		assert_int_equal(write(fd, bytes, n), n);
		RUN_UNTIL(link, link->far.closed);
		assert_int_equal(link->far.err, -EPROTO);
		assert_string_equal(link->far.reason, rows[i].reason);
		assert_int_equal(link->far.headers, 0);
		close(fd);
		link_tear_down(&link_state);
	}
}

#define ZEROS_TEST(name, transport)                                                                \
	{                                                                                          \
		transport ": " #name, name, link_set_up, link_tear_down, (void *)(transport)       \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ZEROS_TEST(payloads_arrive_as_they_were, "tcp"),
		ZEROS_TEST(payloads_arrive_as_they_were, "loopback"),
		ZEROS_TEST(payloads_arrive_as_they_were, "fault"),
		ZEROS_TEST(payloads_arrive_as_they_were, "fault over tcp"),
#ifdef SMD_TLS
		ZEROS_TEST(payloads_arrive_as_they_were, "tls"),
		ZEROS_TEST(a_frame_with_a_map_can_be_cancelled, "tls"),
		ZEROS_TEST(last_words_arrive_behind_zeros, "tls"),
#endif
		ZEROS_TEST(payloads_of_careful_ends_arrive_as_they_were, "tcp"),
		ZEROS_TEST(a_careful_lane_looks_where_zeros_are, "tcp"),
		ZEROS_TEST(a_hole_costs_a_careful_lane_alone, "tcp"),
		ZEROS_TEST(zeros_do_not_cross, "tcp"),
		ZEROS_TEST(what_is_not_agreed_on_crosses, "tcp"),
		ZEROS_TEST(a_frame_with_a_map_can_be_cancelled, "tcp"),
		ZEROS_TEST(last_words_arrive_behind_zeros, "tcp"),
		ZEROS_TEST(a_payload_with_zeros_may_come_in_any_parts, "tcp"),
		ZEROS_TEST(frames_of_zeros_may_come_together, "tcp"),
		cmocka_unit_test(a_map_that_is_none_ends_the_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
