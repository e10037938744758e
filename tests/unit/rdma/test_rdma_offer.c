/*
 * Lanes that are made over a carrier, without the connection manager: both ends offer and join, a
 * long message is tried both ways before anything else, and the carrier's end is the lane's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/listing.h"
#include "reduction_server/wire/message.h"
#include "tests/unit/allreduce/capture.h"
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

/* What came before is taken first; a lane that drains hears it too. */
static void the_carriers_end_is_the_lanes(void **state)
{
	struct link *link = *state;
	struct halves halves;
	struct parcel parcel;

	halves_open(&halves, link);
	parcel_send(&parcel, &link->near, 1, 100, NULL);
	smd_lane_poll(link->near.lane);
	carrier_end(&halves.first);
	assert_int_equal(link->far.frames, 1);
	end_assert_closed(&link->far, -ECONNRESET, "the other end closed the connection");
	end_close(&link->far);
	carrier_end(&halves.second);
	stage_turn(link);
	end_assert_closed(&link->near, -ECONNRESET, "the other end closed the connection");
	halves_close(&halves);
	parcels_free(&parcel, 1);
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

/* A trial where the connection manager has connected, and a frame where a trial is due. */
static void a_trial_comes_where_it_belongs(void **state)
{
	struct link *link = *state;
	struct peer peer;
	struct smd_rdma_prefix prefix;
	uint8_t bytes[SMD_RDMA_BUFFER_SIZE] = {0};

	peer_open(&peer, link);
	prefix = peer_prefix(&peer, 0);
	prefix.length = TRIAL_BYTES;
	prefix.trial = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	peer_write(&peer, bytes, TRIAL_BYTES, TRIAL_BYTES);
	peer_poll(&peer);
	end_assert_closed(&peer.end, -EPROTO,
		"message: a trial must come once, where there was no connection manager");
	peer_close(&peer, link);
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

/* ---- several cards ---- */

/* Both are as good for it. */
static void begin_between_two_cards(struct halves *halves, struct link *link)
{
	forget_loop(link);
	two_cards();
	halves_begin(halves, link);
	carriers_come_from_elsewhere(halves);
}

/* One with lanes to many servers of one shard each has them on all of its cards. Who offers is that shard,
 * and on its own. */
static void who_answers_takes_cards_by_turns(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned second = 0;

	begin_between_two_cards(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(
			half_offer(&halves.second, link, &halves.first.offer, &error), 0);
		second += strcmp(halves.second.lane->path.port.name, "script1") == 0;
		end_close(&link->near);
		link->near.lane = NULL;
		stage_turn(link);
	}
	assert_int_equal(second, 2);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(halves.first.lane->path.port.name, "script1"); /* shard 5 */
		end_close(&link->far);
		link->far.lane = NULL;
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	}
	halves_close(&halves);
}

/* NCCL's connections belong to no shard. Each was bound to the interface of a card. */
static void a_lane_of_no_shard_stays_on_its_carriers_card(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	begin_between_two_cards(&halves, link);
	for (unsigned i = 0; i < SCRIPT_PORTS_MOST;
		i++) { /* as InfiniBand, whose routes are not followed */
		script.ports[i].ethernet = false;
		memcpy(script.ports[i].address, script.ports[i].gid, 16);
	}
	memcpy(halves.first.carrier.address, script.ports[1].address, 16);
	for (int i = 0; i < 3; i++) {
		struct smd_lane *lane;

		assert_int_equal(smd_transport_rdma.offer(link->base, &halves.first.carrier.lane,
					 (unsigned)SMD_SHARD_UNKNOWN, NULL, 0, &link_callbacks,
					 &link->far, &lane, &halves.first.offer, &error),
			0);
		assert_string_equal(rdma_lane_of(lane)->path.port.name, "script1");
		smd_lane_close(lane);
		stage_turn(link);
	}
}

/* What this host has a RoCE and an InfiniBand card for is what the other end has: who offers says
 * one kind only. */
static void what_is_offered_is_of_the_other_ends_kind(void **state)
{
	static const struct {
		uint16_t kinds;
		bool ethernet;
	} cases[] = {
		{0, false},
		{SMD_HELLO_KINDS, false},
		{SMD_HELLO_INFINIBAND, false},
		{SMD_HELLO_ROCE, true},
	};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	begin_between_two_cards(&halves, link);
	script.ports[1].ethernet = false;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct smd_rdma_offer offer;

		halves.first.kinds = cases[i].kinds;
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
		assert_int_equal(smd_rdma_offer_decode(halves.first.offer.bytes,
					 halves.first.offer.length, &offer, &error),
			0);
		assert_int_equal(offer.ethernet, cases[i].ethernet);
		assert_string_equal(halves.first.lane->path.port.name,
			cases[i].ethernet ? "script0" : "script1");
		end_close(&link->far);
		link->far.lane = NULL;
		stage_turn(link);
	}
}

