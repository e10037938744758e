/*
 * Lanes on which nothing comes: who does not answer is lost and named, who answers or is in the
 * middle of sending is not. Servers and workers that are stopped as processes are tested in
 * tests/functional/perf/test_silent.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 3, LIMIT_S = 2, COUNT = 64 };

/* A second of a limit, so that the tests wait for parts of seconds. */
#define SECOND_MS 250u

static struct pool pool;

static int set_up(void **state)
{
	const struct smd_server_config config = {.shards = 1, .heartbeat_ms = LIMIT_S * 1000};

	(void)state;
	capture_begin();
	pool_start(&pool, "tcp", 1, &config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	capture_end();
	return 0;
}

static void open_pair(struct raw pair[2], const char *group)
{
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &pool, 0);
		raw_greet(&pair[r], r ? "workerpool1-2" : "workerpool0-0");
		raw_join(&pair[r], NUMBER, group, 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
	}
}

static void close_pair(struct raw pair[2])
{
	raw_close(&pair[0]);
	raw_close(&pair[1]);
}

static void who_does_not_answer_is_lost_and_named(void **state)
{
	struct raw pair[2];

	(void)state;
	open_pair(pair, "silent");
	raw_expect_text(&pair[0], SMD_FRAME_GONE,
		"group raw/silent: rank 1 (workerpool1-2) was lost: it has been silent for 2 s");
	assert_int_equal(pair[0].payload[0], ECONNRESET);
	capture_await("shard 0: lane of workerpool1-2 (127.0.0.1:", "it has been silent for 2 s");
	pair[1].deaf = true;
	raw_expect(&pair[1], SMD_FRAME_PING); /* it was asked */
	do {
		assert_true(raw_receive(&pair[1]));
	} while (pair[1].frame.kind == SMD_FRAME_PING);
	assert_int_equal(pair[1].frame.kind, SMD_FRAME_ABORT); /* it finds that when it wakes up */
	assert_int_equal(pair[1].payload[0], ECONNABORTED);
	assert_non_null(strstr((const char *)pair[1].payload + 4,
		"rank 1 (workerpool1-2) was lost: it has been silent for 2 s"));
	raw_expect_end(&pair[1]);
	close_pair(pair);
}

/* Asked so often that it would have been lost twice over. */
static void who_answers_may_have_nothing_to_say(void **state)
{
	static const int32_t values[COUNT];
	struct raw pair[2];

	(void)state;
	open_pair(pair, "idle");
	pair[0].deaf = true; /* so that its PINGs are seen here */
	for (int i = 0; i < 8; i++) {
		raw_expect(&pair[0], SMD_FRAME_PING);
		raw_send(&pair[0], (struct smd_frame){.kind = SMD_FRAME_PONG}, NULL, 0);
		raw_send(&pair[1], (struct smd_frame){.kind = SMD_FRAME_PONG}, NULL, 0);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_send(&pair[r], raw_input(NUMBER, r, 0, COUNT), values, sizeof(values));
	}
	pair[0].deaf = false;
	raw_expect(&pair[0], SMD_FRAME_RESULT);
	raw_expect(&pair[1], SMD_FRAME_RESULT);
	close_pair(pair);
}

/* No frame of it is whole for longer than the limit, and none can come between. */
static void who_is_in_the_middle_of_a_frame_is_alive(void **state)
{
	static const uint8_t values[COUNT * 4];
	struct smd_frame frame = raw_input(NUMBER, 1, 0, COUNT);
	uint8_t header[SMD_FRAME_SIZE];
	struct raw pair[2];

	(void)state;
	open_pair(pair, "slow");
	frame.length = sizeof(values);
	smd_frame_encode(&frame, header);
	raw_write(&pair[1], header, sizeof(header));
	for (size_t i = 0; i < sizeof(values); i += 8) {
		usleep(SECOND_MS * 1000 / 10);
		raw_write(&pair[1], values + i, 8);
		raw_send(&pair[0], (struct smd_frame){.kind = SMD_FRAME_PONG}, NULL, 0);
	}
	raw_send(&pair[0], raw_input(NUMBER, 0, 0, COUNT), values, sizeof(values));
	raw_expect(&pair[0], SMD_FRAME_RESULT);
	raw_expect(&pair[1], SMD_FRAME_RESULT);
	close_pair(pair);
}

