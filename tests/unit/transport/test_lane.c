/*
 * What every transport promises, over each of them: frames in order, done() once, one end, and that
 * a lane may be closed inside any callback.
 */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/transport/loop.h"

/* ---- frames ---- */

static const uint32_t lengths[] = {0, 1, 63, 64, 65, 0, 4096, 65535, 65536, 1 << 20, 0, 777};
#define NLENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void check_next(struct end *end)
{
	assert_int_equal(end->frame.ordinal, end->frames - 1);
	assert_int_equal(end->frame.length, lengths[end->frame.ordinal % NLENGTHS]);
	end_assert_payload(end);
}

static void frames_arrive_whole_and_in_order_both_ways(void **state)
{
	enum { FRAMES = 4 * NLENGTHS };
	struct link *link = *state;
	struct parcel near[FRAMES];
	struct parcel far[FRAMES];

	link_open(link);
	link->near.then = check_next;
	link->far.then = check_next;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&near[i], &link->near, i, lengths[i % NLENGTHS], NULL);
		parcel_send(&far[i], &link->far, i, lengths[i % NLENGTHS], NULL);
	}
	RUN_UNTIL(link, link->near.frames == FRAMES && link->far.frames == FRAMES &&
				parcels_done == 2 * FRAMES);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(near[i].done, 1);
		assert_int_equal(near[i].err, 0);
		assert_int_equal(far[i].done, 1);
		assert_int_equal(far[i].err, 0);
		assert_true(i == 0 || near[i].place > near[i - 1].place);
		assert_true(i == 0 || far[i].place > far[i - 1].place);
	}
	assert_int_equal(link->near.headers, FRAMES);
	assert_int_equal(link->near.lane->counts.bytes_sent, link->far.lane->counts.bytes_received);
	assert_int_equal(link->near.lane->counts.bytes_received, link->far.lane->counts.bytes_sent);
	parcels_free(near, FRAMES);
	parcels_free(far, FRAMES);
}

static void control_frames_carry_their_payload(void **state)
{
	struct link *link = *state;
	struct smd_frame frame = {.kind = SMD_FRAME_JOIN, .comm = 42};
	char payload[] = "said once";

	link_open(link);
	assert_int_equal(
		smd_lane_send_control(link->near.lane, &frame, payload, sizeof(payload)), 0);
	memset(payload, 0, sizeof(payload)); /* it was copied */
	RUN_UNTIL(link, link->far.frames == 1);
	assert_int_equal(link->far.frame.kind, SMD_FRAME_JOIN);
	assert_int_equal(link->far.frame.comm, 42);
	assert_string_equal(link->far.room, "said once");
}

/* Before it is connected a lane takes frames already. */
static void frames_may_be_queued_before_the_lane_is_open(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	link_connect(link);
	parcel_send(&parcel, &link->near, 0, 100, NULL);
	RUN_UNTIL(link, link->far.frames == 1);
	end_assert_payload(&link->far);
	parcels_free(&parcel, 1);
}

static void what_came_before_the_lane_was_attached_is_kept(void **state)
{
	struct link *link = *state;
	struct parcel parcels[3];

	link->hold = true;
	link_open(link);
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i], NULL);
	}
	link_run_on(link);
	assert_int_equal(link->far.frames, 0);
	link->far.then = check_next;
	assert_int_equal(
		smd_lane_attach(link->far.lane, link->base, &link_callbacks, &link->far), 0);
	RUN_UNTIL(link, link->far.frames == 3);
	parcels_free(parcels, 3);
}

static void an_end_has_a_name_for_messages(void **state)
{
	struct link *link = *state;

	link_open(link);
	assert_string_equal(smd_lane_peer_name(link->near.lane), link->address);
	assert_true(strlen(smd_lane_peer_name(link->far.lane)) > 0);
}

/* ---- the end ---- */

static void what_was_sent_before_a_close_arrives(void **state)
{
	struct link *link = *state;
	struct parcel parcels[3];

	link_open(link);
	link->far.then = check_next;
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i], NULL);
	}
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frames, 3);
	assert_int_equal(link->far.err, -ECONNRESET);
	link_run_on(link);
	assert_int_equal(link->far.closed, 1);
	assert_int_equal(link->near.closed, 0); /* who closes is not told */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(parcels[i].done, 1);
	}
	parcels_free(parcels, 3);
}

