/*
 * What every transport promises, over each of them: frames in order, done() once, one end, and that
 * a lane may be closed inside any callback.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/transport.h"

#define PATIENCE_NS 20000000000ull
#define ROOM        (1u << 20)

enum moment { NEVER, ON_OPEN, ON_HEADER, ON_FRAME, ON_CLOSED, ON_DONE };

/* One end of a lane, and what has happened to it. */
struct end {
	struct smd_lane *lane; /* NULL: none yet, or closed */
	struct event_base *base;
	enum moment close_at;   /* closes its lane in that callback */
	enum moment refuse_at;  /* returns an error from that callback */
	struct smd_frame frame; /* the last one */
	uint8_t *room;          /* where payloads go */
	unsigned opened;
	unsigned headers;
	unsigned frames;
	unsigned closed; /* calls of on_closed() */
	int err;
	char reason[256];
	void (*then)(struct end *end); /* in on_frame(), when not NULL */
};

/* Sends of one end: payload, how often done() came, and with what. */
struct parcel {
	struct smd_send send;
	struct end *from;
	uint8_t *payload;
	unsigned done;
	int err;
	unsigned place; /* how many were done before */
};

struct link {
	const struct smd_transport_ops *transport;
	struct event_base *base;
	struct smd_listener *listener;
	char address[128];
	struct end near; /* connects */
	struct end far;  /* is accepted */
	bool hold;       /* the far lane is accepted, but not attached yet */
};

static unsigned parcels_done;

/* ---- callbacks ---- */

static void close_end(struct end *end)
{
	struct smd_lane *lane = end->lane;

	end->lane = NULL; /* closing calls done() */
	smd_lane_close(lane);
}

static bool closes(struct end *end, enum moment moment)
{
	if (end->close_at == moment && end->lane) {
		close_end(end);
		return true;
	}
	return false;
}

static void end_on_open(void *owner)
{
	struct end *end = owner;

	end->opened++;
	closes(end, ON_OPEN);
}

static int end_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct end *end = owner;

	end->headers++;
	end->frame = *frame;
	*payload = end->room;
	closes(end, ON_HEADER);
	return end->refuse_at == ON_HEADER ? smd_error_set(error, EPROTO, "not this header") : 0;
}

static int end_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct end *end = owner;

	assert_int_equal(frame->ordinal, end->frame.ordinal);
	if (frame->length) {
		assert_ptr_equal(payload, end->room);
	}
	end->frames++;
	if (end->then) {
		end->then(end);
	}
	closes(end, ON_FRAME);
	return end->refuse_at == ON_FRAME ? smd_error_set(error, EPROTO, "not this frame") : 0;
}

static void end_on_closed(void *owner, int err, const char *reason)
{
	struct end *end = owner;

	end->closed++;
	end->err = err;
	snprintf(end->reason, sizeof(end->reason), "%s", reason);
	closes(end, ON_CLOSED);
}

static const struct smd_lane_callbacks callbacks = {
	.on_open = end_on_open,
	.on_header = end_on_header,
	.on_frame = end_on_frame,
	.on_closed = end_on_closed,
};

static void on_accept(void *owner, struct smd_lane *lane)
{
	struct link *link = owner;

	link->far.lane = lane;
	if (!link->hold) {
		assert_int_equal(smd_lane_attach(lane, link->base, &callbacks, &link->far), 0);
	}
}

/* ---- sends ---- */

static uint8_t byte_of(uint64_t ordinal, size_t i)
{
	return (uint8_t)(ordinal * 37 + i + (i >> 8));
}

static void parcel_done(struct smd_send *send, int err)
{
	struct parcel *parcel = (struct parcel *)send;

	parcel->done++;
	parcel->err = err;
	parcel->place = parcels_done++;
	closes(parcel->from, ON_DONE);
}

static void parcel_send(
	struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length, void *owner)
{
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal};

	*parcel = (struct parcel){.from = from, .payload = malloc(length + 1)};
	for (size_t i = 0; i < length; i++) {
		parcel->payload[i] = byte_of(ordinal, i);
	}
	parcel->send.payload = parcel->payload;
	parcel->send.length = length;
	parcel->send.done = parcel_done;
	parcel->send.owner = owner;
	smd_lane_send(from->lane, &frame, &parcel->send);
}

static void parcels_free(struct parcel *parcels, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(parcels[i].payload);
	}
}

static void assert_payload(const struct end *end)
{
	for (size_t i = 0; i < end->frame.length; i++) {
		if (end->room[i] != byte_of(end->frame.ordinal, i)) {
			fail_msg("frame %u: byte %zu is wrong", (unsigned)end->frame.ordinal, i);
		}
	}
}

/* ---- the link ---- */