/* Nothing is made for it, and nobody has to find out. */
static void where_no_kind_is_common_nothing_is_offered(void **state)
{
	const struct script_call *open = &script.calls[SCRIPT_device_open];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	forget_loop(link);
	halves_begin(&halves, link);
	halves.first.kinds = SMD_HELLO_INFINIBAND;
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETUNREACH);
	assert_string_equal(error.text, "the other end is on InfiniBand, and no device here is; "
					"SUMMAND_RDMA_DEVICE there may name others");
	script.ports[0].ethernet = false;
	forget_loop(link);
	halves.first.kinds = SMD_HELLO_ROCE;
	error.text[0] = '\0';
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETUNREACH);
	assert_non_null(strstr(error.text, "the other end is on RoCE"));
	assert_int_equal(open->count, 0);
}

static void kinds_are_those_of_ports_that_lanes_may_take(void **state)
{
	struct script_call *ports = &script.calls[SCRIPT_ports];

	(void)state;
	two_cards();
	script.ports[1].ethernet = false;
	assert_int_equal(smd_transport_rdma.kinds(), SMD_HELLO_KINDS);
	setenv("SUMMAND_RDMA_DEVICE", "script1", 1);
	assert_int_equal(smd_transport_rdma.kinds(), SMD_HELLO_INFINIBAND);
	setenv("SUMMAND_RDMA_DEVICE", "^script1", 1);
	assert_int_equal(smd_transport_rdma.kinds(), SMD_HELLO_ROCE);
	setenv("SUMMAND_RDMA_DEVICE", "script7", 1);
	assert_int_equal(smd_transport_rdma.kinds(), 0);
	unsetenv("SUMMAND_RDMA_DEVICE");
	ports->fail_at = ports->count + 1;
	ports->err = -ENODEV;
	assert_int_equal(smd_transport_rdma.kinds(), 0);
}

/* A driver without its library, a file's mode, a container that was given one card: another one is taken,
 * until ports are looked at again. */
static void a_card_that_cannot_be_opened_leaves_its_turn_to_another(void **state)
{
	static const int errors[] = {-ENODEV, -EACCES, -EPERM, -ENOENT};
	struct script_call *open = &script.calls[SCRIPT_device_open];
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct smd_error error = {""};
		struct halves halves;

		begin_between_two_cards(&halves, link);
		open->fail_at = open->count + 1; /* shard 5's turn is the second */
		open->err = errors[i];
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
		assert_string_equal(halves.first.lane->path.port.name, "script0");
		assert_int_equal(
			half_offer(&halves.second, link, &halves.first.offer, &error), 0);
		assert_string_equal(halves.second.lane->path.port.name, "script0");
		assert_int_equal(open->count, open->fail_at + 1);
		halves_close(&halves);
	}
}

/* It is no reason for other lanes to do without RDMA, nor for the process to end. */
static void where_no_card_can_be_opened_rdma_does_not_reach(void **state)
{
	static const int errors[] = {-ENODEV, -EACCES, -EPERM, -ENOENT};
	struct script_call *open = &script.calls[SCRIPT_device_open];
	struct link *link = *state;

	open->always = true;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct smd_error error = {""};
		struct halves halves;

		begin_between_two_cards(&halves, link);
		open->fail_at = open->count + 1;
		open->err = errors[i];
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETUNREACH);
		assert_non_null(strstr(error.text, "rdma: cannot open script0: "));
		open->fail_at = 0; /* and it is looked for again at once */
		assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
		halves_close(&halves);
	}
}