/* Far more than sockets hold, to an end that does not read. */
static void a_close_gives_every_queued_send_back_once(void **state)
{
	enum { FRAMES = 40 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open_deaf(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	link_run_on(link);
	end_close(&link->near);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
		assert_true(parcels[i].err == 0 || parcels[i].err == -ECANCELED);
	}
	assert_int_equal(parcels[FRAMES - 1].err, -ECANCELED);
	parcels_free(parcels, FRAMES);
}

static void sends_to_an_end_that_has_gone_are_given_back(void **state)
{
	enum { FRAMES = 20 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open(link);
	end_close(&link->far);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	RUN_UNTIL(link, link->near.closed && parcels_done == FRAMES);
	link_run_on(link);
	assert_int_equal(link->near.closed, 1);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
	}
	parcels_free(parcels, FRAMES);
}

/* The far end closes in that callback; then nothing more comes to it, and the near end is told. */
static void check_close_inside(struct link *link, enum moment moment)
{
	struct parcel parcels[3];

	link->far.close_at = moment;
	link_open(link);
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, 1000, NULL);
	}
	RUN_UNTIL(link, link->near.closed && parcels_done == 3);
	link_run_on(link);
	assert_int_equal(link->far.headers, 1);
	assert_int_equal(link->far.frames, moment == ON_FRAME);
	assert_int_equal(link->far.closed, 0);
	assert_int_equal(link->near.closed, 1);
	assert_null(link->far.lane);
	parcels_free(parcels, 3);
}

static void a_lane_may_be_closed_inside_on_header(void **state)
{
	check_close_inside(*state, ON_HEADER);
}

static void a_lane_may_be_closed_inside_on_frame(void **state)
{
	check_close_inside(*state, ON_FRAME);
}

static void a_lane_may_be_closed_inside_on_open(void **state)
{
	struct link *link = *state;

	link->near.close_at = ON_OPEN;
	link_connect(link);
	RUN_UNTIL(link, link->far.closed);
	link_run_on(link);
	assert_int_equal(link->near.opened, 1);
	assert_int_equal(link->near.closed, 0);
	assert_int_equal(link->far.closed, 1);
}

/* Inside the call that sends, or later from the loop: done() may come either way. */
static void a_lane_may_be_closed_inside_done(void **state)
{
	struct link *link = *state;
	struct parcel parcels[2];

	link_open(link);
	link->near.close_at = ON_DONE;
	parcel_send(&parcels[0], &link->near, 0, ROOM, NULL);
	if (link->near.lane) {
		parcel_send(&parcels[1], &link->near, 1, ROOM, NULL);
	} else {
		parcels[1] = (struct parcel){.done = 1};
	}
	RUN_UNTIL(link, link->far.closed);
	link_run_on(link);
	assert_null(link->near.lane);
	assert_true(link->far.frames >= 1);
	assert_int_equal(link->near.closed, 0);
	assert_int_equal(parcels[0].done, 1);
	assert_int_equal(parcels[1].done, 1);
	parcels_free(parcels, 2);
}

static void a_lane_that_has_ended_may_be_closed_later(void **state)
{
	struct link *link = *state;

	link_open(link);
	link->near.close_at = NEVER;
	end_close(&link->far);
	RUN_UNTIL(link, link->near.closed);
	link_run_on(link);
	assert_int_equal(link->near.closed, 1);
	end_close(&link->near);
	link_run_on(link);
	assert_int_equal(link->near.closed, 1);
}

static void check_refusal(struct link *link, enum moment moment, const char *reason)
{
	struct parcel parcels[2];

	link->far.refuse_at = moment;
	link_open(link);
	parcel_send(&parcels[0], &link->near, 0, 10, NULL);
	parcel_send(&parcels[1], &link->near, 1, 10, NULL);
	RUN_UNTIL(link, link->far.closed && link->near.closed && parcels_done == 2);
	link_run_on(link);
	assert_int_equal(link->far.closed, 1);
	assert_int_equal(link->far.headers, 1);
	assert_int_equal(link->far.err, -EPROTO);
	assert_string_equal(link->far.reason, reason);
	parcels_free(parcels, 2);
}

static void an_error_of_on_header_ends_the_lane(void **state)
{
	check_refusal(*state, ON_HEADER, "not this header");
}

static void an_error_of_on_frame_ends_the_lane(void **state)
{
	check_refusal(*state, ON_FRAME, "not this frame");
}

/* ---- cancelling ---- */

static void expect_uncancelled(struct end *end)
{
	end_assert_payload(end);
}

