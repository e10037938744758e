/*
 * What comes back from a lane while it is closed may end operations, and these tell shards what
 * this rank has: nothing is said on that lane any more. The lane is the test's own, which gives
 * back what it has been sent when it is closed, as all transports do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <errno.h>

#include "worker/libsummand/epoch.h"
#include "worker/libsummand/flow.h"
#include "worker/libsummand/remote.h"
#include "worker/libsummand/remote_loss.h"

struct closing {
	struct smd_lane lane; /* first */
	struct smd_send *sent;
	bool closed;
	unsigned too_late; /* sends when it was closed */
};

static struct closing closing;
static struct smd_remote remote;
static struct smd_comm comm;
static struct smd_epoch epoch;
static struct smd_flow flow;
static unsigned owner_told;

static void closing_send(struct smd_lane *lane, struct smd_send *send)
{
	(void)lane;
	closing.too_late += closing.closed;
	closing.sent = closing.closed ? closing.sent : send;
	if (send != closing.sent) {
		send->done(send, -ECANCELED);
	}
}

static void closing_close(struct smd_lane *lane)
{
	(void)lane;
	closing.closed = true;
	closing.sent->done(closing.sent, -ECANCELED);
}

static const struct smd_transport_ops closing_ops = {
	.name = "closing",
	.send = closing_send,
	.close = closing_close,
};

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void on_lane_closed(struct smd_remote_owner *owner, struct smd_remote *of)
{
	(void)owner;
	assert_null(of->lane);
	owner_told++;
}

/* The operation's last send has come back, so that it may return, and all must hear what of it is
 * here; and another waits for its turn. */
static void operation_returns(struct smd_send *send, int err)
{
	(void)send;
	assert_int_equal(err, -ECANCELED);
	smd_flow_ask_held(&flow);
	smd_flow_tell_held(&flow);
	smd_flow_asked_held(&flow, 1);
	assert_false(smd_flow_send(&flow));
	smd_remote_send(&remote, SMD_FRAME_LEAVE, 0, 0, NULL, 0);
}

static void nothing_is_said_on_a_lane_that_is_being_closed(void **state)
{
	static const struct smd_remote_owner_ops ops = {.on_lane_closed = on_lane_closed};
	struct smd_remote_owner owner = {.ops = &ops};
	struct event_base *base = event_base_new();
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT};
	struct smd_send send = {.done = operation_returns};

	(void)state;
	closing.lane.ops = &closing_ops;
	remote = (struct smd_remote){.owner = &owner, .lane = &closing.lane, .welcomed = true};
	remote.retry = evtimer_new(base, on_retry, NULL);
	assert_non_null(remote.retry);
	epoch.comm = &comm;
	flow = (struct smd_flow){.comm = &comm, .epoch = &epoch, .remote = &remote, .done = 2, .hold = 1};
	smd_lane_send(&closing.lane, &frame, &send);
	assert_ptr_equal(closing.sent, &send);

	smd_remote_drop_lane(&remote);
	event_free(remote.retry);
	event_base_free(base);
	assert_int_equal(closing.too_late, 0);
	assert_int_equal(owner_told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_said_on_a_lane_that_is_being_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
