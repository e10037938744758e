/*
 * Workers that break the protocol, one rule each: their lane ends with a reason, their
 * communicator's other rank is told, and a communicator beside them goes on with right results.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 4096 + 7, WINDOW = 2, CHUNK = 64 << 10, COUNT = 16 };

static struct pool pool;

/* ---- the communicator that goes on ---- */

enum { GOOD_RANKS = 2, GOOD_COUNT = 50000 };

static atomic_bool enough;
static atomic_uint good_operations;
static pthread_t good_thread;

/* The last element says whether some rank has had enough, so that all stop after the same one. */
static void go_on(struct pool_rank *rank)
{
	int32_t *values = malloc((GOOD_COUNT + 1) * sizeof(*values));

	do {
		for (int32_t i = 0; i < GOOD_COUNT; i++) {
			values[i] = i * (rank->rank + 1);
		}
		values[GOOD_COUNT] = atomic_load(&enough);
		CHECK(smd_allreduce(
			      rank->comm, values, values, GOOD_COUNT + 1, SMD_INT32, SMD_SUM) == 0);
		for (int32_t i = 0; i < GOOD_COUNT; i++) {
			CHECK(values[i] == 3 * i);
		}
		atomic_fetch_add(&good_operations, 1);
		usleep(1000);
	} while (!values[GOOD_COUNT]);
	free(values);
}

static void *run_good(void *arg)
{
	pool_run(arg, GOOD_RANKS, "good", go_on, NULL);
	return NULL;
}

/* What is done after this call was started after whatever the test has done before it. */
static void assert_the_good_go_on(void)
{
	unsigned before = atomic_load(&good_operations);
	uint64_t until = smd_clock_ns() + 10000000000ull;

	while (atomic_load(&good_operations) < before + 2 * GOOD_RANKS) {
		assert_true(smd_clock_ns() < until);
		usleep(500);
	}
}

static int set_up(void **state)
{
	const struct smd_server_config config = {
		.shards = 1,
		.chunk_bytes = CHUNK,
		.window = WINDOW,
		.memory_bytes = 64 * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.greeting_s = 2,
	};

	(void)state;
	capture_begin();
	pool_start(&pool, "tcp", 1, &config);
	return pthread_create(&good_thread, NULL, run_good, &pool);
}

static int tear_down(void **state)
{
	(void)state;
	atomic_store(&enough, true);
	pthread_join(good_thread, NULL);
	pool_stop(&pool);
	capture_end();
	return 0;
}

/* ---- before WELCOME ---- */

static void assert_refused_at_once(const void *bytes, size_t length, const char *reason)
{
	struct raw raw;

	raw_open(&raw, &pool, 0);
	raw_write(&raw, bytes, length);
	raw_expect_end(&raw);
	capture_await("server: lane of 127.0.0.1:", reason);
	raw_close(&raw);
	assert_the_good_go_on();
}

static void a_stream_that_is_not_ours(void **state)
{
	char request[128] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

	(void)state;
	assert_refused_at_once(request, sizeof(request), "magic must be SMD, got 474554");
}

static void another_version(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_HELLO};
	uint8_t bytes[SMD_FRAME_SIZE];

	(void)state;
	smd_frame_encode(&frame, bytes);
	bytes[3] = 1;
	assert_refused_at_once(bytes, sizeof(bytes), "version must be 6, got 1");
}

static void a_kind_that_is_none(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_KIND_END};
	uint8_t bytes[SMD_FRAME_SIZE];
	char text[64];

	(void)state;
	smd_frame_encode(&frame, bytes);
	snprintf(text, sizeof(text), "kind must be 1 to %d, got %d", SMD_FRAME_KIND_END - 1,
		SMD_FRAME_KIND_END);
	assert_refused_at_once(bytes, sizeof(bytes), text);
}

static void another_frame_before_hello(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_JOIN};
	uint8_t bytes[SMD_FRAME_SIZE];

	(void)state;
	smd_frame_encode(&frame, bytes);
	assert_refused_at_once(bytes, sizeof(bytes), "the first frame must be HELLO, got JOIN");
}

static void a_hello_that_is_too_long(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_HELLO, .length = 4000000000u};
	uint8_t bytes[SMD_FRAME_SIZE];

	(void)state;
	smd_frame_encode(&frame, bytes);
	assert_refused_at_once(
		bytes, sizeof(bytes), "HELLO: length must be at most 2048, got 4000000000");
}