static int set_up(void **state)
{
	static int counter;
	struct link *link = calloc(1, sizeof(*link));
	const char *transport = *state;
	struct smd_error error = {""};
	char address[64];

	evthread_use_pthreads();
	parcels_done = 0;
	link->transport = smd_transport_find(transport);
	link->base = event_base_new();
	link->near.base = link->base;
	link->far.base = link->base;
	link->near.room = malloc(ROOM);
	link->far.room = malloc(ROOM);
	link->near.close_at = ON_CLOSED;
	link->far.close_at = ON_CLOSED;
	snprintf(address, sizeof(address), "loopback:lane-%d", counter++);
	assert_int_equal(link->transport->listen(link->base,
				 strcmp(transport, "tcp") == 0 ? "127.0.0.1:0" : address, on_accept,
				 link, &link->listener, link->address, &error),
		0);
	*state = link;
	return 0;
}

static int tear_down(void **state)
{
	struct link *link = *state;

	if (link->near.lane) {
		close_end(&link->near);
	}
	if (link->far.lane) {
		close_end(&link->far);
	}
	if (link->listener) {
		link->transport->listener_close(link->listener);
	}
	event_base_loop(link->base, EVLOOP_NONBLOCK);
	event_base_free(link->base);
	free(link->near.room);
	free(link->far.room);
	free(link);
	return 0;
}

#define RUN_UNTIL(link, condition)                                                                 \
	do {                                                                                       \
		uint64_t until_ = smd_clock_ns() + PATIENCE_NS;                                    \
		while (!(condition)) {                                                             \
			assert_true(smd_clock_ns() < until_);                                      \
			event_base_loop((link)->base, EVLOOP_NONBLOCK);                            \
		}                                                                                  \
	} while (0)

/* Some more turns, in which nothing more must happen. */
static void run_on(struct link *link)
{
	for (int i = 0; i < 50; i++) {
		event_base_loop(link->base, EVLOOP_NONBLOCK);
		usleep(200);
	}
}

static void connect_near(struct link *link)
{
	struct smd_error error = {""};

	assert_int_equal(link->transport->connect(link->base, link->address, &callbacks,
				 &link->near, &link->near.lane, &error),
		0);
}

static void open_link(struct link *link)
{
	connect_near(link);
	RUN_UNTIL(link, link->near.opened && link->far.lane);
}

/* ---- frames ---- */

static const uint32_t lengths[] = {0, 1, 63, 64, 65, 0, 4096, 65535, 65536, 1 << 20, 0, 777};
#define NLENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void check_next(struct end *end)
{
	assert_int_equal(end->frame.ordinal, end->frames - 1);
	assert_int_equal(end->frame.length, lengths[end->frame.ordinal % NLENGTHS]);
	assert_payload(end);
}

static void frames_arrive_whole_and_in_order_both_ways(void **state)
{
	enum { FRAMES = 4 * NLENGTHS };
	struct link *link = *state;
	struct parcel near[FRAMES];
	struct parcel far[FRAMES];

	open_link(link);
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

	open_link(link);
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

	connect_near(link);
	parcel_send(&parcel, &link->near, 0, 100, NULL);
	RUN_UNTIL(link, link->far.frames == 1);
	assert_payload(&link->far);
	parcels_free(&parcel, 1);
}

static void what_came_before_the_lane_was_attached_is_kept(void **state)
{
	struct link *link = *state;
	struct parcel parcels[3];

	link->hold = true;
	open_link(link);
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i], NULL);
	}
	run_on(link);
	assert_int_equal(link->far.frames, 0);
	link->far.then = check_next;
	assert_int_equal(smd_lane_attach(link->far.lane, link->base, &callbacks, &link->far), 0);
	RUN_UNTIL(link, link->far.frames == 3);
	parcels_free(parcels, 3);
}

static void an_end_has_a_name_for_messages(void **state)
{
	struct link *link = *state;

	open_link(link);
	assert_string_equal(smd_lane_peer_name(link->near.lane), link->address);
	assert_true(strlen(smd_lane_peer_name(link->far.lane)) > 0);
}

/* ---- the end ---- */

static void what_was_sent_before_a_close_arrives(void **state)
{
	struct link *link = *state;
	struct parcel parcels[3];

	open_link(link);
	link->far.then = check_next;
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i], NULL);
	}
	close_end(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frames, 3);
	assert_int_equal(link->far.err, -ECONNRESET);
	run_on(link);
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

	link->hold = true;
	open_link(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	run_on(link);
	close_end(&link->near);
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

	open_link(link);
	close_end(&link->far);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	RUN_UNTIL(link, link->near.closed && parcels_done == FRAMES);
	run_on(link);
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
	open_link(link);
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, 1000, NULL);
	}
	RUN_UNTIL(link, link->near.closed && parcels_done == 3);
	run_on(link);
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
	connect_near(link);
	RUN_UNTIL(link, link->far.closed);
	run_on(link);
	assert_int_equal(link->near.opened, 1);
	assert_int_equal(link->near.closed, 0);
	assert_int_equal(link->far.closed, 1);
}