/* Those of one owner that have not begun to leave are given back at once; whatever was not given
 * back arrives, in order. */
static void cancel_takes_back_what_has_not_begun(void **state)
{
	enum { FRAMES = 40 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	unsigned cancelled = 0;
	int one;
	int other;

	link_open_deaf(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, i % 2 ? &one : &other);
	}
	link_run_on(link);
	smd_lane_cancel(link->near.lane, &one);
	for (unsigned i = 0; i < FRAMES; i++) {
		cancelled += parcels[i].err == -ECANCELED;
		assert_true(parcels[i].err == 0 || i % 2 == 1);
	}
	if (strcmp(link->transport->name, "tcp") == 0) {
		assert_true(cancelled > 0);
	}
	link->far.then = expect_uncancelled;
	link_listen(link);
	RUN_UNTIL(link, link->far.frames == FRAMES - cancelled && parcels_done == FRAMES);
	link_run_on(link);
	assert_int_equal(link->far.frames, FRAMES - cancelled);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
	}
	parcels_free(parcels, FRAMES);
}

/* ---- moving to another thread ---- */

struct mover {
	struct link *link;
	struct event_base *base;
	struct end end; /* the far end on the other thread */
	pthread_t thread;
	struct smd_lane *lane;
};

static struct mover *mover;

/* On the other thread. */
static void answer(struct end *end)
{
	struct smd_frame frame = {.kind = SMD_FRAME_JOINED, .ordinal = end->frame.ordinal};

	if (smd_lane_send_control(end->lane, &frame, NULL, 0)) {
		abort();
	}
}

static void arrive(evutil_socket_t fd, short what, void *arg)
{
	struct mover *move = arg;

	(void)fd;
	(void)what;
	move->end.lane = move->lane;
	if (smd_lane_attach(move->lane, move->base, &link_callbacks, &move->end)) {
		abort();
	}
	answer(&move->end); /* to the frame that has moved it */
}

static void *move_main(void *arg)
{
	struct mover *move = arg;

	event_base_loop(move->base, EVLOOP_NO_EXIT_ON_EMPTY);
	event_base_loop(move->base, EVLOOP_NONBLOCK);
	return NULL;
}

static int hand_over(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	const struct timeval now = {0, 0};
	struct end *end = owner;

	(void)frame;
	(void)payload;
	(void)error;
	smd_lane_detach(end->lane);
	mover->lane = end->lane;
	end->lane = NULL;
	assert_int_equal(event_base_once(mover->base, -1, EV_TIMEOUT, arrive, mover, &now), 0);
	return SMD_LANE_DETACHED;
}

static const struct smd_lane_callbacks handing_over = {
	.on_header = end_on_header,
	.on_frame = hand_over,
	.on_closed = end_on_closed,
};

static void stop(evutil_socket_t fd, short what, void *arg)
{
	struct mover *move = arg;

	(void)fd;
	(void)what;
	event_base_loopbreak(move->base);
}

/* As a server does it: the first frame is read on the listener's loop and decides whose the lane
 * is. */
static void a_lane_moves_to_another_thread_between_two_frames(void **state)
{
	enum { FRAMES = 100 };
	struct link *link = *state;
	struct mover move = {.link = link, .base = event_base_new()};
	const struct timeval now = {0, 0};
	struct parcel parcels[FRAMES];

	mover = &move;
	move.end = (struct end){.room = malloc(ROOM), .then = answer, .close_at = ON_CLOSED};
	assert_int_equal(pthread_create(&move.thread, NULL, move_main, &move), 0);
	link->hold = true;
	link_connect(link);
	RUN_UNTIL(link, link->far.lane);
	assert_int_equal(smd_lane_attach(link->far.lane, link->base, &handing_over, &link->far), 0);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, 100 * i, NULL);
		RUN_UNTIL(link, link->near.frames == i + 1);
	}
	end_close(&link->near);
	event_base_loop(link->base, EVLOOP_NONBLOCK);
	event_base_once(move.base, -1, EV_TIMEOUT, stop, &move, &now);
	pthread_join(move.thread, NULL);
	assert_int_equal(move.end.frames, FRAMES - 1);
	if (move.end.lane) {
		end_close(&move.end);
		event_base_loop(move.base, EVLOOP_NONBLOCK);
	}
	smd_loop_free(move.base);
	free(move.end.room);
	parcels_free(parcels, FRAMES);
}

