/*
 * How lanes connect, and what they make of every event of the connection manager in every state, of
 * refusals, of greetings that are none and of calls that fail.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log_limit.h"
#include "tests/unit/rdma/peer.h"

/* ---- two real ends ---- */

static void two_ends_connect(void **state)
{
	struct link *link = *state;
	struct parcel parcels[2];

	link_open(link);
	parcel_send(&parcels[0], &link->near, 1, 100, NULL);
	parcel_send(&parcels[1], &link->far, 2, 100000, NULL);
	RUN_UNTIL(link, link->near.frames == 1 && link->far.frames == 1);
	end_assert_payload(&link->near);
	end_assert_payload(&link->far);
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	end_assert_closed(&link->far, -ECONNRESET, "the other end closed the connection");
	parcels_free(parcels, 2);
}

/* ---- every event in every state ---- */

enum stage { RESOLVING, ROUTING, CONNECTING, TRYING, OPEN, STAGES };

static void peer_join(struct peer *peer, struct link *link)
{
	peer_ask(peer, link);
	peer_accept(peer, link);
}

static void peer_at(struct peer *peer, struct link *link, enum stage stage)
{
	static void (*const to[])(struct peer *, struct link *) = {
		[RESOLVING] = peer_begin,
		[ROUTING] = peer_resolve,
		[CONNECTING] = peer_ask,
		[TRYING] = peer_join,
		[OPEN] = peer_open,
	};
	static const enum rdma_lane_state states[] = {
		[RESOLVING] = RDMA_LANE_RESOLVING,
		[ROUTING] = RDMA_LANE_ROUTING,
		[CONNECTING] = RDMA_LANE_CONNECTING,
		[TRYING] = RDMA_LANE_TRYING,
		[OPEN] = RDMA_LANE_OPEN,
	};

	to[stage](peer, link);
	assert_int_equal(peer->lane->state, states[stage]);
}

#define NO_LONGER    "the other end no longer answers"
#define CANNOT(what) "cannot connect over RDMA: " what ": No route to host"

/* Those that end a lane do so in every state; the others say something in one state only. */
static const struct {
	enum rdma_cm_event_type type;
	int err; /* 0: does not end it */
	const char *reason;
	const char *reason_open; /* when it was open */
	int step;                /* the state that it leads on from; -1: none */
} events[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL, RESOLVING},
	{RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, CANNOT("no RDMA device leads to the address"),
		CANNOT("no RDMA device leads to the address"), -1},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL, ROUTING},
	{RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH, CANNOT("no route"), CANNOT("no route"), -1},
	{RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL, NULL, -1},
	{RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL, NULL, CONNECTING},
	{RDMA_CM_EVENT_CONNECT_ERROR, -EHOSTUNREACH, CANNOT("the other end does not answer"),
		NO_LONGER, -1},
	{RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, CANNOT("the other end does not answer"),
		NO_LONGER, -1},
	{RDMA_CM_EVENT_REJECTED, -EAGAIN, "the request was rejected (reason 0)",
		"the request was rejected (reason 0)", -1},
	{RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL, -1},
	{RDMA_CM_EVENT_DISCONNECTED, -ECONNRESET, "the other end closed the connection",
		"the other end closed the connection", -1},
	{RDMA_CM_EVENT_DEVICE_REMOVAL, -ENODEV, "the RDMA device was removed",
		"the RDMA device was removed", -1},
	{RDMA_CM_EVENT_MULTICAST_JOIN, 0, NULL, NULL, -1},
	{RDMA_CM_EVENT_MULTICAST_ERROR, 0, NULL, NULL, -1},
	{RDMA_CM_EVENT_ADDR_CHANGE, -ENETRESET, "the device's network address has changed",
		"the device's network address has changed", -1},
	{RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL, NULL, -1},
};
#define NEVENTS (sizeof(events) / sizeof(events[0]))

