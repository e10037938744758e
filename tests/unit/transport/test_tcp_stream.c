/*
 * What TCP adds to a lane: a stream that comes in pieces or is no frames, an end that takes
 * nothing, and a lack of descriptors.
 */
#include "tests/unit/transport/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/tcp/tcp.h"

static int raw_connect(const struct link *link)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(strrchr(link->address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The first half of a payload is in one buffer when its owner wants the rest elsewhere. */
static void the_rest_of_a_payload_can_be_redirected(void **state)
{
	enum { HALF = 1000 };
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_RESULT, .length = 2 * HALF, .ordinal = 3};
	uint8_t bytes[SMD_FRAME_SIZE + 2 * HALF];
	uint8_t *elsewhere = calloc(1, ROOM);
	uint8_t *first = link->far.room;
	int fd = raw_connect(link);

	smd_frame_encode(&frame, bytes);
	for (size_t i = 0; i < (size_t)2 * HALF; i++) {
		bytes[SMD_FRAME_SIZE + i] = parcel_byte(3, i);
	}
	memset(first, 0, ROOM);
	assert_int_equal(write(fd, bytes, SMD_FRAME_SIZE + HALF), SMD_FRAME_SIZE + HALF);
	RUN_UNTIL(link,
		link->far.lane && link->far.lane->counts.bytes_received == SMD_FRAME_SIZE + HALF);
	link->far.room = elsewhere;
	smd_lane_redirect(link->far.lane, elsewhere);
	assert_int_equal(write(fd, bytes + SMD_FRAME_SIZE + HALF, HALF), HALF);
	RUN_UNTIL(link, link->far.frames == 1);
	assert_memory_equal(first, bytes + SMD_FRAME_SIZE, HALF);
	assert_int_equal(first[HALF], 0);
	assert_memory_equal(elsewhere + HALF, bytes + SMD_FRAME_SIZE + HALF, HALF);
	close(fd);
	link->far.room = first;
	free(elsewhere);
}

static void a_stream_may_come_byte_by_byte(void **state)
{
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_JOIN, .length = 5};
	uint8_t bytes[3 * (SMD_FRAME_SIZE + 5)];
	int fd = raw_connect(link);

	for (size_t i = 0; i < 3; i++) {
		smd_frame_encode(&frame, bytes + i * (SMD_FRAME_SIZE + 5));
		memcpy(bytes + i * (SMD_FRAME_SIZE + 5) + SMD_FRAME_SIZE, "abcde", 5);
	}
	RUN_UNTIL(link, link->far.lane != NULL);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(write(fd, bytes + i, 1), 1);
		RUN_UNTIL(link, link->far.lane->counts.bytes_received == i + 1);
	}
	assert_int_equal(link->far.frames, 3);
	assert_memory_equal(link->far.room, "abcde", 5);
	close(fd);
}

/* What was read ahead with a small frame is put there by the kernel, too: a processor that wrote it
 * would end the process. */
static void memory_that_cannot_be_written_ends_the_lane(void **state)
{
	enum { BYTES = 5000 };
	struct link *link = *state;
	struct smd_lane_callbacks careful = link_callbacks;
	struct smd_frame small = {.kind = SMD_FRAME_JOIN};
	struct smd_frame frame = {.kind = SMD_FRAME_RESULT, .length = BYTES};
	uint8_t bytes[2 * SMD_FRAME_SIZE + BYTES] = {0};
	uint8_t *room = link->far.room;
	int fd = raw_connect(link);

	careful.callers_memory = true;
	RUN_UNTIL(link, link->far.lane != NULL);
	((struct tcp_lane *)link->far.lane)->callbacks = &careful;
	link->far.room = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	smd_frame_encode(&small, bytes);
	smd_frame_encode(&frame, bytes + SMD_FRAME_SIZE);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EFAULT);
	assert_int_equal(link->far.frames, 1);
	munmap(link->far.room, BYTES);
	link->far.room = room;
	close(fd);
}

static void what_is_no_frame_ends_the_lane(void **state)
{
	struct link *link = *state;
	int fd = raw_connect(link);
	char request[SMD_FRAME_SIZE] = "GET / HTTP/1.1\r\n";

	assert_int_equal(write(fd, request, sizeof(request)), sizeof(request));
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(link->far.reason, "frame: magic must be SMD, got 474554");
	close(fd);
}

static void half_a_frame_is_none(void **state)
{
	struct link *link = *state;
	int fd = raw_connect(link);

	assert_int_equal(write(fd, "SMD\1", 4), 4);
	close(fd);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.headers, 0);
	assert_int_equal(link->far.err, -ECONNRESET);
	assert_string_equal(link->far.reason, "the other end closed the connection");
}

