/*
 * Ports of lanes that are made over a carrier: by turns where there are several cards, of the other
 * end's kind, and what is said where there is none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/listing.h"
#include "reduction_server/wire/message.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/halves.h"

/* ---- several cards ---- */

/* Both are as good for it. */
static void begin_between_two_cards(struct halves *halves, struct link *link)
{
	forget_loop(link);
	two_cards();
	halves_begin(halves, link);
	carriers_come_from_elsewhere(halves);
}

/* One with lanes to many servers of one shard each has them on all of its cards. Who offers is that
 * shard, and on its own. */
static void who_answers_takes_cards_by_turns(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned second = 0;

	begin_between_two_cards(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(half_offer(&halves.second, link, &halves.first.offer, &error), 0);
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

/* A driver without its library, a file's mode, a container that was given one card: another one is
 * taken, until ports are looked at again. */
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
		assert_int_equal(half_offer(&halves.second, link, &halves.first.offer, &error), 0);
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
	/* As where no port is up, which a worker says once and not for each lane. */
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENETDOWN);
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
	assert_string_equal(error.text, "no RDMA device has a port that is up and has an address");
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

	return cmocka_run_group_tests_name("rdma offered ports", tests, NULL, NULL);
}
