/* TCP lanes that only their owner's polls move: the loop leaves them alone. */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <string.h>

#define FRAMES 40u /* of ROOM bytes: more than two sockets hold */

static void poll_only(struct link *link)
{
	link_open(link);
	assert_true(smd_lane_poll_only(link->near.lane));
	assert_true(smd_lane_poll_only(link->far.lane));
}

static void poll_end(const struct end *end)
{
	if (end->lane) {
		assert_true(smd_lane_poll(end->lane));
	}
}

#define POLL_UNTIL(link, condition)                                                                \
	do {                                                                                       \
		uint64_t until_ = smd_clock_ns() + PATIENCE_NS;                                    \
		while (!(condition)) {                                                             \
			assert_true(smd_clock_ns() < until_);                                      \
			poll_end(&(link)->near);                                                   \
			poll_end(&(link)->far);                                                    \
		}                                                                                  \
	} while (0)

static void send_many(struct parcel parcels[FRAMES], struct end *from)
{
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], from, i, ROOM, NULL);
	}
}

static void the_loop_takes_nothing(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	poll_only(link);
	parcel_send(&parcel, &link->near, 0, 1000, NULL);
	link_run_on(link);
	assert_int_equal(link->far.frames, 0);
	POLL_UNTIL(link, link->far.frames);
	end_assert_payload(&link->far);
	parcels_free(&parcel, 1);
}

/* What came before nobody polled is not forgotten. */
static void what_was_there_before_is_taken(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	link_open(link);
	parcel_send(&parcel, &link->near, 0, 1000, NULL);
	assert_true(smd_lane_poll_only(link->far.lane));
	POLL_UNTIL(link, link->far.frames);
	parcels_free(&parcel, 1);
}

/* The loop does not write the rest of what a socket did not take; polls do. */
static void a_full_socket_is_written_to_by_polls(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	poll_only(link);
	send_many(parcels, &link->near);
	assert_int_equal(parcels[FRAMES - 1].done, 0);
	link_run_on(link);
	assert_int_equal(parcels[FRAMES - 1].done, 0);
	POLL_UNTIL(link, link->far.frames == FRAMES);
	assert_int_equal(parcels[FRAMES - 1].done, 1);
	assert_int_equal(parcels[FRAMES - 1].err, 0);
	parcels_free(parcels, FRAMES);
}

/* Both have full sockets, and neither waits for the other to read first. */
static void two_full_sockets_do_not_wait_for_each_other(void **state)
{
	struct link *link = *state;
	struct parcel there[FRAMES], back[FRAMES];

	poll_only(link);
	send_many(there, &link->near);
	send_many(back, &link->far);
	POLL_UNTIL(link, link->far.frames == FRAMES && link->near.frames == FRAMES);
	end_assert_payload(&link->near);
	end_assert_payload(&link->far);
	parcels_free(there, FRAMES);
	parcels_free(back, FRAMES);
}

static void the_other_ends_end_is_noticed(void **state)
{
	struct link *link = *state;

	poll_only(link);
	end_close(&link->far);
	POLL_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.err, -ECONNRESET);
}

/* With much to send, which is when polls seldom look for what there is to read. */
static void it_is_noticed_by_who_sends(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	poll_only(link);
	send_many(parcels, &link->near);
	end_close(&link->far);
	POLL_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.closed, 1);
	assert_int_equal(parcels[FRAMES - 1].err, -ECANCELED);
	parcels_free(parcels, FRAMES);
}

static void a_lane_may_be_closed_in_its_poll(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	poll_only(link);
	link->far.close_at = ON_FRAME;
	parcel_send(&parcel, &link->near, 0, 1000, NULL);
	POLL_UNTIL(link, !link->far.lane);
	POLL_UNTIL(link, link->near.closed);
	parcels_free(&parcel, 1);
}

#define POLL_TEST(name, transport)                                                                 \
	{                                                                                          \
		transport ": " #name, name, link_set_up, link_tear_down, (void *)(transport)       \
	}
#define EACH_TEST(X, transport)                                                                    \
	X(the_loop_takes_nothing, transport), X(what_was_there_before_is_taken, transport),        \
		X(a_full_socket_is_written_to_by_polls, transport),                                \
		X(two_full_sockets_do_not_wait_for_each_other, transport),                         \
		X(the_other_ends_end_is_noticed, transport),                                       \
		X(it_is_noticed_by_who_sends, transport),                                          \
		X(a_lane_may_be_closed_in_its_poll, transport)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH_TEST(POLL_TEST, "tcp"),
#ifdef SMD_TLS
		EACH_TEST(POLL_TEST, "tls"),
#endif
	};

	return cmocka_run_group_tests_name("tcp_poll", tests, NULL, NULL);
}
