/*
 * Lanes that are made over a carrier, without the connection manager: both ends offer and join, a
 * long message is tried both ways before anything else, and the carrier's end is the lane's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/wire/message.h"
#include "tests/unit/rdma/halves.h"
#include "tests/unit/rdma/peer.h"

#define TRIAL_BYTES SMD_RDMA_BUFFER_SIZE

static void two_ends_are_joined(void **state)
{
	struct link *link = *state;
	struct halves halves;
	struct parcel parcels[2];

	halves_open(&halves, link);
	assert_string_equal(smd_lane_peer_name(link->near.lane), "10.0.0.9:7");
	parcel_send(&parcels[0], &link->near, 1, 100, NULL);
	parcel_send(&parcels[1], &link->far, 2, 100000, NULL);
	RUN_UNTIL(link, link->near.frames == 1 && link->far.frames == 1);
	end_assert_payload(&link->near);
	end_assert_payload(&link->far);
	halves_close(&halves);
	assert_true(halves.first.carrier.closed && halves.second.carrier.closed);
	parcels_free(parcels, 2);
}

/* Each end's first message is as long as any, and what is queued comes after it. */
static void a_long_message_is_tried_before_anything_else(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct parcel parcel;
	unsigned n;

	halves_offer(&halves, link);
	parcel_send(&parcel, &link->near, 1, 100, NULL);
	stage_turn(link);
	script_sends(script_id_of_pair(halves.second.lane->pair.qp), &n);
	assert_int_equal(n, 0); /* it waits for the other end's */
	script.carries = false;
	assert_int_equal(half_join(&halves.first, &halves.second, &error), 0);
	stage_turn(link);
	assert_int_equal(link->far.opened + link->near.opened, 0);
	script.carries = true;
	script_carry(script_id_of_pair(halves.first.lane->pair.qp), 1);
	stage_turn(link);
	assert_int_equal(link->far.opened, 1);
	assert_int_equal(link->near.opened, 1);
	for (int i = 0; i < 2; i++) {
		const struct half *half = i ? &halves.first : &halves.second;
		const struct script_send *sends =
			script_sends(script_id_of_pair(half->lane->pair.qp), &n);

		assert_true(n >= 1);
		assert_int_equal(sends[0].length, TRIAL_BYTES);
		assert_true(TRIAL_BYTES > 4096); /* the largest MTU */
		assert_int_equal(sends[0].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	}
	RUN_UNTIL(link, link->far.frames == 1);
	halves_close(&halves);
	parcels_free(&parcel, 1);
}

/* On a fabric that passes small packets only neither end waits for ever, and the user is told what
 * to look at. The time is not waited for. */
static void a_message_that_does_not_come_is_told(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_offer(&halves, link);
	script.carries = false;
	assert_int_equal(half_join(&halves.first, &halves.second, &error), 0);
	assert_true(evtimer_pending(halves.first.lane->patience, NULL));
	event_active(halves.first.lane->patience, EV_TIMEOUT, 1);
	event_active(halves.second.lane->patience, EV_TIMEOUT, 1);
	stage_turn(link);
	/* Who answers knows first, and says so where it tries again. */
	end_assert_closed(&link->near, -ETIMEDOUT,
		"no message of 4688 bytes has come over RDMA within 5 s: the path must pass "
		"packets of an MTU of 4096");
	end_assert_closed(&link->far, -ETIMEDOUT,
		"no message of 4688 bytes has come over RDMA within 7 s: the path must pass "
		"packets of an MTU of 4096");
	script.carries = true;
	halves_close(&halves);
}

static void who_does_not_answer_an_offer_is_not_waited_for(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	event_active(halves.first.lane->patience, EV_TIMEOUT, 1);
	stage_turn(link);
	end_assert_closed(&link->far, -ETIMEDOUT, "no answer about RDMA within 7 s");
	assert_false(halves.first.carrier.closed); /* it is still who offers' own */
	halves_close(&halves);
}

/* With the carrier's own reason. What came before is taken first; a lane that drains hears it too.
 */
static void the_carriers_end_is_the_lanes(void **state)
{
	struct link *link = *state;
	struct halves halves;
	struct parcel parcel;

	halves_open(&halves, link);
	parcel_send(&parcel, &link->near, 1, 100, NULL);
	smd_lane_poll(link->near.lane);
	carrier_end(&halves.first, -ECONNRESET, "Connection reset by peer");
	assert_int_equal(link->far.frames, 1);
	end_assert_closed(&link->far, -ECONNRESET, "Connection reset by peer");
	end_close(&link->far);
	carrier_end(&halves.second, -EPROTO, "JOIN: must cross the queue pair");
	stage_turn(link);
	end_assert_closed(&link->near, -EPROTO, "JOIN: must cross the queue pair");
	halves_close(&halves);
	parcels_free(&parcel, 1);
}

/* The network that the carriers go over is not the one that the lane goes over, and either end may
 * hear of its silence first. The lane goes on as before, and ends as before. */
static void a_silent_carrier_is_done_without(void **state)
{
	static const int says[] = {-ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -ENETDOWN};
	struct link *link = *state;

	for (unsigned i = 0; i < 2 * sizeof(says) / sizeof(says[0]); i++) {
		struct halves halves;
		struct half *hears = i % 2 ? &halves.first : &halves.second;
		struct parcel parcels[2];

		halves_open(&halves, link);
		carrier_end(hears, says[i / 2], "no word");
		assert_false(hears->carrier.closed); /* or the other end would take that for ours */
		parcel_send(&parcels[0], &link->near, 1, 100, NULL);
		parcel_send(&parcels[1], &link->far, 2, 100000, NULL);
		RUN_UNTIL(link, link->near.frames == 1 && link->far.frames == 1);
		assert_int_equal(link->near.closed + link->far.closed, 0);
		halves_close(&halves);
		assert_true(hears->carrier.closed);
		parcels_free(parcels, 2);
	}
}

/* What is on its way when a lane is closed still arrives. */
static void a_lane_drains_without_its_carrier(void **state)
{
	struct link *link = *state;
	struct halves halves;
	unsigned before;

	halves_open(&halves, link);
	before = link->far.lane->counts.bytes_received;
	script.carries = false;
	assert_int_equal(smd_heartbeat_send(link->near.lane, SMD_FRAME_PING), 0);
	stage_turn(link);
	end_close(&link->near);
	carrier_end(&halves.second, -ETIMEDOUT, "no word");
	stage_turn(link);
	assert_false(halves.second.carrier.closed);
	script.carries = true;
	script_carry(script_id_of_pair(halves.second.lane->pair.qp), 1);
	RUN_UNTIL(link, link->far.lane->counts.bytes_received > before);
	halves_close(&halves);
}

/* So that no end takes a short silence for the other's end, and none resets what the other still
 * has.
 */
static void a_carrier_outlives_an_outage(void **state)
{
	enum { OUTAGE_MS = 600000 };
	struct link *link = *state;
	struct halves halves;

	halves_open(&halves, link);
	assert_true(halves.first.carrier.patience_ms > OUTAGE_MS);
	assert_true(halves.second.carrier.patience_ms > OUTAGE_MS);
	halves_close(&halves);
}

static void nothing_more_is_said_on_a_carrier(void **state)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_WELCOME};
	struct smd_error error = {""};
	struct link *link = *state;
	struct halves halves;
	void *payload;

	halves_open(&halves, link);
	assert_int_equal(halves.first.carrier.callbacks->on_header(
				 halves.first.carrier.owner, &frame, &payload, &error),
		-EPROTO);
	assert_string_equal(error.text, "WELCOME: must cross the queue pair, and came beside it");
	halves_close(&halves);
}