static void a_hello_that_is_malformed(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_HELLO, .length = 3};
	uint8_t bytes[SMD_FRAME_SIZE + 3] = {0};

	(void)state;
	smd_frame_encode(&frame, bytes);
	assert_refused_at_once(
		bytes, sizeof(bytes), "HELLO: payload must be as specs/design/wire.md says");
}

static void half_a_frame_then_the_end(void **state)
{
	struct raw raw;

	(void)state;
	raw_open(&raw, &pool, 0);
	raw_write(&raw, "SMD\1\1", 5);
	CHECK(shutdown(raw.fd, SHUT_WR) == 0);
	raw_expect_end(&raw);
	raw_close(&raw);
	assert_the_good_go_on();
}

static void a_shard_that_is_not_there(void **state)
{
	struct raw raw;

	(void)state;
	raw_open(&raw, &pool, 0);
	raw_say_hello(&raw, "lost", 1, "");
	raw_expect_text(&raw, SMD_FRAME_REFUSE, "lost: shard must be below 1, got 1");
	capture_await("server: refused 127.0.0.1:", "lost: shard must be below 1, got 1");
	raw_say_hello(&raw, "lost", 0, ""); /* there is no second chance on this lane */
	raw_expect_end(&raw);
	raw_close(&raw);
	assert_the_good_go_on();
}

static void silence(void **state)
{
	struct raw silent;
	struct raw refused;

	(void)state;
	raw_open(&silent, &pool, 0);
	raw_open(&refused, &pool, 0);
	raw_say_hello(&refused, "refused", 9, "");
	raw_expect(&refused, SMD_FRAME_REFUSE);
	raw_expect_end(&silent);
	raw_expect_end(&refused);
	capture_await("server: lane of 127.0.0.1:", "it has not said HELLO for 2 s");
	raw_close(&silent);
	raw_close(&refused);
	assert_the_good_go_on();
}

/* ---- after JOINED: the offender is rank 0, its companion rank 1 of the same communicator ---- */

static void send_part(struct raw *raw, struct smd_frame frame)
{
	static const int32_t values[COUNT];

	raw_send(raw, frame, values, sizeof(values));
}

static void wrong_magic(struct raw *raw)
{
	raw_write(raw, "What is said here is no frame at all, but it is longer than one is", 66);
}

static void wrong_direction(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_RESULT, .comm = NUMBER}, NULL, 0);
}

static void a_second_hello(struct raw *raw)
{
	raw_say_hello(raw, "offender", 0, "");
}

static void gone_to_a_shard(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_GONE}, NULL, 0);
}

static void a_frame_of_point_to_point(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_DATA}, "abc", 3);
}

static void input_of_an_unknown_number(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER + 1, 0, 0, COUNT));
}

/* The same place in the table, but a former communicator's number. */
static void input_of_a_former_number(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER + SMD_COMMS_MAX, 0, 0, COUNT));
}

static void input_of_another_rank(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER, 1, 0, COUNT));
}

static void leave_of_another_rank(struct raw *raw)
{
	raw_leave(raw, NUMBER, 1);
}

static void leave_with_a_payload(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_LEAVE, .comm = NUMBER}, "bye", 3);
}

static void ordinal_skipped(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER, 0, 1, COUNT));
}

static void ordinal_repeated(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER, 0, 0, COUNT));
	send_part(raw, raw_input(NUMBER, 0, 0, COUNT));
}

static void ordinal_not_granted(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER, 0, 0, COUNT));
	send_part(raw, raw_input(NUMBER, 0, 1, COUNT));
}

static void lag_of_more_than_there_was(struct raw *raw)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);

	frame.lag = 1;
	send_part(raw, frame);
}

static void more_open_than_there_were(struct raw *raw)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);

	frame.open = 2;
	send_part(raw, frame);
}

static void length_of_no_whole_elements(struct raw *raw)
{
	raw_send(raw, raw_input(NUMBER, 0, 0, COUNT), "12345", 5);
}

static void a_type_that_is_none(struct raw *raw)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);

	frame.dtype = 99;
	send_part(raw, frame);
}

static void larger_than_the_largest_chunk(struct raw *raw)
{
	static const int32_t values[CHUNK / 4 + 1];

	raw_send(raw, raw_input(NUMBER, 0, 0, CHUNK), values, sizeof(values));
}

static void chunk_beyond_the_count(struct raw *raw)
{
	send_part(raw, raw_input(NUMBER, 0, 0, COUNT - 1));
}

