/*
 * Whose frame leaves next: a small operation does not wait for what another communicator of the
 * same process has to send or to get, in either direction, and large ones go on beside many small
 * ones. Counted in bytes that arrive before it, over lanes whose other end takes what it is sent
 * only when the test lets it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/turns.h"
#include "reduction_server/wire/message.h"
#include "tests/unit/allreduce/fixture.h"

enum {
	CHUNK = 256 << 10,
	WINDOW = 8,
	LARGE = 64, /* chunks of the large operation */
	SMALL = 4 << 10,
	FRAMES_MAX = 1024,
	BIG = 4096 + 1, /* numbers of communicators */
	TINY = 4096 + 2
};

/* One end of a lane, and all that has come. */
struct hand {
	struct event_base *base;
	struct smd_lane *lane;
	bool open;
	bool closed;
	bool serves; /* it answers as a server: WELCOME, and JOINED with the window */
	unsigned joins;
	unsigned n;
	struct smd_frame frames[FRAMES_MAX];
	uint8_t *room;
};

static void hand_say(struct hand *hand, struct smd_frame frame, const void *payload, size_t length)
{
	CHECK(smd_lane_send_control(hand->lane, &frame, payload, length) == 0);
}

static int on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct hand *hand = owner;

	(void)error;
	CHECK(hand->n < FRAMES_MAX);
	hand->frames[hand->n++] = *frame;
	*payload = hand->room;
	return 0;
}

static int on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	const struct smd_welcome welcome = {
		.server_id = 77, .shards = 1, .chunk_bytes = CHUNK, .weight = 100000};
	struct hand *hand = owner;
	uint8_t bytes[SMD_CONTROL_MAX];

	(void)payload;
	(void)error;
	if (hand->serves && frame->kind == SMD_FRAME_HELLO) {
		hand_say(hand, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, bytes,
			smd_welcome_encode(&welcome, bytes));
	} else if (hand->serves && frame->kind == SMD_FRAME_JOIN) {
		struct smd_frame joined = *frame;

		joined.kind = SMD_FRAME_JOINED;
		joined.window = WINDOW;
		hand_say(hand, joined, NULL, 0);
		hand->joins++;
	}
	return 0;
}

static void on_open(void *owner)
{
	((struct hand *)owner)->open = true;
}

static void on_closed(void *owner, int err, const char *reason)
{
	(void)err;
	(void)reason;
	((struct hand *)owner)->closed = true;
}

static const struct smd_lane_callbacks callbacks = {
	.on_open = on_open, .on_header = on_header, .on_frame = on_frame, .on_closed = on_closed};

static void hand_make(struct hand *hand)
{
	*hand = (struct hand){.base = event_base_new(), .room = malloc(CHUNK)};
	CHECK(hand->base && hand->room);
}

static void hand_end(struct hand *hand)
{
	if (hand->lane) {
		smd_lane_close(hand->lane);
	}
	event_base_loop(hand->base, EVLOOP_NONBLOCK);
	smd_loop_free(hand->base);
	free(hand->room);
}

/* Takes what there is until so many of that kind have come, all in all. */
static void hand_take(struct hand *hand, unsigned kind, unsigned wanted)
{
	uint64_t until = smd_clock_ns() + 10000000000ull;

	for (;;) {
		unsigned have = 0;

		for (unsigned i = 0; i < hand->n; i++) {
			have += hand->frames[i].kind == kind;
		}
		if (have >= wanted) {
			return;
		}
		CHECK(smd_clock_ns() < until);
		event_base_loop(hand->base, EVLOOP_NONBLOCK);
	}
}

/* Bytes of the large communicator's that have come before the small one's first. */
static uint64_t bytes_before_the_small(const struct hand *hand, unsigned kind, unsigned from)
{
	uint64_t bytes = 0;

	for (unsigned i = from; i < hand->n; i++) {
		if (hand->frames[i].kind == kind && hand->frames[i].comm != BIG) {
			return bytes;
		}
		bytes += hand->frames[i].length;
	}
	CHECK(false);
	return 0;
}

/* ---- from a worker ---- */

