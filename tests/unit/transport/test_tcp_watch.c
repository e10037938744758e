/*
 * Lanes with keepalive only: an end that reads nothing keeps its lane as long as its kernel
 * answers, and one whose kernel answers nothing loses it, whatever is on its way.
 *
 * A socket that drops all that comes is one whose machine is gone: its kernel answers nothing.
 */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/tcp/tcp.h"

/* The kernel asks after 200, 600 and 1400 ms, so that three tries need more than a second. */
#define PATIENCE_MS 600u

static struct tcp_lane *tcp_of(const struct end *end)
{
	return (struct tcp_lane *)end->lane;
}

static void keepalive_only(struct end *end)
{
	smd_lane_keepalive_only(end->lane, PATIENCE_MS);
}

static void cut_off(const struct end *end)
{
	struct sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = {.len = 1, .filter = &drop_all};

	assert_int_equal(setsockopt(tcp_of(end)->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
				 sizeof(program)),
		0);
}

static void run_for(struct link *link, unsigned ms)
{
	uint64_t until = smd_clock_ns() + ms * 1000000ull;

	while (smd_clock_ns() < until) {
		event_base_loop(link->base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
}

static void assert_gone(const struct end *end)
{
	assert_int_equal(end->err, -ETIMEDOUT);
	assert_non_null(strstr(end->reason, "its machine has not answered for "));
}

/* What is sent there is not acknowledged. */
static void a_machine_that_is_gone_ends_a_send(void **state)
{
	struct link *link = *state;
	struct parcel parcel;

	link_open(link);
	keepalive_only(&link->near);
	cut_off(&link->far);
	parcel_send(&parcel, &link->near, 0, 1000, NULL);
	RUN_UNTIL(link, link->near.closed);
	assert_gone(&link->near);
	parcels_free(&parcel, 1);
}

/* It had read nothing before, so there is nothing but probes that it does not answer. */
static void a_machine_that_goes_while_it_reads_nothing_is_noticed(void **state)
{
	enum { FRAMES = 20 };
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open_deaf(link);
	keepalive_only(&link->near);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	run_for(link, PATIENCE_MS);
	assert_int_equal(link->near.closed, 0);
	cut_off(&link->far);
	RUN_UNTIL(link, link->near.closed);
	assert_gone(&link->near);
	parcels_free(parcels, FRAMES);
}

/* Also where the kernel asks so seldom that its answers are further apart than a silence may be. */
static void who_reads_nothing_for_long_is_there(void **state)
{
	enum { FRAMES = 20 };
	const int seldom_ms = 120000;
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	link_open_deaf(link);
	keepalive_only(&link->near);
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, ROOM, NULL);
	}
	(void)setsockopt(tcp_of(&link->near)->fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &seldom_ms,
		sizeof(seldom_ms)); /* or it does so anyway */
	run_for(link, 4 * PATIENCE_MS);
	assert_int_equal(link->near.closed, 0);
	link_listen(link);
	RUN_UNTIL(link, link->far.frames == FRAMES);
	assert_int_equal(link->near.closed, 0);
	parcels_free(parcels, FRAMES);
}

static int option_of(const struct end *end, int name)
{
	int value = 0;
	socklen_t size = sizeof(value);

	assert_int_equal(getsockopt(tcp_of(end)->fd, IPPROTO_TCP, name, &value, &size), 0);
	return value;
}

/* However patient it is: firewalls on the way forget connections over which nothing comes. Who has
 * answered a probe is asked again when the longer of both times is over. */
static void who_is_patient_asks_all_the_same(void **state)
{
	enum { HOUR_MS = 3600000 };
	struct link *link = *state;

	link_open(link);
	smd_lane_keepalive_only(link->near.lane, HOUR_MS);
	assert_in_range(option_of(&link->near, TCP_KEEPIDLE), 1, 10);
	assert_in_range(option_of(&link->near, TCP_KEEPINTVL), 1, 30);
}

/* It ends a lane after so many probes, and its owner has done so before. */
static void the_kernel_is_more_patient(void **state)
{
	static const unsigned patience_s[] = {1, 20, 126, 127, 3600, 86400};
	struct link *link = *state;

	link_open(link);
	for (size_t i = 0; i < sizeof(patience_s) / sizeof(patience_s[0]); i++) {
		smd_lane_keepalive_only(link->near.lane, patience_s[i] * 1000);
		assert_true(option_of(&link->near, TCP_KEEPINTVL) *
				    option_of(&link->near, TCP_KEEPCNT) >
			    (int)patience_s[i]);
	}
}