static void a_worker_may_ask_too(void **state)
{
	struct raw pair[2];

	(void)state;
	open_pair(pair, "ask");
	for (int i = 0; i < 3; i++) {
		raw_send(&pair[0], (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
		raw_expect(&pair[0], SMD_FRAME_PONG);
	}
	close_pair(pair);
}

/* The lane is cut by the stop in the middle of a part: its buffer comes back, and others go on. */
static void who_stops_in_the_middle_of_a_frame_is_lost(void **state)
{
	struct smd_frame frame = raw_input(NUMBER, 1, 0, COUNT);
	uint8_t header[SMD_FRAME_SIZE];
	struct raw pair[2];

	(void)state;
	open_pair(pair, "half");
	frame.length = COUNT * 4;
	smd_frame_encode(&frame, header);
	raw_write(&pair[1], header, sizeof(header));
	raw_write(&pair[1], "half of it", 10);
	raw_expect_text(&pair[0], SMD_FRAME_GONE,
		"rank 1 (workerpool1-2) was lost: it has been silent for 2 s");
	raw_leave(&pair[0], NUMBER, 0);
	raw_join(&pair[0], NUMBER, "half", 1, 0);
	raw_expect(&pair[0], SMD_FRAME_JOINED);
	close_pair(pair);
}

/* It moves nothing and answers nothing while its program does something else for long. */
static void pause_between_operations(struct pool_rank *rank)
{
	for (int i = 0; i < 2; i++) {
		int32_t one = 1;

		CHECK(smd_allreduce(rank->comm, &one, &one, 1, SMD_INT32, SMD_SUM) == 0);
		CHECK(one == 2);
		if (i == 0) {
			usleep((LIMIT_S + 2) * SECOND_MS * 1000);
		}
	}
}

static void a_rank_in_poll_mode_may_pause(void **state)
{
	(void)state;
	setenv("SUMMAND_PROGRESS", "poll", 1);
	setenv("SUMMAND_HEARTBEAT_LIMIT", "2", 1);
	pool_run(&pool, 2, "pause", pause_between_operations, NULL);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
	unsetenv("SUMMAND_PROGRESS");
}

/* TCP's own limit, of 20 s, is one second in this program, and 0 stays for ever. Sockets hold less
 * than a chunk. */
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	const int little = 64 << 10;
	int patience_ms;

	if (level != IPPROTO_TCP || name != TCP_USER_TIMEOUT) {
		return __real_setsockopt(fd, level, name, value, size);
	}
	(void)__real_setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	memcpy(&patience_ms, value, sizeof(patience_ms));
	patience_ms /= 20;
	return __real_setsockopt(fd, level, name, &patience_ms, sizeof(patience_ms));
}

enum { MUCH = 1 << 20 }; /* elements: a window of results */

/* Rank 0 has sent a window of chunks and computes, when the other's parts come and all of its
 * results are sent to it. */
static void compute_with_results_unread(struct pool_rank *rank)
{
	atomic_bool *sent = rank->argument;
	float *buffer = malloc(MUCH * sizeof(*buffer));
	smd_request *request;

	for (int k = 0; k < 3; k++) { /* the window grows */
		pool_fill(buffer, rank->rank, k, MUCH);
		CHECK(smd_allreduce(rank->comm, buffer, buffer, MUCH, SMD_FLOAT32, SMD_SUM) == 0);
	}
	pool_fill(buffer, rank->rank, 3, MUCH);
	while (rank->rank != 0 && !atomic_load(sent)) {
		usleep(1000);
	}
	CHECK(smd_allreduce_start(
		      rank->comm, buffer, buffer, MUCH, SMD_FLOAT32, SMD_SUM, &request) == 0);
	for (int i = 0; rank->rank == 0 && i < 300; i++) {
		CHECK(smd_request_test(request) == 0);
		usleep(1000);
	}
	if (rank->rank == 0) {
		atomic_store(sent, true);
		usleep(3000000);
	}
	CHECK(smd_request_wait(request) == 0);
	pool_check_sum(buffer, 2, 3, MUCH);
	free(buffer);
}

static void a_rank_in_poll_mode_may_leave_its_results_unread(void **state)
{
	atomic_bool sent = false;

	(void)state;
	setenv("SUMMAND_PROGRESS", "poll", 1);
	setenv("SUMMAND_HEARTBEAT_LIMIT", "600", 1);
	pool_run(&pool, 2, "unread", compute_with_results_unread, &sent);
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
	unsetenv("SUMMAND_PROGRESS");
}

/* How long the server's end of that connection waits for what it sends to be taken; 0: for ever. */
static int patience_of_other_end(const struct raw *raw)
{
	struct sockaddr_storage ours;
	socklen_t size = sizeof(ours);

	assert_int_equal(getsockname(raw->fd, (struct sockaddr *)&ours, &size), 0);
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_storage theirs = {0};
		socklen_t length = sizeof(theirs);
		int patience_ms;

		if (getpeername(fd, (struct sockaddr *)&theirs, &length) == 0 && length == size &&
			memcmp(&ours, &theirs, size) == 0) {
			length = sizeof(patience_ms);
			assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms,
						 &length),
				0);
			return patience_ms;
		}
	}
	fail_msg("the server's end is not there");
	return -1;
}

/* Its sockets may be full of results for as long as it computes: TCP's own limit of 20 s does not
 * hold, and the kernel's answers show that its machine is there (test_tcp_watch). */
static void who_answers_only_when_called_may_take_nothing_for_long(void **state)
{
	struct smd_hello hello = {.replica = "workerpool0-0", .job = "raw"};
	uint8_t payload[SMD_CONTROL_MAX];
	struct raw raw;

	(void)state;
	for (int called = 0; called < 2; called++) {
		hello.flags = called ? SMD_HELLO_CALLED : 0;
		raw_open(&raw, &pool, 0);
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
			smd_hello_encode(&hello, payload));
		raw_expect(&raw, SMD_FRAME_WELCOME);
		assert_int_equal(patience_of_other_end(&raw) == 0, called);
		raw_close(&raw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_answer_is_lost_and_named),
		cmocka_unit_test(who_answers_may_have_nothing_to_say),
		cmocka_unit_test(who_is_in_the_middle_of_a_frame_is_alive),
		cmocka_unit_test(a_worker_may_ask_too),
		cmocka_unit_test(who_stops_in_the_middle_of_a_frame_is_lost),
		cmocka_unit_test(a_rank_in_poll_mode_may_pause),
		cmocka_unit_test(a_rank_in_poll_mode_may_leave_its_results_unread),
		cmocka_unit_test(who_answers_only_when_called_may_take_nothing_for_long),
	};

	smd_heartbeat_second_ms = SECOND_MS;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