/* A write may be told before a read is; the read then only sees an end. */
static void an_end_that_takes_nothing_for_long_has_timed_out(void **state)
{
	enum { FRAMES = 20 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	const int silent_ms = 100;

	link_open_deaf(link);
	assert_int_equal(setsockopt(((struct tcp_lane *)link->near.lane)->fd, IPPROTO_TCP,
				 TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms)),
		0);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	RUN_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.err, -ETIMEDOUT);
	assert_string_equal(link->near.reason, strerror(ETIMEDOUT));
	parcels_free(parcels, FRAMES);
}

/* What the kernel holds and has not sent keeps a later frame waiting, so that can be limited; the
 * rest of the frames stay with the lane. */
static void what_is_unsent_can_be_limited(void **state)
{
	enum { FRAMES = 20, LIMIT = 128 << 10 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	int unsent = 0;

	link_open_deaf(link);
	smd_lane_limit_unsent(link->near.lane, LIMIT);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	assert_int_equal(
		ioctl(((struct tcp_lane *)link->near.lane)->fd, SIOCOUTQNSD, &unsent), 0);
	assert_in_range(unsent, 1, 2 * LIMIT); /* the kernel looks once in a buffer of its own */
	link_listen(link);
	RUN_UNTIL(link, link->far.frames == FRAMES);
	parcels_free(parcels, FRAMES);
}

/* To an end that does not read only so many control frames are queued. */
static void unread_control_frames_are_bounded(void **state)
{
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_LATE};
	const uint8_t payload[SMD_CONTROL_MAX] = {0};
	unsigned queued = 0;
	int ret = 0;

	link->hold = true;
	link_connect(link);
	RUN_UNTIL(link, link->near.opened && link->far.lane);
	while (ret == 0 && queued <= 2 * SMD_LANE_CONTROLS_MAX) {
		ret = smd_lane_send_control(link->near.lane, &frame, payload, sizeof(payload));
		queued += ret == 0;
	}
	assert_int_equal(ret, -ENOBUFS);
	assert_true(queued >= SMD_LANE_CONTROLS_MAX);
}

/* The listener pauses and says so; the connection waits in the backlog until there are some again.
 */
static void a_listener_outlasts_a_lack_of_descriptors(void **state)
{
	struct link *link = *state;
	struct rlimit before;
	struct rlimit few;
	int fd;

	link_connect(link);
	fd = dup(0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	link_run_on(link);
	assert_null(link->far.lane);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	RUN_UNTIL(link, link->near.opened && link->far.lane);
}

static void check_input(struct end *end)
{
	if (end->frame.kind == SMD_FRAME_INPUT) {
		end_assert_payload(end);
	}
}

/* A lane that parts finishes the frame that it is in, from memory of its own, and says its last
 * words behind it. */
static void last_words_arrive_after_a_close(void **state)
{
	enum { FRAMES = 20 };
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_LATE};
	struct parcel parcels[FRAMES];
	unsigned sent = 0;

	link->far.then = check_input;
	link_open_deaf(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
		sent += parcels[i].done;
	}
	assert_true(sent < FRAMES);
	assert_int_equal(smd_lane_send_control(link->near.lane, &frame, "why", 3), 0);
	link->near.lane->parts = true;
	end_close(&link->near);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
		memset(parcels[i].payload, 0xee, ROOM);
	}
	link_listen(link);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frame.kind, SMD_FRAME_LATE);
	assert_int_equal(link->far.frames, sent + 2);
	parcels_free(parcels, FRAMES);
}

#define STREAM_TEST(name, transport)                                                               \
	{                                                                                          \
		transport ": " #name, name, link_set_up, link_tear_down, (void *)(transport)       \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STREAM_TEST(the_rest_of_a_payload_can_be_redirected, "tcp"),
		STREAM_TEST(a_stream_may_come_byte_by_byte, "tcp"),
		STREAM_TEST(memory_that_cannot_be_written_ends_the_lane, "tcp"),
		STREAM_TEST(what_is_no_frame_ends_the_lane, "tcp"),
		STREAM_TEST(half_a_frame_is_none, "tcp"),
		STREAM_TEST(an_end_that_takes_nothing_for_long_has_timed_out, "tcp"),
		STREAM_TEST(what_is_unsent_can_be_limited, "tcp"),
		STREAM_TEST(unread_control_frames_are_bounded, "tcp"),
		STREAM_TEST(a_listener_outlasts_a_lack_of_descriptors, "tcp"),
		STREAM_TEST(last_words_arrive_after_a_close, "tcp"),
#ifdef SMD_TLS
		STREAM_TEST(last_words_arrive_after_a_close, "tls"),
		STREAM_TEST(a_listener_outlasts_a_lack_of_descriptors, "tls"),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