/* A lane that was told keeps to it on its next loop. */
static void the_watch_goes_along_to_another_loop(void **state)
{
	struct link *link = *state;
	struct event_base *first = link->base;
	struct parcel parcel;

	link_open(link);
	keepalive_only(&link->near);
	smd_lane_detach(link->near.lane);
	link->near.base = event_base_new();
	assert_int_equal(
		smd_lane_attach(link->near.lane, link->near.base, &link_callbacks, &link->near), 0);
	cut_off(&link->far);
	parcel_send(&parcel, &link->near, 0, 1000, NULL);
	link->base = link->near.base;
	RUN_UNTIL(link, link->near.closed);
	assert_gone(&link->near);
	event_base_loop(link->near.base, EVLOOP_NONBLOCK);
	event_base_free(link->near.base);
	link->base = first;
	parcels_free(&parcel, 1);
}

/* ---- what the kernel's signs mean; the clock is the test's ---- */

static unsigned judge(struct tcp_watch *watch, uint64_t now_ms, struct tcp_signs signs)
{
	return smd_tcp_watch_judge(watch, &signs, now_ms);
}

static void three_tries_and_long_silence_are_the_end(void **state)
{
	struct tcp_watch watch = {.patience_ms = 20000};

	(void)state;
	assert_int_equal(judge(&watch, 100000, (struct tcp_signs){.silence_ms = 0}), 0);
	/* Silence alone is an idle lane, and tries alone are a busy network. */
	assert_int_equal(judge(&watch, 200000, (struct tcp_signs){100000, 2, 0}), 0);
	assert_int_equal(judge(&watch, 200000, (struct tcp_signs){100000, 0, 2}), 0);
	assert_int_equal(judge(&watch, 120000, (struct tcp_signs){20000, 3, 0}), 0);
	assert_int_equal(judge(&watch, 120001, (struct tcp_signs){20001, 3, 0}), 20001);
	assert_int_equal(judge(&watch, 120001, (struct tcp_signs){20001, 0, 3}), 20001);
	assert_int_equal(judge(&watch, 120001, (struct tcp_signs){20001, 1, 2}), 20001);
}

static void tries_before_an_answer_do_not_count(void **state)
{
	struct tcp_watch watch = {.patience_ms = 20000};

	(void)state;
	assert_int_equal(judge(&watch, 100000, (struct tcp_signs){10000, 7, 0}), 0);
	/* It answered at 105000; two looks may reckon that moment a little differently. */
	assert_int_equal(judge(&watch, 110000, (struct tcp_signs){5000, 7, 0}), 0);
	assert_int_equal(judge(&watch, 126000, (struct tcp_signs){20950, 9, 0}), 0);
	assert_int_equal(judge(&watch, 126000, (struct tcp_signs){20950, 10, 0}), 20950);
}

/* The kernel asks a full receive buffer ever more seldom: one answer for each try is enough. */
static void who_answers_each_probe_is_there(void **state)
{
	struct tcp_watch watch = {.patience_ms = 20000};
	uint64_t now_ms = 100000;

	(void)state;
	for (uint32_t gap_ms = 200; gap_ms < 200000; gap_ms *= 2) {
		assert_int_equal(judge(&watch, now_ms, (struct tcp_signs){0, 0, 0}), 0);
		now_ms += gap_ms;
		assert_int_equal(judge(&watch, now_ms, (struct tcp_signs){gap_ms, 0, 1}), 0);
	}
}

#define WATCH_TEST(f)                                                                              \
	cmocka_unit_test_prestate_setup_teardown(f, link_set_up, link_tear_down, (void *)"tcp")

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_tries_and_long_silence_are_the_end),
		cmocka_unit_test(tries_before_an_answer_do_not_count),
		cmocka_unit_test(who_answers_each_probe_is_there),
		WATCH_TEST(a_machine_that_is_gone_ends_a_send),
		WATCH_TEST(a_machine_that_goes_while_it_reads_nothing_is_noticed),
		WATCH_TEST(who_reads_nothing_for_long_is_there),
		WATCH_TEST(who_is_patient_asks_all_the_same),
		WATCH_TEST(the_kernel_is_more_patient),
		WATCH_TEST(the_watch_goes_along_to_another_loop),
	};

	return cmocka_run_group_tests_name("tcp_watch", tests, NULL, NULL);
}
