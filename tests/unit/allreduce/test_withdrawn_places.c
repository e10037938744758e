/*
 * Places of results on a lane with memory windows: a communicator that has failed keeps its
 * caller's memory until the card has taken back the keys of all that will not come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/transport/transport.h"
#include "worker/libsummand/advertisement.h"
#include "worker/libsummand/remote.h"

enum { PLACES = 3 };

static struct smd_advertisement places[PLACES];
static struct smd_advertisement *advertisements[SMD_FLOW_WINDOW_MAX];
static struct smd_flow_send sends[SMD_FLOW_WINDOW_MAX];
static struct {
	smd_withdrawn *gone;
	void *owner;
} withdrawn[PLACES];
static unsigned revoked;
static unsigned over;

static void lane_revoke(struct smd_lane *lane, struct smd_advertisement *advertisement)
{
	(void)lane;
	(void)advertisement;
	revoked++;
}

static void lane_withdraw(struct smd_lane *lane, struct smd_advertisement *advertisement,
	smd_withdrawn *gone, void *owner)
{
	(void)lane;
	withdrawn[advertisement - places].gone = gone;
	withdrawn[advertisement - places].owner = owner;
}

static void on_over(struct smd_flow *flow)
{
	(void)flow;
	over++;
}

/* A flow with three places, of which the lane can withdraw each at its time, or now. */
static struct smd_flow flow_of(struct smd_remote *remote)
{
	memset(withdrawn, 0, sizeof(withdrawn));
	memset(advertisements, 0, sizeof(advertisements));
	revoked = 0;
	over = 0;
	for (unsigned i = 0; i < PLACES; i++) {
		places[i].held = true;
		advertisements[i + 4] = &places[i];
	}
	return (struct smd_flow){
		.remote = remote, .advertisements = advertisements, .sends = sends};
}

static void it_is_over_when_the_last_place_is_gone(void **state)
{
	static const unsigned order[PLACES] = {1, 2, 0};
	static const struct smd_transport_ops ops = {
		.revoke = lane_revoke, .withdraw = lane_withdraw};
	struct smd_lane lane = {.ops = &ops};
	struct smd_remote remote = {.lane = &lane};
	struct smd_flow flow = flow_of(&remote);

	(void)state;
	assert_true(smd_flow_is_open(&flow));
	smd_flow_withdraw_all(&flow, on_over);
	for (unsigned i = 0; i < PLACES; i++) {
		assert_int_equal(over, 0);
		withdrawn[order[i]].gone(withdrawn[order[i]].owner, NULL);
	}
	assert_int_equal(over, 1);
	assert_int_equal(revoked, 0);
	smd_flow_withdraw_all(&flow, on_over); /* of none */
	assert_int_equal(over, 2);
}

static void without_windows_it_is_over_at_once(void **state)
{
	static const struct smd_transport_ops ops = {.revoke = lane_revoke};
	struct smd_lane lane = {.ops = &ops};
	struct smd_remote remote = {.lane = &lane};
	struct smd_flow flow = flow_of(&remote);

	(void)state;
	smd_flow_withdraw_all(&flow, on_over);
	assert_int_equal(over, 1);
	assert_int_equal(revoked, PLACES);
	assert_false(smd_flow_is_open(&flow));
}

/* Whether it was written there, or comes in messages. */
static void a_result_without_its_place_s_key_is_refused(void **state)
{
	struct smd_remote remote = {.lane = NULL};
	struct smd_flow flow = flow_of(&remote);
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_flow_check_place(&flow, 4, true, &error), -EPROTO);
	assert_int_equal(smd_flow_check_place(&flow, 4, false, &error), -EPROTO);
	assert_string_equal(error.text,
		"RESULT: must give back the memory window of its place, got ordinal 4 without");
	error = (struct smd_error){""};
	places[0].held = false;
	assert_int_equal(smd_flow_check_place(&flow, 4, true, &error), 0);
	assert_int_equal(smd_flow_check_place(&flow, 4, false, &error), 0);
	assert_int_equal(smd_flow_check_place(&flow, 3, false, &error), 0);
	assert_int_equal(smd_flow_check_place(&flow, 3, true, &error), -EPROTO);
	assert_string_equal(error.text,
		"RESULT: must not be written to a buffer that was not advertised, got ordinal 3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_over_when_the_last_place_is_gone),
		cmocka_unit_test(without_windows_it_is_over_at_once),
		cmocka_unit_test(a_result_without_its_place_s_key_is_refused),
	};

	return cmocka_run_group_tests_name("withdrawn places", tests, NULL, NULL);
}