/* Inside the call that sends, or later from the loop: done() may come either way. */
static void a_lane_may_be_closed_inside_done(void **state)
{
	struct link *link = *state;
	struct parcel parcels[2];

	open_link(link);
	link->near.close_at = ON_DONE;
	parcel_send(&parcels[0], &link->near, 0, ROOM, NULL);
	if (link->near.lane) {
		parcel_send(&parcels[1], &link->near, 1, ROOM, NULL);
	} else {
		parcels[1] = (struct parcel){.done = 1};
	}
	RUN_UNTIL(link, link->far.closed);
	run_on(link);
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

	open_link(link);
	link->near.close_at = NEVER;
	close_end(&link->far);
	RUN_UNTIL(link, link->near.closed);
	run_on(link);
	assert_int_equal(link->near.closed, 1);
	close_end(&link->near);
	run_on(link);
	assert_int_equal(link->near.closed, 1);
}

static void check_refusal(struct link *link, enum moment moment, const char *reason)
{
	struct parcel parcels[2];

	link->far.refuse_at = moment;
	open_link(link);
	parcel_send(&parcels[0], &link->near, 0, 10, NULL);
	parcel_send(&parcels[1], &link->near, 1, 10, NULL);
	RUN_UNTIL(link, link->far.closed && link->near.closed && parcels_done == 2);
	run_on(link);
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
	assert_payload(end);
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

	link->hold = true;
	open_link(link);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, i % 2 ? &one : &other);
	}
	run_on(link);
	smd_lane_cancel(link->near.lane, &one);
	for (unsigned i = 0; i < FRAMES; i++) {
		cancelled += parcels[i].err == -ECANCELED;
		assert_true(parcels[i].err == 0 || i % 2 == 1);
	}
	if (link->transport == &smd_transport_tcp) {
		assert_true(cancelled > 0);
	}
	link->far.then = expect_uncancelled;
	assert_int_equal(smd_lane_attach(link->far.lane, link->base, &callbacks, &link->far), 0);
	RUN_UNTIL(link, link->far.frames == FRAMES - cancelled && parcels_done == FRAMES);
	run_on(link);
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
	if (smd_lane_attach(move->lane, move->base, &callbacks, &move->end)) {
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
	open_link(link);
	assert_int_equal(smd_lane_attach(link->far.lane, link->base, &handing_over, &link->far), 0);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, 100 * i, NULL);
		RUN_UNTIL(link, link->near.frames == i + 1);
	}
	close_end(&link->near);
	event_base_loop(link->base, EVLOOP_NONBLOCK);
	event_base_once(move.base, -1, EV_TIMEOUT, stop, &move, &now);
	pthread_join(move.thread, NULL);
	assert_int_equal(move.end.frames, FRAMES - 1);
	if (move.end.lane) {
		close_end(&move.end);
		event_base_loop(move.base, EVLOOP_NONBLOCK);
	}
	event_base_free(move.base);
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
	ret = link->transport->connect(
		link->base, link->address, &callbacks, &link->near, &link->near.lane, &error);
	if (ret) {
		assert_int_equal(ret, -ECONNREFUSED);
		assert_non_null(strstr(error.text, link->address));
		return;
	}
	RUN_UNTIL(link, link->near.closed);
	run_on(link);
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

	assert_int_equal(link->transport->listen(link->base, link->address, on_accept, link,
				 &second, bound, &error),
		-EADDRINUSE);
	assert_non_null(strstr(error.text, "in use"));
	assert_non_null(strstr(error.text, link->address));
}

/* ---- tcp alone ---- */

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
		bytes[SMD_FRAME_SIZE + i] = byte_of(3, i);
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

int main(void)
{
#define LANE_TEST(name, transport)                                                                 \
	{                                                                                          \
		transport ": " #name, name, set_up, tear_down, (void *)(transport)                 \
	}
#define EACH_TEST(X, transport)                                                                    \
	X(frames_arrive_whole_and_in_order_both_ways, transport),                                  \
		X(control_frames_carry_their_payload, transport),                                  \
		X(frames_may_be_queued_before_the_lane_is_open, transport),                        \
		X(what_came_before_the_lane_was_attached_is_kept, transport),                      \
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
		X(cancel_takes_back_what_has_not_begun, transport),                                \
		X(a_lane_moves_to_another_thread_between_two_frames, transport),                   \
		X(nobody_listens, transport), X(an_address_is_listened_at_once, transport)
	const struct CMUnitTest tests[] = {
		EACH_TEST(LANE_TEST, "tcp"),
		EACH_TEST(LANE_TEST, "loopback"),
		LANE_TEST(the_rest_of_a_payload_can_be_redirected, "tcp"),
		LANE_TEST(a_stream_may_come_byte_by_byte, "tcp"),
		LANE_TEST(what_is_no_frame_ends_the_lane, "tcp"),
		LANE_TEST(half_a_frame_is_none, "tcp"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