static void offset_beyond_the_count(struct raw *raw)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);

	frame.offset = UINT64_MAX - 3; /* and the sum with the length overflows */
	send_part(raw, frame);
}

static void a_number_that_is_in_use(struct raw *raw)
{
	raw_join(raw, NUMBER, "another", 2, 0);
}

static void join_that_is_malformed(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_JOIN, .comm = NUMBER + 1}, "xx", 2);
}

static void join_of_too_many_ranks(struct raw *raw)
{
	raw_join(raw, NUMBER + 1, "many", 4097, 0);
}

static void leave_twice(struct raw *raw)
{
	raw_leave(raw, NUMBER + 1, 0);
}

static void end_in_the_middle_of_a_chunk(struct raw *raw)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);
	uint8_t header[SMD_FRAME_SIZE];

	frame.length = 4 * COUNT;
	smd_frame_encode(&frame, header);
	raw_write(raw, header, sizeof(header));
	raw_write(raw, "1234", 4);
	CHECK(shutdown(raw->fd, SHUT_WR) == 0);
}

static void end_without_leave(struct raw *raw)
{
	CHECK(shutdown(raw->fd, SHUT_WR) == 0);
}

struct misuse {
	const char *name;
	void (*body)(struct raw *offender);
	const char *reason;
};

static const struct misuse misuses[] = {
#define MISUSE(body, reason)                                                                       \
	{                                                                                          \
#body, body, reason                                                                \
	}
	MISUSE(wrong_magic, "frame: magic must be SMD, got 576861"),
	MISUSE(wrong_direction, "RESULT: must not be sent to a shard"),
	MISUSE(a_second_hello, "HELLO: must not be sent to a shard"),
	MISUSE(gone_to_a_shard, "GONE: must not be sent to a shard"),
	MISUSE(a_frame_of_point_to_point, "DATA: must not be sent to a shard"),
	MISUSE(input_of_an_unknown_number,
		"INPUT: communicator must have been joined, got number 4104"),
	MISUSE(input_of_a_former_number,
		"INPUT: communicator must have been joined, got number 8199"),
	MISUSE(input_of_another_rank, "INPUT: rank must be 0 as in JOIN, got 1"),
	MISUSE(leave_of_another_rank, "LEAVE: rank must be 0 as in JOIN, got 1"),
	MISUSE(leave_with_a_payload,
		"LEAVE: payload must be none or an errno and a text, got 3 bytes"),
	MISUSE(ordinal_skipped, "INPUT: ordinal must be 0, got 1"),
	MISUSE(ordinal_repeated, "INPUT: ordinal must be 1, got 0"),
	MISUSE(ordinal_not_granted, "INPUT: ordinal must be below 1, which is granted, got 1"),
	MISUSE(lag_of_more_than_there_was, "INPUT: lag must be at most 16 and the ordinal, got 1"),
	MISUSE(more_open_than_there_were,
		"INPUT: open must be at most the operation's number and 1, got 2"),
	MISUSE(length_of_no_whole_elements,
		"INPUT: length must be whole elements of int32 and at most 65536, got 5"),
	MISUSE(a_type_that_is_none,
		"INPUT: length must be whole elements of type 99 and at most 65536, got 64"),
	MISUSE(larger_than_the_largest_chunk,
		"INPUT: length must be whole elements of int32 and at most 65536, got 65540"),
	MISUSE(chunk_beyond_the_count, "INPUT: the chunk must lie within 15 elements, got 16 at 0"),
	MISUSE(offset_beyond_the_count, "INPUT: the chunk must lie within 16 elements, got 16 at"),
	MISUSE(a_number_that_is_in_use, "JOIN: number must be free, got 4103, which is in use"),
	MISUSE(join_that_is_malformed,
		"JOIN: payload must be as specs/design/wire.md says, got 2 bytes"),
	MISUSE(join_of_too_many_ranks, "JOIN: ranks must be 1 to 4096, got 4097"),
	MISUSE(leave_twice, "LEAVE: communicator must have been joined, got number 4104"),
	MISUSE(end_in_the_middle_of_a_chunk, "the other end closed the connection"),
	MISUSE(end_without_leave, "the other end closed the connection"),
};
#define NMISUSES (sizeof(misuses) / sizeof(misuses[0]))

/* Two ranks in a communicator, each on a lane of its own. */
static void open_pair(struct raw pair[2], const char *group)
{
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &pool, 0);
		raw_greet(&pair[r], r ? "companion" : "offender");
		raw_join(&pair[r], NUMBER, group, 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
		assert_int_equal(pair[r].frame.window, 1);
	}
}