static void every_event_in_every_state(void **state)
{
	struct link *link = *state;

	for (size_t i = 0; i < NEVENTS; i++) {
		assert_int_equal(events[i].type, i);
		for (int stage = RESOLVING; stage < STAGES; stage++) {
			struct peer peer;
			enum rdma_lane_state before;

			if (events[i].step == stage) {
				continue;
			}
			peer_at(&peer, link, (enum stage)stage);
			before = peer.lane->state;
			script_tell(peer.id, events[i].type, 0, NULL, 0);
			stage_turn(link);
			if (events[i].err) {
				end_assert_closed(&peer.end, events[i].err,
					stage == OPEN ? events[i].reason_open : events[i].reason);
			} else {
				assert_int_equal(peer.end.closed, 0);
				assert_int_equal(peer.lane->state, before);
			}
			assert_int_equal(peer.end.opened, stage == OPEN);
			peer_close(&peer, link);
		}
	}
}

/* An answer of ARP or of the subnet manager that is lost is no lack of a route: it is worth another
 * try. */
static void what_was_not_found_in_time_may_be_found(void **state)
{
	static const struct {
		enum rdma_cm_event_type type;
		const char *reason;
	} of[] = {[RESOLVING] = {RDMA_CM_EVENT_ADDR_ERROR, "no RDMA device leads to the address"},
		[ROUTING] = {RDMA_CM_EVENT_ROUTE_ERROR, "no route"}};
	struct link *link = *state;

	for (int stage = RESOLVING; stage <= ROUTING; stage++) {
		struct peer peer;
		char reason[128];

		snprintf(reason, sizeof(reason), "cannot connect over RDMA: %s: %s",
			of[stage].reason, strerror(ETIMEDOUT));
		peer_at(&peer, link, (enum stage)stage);
		script_tell(peer.id, of[stage].type, -ETIMEDOUT, NULL, 0);
		stage_turn(link);
		end_assert_closed(&peer.end, -ETIMEDOUT, reason);
		peer_close(&peer, link);
	}
}