struct rank_alone {
	char address[128];
	sem_t go; /* the other end takes nothing any more */
	sem_t started;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct rank_alone *worker = arg;
	const struct smd_context_options options = {.servers = worker->address,
		.replica = "worker",
		.job = "test",
		.transport = "loopback",
		.connect_timeout_s = 60,
		.progress = SMD_PROGRESS_POLL}; /* what it starts has begun when the call returns */
	int8_t *large = calloc(LARGE, CHUNK);
	int8_t *small = calloc(1, SMALL);
	smd_request *requests[2];
	smd_context *context;
	smd_comm *comms[2];

	CHECK(smd_context_create(&options, &context) == 0);
	CHECK(smd_comm_create(context, "large", 1, 0, &comms[0]) == 0);
	CHECK(smd_comm_create(context, "small", 1, 0, &comms[1]) == 0);
	sem_wait(&worker->go);
	CHECK(smd_allreduce_start(
		      comms[0], large, large, LARGE * CHUNK, SMD_INT8, SMD_SUM, &requests[0]) == 0);
	CHECK(smd_allreduce_start(comms[1], small, small, SMALL, SMD_INT8, SMD_SUM, &requests[1]) ==
		0);
	sem_post(&worker->started);
	CHECK(smd_request_wait(requests[1]) == -ECONNRESET);
	CHECK(smd_request_wait(requests[0]) == -ECONNRESET);
	smd_comm_destroy(comms[0]);
	smd_comm_destroy(comms[1]);
	smd_context_destroy(context);
	free(large);
	free(small);
	return NULL;
}

static void on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct hand *hand = owner;

	(void)shard;
	hand->lane = lane;
	CHECK(smd_lane_attach(lane, hand->base, &callbacks, hand) == 0);
}

static void a_worker_sends_the_small_one_first(void **state)
{
	struct smd_listener *listener;
	struct rank_alone worker;
	struct hand hand;
	unsigned before;
	unsigned first = 0;

	(void)state;
	hand_make(&hand);
	hand.serves = true;
	assert_int_equal(smd_transport_find("loopback")
				 ->listen(hand.base, "loopback:turns", on_accept, &hand, &listener,
					 worker.address, NULL),
		0);
	sem_init(&worker.go, 0, 0);
	sem_init(&worker.started, 0, 0);
	assert_int_equal(pthread_create(&worker.thread, NULL, work, &worker), 0);
	hand_take(&hand, SMD_FRAME_JOIN, 2);
	before = hand.n;
	sem_post(&worker.go);
	sem_wait(&worker.started);
	hand_take(&hand, SMD_FRAME_INPUT, WINDOW + 1);
	/* Numbers are the worker's. */
	while (hand.frames[before].comm == hand.frames[before + first].comm) {
		first++;
	}
	assert_int_equal(hand.frames[before + first].length, SMALL);
	assert_in_range(first, 1, 1); /* what was being sent when it began */
	for (unsigned i = before + first + 1; i < hand.n; i++) { /* and then it goes on */
		assert_true(hand.frames[i].length > SMD_TURN_SMALL);
	}
	smd_lane_close(hand.lane);
	hand.lane = NULL;
	pthread_join(worker.thread, NULL);
	smd_listener_close(listener);
	sem_destroy(&worker.go);
	sem_destroy(&worker.started);
	hand_end(&hand);
}

/* ---- from a server ---- */

static struct pool pool;

static void hand_connect(struct hand *hand, const char *replica)
{
	struct smd_hello hello = {.shard = 0};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error error = {""};

	hand_make(hand);
	CHECK(smd_transport_find("loopback")
			->connect(hand->base, pool.servers[0].address, NULL, 0, &callbacks, hand,
				&hand->lane, &error) == 0);
	while (!hand->open) {
		event_base_loop(hand->base, EVLOOP_NONBLOCK);
	}
	snprintf(hello.replica, sizeof(hello.replica), "%s", replica);
	hand_say(hand, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
		smd_hello_encode(&hello, payload));
	hand_take(hand, SMD_FRAME_WELCOME, 1);
}

static void hand_join(
	struct hand *hand, uint32_t number, const char *group, unsigned nranks, unsigned rank)
{
	struct smd_join join = {.nranks = (uint16_t)nranks};
	uint8_t payload[SMD_CONTROL_MAX];