/* The offender gets the reason that the others get, before its lane ends. */
static bool hears_why(struct raw *raw, const char *text)
{
	bool heard = false;

	while (raw_receive(raw)) {
		heard |= raw->frame.kind == SMD_FRAME_ABORT &&
			 strstr((const char *)raw->payload + 4, text) != NULL;
	}
	return heard;
}

/* The companion is told, and its own lane goes on: it can join another communicator on it. */
static void misuse_ends_one_lane(void **state)
{
	const struct misuse *misuse = *state;
	struct raw pair[2];
	char text[300];

	open_pair(pair, misuse->name);
	misuse->body(&pair[0]);
	snprintf(text, sizeof(text), "group raw/%s: rank 0 (offender) was lost: %s", misuse->name,
		misuse->reason);
	assert_true(hears_why(&pair[0], text) || strstr(misuse->reason, "the other end closed"));
	raw_expect_text(&pair[1], SMD_FRAME_GONE, text);
	capture_await("shard 0: lane of offender (127.0.0.1:", misuse->reason);
	assert_the_good_go_on();
	raw_leave(&pair[1], NUMBER, 1);
	raw_join(&pair[1], NUMBER, misuse->name, 1, 0);
	raw_expect(&pair[1], SMD_FRAME_JOINED);
	raw_close(&pair[0]);
	raw_close(&pair[1]);
}

/* ---- what ends a communicator, but no lane ---- */

/* After ABORT a worker's frames for the number are taken and thrown away until its LEAVE. */
static void an_abort_leaves_the_lane_alone(struct raw pair[2], const char *text)
{
	raw_expect_text(&pair[0], SMD_FRAME_ABORT, text);
	raw_expect_text(&pair[1], SMD_FRAME_ABORT, text);
	capture_await("shard 0: ", text);
	assert_the_good_go_on();
	for (unsigned r = 0; r < 2; r++) {
		send_part(&pair[r], raw_input(NUMBER, r, 12345, COUNT));
		raw_leave(&pair[r], NUMBER, r);
		raw_join(&pair[r], NUMBER + SMD_COMMS_MAX, "afterwards", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
		send_part(&pair[r], raw_input(NUMBER + SMD_COMMS_MAX, r, 0, COUNT));
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_RESULT);
		raw_leave(&pair[r], NUMBER + SMD_COMMS_MAX, r);
		CHECK(shutdown(pair[r].fd, SHUT_WR) == 0);
		raw_expect_end(&pair[r]);
		raw_close(&pair[r]);
	}
}

static void ranks_that_disagree(void **state)
{
	struct raw pair[2];

	(void)state;
	open_pair(pair, "disagree");
	send_part(&pair[0], raw_input(NUMBER, 0, 0, COUNT));
	send_part(&pair[1], raw_input(NUMBER, 1, 0, COUNT + 1));
	an_abort_leaves_the_lane_alone(
		pair, "group raw/disagree: all ranks must ask for the same, but rank ");
}

static void what_no_kernel_can_do(void **state)
{
	struct smd_frame frame = raw_input(NUMBER, 0, 0, COUNT);
	struct raw pair[2];

	(void)state;
	open_pair(pair, "unknown");
	frame.op = 77;
	send_part(&pair[0], frame);
	an_abort_leaves_the_lane_alone(
		pair, "group raw/unknown: the reduction server does not support int32 op 77");
}

static void leaving_in_the_middle_of_an_operation(void **state)
{
	struct raw pair[2];

	(void)state;
	open_pair(pair, "early");
	send_part(&pair[0], raw_input(NUMBER, 0, 0, COUNT));
	raw_leave(&pair[0], NUMBER, 0);
	raw_expect_text(&pair[1], SMD_FRAME_ABORT,
		"group raw/early: rank 0 (offender) left in the middle of an operation");
	raw_close(&pair[0]);
	raw_close(&pair[1]);
	assert_the_good_go_on();
}

/* A rank that heard of a failure first is not the failure. */
static void leaving_for_a_reason(void **state)
{
	const struct smd_frame leave = {.kind = SMD_FRAME_LEAVE, .comm = NUMBER};
	const char why[] = "\x68\0\0\0reduction server x:1 was lost";
	struct raw pair[2];

	(void)state;
	open_pair(pair, "reason");
	send_part(&pair[1], raw_input(NUMBER, 1, 0, COUNT));
	raw_send(&pair[0], leave, why, sizeof(why) - 1);
	raw_expect_text(&pair[1], SMD_FRAME_ABORT, "reduction server x:1 was lost");
	assert_int_equal(pair[1].payload[0], ECONNRESET);
	raw_close(&pair[0]);
	raw_close(&pair[1]);
	assert_the_good_go_on();
}