/* ---- what is said ---- */

static void a_path_is_what_both_ends_and_the_user_say(void **state)
{
	struct link *link = *state;
	struct halves halves;

	setenv("SUMMAND_RDMA_SERVICE_LEVEL", "3", 1);
	setenv("SUMMAND_RDMA_TRAFFIC_CLASS", "106", 1);
	setenv("SUMMAND_RDMA_PKEY", "2", 1);
	script.limits.mtu = IBV_MTU_1024;
	forget_loop(link);
	halves_open(&halves, link);
	assert_int_equal(script.path.mtu, IBV_MTU_1024);
	assert_int_equal(script.path.service_level, 3);
	assert_int_equal(script.path.traffic_class, 106);
	assert_int_equal(script.pkey, 2);
	assert_int_equal(script.path.port.gid_index, 3);
	assert_memory_equal(script.path.gid, script.ports[0].gid, 16);
	assert_int_equal(script.path.number, halves.second.lane->pair.qp->qp_num);
	assert_int_equal(
		script.path.first_packet, halves.second.lane->path.own_first_packet);
	halves_close(&halves);
	unsetenv("SUMMAND_RDMA_SERVICE_LEVEL");
	unsetenv("SUMMAND_RDMA_TRAFFIC_CLASS");
	unsetenv("SUMMAND_RDMA_PKEY");
}