/* ---- addresses ---- */

/* Both ways of failing are the owner's to expect: at once, or later through on_closed(). */
static void nobody_listens(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	int ret;

	link->transport->listener_close(link->listener);
	link->listener = NULL;
	ret = link->transport->connect(link->base, link->address, NULL, 0, &link_callbacks,
		&link->near, &link->near.lane, &error);
	if (ret) {
		assert_int_equal(ret, -ECONNREFUSED);
		assert_non_null(strstr(error.text, link->address));
		return;
	}
	RUN_UNTIL(link, link->near.closed);
	link_run_on(link);
	assert_int_equal(link->near.closed, 1);
	assert_int_equal(link->near.opened, 0);
	assert_int_equal(link->near.err, -ECONNREFUSED);
	assert_string_equal(link->near.reason, "Connection refused");
}

static void an_address_is_listened_at_once(void **state)
{
	struct link *link = *state;
	struct smd_listener *second;
	struct smd_error error = {""};
	char bound[128];

	assert_int_equal(link->transport->listen(link->base, link->address, link_on_accept, link,
				 &second, bound, &error),
		-EADDRINUSE);
	assert_non_null(strstr(error.text, "in use"));
	assert_non_null(strstr(error.text, link->address));
}

#define LANE_TEST(name, transport)                                                                 \
	{                                                                                          \
		transport ": " #name, name, link_set_up, link_tear_down, (void *)(transport)       \
	}
#define EACH_TEST(X, transport)                                                                    \
	EACH_LANE_TEST(X, transport), X(nobody_listens, transport),                                \
		X(an_address_is_listened_at_once, transport)
#define EACH_LANE_TEST(X, transport)                                                               \
	X(frames_arrive_whole_and_in_order_both_ways, transport),                                  \
		X(control_frames_carry_their_payload, transport),                                  \
		X(frames_may_be_queued_before_the_lane_is_open, transport),                        \
		X(an_end_has_a_name_for_messages, transport),                                      \
		X(what_was_sent_before_a_close_arrives, transport),                                \
		X(a_close_gives_every_queued_send_back_once, transport),                           \
		X(sends_to_an_end_that_has_gone_are_given_back, transport),                        \
		X(a_lane_may_be_closed_inside_on_open, transport),                                 \
		X(a_lane_may_be_closed_inside_on_header, transport),                               \
		X(a_lane_may_be_closed_inside_on_frame, transport),                                \
		X(a_lane_may_be_closed_inside_done, transport),                                    \
		X(a_lane_that_has_ended_may_be_closed_later, transport),                           \
		X(an_error_of_on_header_ends_the_lane, transport),                                 \
		X(an_error_of_on_frame_ends_the_lane, transport),                                  \
		X(cancel_takes_back_what_has_not_begun, transport)

/* In a machine with an RDMA device, whose address SUMMAND_TEST_RDMA is. */
static int run_over_rdma(void)
{
	const struct CMUnitTest tests[] = {EACH_TEST(LANE_TEST, "rdma")};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH_TEST(LANE_TEST, "tcp"),
		EACH_LANE_TEST(LANE_TEST, "shm"), /* whose lanes are made over tcp's */
		EACH_TEST(LANE_TEST, "loopback"),
		EACH_TEST(LANE_TEST, "fault over tcp"),
		EACH_TEST(LANE_TEST, "fault"), /* which does nothing if it is not told to */
		LANE_TEST(what_came_before_the_lane_was_attached_is_kept, "tcp"),
		LANE_TEST(a_lane_moves_to_another_thread_between_two_frames, "tcp"),
		LANE_TEST(what_came_before_the_lane_was_attached_is_kept, "loopback"),
		LANE_TEST(a_lane_moves_to_another_thread_between_two_frames, "loopback"),
		LANE_TEST(what_came_before_the_lane_was_attached_is_kept, "fault over tcp"),
		LANE_TEST(a_lane_moves_to_another_thread_between_two_frames, "fault over tcp"),
		LANE_TEST(what_came_before_the_lane_was_attached_is_kept, "fault"),
		LANE_TEST(a_lane_moves_to_another_thread_between_two_frames, "fault"),
#ifdef SMD_TLS
		EACH_TEST(LANE_TEST, "tls"),
		LANE_TEST(a_lane_moves_to_another_thread_between_two_frames, "tls"),
#endif
	};

	if (getenv("SUMMAND_TEST_RDMA")) {
		return run_over_rdma();
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