static void a_rank_beyond_the_number_of_ranks(void **state)
{
	struct raw raw;

	(void)state;
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "high");
	raw_join(&raw, NUMBER, "high", 2, 2);
	raw_expect_text(&raw, SMD_FRAME_ABORT, "group raw/high: rank must be below 2, got 2");
	raw_leave(&raw, NUMBER, 2);
	raw_join(&raw, NUMBER, "high", 1, 0);
	raw_expect(&raw, SMD_FRAME_JOINED);
	raw_close(&raw);
	assert_the_good_go_on();
}

static void a_communicator_of_more_ranks_than_memory_has_room_for(void **state)
{
	struct raw raw;

	(void)state;
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "greedy");
	raw_join(&raw, NUMBER, "greedy", 200, 0);
	raw_expect_text(&raw, SMD_FRAME_ABORT, "memory has no slot left for 200 ranks");
	raw_close(&raw);
	assert_the_good_go_on();
}

/*
 * A rank that guesses its grants and takes no results would pile them up in the others' buffers: it
 * is granted what it has taken, and no more. The server here has memory for one slot.
 */
static void sending_without_taking_results(void **state)
{
	const struct smd_server_config config = {.shards = 1,
		.chunk_bytes = CHUNK,
		.memory_bytes = 4 * SMD_BUFFER_POOL_STRIDE(CHUNK)};
	enum { CHUNKS = 1000, WHOLE = CHUNK / 4 };
	int32_t *values = calloc(WHOLE, sizeof(*values));
	struct pool small;
	struct raw pair[2];

	(void)state;
	pool_start(&small, "tcp", 1, &config);
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &small, 0);
		raw_greet(&pair[r], r ? "companion" : "offender");
		raw_join(&pair[r], NUMBER, "deaf", 2, r);
	}
	raw_expect(&pair[1], SMD_FRAME_JOINED);
	assert_int_equal(pair[1].frame.window, 1);
	for (unsigned k = 0; k < CHUNKS && pair[1].frame.kind != SMD_FRAME_GONE; k++) {
		raw_send(&pair[1], raw_input(NUMBER, 1, k, WHOLE), values, CHUNK);
		raw_send(&pair[0], raw_input(NUMBER, 0, k, WHOLE), values, CHUNK);
		raw_receive(&pair[1]);
	}
	assert_int_equal(pair[1].frame.kind, SMD_FRAME_GONE);
	assert_non_null(strstr((char *)pair[1].payload + 4, "rank 0 (offender) was lost"));
	assert_non_null(strstr((char *)pair[1].payload + 4, "which is granted"));
	raw_close(&pair[0]);
	raw_close(&pair[1]);
	pool_stop(&small);
	free(values);
}

int main(void)
{
	const struct CMUnitTest others[] = {
		cmocka_unit_test(sending_without_taking_results),
		cmocka_unit_test(a_stream_that_is_not_ours),
		cmocka_unit_test(another_version),
		cmocka_unit_test(a_kind_that_is_none),
		cmocka_unit_test(another_frame_before_hello),
		cmocka_unit_test(a_hello_that_is_too_long),
		cmocka_unit_test(a_hello_that_is_malformed),
		cmocka_unit_test(half_a_frame_then_the_end),
		cmocka_unit_test(a_shard_that_is_not_there),
		cmocka_unit_test(silence),
		cmocka_unit_test(ranks_that_disagree),
		cmocka_unit_test(what_no_kernel_can_do),
		cmocka_unit_test(leaving_in_the_middle_of_an_operation),
		cmocka_unit_test(leaving_for_a_reason),
		cmocka_unit_test(a_rank_beyond_the_number_of_ranks),
		cmocka_unit_test(a_communicator_of_more_ranks_than_memory_has_room_for),
	};
	enum { NOTHERS = sizeof(others) / sizeof(others[0]) };
	struct CMUnitTest tests[NOTHERS + NMISUSES];

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < NMISUSES; i++) {
		tests[NOTHERS + i] = (struct CMUnitTest){
			misuses[i].name, misuse_ends_one_lane, NULL, NULL, (void *)&misuses[i]};
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