	snprintf(join.group, sizeof(join.group), "%s", group);
	hand_say(hand,
		(struct smd_frame){.kind = SMD_FRAME_JOIN, .comm = number, .rank = (uint16_t)rank},
		payload, smd_join_encode(&join, payload));
}

static const uint8_t zeros[CHUNK];
static unsigned unsent;

static void on_input_sent(struct smd_send *send, int err)
{
	(void)err;
	unsent--;
	free(send);
}

/* The INPUT of an operation of one chunk. */
static void hand_input(
	struct hand *hand, uint32_t number, unsigned rank, uint64_t ordinal, uint32_t length)
{
	struct smd_send *send = calloc(1, sizeof(*send));
	struct smd_frame frame = {
		.kind = SMD_FRAME_INPUT,
		.dtype = SMD_INT8,
		.op = SMD_SUM,
		.comm = number,
		.rank = (uint16_t)rank,
		.chunk = ordinal,
		.operation = ordinal,
		.count = length,
		.ordinal = ordinal,
	};

	*send = (struct smd_send){.payload = zeros, .length = length, .done = on_input_sent};
	unsent++;
	smd_lane_send(hand->lane, &frame, send);
}

/* When the shard has answered so often on another lane, it has done all that it was told before: each
 * frame may take it two turns of its loop. */