/* What passes is told as it is: whoever asked asks again. */
static void a_card_that_is_busy_is_asked_again(void **state)
{
	struct script_call *open = &script.calls[SCRIPT_device_open];
	struct smd_error error = {""};
	struct link *link = *state;
	struct halves halves;

	forget_loop(link);
	halves_begin(&halves, link);
	open->fail_at = open->count + 1;
	open->err = -EAGAIN;
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -EAGAIN);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	halves_close(&halves);
}

/* ---- no port ---- */

static void devices_that_this_process_may_not_use_are_told(void **state)
{
	struct script_call *ports = &script.calls[SCRIPT_ports];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	forget_loop(link);
	halves_begin(&halves, link);
	ports->fail_at = ports->count + 1;
	ports->err = -EACCES;
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETUNREACH);
	assert_string_equal(error.text,
		"no RDMA device can be used: /dev/infiniband/uverbs* must be there, and let this "
		"process read and write");
}

static void a_host_without_a_port_says_so(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	script.nports = 0;
	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETDOWN);
	assert_string_equal(
		error.text, "no RDMA device has a port that is up and has an address");
}

/* As what the device lacks (ENETDOWN), which is said once and not for each lane, and as a warning.
 */
static void a_device_that_is_named_and_not_there_is_told_once(void **state)
{
	struct link *link = *state;
	struct halves halves;

	halves_begin(&halves, link);
	forget_loop(link);
	setenv("SUMMAND_RDMA_DEVICE", "mlx5_7", 1);
	capture_begin();
	for (int i = 0; i < 3; i++) {
		struct smd_error error = {""};

		assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETDOWN);
		assert_string_equal(error.text,
			"SUMMAND_RDMA_DEVICE: must name a port that is up, got \"mlx5_7\"");
	}
	assert_int_equal(capture_count("warn  rdma: SUMMAND_RDMA_DEVICE: must name a port"), 1);
	capture_end();
	unsetenv("SUMMAND_RDMA_DEVICE");
}

/* It is there, and of no use with that other end; with another one it is. */
static void a_device_that_is_named_and_of_another_kind_is_told(void **state)
{
	const struct smd_rdma_offer other = {.ethernet = !script.ports[0].ethernet};
	const struct smd_rdma_wish wish = {.devices = "script0", .other = &other};
	struct link *link = *state;
	struct smd_error error = {""};
	struct smd_verbs_port port;
	struct rdma_loop *loop;

	assert_int_equal(smd_rdma_loop_get(link->base, &loop, &error), 0);
	assert_int_equal(smd_rdma_listing_choose(loop, &wish, &port, &error), -ENETUNREACH);
	assert_string_equal(error.text, "SUMMAND_RDMA_DEVICE: must name a port that is up and of "
					"the other end's kind, got \"script0\"");
	smd_rdma_loop_put(loop);
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
		STAGE(nothing_more_is_said_on_a_carrier),
		STAGE(a_path_is_what_both_ends_and_the_user_say),
		STAGE(the_smaller_mtu_is_taken),
		STAGE(offers_that_are_none_are_refused),
		STAGE(a_trial_comes_where_it_belongs),
		STAGE(nothing_comes_before_the_queue_pair_is_joined),
		STAGE(who_answers_is_ready_before_its_offer_is_said),
		STAGE(every_call_may_fail),
		STAGE(no_connection_manager_is_needed),
		STAGE(loopback_is_not_carried),
		STAGE(who_answers_takes_cards_by_turns),
		STAGE(a_lane_of_no_shard_stays_on_its_carriers_card),
		STAGE(what_is_offered_is_of_the_other_ends_kind),
		STAGE(where_no_kind_is_common_nothing_is_offered),
		STAGE(kinds_are_those_of_ports_that_lanes_may_take),
		STAGE(a_card_that_cannot_be_opened_leaves_its_turn_to_another),
		STAGE(where_no_card_can_be_opened_rdma_does_not_reach),
		STAGE(a_card_that_is_busy_is_asked_again),
		STAGE(devices_that_this_process_may_not_use_are_told),
		STAGE(a_host_without_a_port_says_so),
		STAGE(a_device_that_is_named_and_not_there_is_told_once),
		STAGE(a_device_that_is_named_and_of_another_kind_is_told),
	};

	return cmocka_run_group_tests_name("rdma offers", tests, NULL, NULL);
}