/* A lane that was told its end is not told again, and goes nowhere any more. */
static void an_ended_lane_hears_nothing(void **state)
{
	struct link *link = *state;

	for (int stage = RESOLVING; stage < STAGES; stage++) {
		struct peer peer;

		peer_at(&peer, link, (enum stage)stage);
		peer.end.close_at = NEVER;
		script_tell(peer.id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
		for (size_t i = 0; i < NEVENTS; i++) {
			script_tell(peer.id, events[i].type, 0, NULL, 0);
		}
		stage_turn(link);
		end_assert_closed(&peer.end, -ENODEV, "the RDMA device was removed");
		peer_close(&peer, link);
	}
}

static void a_closed_lane_hears_nothing(void **state)
{
	struct link *link = *state;

	for (int stage = RESOLVING; stage < STAGES; stage++) {
		for (size_t i = 0; i < NEVENTS; i++) {
			struct peer peer;

			peer_at(&peer, link, (enum stage)stage);
			script_tell(peer.id, events[i].type, 0, NULL, 0);
			end_close(&peer.end);
			stage_turn(link);
			assert_int_equal(peer.end.closed, 0);
			peer_close(&peer, link);
		}
	}
}

static void a_lane_may_be_closed_when_it_opens_or_ends(void **state)
{
	struct link *link = *state;
	struct peer peer;

	peer_ask(&peer, link);
	peer.end.close_at = ON_OPEN;
	peer_accept(&peer, link);
	peer_try(&peer, link);
	assert_int_equal(peer.end.opened, 1);
	assert_null(peer.end.lane);
	peer_close(&peer, link);

	for (int stage = RESOLVING; stage < STAGES; stage++) {
		peer_at(&peer, link, (enum stage)stage);
		peer.end.close_at = ON_CLOSED;
		script_tell(peer.id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
		stage_turn(link);
		assert_null(peer.end.lane);
		assert_int_equal(peer.end.closed, 1);
		peer_close(&peer, link);
	}
}

/* What two lanes have in common, and whom the end of the first makes send something. */
static struct sharer {
	struct peer peers[2];
	struct parcel parcel;
} sharer;

static void sharer_on_closed(void *owner, int err, const char *reason)
{
	parcel_send(&sharer.parcel, &sharer.peers[1].end, 1, 10, NULL);
	end_on_closed(owner, err, reason);
}

/* Else the engine would say over the other lanes that this one's other end was lost. */
static void a_removed_device_sends_nothing_for_any_lane(void **state)
{
	struct link *link = *state;
	struct smd_lane_callbacks callbacks;

	for (unsigned i = 0; i < 2; i++) {
		peer_open(&sharer.peers[i], link);
	}
	callbacks = *sharer.peers[0].lane->callbacks;
	callbacks.on_closed = sharer_on_closed;
	sharer.peers[0].lane->callbacks = &callbacks;
	script_tell(sharer.peers[0].id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	stage_turn(link);
	for (unsigned i = 0; i < 2; i++) {
		end_assert_closed(&sharer.peers[i].end, -ENODEV, "the RDMA device was removed");
		assert_int_equal(peer_messages(&sharer.peers[i]), 0);
		peer_close(&sharer.peers[i], link);
	}
	assert_int_equal(sharer.parcel.err, -ECANCELED);
	parcels_free(&sharer.parcel, 1);
}

/* As when its patience ends, without having to wait for that. */
static void who_does_not_answer_is_not_waited_for_without_end(void **state)
{
	struct link *link = *state;
	struct timeval until;
	struct timeval now;
	struct timeval left;

	script.limits.mtu = IBV_MTU_1024;
	for (int stage = RESOLVING; stage < OPEN; stage++) {
		struct peer peer;

		peer_at(&peer, link, (enum stage)stage);
		assert_true(event_pending(peer.lane->patience, EV_TIMEOUT, &until));
		evutil_gettimeofday(&now, NULL);
		evutil_timersub(&until, &now, &left); /* a lost message is sent again meanwhile */
		assert_in_range(left.tv_sec, 1, 8);
		event_active(peer.lane->patience, EV_TIMEOUT, 1);
		stage_turn(link);
		end_assert_closed(&peer.end, -ETIMEDOUT,
			stage == TRYING ? "no message of 4688 bytes has come over RDMA within 8 s: "
					  "the path must pass packets of an MTU of 1024"
					: "no answer over RDMA within 8 s");
		peer_close(&peer, link);
	}
}

/* A fabric that passes small packets only passes all that the connection manager says, and none of
 * these. */
static void a_long_message_crosses_before_anything_else(void **state)
{
	struct link *link = *state;
	const struct script_send *sends;
	struct parcel parcel;
	struct peer peer;
	const uint8_t *at;
	unsigned n;

	script.carries = false;
	peer_ask(&peer, link);
	parcel_send(&parcel, &peer.end, 1, 10, NULL);
	peer_accept(&peer, link);
	sends = script_sends(peer.id, &n);
	assert_int_equal(n, 1);
	assert_int_equal(sends[0].length, SMD_RDMA_BUFFER_SIZE);
	assert_true(sends[0].length > 4096); /* the largest MTU */
	assert_int_equal(sends[0].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	script_carry(peer.id, 1);
	stage_turn(link);
	assert_true(peer_read(&peer, 0, &at).trial);
	assert_int_equal(peer.end.opened, 0); /* that it has gone says nothing of what comes */
	assert_true(evtimer_pending(peer.lane->patience, NULL));
	peer_write_trial(&peer);
	stage_turn(link);
	assert_int_equal(peer.end.opened, 1);
	assert_false(evtimer_pending(peer.lane->patience, NULL));
	script_carry(peer.id, 1);
	peer_assert_arrived(&peer, 1); /* what was queued comes after it */
	stage_turn(link);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

static void a_trial_comes_first_and_once(void **state)
{
	struct link *link = *state;
	struct peer peer;

	peer_join(&peer, link);
	peer_frame(&peer, 1, 10);
	peer_poll(&peer);
	assert_int_equal(peer.end.headers, 0);
	end_assert_closed(&peer.end, -EPROTO, "message: a trial must come first");
	peer_close(&peer, link);
	peer_open(&peer, link);
	peer_write_trial(&peer);
	peer_poll(&peer);
	end_assert_closed(&peer.end, -EPROTO, "message: a trial must come once");
	peer_close(&peer, link);
}

/* Its own trial is nobody's, whether or not it has gone. */
static void a_lane_may_be_closed_while_it_is_tried(void **state)
{
	struct link *link = *state;
	const unsigned idle = stage_idle(link);

	for (int gone = 0; gone < 2; gone++) {
		struct parcel parcel;
		struct peer peer;

		script.acknowledges = gone;
		peer_join(&peer, link);
		parcel_send(&parcel, &peer.end, 1, 10, NULL);
		end_close(&peer.end);
		assert_int_equal(parcel.err, -ECANCELED);
		stage_turn(link);
		assert_int_equal(script.live, idle);
		peer_close(&peer, link);
		parcels_free(&parcel, 1);
		script.acknowledges = true;
	}
}

static void a_trial_that_cannot_be_posted_ends_the_lane(void **state)
{
	struct script_call *post = &script.calls[SCRIPT_post_send];
	struct link *link = *state;
	struct peer peer;

	peer_ask(&peer, link);
	post->fail_at = post->count + 1;
	post->err = -EINVAL;
	peer_accept(&peer, link);
	end_assert_closed(&peer.end, -EINVAL, "cannot post to the queue pair: Invalid argument");
	peer_close(&peer, link);
}

/* Messages that were there before the connection ended are handed out before the end is. */
static void what_came_before_the_end_is_taken_first(void **state)
{
	enum { FRAMES = 20 };
	struct link *link = *state;
	struct peer peer;

	peer_open(&peer, link);
	for (unsigned i = 0; i < FRAMES; i++) {
		peer_frame(&peer, i, 10);
	}
	script_tell(peer.id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
	stage_turn(link);
	assert_int_equal(peer.end.frames, FRAMES);
	assert_int_equal(peer.end.closed, 1);
	peer_close(&peer, link);
}

/* ---- refusals ---- */

static void assert_rejected(
	struct link *link, int status, const void *data, size_t length, int err, const char *reason)
{
	struct peer peer;

	peer_ask(&peer, link);
	script_tell(peer.id, RDMA_CM_EVENT_REJECTED, status, data, length);
	stage_turn(link);
	end_assert_closed(&peer.end, err, reason);
	peer_close(&peer, link);
}

/* What has no text is the connection manager's own doing, as when the other end ends or has too
 * many that ask: that may pass. */
static void a_refusal_says_why(void **state)
{
	const char text[SMD_VERBS_PRIVATE_MAX] = "no room for one more"; /* and zeros */
	const char zeros[SMD_VERBS_PRIVATE_MAX] = "";
	char full[SMD_VERBS_PRIVATE_MAX + 1] = "";
	struct link *link = *state;
	char reason[64];

	assert_rejected(link, 8, NULL, 0, -ECONNREFUSED, "Connection refused");
	assert_rejected(link, 8, text, sizeof(text), -ECONNREFUSED, "Connection refused");
	assert_rejected(link, 28, text, strlen(text), -ECONNREFUSED, "no room for one more");
	assert_rejected(link, 28, text, sizeof(text), -ECONNREFUSED, "no room for one more");
	assert_rejected(link, 28, NULL, 0, -EAGAIN, "the request was rejected (reason 28)");
	/* What has no text still has as many bytes as there could be. */
	assert_rejected(
		link, 28, zeros, sizeof(zeros), -EAGAIN, "the request was rejected (reason 28)");
	memset(full, 'x', SMD_VERBS_PRIVATE_MAX);
	assert_rejected(link, 28, full, SMD_VERBS_PRIVATE_MAX, -ECONNREFUSED, full);
	/* It will be printed, whoever says it. */
	assert_rejected(link, 28, "a\x1b[2Jb\nc", 8, -ECONNREFUSED, "a?[2Jb?c");
	for (int status = 0; status < 64; status++) {
		if (status != 8 && status != 28) {
			snprintf(reason, sizeof(reason), "the request was rejected (reason %d)",
				status);
			assert_rejected(link, status, text, sizeof(text), -EAGAIN, reason);
		}
	}
}

/* And whether to ask again may help, however long the text is. */
static void a_refusal_says_whether_to_ask_again(void **state)
{
	char text[2 * SMD_RDMA_REJECTION_MAX] = "";
	uint8_t bytes[SMD_RDMA_REJECTION_MAX];
	struct link *link = *state;

	for (int again = 0; again < 2; again++) {
		const int err = again ? -EAGAIN : -ECONNREFUSED;
		size_t length = smd_rdma_rejection_encode("it is late", again, bytes);

		assert_rejected(link, 28, bytes, length, err, "it is late");
		memset(text, 'x', sizeof(text) - 1);
		length = smd_rdma_rejection_encode(text, again, bytes);
		assert_int_equal(length, sizeof(bytes));
		text[SMD_RDMA_REJECTION_MAX - 2] = '\0';
		assert_rejected(link, 28, bytes, length, err, text);
	}
}

/* ---- wrong greetings ---- */

static const struct {
	size_t at;
	uint8_t byte;
	const char *reason;
} wrong[] = {
	{0, 'X', "the other end must be a Summand lane, and is something else"},
	{4, 9, "the other end must speak version 9 over RDMA"},
	{8, 33, "the other end must have 4 to 256 receive buffers"},
	{8, 2, "the other end must have 4 to 256 receive buffers"},
	{9, 2, "the other end must have 4 to 256 receive buffers"},
	{24, 1, "the other end must have 4 to 256 receive buffers"},
};

static void make_wrong(size_t i, uint8_t bytes[SMD_RDMA_GREETING_SIZE])
{
	const struct smd_rdma_greeting greeting = {.receive_buffers = 32};

	smd_rdma_greeting_encode(&greeting, bytes);
	bytes[wrong[i].at] = wrong[i].byte;
}

static void assert_begins(const char *text, const char *with)
{
	/* Up to the first number: which one it wants is told by test_rdma_messages. */
	assert_memory_equal(text, with, strcspn(with, "0123456789"));
}

static void who_accepts_with_a_wrong_greeting_is_left(void **state)
{
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t bytes[SMD_RDMA_GREETING_SIZE];
		struct peer peer;

		peer_ask(&peer, link);
		make_wrong(i, bytes);
		script_tell(peer.id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, bytes, sizeof(bytes));
		stage_turn(link);
		assert_int_equal(peer.end.opened, 0);
		assert_int_equal(peer.end.closed, 1);
		assert_int_equal(peer.end.err, -EPROTO);
		assert_begins(peer.end.reason, wrong[i].reason);
		peer_close(&peer, link);
	}
}

static void who_asks_with_a_wrong_greeting_is_refused(void **state)
{
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t bytes[SMD_RDMA_GREETING_SIZE];

		make_wrong(i, bytes);
		assert_non_null(script_request(bytes, sizeof(bytes)));
		stage_turn(link);
		assert_null(link->far.lane);
		assert_int_equal(script.rejections, i + 1);
		assert_begins(script.last_rejection, wrong[i].reason);
		assert_false(script_says_again());
	}
	assert_non_null(script_request(NULL, 0));
	stage_turn(link);
	assert_begins(script.last_rejection, "the other end must be a Summand lane");
}

/* The one that listens hears other events too, of which it makes nothing. */
static void a_listener_takes_requests_only(void **state)
{
	struct link *link = *state;
	struct rdma_cm_id *asked;

	for (size_t i = 0; i < NEVENTS; i++) {
		if (events[i].type != RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct smd_rdma_greeting greeting = {.receive_buffers = 32};
			uint8_t bytes[SMD_RDMA_GREETING_SIZE];

			link->hold = true; /* not attached: nobody hears its events */
			smd_rdma_greeting_encode(&greeting, bytes);
			asked = script_request(bytes, sizeof(bytes));
			stage_turn(link);
			script_tell(asked, events[i].type, 0, NULL, 0);
			stage_turn(link);
			assert_non_null(link->far.lane);
			assert_int_equal(link->far.closed, 0);
			end_close(&link->far);
			stage_turn(link);
		}
	}
}

/* As where its shard has no memory for it. */
static void who_is_closed_before_it_is_accepted_hears_so(void **state)
{
	struct smd_rdma_greeting greeting = {.receive_buffers = 32};
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct link *link = *state;

	link->hold = true;
	smd_rdma_greeting_encode(&greeting, bytes);
	script_request(bytes, sizeof(bytes));
	stage_turn(link);
	end_close(&link->far);
	assert_int_equal(script.rejections, 1);
	assert_string_equal(script.last_rejection, "it was closed before it was made");
	assert_true(script_says_again());
	stage_turn(link);
	link->hold = false;
	link_open(link);
	end_close(&link->far); /* who is accepted is not refused */
	stage_turn(link);
	assert_int_equal(script.rejections, 1);
}

/* ---- what it writes ---- */

static unsigned lines;

static void count_line(enum smd_log_level level, const char *component, const char *sentence)
{
	(void)level;
	(void)component;
	lines += strstr(sentence, "cannot accept") != NULL;
}

/* Whoever asks again and again does not fill the log. */
static void requests_that_cannot_be_accepted_do_not_fill_the_log(void **state)
{
	enum { REQUESTS = 3 * SMD_LOG_LIMIT_BURST };
	struct script_call *accept = &script.calls[SCRIPT_accept];
	struct smd_rdma_greeting greeting = {.receive_buffers = 32};
	uint8_t bytes[SMD_RDMA_GREETING_SIZE];
	struct link *link = *state;

	smd_rdma_greeting_encode(&greeting, bytes);
	smd_log_set_sink(count_line);
	accept->fail_at = accept->count + 1;
	accept->err = -ENOMEM;
	accept->always = true;
	link->hold = true; /* it is attached below */
	for (unsigned i = 0; i < REQUESTS; i++) {
		assert_non_null(script_request(bytes, sizeof(bytes)));
		stage_turn(link);
		assert_non_null(link->far.lane);
		assert_int_equal(
			smd_lane_attach(link->far.lane, link->base, &link_callbacks, &link->far),
			-ENOMEM);
		end_close(&link->far);
		stage_turn(link);
	}
	smd_log_set_sink(NULL);
	assert_in_range(lines, 1, SMD_LOG_LIMIT_BURST + REQUESTS / 10);
}

/* The connection manager would listen on every device instead, open to the network. */
static void loopback_is_not_listened_on(void **state)
{
	static const char *const addresses[] = {"127.0.0.1:0", "127.3.2.1:7000", "[::1]:0"};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct smd_error error = {""};
		struct smd_listener *listener = NULL;
		char bound[128];

		assert_int_equal(smd_transport_rdma.listen(link->base, addresses[i], link_on_accept,
					 link, &listener, bound, &error),
			-EADDRNOTAVAIL);
		assert_null(listener);
		assert_non_null(strstr(error.text, "loopback is not an address of an RDMA device"));
	}
}

/* It looks for the device again, and finds it when it is back. */
static void a_listener_outlives_its_device(void **state)
{
	struct link *link = *state;
	struct script_call *listen = &script.calls[SCRIPT_listen];

	script_tell(script_listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	listen->fail_at = listen->count + 1; /* the first look is too early */
	listen->err = -ENODEV;
	stage_turn(link);
	assert_null(script_listening());
	RUN_UNTIL(link, script_listening());
	assert_int_equal(listen->count, 3);
	link_open(link);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(two_ends_connect),
		STAGE(every_event_in_every_state),
		STAGE(what_was_not_found_in_time_may_be_found),
		STAGE(an_ended_lane_hears_nothing),
		STAGE(a_closed_lane_hears_nothing),
		STAGE(a_lane_may_be_closed_when_it_opens_or_ends),
		STAGE(a_removed_device_sends_nothing_for_any_lane),
		STAGE(who_does_not_answer_is_not_waited_for_without_end),
		STAGE(a_long_message_crosses_before_anything_else),
		STAGE(a_trial_comes_first_and_once),
		STAGE(a_lane_may_be_closed_while_it_is_tried),
		STAGE(a_trial_that_cannot_be_posted_ends_the_lane),
		STAGE(what_came_before_the_end_is_taken_first),
		STAGE(a_refusal_says_why),
		STAGE(a_refusal_says_whether_to_ask_again),
		STAGE(who_accepts_with_a_wrong_greeting_is_left),
		STAGE(who_asks_with_a_wrong_greeting_is_refused),
		STAGE(requests_that_cannot_be_accepted_do_not_fill_the_log),
		STAGE(a_listener_takes_requests_only),
		STAGE(who_is_closed_before_it_is_accepted_hears_so),
		STAGE(loopback_is_not_listened_on),
		STAGE(a_listener_outlives_its_device),
	};

	setenv("SUMMAND_RDMA_CONNECT", "cm", 1);
	return cmocka_run_group_tests_name("rdma connect", tests, NULL, NULL);
}