static void wait_for_the_shard(struct hand *other)
{
	for (unsigned i = 0; i < 4 * WINDOW; i++) {
		other->n = 0;
		hand_say(other, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
		hand_take(other, SMD_FRAME_PONG, 1);
	}
}

static int start_server(void **state)
{
	const struct smd_server_config config = {
		.shards = 1,
		.chunk_bytes = CHUNK,
		.window = WINDOW,
		.memory_bytes = 256 * SMD_BUFFER_POOL_STRIDE(CHUNK),
	};

	(void)state;
	pool_start(&pool, "loopback", 1, &config);
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

/* The first result grants the whole window. */
static void widen(struct hand *hands, unsigned n)
{
	unsigned before = hands[0].n;

	for (unsigned i = 0; i < n; i++) {
		hand_input(&hands[i], BIG, i, 0, 1);
	}
	for (unsigned i = 0; i < n; i++) {
		hand_take(&hands[i], SMD_FRAME_RESULT, 1);
	}
	for (unsigned i = before; i < hands[0].n; i++) {
		if (hands[0].frames[i].kind == SMD_FRAME_RESULT) {
			assert_int_equal(hands[0].frames[i].window, WINDOW);
		}
	}
}

static void a_server_sends_the_small_one_first(void **state)
{
	struct hand hand;
	struct hand other;
	unsigned from;

	(void)state;
	hand_connect(&hand, "greedy");
	hand_connect(&other, "other");
	hand_join(&hand, BIG, "large", 1, 0);
	hand_join(&hand, TINY, "small", 1, 0);
	hand_take(&hand, SMD_FRAME_JOINED, 2);
	widen(&hand, 1);
	from = hand.n;
	for (unsigned i = 0; i < WINDOW; i++) {
		hand_input(&hand, BIG, 0, 1 + i, CHUNK);
	}
	hand_input(&hand, TINY, 0, 0, SMALL);
	wait_for_the_shard(&other);
	hand_take(&hand, SMD_FRAME_RESULT, 1 + WINDOW + 1);
	assert_in_range(bytes_before_the_small(&hand, SMD_FRAME_RESULT, from), 0, CHUNK);
	hand_end(&hand);
	hand_end(&other);
	assert_int_equal(unsent, 0);
}

/* Whether this end lives is not asked behind all that the server owes it. */
static void a_server_answers_before_what_it_owes(void **state)
{
	struct hand hand;
	struct hand other;
	uint64_t before = 0;
	unsigned from;

	(void)state;
	hand_connect(&hand, "greedy");
	hand_connect(&other, "other");
	hand_join(&hand, BIG, "owed", 1, 0);
	hand_take(&hand, SMD_FRAME_JOINED, 1);
	widen(&hand, 1);
	from = hand.n;
	for (unsigned i = 0; i < WINDOW; i++) {
		hand_input(&hand, BIG, 0, 1 + i, CHUNK);
	}
	hand_say(&hand, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	wait_for_the_shard(&other);
	hand_take(&hand, SMD_FRAME_PONG, 1);
	for (unsigned i = from; hand.frames[i].kind != SMD_FRAME_PONG; i++) {
		before += hand.frames[i].length;
	}
	assert_in_range(before, 0, CHUNK); /* what was being sent */
	hand_take(&hand, SMD_FRAME_RESULT, 1 + WINDOW);
	hand_end(&hand);
	hand_end(&other);
	assert_int_equal(unsent, 0);
}

/* What was reduced comes, and then GONE. */
static void the_end_of_a_rank_waits_for_its_results(void **state)
{
	struct hand hands[2];
	struct hand other;
	unsigned results = 0;
	unsigned from;

	(void)state;
	hand_connect(&hands[0], "stays");
	hand_connect(&hands[1], "goes");
	hand_connect(&other, "other");
	hand_join(&hands[0], BIG, "aborted", 2, 0);
	hand_join(&hands[1], BIG, "aborted", 2, 1);
	hand_take(&hands[0], SMD_FRAME_JOINED, 1);
	hand_take(&hands[1], SMD_FRAME_JOINED, 1);
	widen(hands, 2);
	from = hands[0].n;
	for (unsigned i = 0; i < WINDOW; i++) {
		hand_input(&hands[0], BIG, 0, 1 + i, CHUNK);
		hand_input(&hands[1], BIG, 1, 1 + i, CHUNK);
	}
	wait_for_the_shard(&other);
	hand_end(&hands[1]);
	wait_for_the_shard(&other);
	hand_take(&hands[0], SMD_FRAME_GONE, 1);
	for (unsigned i = from; hands[0].frames[i].kind != SMD_FRAME_GONE; i++) {
		results += hands[0].frames[i].kind == SMD_FRAME_RESULT &&
			   hands[0].frames[i].window; /* else it is a piece */
	}
	assert_int_equal(results, WINDOW);
	hand_end(&hands[0]);
	hand_end(&other);
	assert_int_equal(unsent, 0);
}

/* Results that wait for one who has left are nobody's, and their memory is there for others. */
static void who_leaves_wants_no_results(void **state)
{
	struct hand hand;
	struct hand other;

	(void)state;
	hand_connect(&other, "other");
	for (unsigned round = 0; round < 40; round++) { /* far more than the pool holds */
		hand_connect(&hand, "leaves");
		hand_join(&hand, BIG, "left", 1, 0);
		hand_take(&hand, SMD_FRAME_JOINED, 1);
		widen(&hand, 1);
		for (unsigned i = 0; i < WINDOW; i++) {
			hand_input(&hand, BIG, 0, 1 + i, CHUNK);
		}
		hand_say(&hand, (struct smd_frame){.kind = SMD_FRAME_LEAVE, .comm = BIG}, NULL, 0);
		wait_for_the_shard(&other);
		hand_end(&hand);
		assert_int_equal(unsent, 0);
	}
	hand_end(&other);
}

/* ---- who waits ---- */

enum { TURNS = 400 };

struct waiter {
	struct smd_turn turn; /* first */
	struct smd_turns *turns;
	uint32_t bytes;
	unsigned left;
	struct smd_send sends[TURNS];
	unsigned n;
};

static struct smd_send *lane_has[TURNS];
static unsigned nhas;

static void keep(struct smd_lane *lane, struct smd_send *send)
{
	(void)lane;
	lane_has[nhas++] = send;
}

static void on_sent(struct smd_send *send, int err)
{
	smd_turns_sent(send->turns, send, err);
}

static void take_turn(struct smd_turn *turn)
{
	struct waiter *sender = (struct waiter *)turn;
	struct smd_send *send = &sender->sends[sender->n++];
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .comm = sender->bytes};

	*send = (struct smd_send){.length = sender->bytes, .done = on_sent, .turns = sender->turns};
	smd_turns_send(sender->turns, &frame, send);
	if (--sender->left) {
		smd_turns_wait(sender->turns, turn, sender->bytes);
	}
}

/* Each large frame has its turn after as many bytes of small ones; and the lane is never given more
 * than it has room for. */
static void the_large_go_on_beside_the_small(void **state)
{
	static const struct smd_transport_ops ops = {
		.name = "keeping", .send = keep, .room = 64 << 10};
	static struct waiter small[3];
	static struct waiter large;
	struct smd_lane lane = {.ops = &ops};
	struct smd_turns turns;
	uint64_t between = 0;
	uint64_t held = 0;
	unsigned larges = 0;

	(void)state;
	smd_turns_begin(&turns, &lane);
	large = (struct waiter){
		.turn = {.take = take_turn}, .turns = &turns, .bytes = 200 << 10, .left = 4};
	smd_turns_wait(&turns, &large.turn, large.bytes);
	for (unsigned i = 0; i < 3; i++) {
		small[i] = (struct waiter){
			.turn = {.take = take_turn}, .turns = &turns, .bytes = SMALL, .left = 120};
		smd_turns_wait(&turns, &small[i].turn, SMALL);
	}
	smd_turns_run(&turns);
	for (unsigned i = 0; i < nhas; i++) {
		struct smd_send *send = lane_has[i];

		held = 0;
		for (unsigned k = i; k < nhas; k++) {
			held += SMD_FRAME_SIZE + lane_has[k]->length;
		}
		assert_int_equal(turns.held, held);
		assert_true(held <= 64 << 10 || nhas - i == 1);
		if (send->length == SMALL) {
			between += SMD_FRAME_SIZE + SMALL;
		} else {
			assert_in_range(between, 0, (200 << 10) + SMD_FRAME_SIZE + SMALL);
			between = 0;
			larges++;
		}
		send->done(send, 0);
	}
	assert_int_equal(larges, 4);
	assert_int_equal(nhas, 4 + 3 * 120);
	assert_int_equal(turns.held, 0);
}

static bool has_room; /* as a ring in shared memory that the other end has read meanwhile */

static void keep_or_send_all(struct smd_lane *lane, struct smd_send *send)
{
	keep(lane, send);
	for (unsigned i = 0; has_room && i < nhas; i++) {
		if (!lane_has[i]->sent) {
			lane_has[i]->sent = SMD_FRAME_SIZE + lane_has[i]->length;
			lane_has[i]->done(lane_has[i], 0);
		}
	}
}

/* What was sent before leaves with what is sent now, while that has its turn: then the lane has nothing
 * any more that would ask the next one. */
static void who_waits_is_asked_when_all_leaves_at_once(void **state)
{
	static const struct smd_transport_ops ops = {
		.name = "at once", .send = keep_or_send_all, .room = 64 << 10};
	static struct waiter small[2];
	static struct waiter large;
	struct smd_lane lane = {.ops = &ops};
	struct smd_turns turns;

	(void)state;
	nhas = 0;
	has_room = false;
	smd_turns_begin(&turns, &lane);
	large = (struct waiter){
		.turn = {.take = take_turn}, .turns = &turns, .bytes = 200 << 10, .left = 1};
	for (unsigned i = 0; i < 2; i++) {
		small[i] = (struct waiter){
			.turn = {.take = take_turn}, .turns = &turns, .bytes = SMALL, .left = 1};
	}
	smd_turns_wait(&turns, &small[0].turn, SMALL);
	assert_true(smd_turns_step(&turns));
	smd_turns_wait(&turns, &large.turn, large.bytes);
	assert_false(smd_turns_step(&turns));
	has_room = true;
	smd_turns_wait(&turns, &small[1].turn, SMALL);
	assert_true(smd_turns_step(&turns));
	assert_int_equal(large.n, 1);
	assert_int_equal(turns.held, 0);
	smd_turns_end(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_large_go_on_beside_the_small),
		cmocka_unit_test(who_waits_is_asked_when_all_leaves_at_once),
		cmocka_unit_test(a_worker_sends_the_small_one_first),
		cmocka_unit_test_setup_teardown(
			a_server_sends_the_small_one_first, start_server, stop_server),
		cmocka_unit_test_setup_teardown(
			a_server_answers_before_what_it_owes, start_server, stop_server),
		cmocka_unit_test_setup_teardown(
			the_end_of_a_rank_waits_for_its_results, start_server, stop_server),
		cmocka_unit_test_setup_teardown(
			who_leaves_wants_no_results, start_server, stop_server),
	};

	evthread_use_pthreads();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