static void the_smaller_mtu_is_taken(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	halves.first.offer.bytes[SMD_RDMA_GREETING_SIZE + 10] = IBV_MTU_512;
	assert_int_equal(half_offer(&halves.second, link, &halves.first.offer, &error), 0);
	assert_int_equal(half_join(&halves.second, &halves.first, &error), 0);
	assert_int_equal(script.path.mtu, IBV_MTU_512);
	halves_close(&halves);
}

static void offers_that_are_none_are_refused(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
		const char *says;
	} wrong[] = {
		{0, 'X', "must be a Summand lane"},
		{4, 9, "must speak version"},
		{SMD_RDMA_GREETING_SIZE + 3, 1, "numbers of 24 bits"},
		{SMD_RDMA_GREETING_SIZE + 7, 1, "numbers of 24 bits"},
		{SMD_RDMA_GREETING_SIZE + 10, 0, "MTU of 1 to 5"},
		{SMD_RDMA_GREETING_SIZE + 10, 6, "MTU of 1 to 5"},
		{SMD_RDMA_GREETING_SIZE + 11, 2, "kind of 0 or 1"},
	};
	struct link *link = *state;
	struct halves halves;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct smd_error error = {""};
		struct smd_offer own;

		halves_begin(&halves, link);
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
		own = halves.first.offer;
		halves.first.offer.bytes[wrong[i].at] = wrong[i].value;
		assert_int_equal(
			half_offer(&halves.second, link, &halves.first.offer, &error), -EPROTO);
		assert_non_null(strstr(error.text, wrong[i].says));
		assert_int_equal(half_join(&halves.first, &halves.first, &error), -EPROTO);
		for (size_t length = 0; length < own.length; length++) {
			own.length = length;
			assert_int_equal(
				half_offer(&halves.second, link, &own, &error), -EPROTO);
			own.length = halves.first.offer.length;
		}
		halves_close(&halves);
		assert_false(halves.first.carrier.closed);
	}
}

/* The end that joins last sends first: what comes before was never asked for. */
static void nothing_comes_before_the_queue_pair_is_joined(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct peer early;

	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	early = (struct peer){.id = script_id_of_pair(halves.first.lane->pair.qp),
		.theirs = smd_rdma_lane_greeting(halves.first.lane)};
	peer_frame(&early, 1, 10);
	smd_lane_poll(link->far.lane);
	stage_turn(link);
	assert_int_equal(link->far.headers, 0);
	end_assert_closed(
		&link->far, -EPROTO, "message: must not come before the queue pair is joined");
	halves_close(&halves);
}

/* The other end sends as soon as it has heard the answer. */
static void who_answers_is_ready_before_its_offer_is_said(void **state)
{
	const struct script_call *join = &script.calls[SCRIPT_pair_join];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	assert_int_equal(join->count, 0);
	assert_int_equal(half_offer(&halves.second, link, &halves.first.offer, &error), 0);
	assert_int_equal(join->count, 1);
	assert_int_equal(script.path.number, halves.first.lane->pair.qp->qp_num);
	assert_int_equal(half_join(&halves.second, &halves.first, &error), 0);
	assert_int_equal(join->count, 1);
	halves_close(&halves);
}

/* ---- calls that fail ---- */

