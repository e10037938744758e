/*
 * A server that is asked to end: for how long it waits, for whom it does not, and what those hear
 * who had not ended in time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/transport/loop.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

#define OVER                                                                                       \
	"the reduction server was asked to end, and the group did not within 1 s "                 \
	"(--drain-timeout)"

/* Between two looks at whether workers are alive. */
#define LOOK_S 30

/* Nor does the server wait for them for longer: that its time is over is not left to the next look
 * at its workers. */
static void who_does_not_end_in_time_is_told(void **state)
{
	const struct smd_server_config config = {.shards = 1, .drain_s = 1};
	struct pool pool;
	struct raw pair[2];
	uint64_t began_ns;

	(void)state;
	smd_heartbeat_second_ms = LOOK_S * 1000;
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &pool, 0);
		raw_greet(&pair[r], "worker");
		raw_join(&pair[r], 1, "long", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
	}
	began_ns = smd_clock_ns();
	pool_end_server(&pool, 0, 0);
	assert_true(smd_clock_ns() - began_ns < LOOK_S * SMD_SECOND_NS / 2);
	for (unsigned r = 0; r < 2; r++) {
		raw_expect_text(&pair[r], SMD_FRAME_ABORT, "group raw/long: " OVER);
		assert_int_equal(pair[r].payload[0], ESHUTDOWN);
		raw_expect_end(&pair[r]);
		raw_close(&pair[r]);
	}
	pool_stop(&pool);
	smd_heartbeat_second_ms = 1000;
}

/* In the middle of a part, of which the rest comes when the server has ended. */
static void who_works_when_it_is_stopped_is_told(void **state)
{
	const struct smd_server_config config = {.shards = 1};
	struct pool pool;
	struct raw pair[2];
	static uint8_t half[128 << 10];
	struct smd_frame input = raw_input(1, 0, 0, 2 * sizeof(half) / sizeof(int32_t));
	uint8_t header[SMD_FRAME_SIZE];

	(void)state;
	input.length = 2 * sizeof(half);
	smd_frame_encode(&input, header);
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &pool, 0);
		raw_greet(&pair[r], "worker");
		raw_join(&pair[r], 1, "long", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
	}
	raw_write(&pair[0], header, sizeof(header));
	raw_write(&pair[0], half, sizeof(half));
	pool_end_server(&pool, 0, 1);
	raw_write(&pair[0], half, sizeof(half));
	for (unsigned r = 0; r < 2; r++) {
		raw_expect_text(&pair[r], SMD_FRAME_ABORT,
			"group raw/long: the reduction server was stopped");
		assert_int_equal(pair[r].payload[0], ESHUTDOWN);
		raw_expect_end(&pair[r]);
		raw_close(&pair[r]);
	}
	pool_stop(&pool);
}

/* A lane that says nothing, one in no group, and half a group. */
static void strangers_do_not_count(void **state)
{
	const struct smd_server_config config = {.shards = 1, .drain_s = 600, .greeting_s = 600};
	struct pool pool;
	struct raw mute;
	struct raw idle;
	struct raw half;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	raw_open(&mute, &pool, 0);
	raw_open(&idle, &pool, 0);
	raw_greet(&idle, "idle");
	raw_open(&half, &pool, 0);
	raw_greet(&half, "half");
	raw_join(&half, 1, "half", 2, 0);
	raw_send(&half, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	raw_expect(&half, SMD_FRAME_PONG);
	pool_end_server(&pool, 0, 0); /* or this takes ten minutes */
	raw_expect_text(&half, SMD_FRAME_ABORT, "the reduction server is being drained");
	raw_expect_end(&mute);
	raw_expect_end(&idle);
	raw_expect_end(&half);
	raw_close(&mute);
	raw_close(&idle);
	raw_close(&half);
	pool_stop(&pool);
}

/* ---- whose loop takes no locks ---- */

static struct event_base *lone; /* only this thread may touch it */
static pthread_t alone;
static atomic_uint touched; /* by others */

void __real_event_active(struct event *event, int what, short ncalls);
void __wrap_event_active(struct event *event, int what, short ncalls);

/* The linker puts it in front of libevent's. */
void __wrap_event_active(struct event *event, int what, short ncalls)
{
	if (lone && event_get_base(event) == lone && !pthread_equal(pthread_self(), alone)) {
		atomic_fetch_add(&touched, 1);
	}
	__real_event_active(event, what, ncalls);
}

static void count(void *owner)
{
	++*(unsigned *)owner;
}

static void shards_leave_the_loop_of_the_listeners_alone(void **state)
{
	unsigned ended = 0;
	struct smd_error error = {""};
	struct smd_shard_stats stats;
	struct smd_server *server;
	const struct smd_server_config config = {
		.transports = {{smd_transport_find("tcp"), true}},
		.listen = "127.0.0.1:0",
		.shards = 2,
		.memory_bytes = 32u << 20,
		.on_ended = count,
		.owner = &ended,
	};

	(void)state;
	lone = smd_loop_create();
	alone = pthread_self();
	assert_non_null(lone);
	assert_int_equal(smd_server_start(lone, &config, &server, &error), 0);
	smd_server_drain(server, true);
	smd_server_join(server, &stats);
	event_base_loop(lone, EVLOOP_NONBLOCK);
	assert_int_equal(ended, 1);
	assert_int_equal(atomic_load(&touched), 0);
	smd_server_free(server);
	smd_loop_free(lone);
	lone = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_end_in_time_is_told),
		cmocka_unit_test(who_works_when_it_is_stopped_is_told),
		cmocka_unit_test(strangers_do_not_count),
		cmocka_unit_test(shards_leave_the_loop_of_the_listeners_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