static void every_call_may_fail(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_check, SCRIPT_device_open,
		SCRIPT_ports, SCRIPT_query, SCRIPT_domain_create, SCRIPT_queue_create,
		SCRIPT_queue_arm, SCRIPT_pair_create, SCRIPT_pair_init, SCRIPT_pair_join,
		SCRIPT_post_receive, SCRIPT_region_create, SCRIPT_post_send};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i]];
		struct smd_error error = {""};
		struct halves halves;
		int ret;

		forget_loop(link);
		halves_begin(&halves, link);
		call->fail_at = call->count + 1;
		call->err = -EDQUOT;
		call->always = true;
		ret = half_offer(&halves.first, link, NULL, &error);
		if (ret == 0) {
			ret = half_offer(&halves.second, link, &halves.first.offer, &error);
		}
		if (ret == 0) {
			ret = half_join(&halves.second, &halves.first, &error);
		}
		if (ret == 0) {
			ret = half_join(&halves.first, &halves.second, &error);
			stage_turn(link);
		}
		assert_true(ret < 0 || link->far.closed == 1);
		assert_true(error.text[0] || link->far.reason[0]);
		call->fail_at = 0;
		call->always = false;
		halves_close(&halves);
	}
}

/* The kernel looks for the way to the other end, which may not be there, as when nobody answers for
 * its address: that is told as what does not come over a queue pair is. */
static void a_path_that_is_not_there_is_silence(void **state)
{
	static const int says[] = {-ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -ENETDOWN};
	struct script_call *join = &script.calls[SCRIPT_pair_join];
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		struct smd_error error = {""};
		struct halves halves;

		halves_begin(&halves, link);
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
		join->fail_at = join->count + 1;
		join->err = says[i];
		assert_int_equal(
			half_offer(&halves.second, link, &halves.first.offer, &error), -ETIMEDOUT);
		assert_non_null(strstr(error.text, "cannot be connected: "));
		assert_non_null(strstr(error.text, strerror(-says[i])));
		halves_close(&halves);
	}
}

/* It says nothing of the fabric, by which other lanes would be spared theirs: the card has much to
 * do, and may be asked once more. */
static void a_driver_that_is_late_is_no_silence(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_ports, SCRIPT_device_open,
		SCRIPT_query, SCRIPT_domain_create, SCRIPT_queue_create, SCRIPT_region_create,
		SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i]];
		struct smd_error error = {""};
		struct halves halves;

		forget_loop(link); /* so that all is asked for */
		halves_begin(&halves, link);
		call->fail_at = call->count + 1;
		call->err = -ETIMEDOUT;
		call->always = true;
		assert_int_equal(half_offer(&halves.second, link, NULL, &error), -EAGAIN);
		assert_non_null(strstr(error.text, strerror(ETIMEDOUT)));
		call->fail_at = 0;
		call->always = false;
		assert_int_equal(half_offer(&halves.second, link, NULL, &error), 0);
		halves_close(&halves);
	}
}

/* A host without the connection manager's module has such lanes all the same. */
static void no_connection_manager_is_needed(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_channel_create];
	struct link *link = *state;
	struct halves halves;

	forget_loop(link); /* which has one */
	create->fail_at = 1;
	create->err = -ENODEV;
	create->always = true;
	halves_open(&halves, link);
	halves_close(&halves);
}

static void loopback_is_not_carried(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_begin(&halves, link);
	memcpy(halves.first.carrier.address + 12, "\x7f\0\0\1", 4);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -EADDRNOTAVAIL);
	assert_string_equal(error.text, "rdma: loopback is not an address of an RDMA device");
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(two_ends_are_joined),
		STAGE(a_long_message_is_tried_before_anything_else),
		STAGE(a_message_that_does_not_come_is_told),
		STAGE(who_does_not_answer_an_offer_is_not_waited_for),
		STAGE(the_carriers_end_is_the_lanes),
		STAGE(a_silent_carrier_is_done_without),
		STAGE(a_lane_drains_without_its_carrier),
		STAGE(a_carrier_outlives_an_outage),
		STAGE(nothing_more_is_said_on_a_carrier),
		STAGE(a_path_is_what_both_ends_and_the_user_say),
		STAGE(the_smaller_mtu_is_taken),
		STAGE(offers_that_are_none_are_refused),
		STAGE(nothing_comes_before_the_queue_pair_is_joined),
		STAGE(who_answers_is_ready_before_its_offer_is_said),
		STAGE(every_call_may_fail),
		STAGE(a_path_that_is_not_there_is_silence),
		STAGE(a_driver_that_is_late_is_no_silence),
		STAGE(no_connection_manager_is_needed),
		STAGE(loopback_is_not_carried),
	};

	return cmocka_run_group_tests_name("rdma offers", tests, NULL, NULL);
}
