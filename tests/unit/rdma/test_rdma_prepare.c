/*
 * What lanes share is there before the first: the device is open and memory registered, so that no
 * chunk waits for it; it goes with the loop, with the device, or when its queue has failed. So does
 * what is made for lanes that nobody has foreseen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/later.h"

#define PIECES 3
#define BYTES  ((size_t)PIECES * SMD_RDMA_MEMORY_PIECE)
#define CHUNK  ((size_t)512 << 10)

static struct smd_extent pool; /* which nobody touches */

static int prepare_set_up(void **state)
{
	pool = (struct smd_extent){malloc(BYTES), BYTES};
	return stage_set_up(state);
}

static int prepare_tear_down(void **state)
{
	int ret = stage_tear_down(state);

	free(pool.base);
	return ret;
}

static void prepare(struct link *link, const char *addresses)
{
	forget_loop(link);
	stage_prepare(link, addresses, 5, pool, CHUNK);
}

static void a_lane_finds_all_that_is_shared(void **state)
{
	struct link *link = *state;
	const struct script_call *open = &script.calls[SCRIPT_device_open];
	const struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct halves halves;
	unsigned regions;

	prepare(link, "10.0.0.1:7");
	assert_int_equal(open->count, 1);
	assert_int_equal(create->count, 1);
	assert_int_equal(script.regions, PIECES);
	halves_open(&halves, link);
	assert_int_equal(open->count, 1);
	assert_int_equal(create->count, 1);
	regions = script.regions;
	assert_int_equal(regions, PIECES + 2); /* each end's buffers for messages */
	smd_lane_register(link->far.lane, pool, CHUNK, false); /* as whoever takes the lane does */
	for (size_t at = 0; at + CHUNK <= BYTES; at += BYTES / 7) {
		struct smd_advertisement *advertisement = smd_lane_advertise(
			link->far.lane, (uint8_t *)pool.base + at, CHUNK, pool);

		assert_non_null(advertisement);
		smd_lane_revoke(link->far.lane, advertisement);
	}
	assert_int_equal(script.regions, regions);
	halves_close(&halves);
	assert_int_equal(script.regions, PIECES); /* and so does the next one */
}

/* Memory takes long: what comes meanwhile has its turn after each piece. */
static void memory_is_registered_beside_what_else_there_is(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;

	two_cards();
	forget_loop(link);
	smd_transport_rdma.prepare(link->base, "10.0.0.1:7+10.0.0.2:7", 5, pool, CHUNK);
	assert_int_equal(script.calls[SCRIPT_queue_create].count, 2);
	assert_int_equal(script.regions, 0);
	assert_int_equal(smd_rdma_loop_get(link->base, &loop, &error), 0);
	while (loop->preparation) {
		unsigned regions = script.regions;

		event_base_loop(link->base, EVLOOP_ONCE);
		assert_in_range(script.regions - regions, 0, 2); /* a piece, for each card */
	}
	assert_int_equal(script.regions, 2 * PIECES);
	smd_rdma_loop_put(loop);
}

/* Its end waits for one piece at most. */
static void a_loop_ends_before_its_memory_is_registered(void **state)
{
	struct link *link = *state;

	forget_loop(link);
	smd_transport_rdma.prepare(link->base, "10.0.0.1:7", 5, pool, CHUNK);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.calls[SCRIPT_region_create].count, 0);
	assert_int_equal(script.live, 0);
}

/* Huge pages that were set aside are in memory, and yet their lane's owner does not register all.
 */
static void a_lane_that_is_there_first_leaves_the_rest_to_that(void **state)
{
	struct link *link = *state;
	struct peer peer;

	forget_loop(link);
	smd_transport_rdma.prepare(link->base, "10.0.0.1:7", 5, pool, CHUNK);
	peer_open(&peer, link);
	if (rdma_lane_of(peer.end.lane)->loop->preparation) {
		unsigned regions = script.regions;

		smd_lane_register(peer.end.lane, pool, CHUNK, true);
		assert_int_equal(script.regions, regions);
	}
	RUN_UNTIL(link, script.regions == PIECES + 1);
	peer_close(&peer, link);
}

/* One is refused, as where there is a limit of locked memory: the next would be, too. */
static void nothing_more_is_registered_when_no_card_takes_it(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_region_create];
	struct link *link = *state;

	create->fail_at = 2;
	create->err = -ENOMEM;
	prepare(link, "10.0.0.1:7");
	assert_int_equal(create->count, 2);
	assert_int_equal(script.regions, 1);
}

/* The card that was prepared, as the lane of that carrier tells. */
static const char *card_of_lane(struct link *link, struct halves *halves)
{
	static char name[IBV_SYSFS_NAME_MAX];
	struct smd_error error = {""};

	assert_int_equal(half_offer(&halves->first, link, NULL, &error), 0);
	strcpy(name, halves->first.lane->path.port.name);
	end_close(&link->far);
	stage_turn(link);
	return name;
}

/* Where routes say nothing of cards. Their lanes come there too. */
static void servers_of_one_host_begin_at_different_cards(void **state)
{
	static const char *const servers[] = {"0.0.0.0:2222", "0.0.0.0:2223"};
	const struct script_call *open = &script.calls[SCRIPT_device_open];
	struct link *link = *state;

	for (int i = 0; i < 2; i++) {
		unsigned opened = open->count;
		struct halves halves;

		forget_loop(link);
		two_cards();
		prepare(link, servers[i]);
		assert_int_equal(open->count, opened + 1);
		halves_begin(&halves, link);
		carriers_come_from_elsewhere(&halves);
		/* Shard 5's turn is the second of the first server. */
		assert_string_equal(card_of_lane(link, &halves), i ? "script0" : "script1");
		assert_int_equal(open->count, opened + 1);
		smd_transport_end_loop(link->base);
		assert_int_equal(script.live, 0);
	}
}

/* Of RoCE the route has chosen it; what they need on a card that was not foreseen is made with the
 * first. */
static void lanes_to_any_address_are_on_the_card_that_they_come_to(void **state)
{
	struct link *link = *state;
	bool unforeseen = false;
	struct halves halves;

	two_cards();
	prepare(link, "0.0.0.0:2222");
	assert_int_equal(script.regions, PIECES);
	for (int i = 0; i < 2; i++) {
		unsigned opened = script.calls[SCRIPT_device_open].count;

		halves_begin(&halves, link);
		memcpy(halves.first.carrier.address, script.ports[i].gid, 16);
		assert_string_equal(card_of_lane(link, &halves), script.ports[i].name);
		unforeseen |= script.calls[SCRIPT_device_open].count > opened;
	}
	assert_true(unforeseen);
	assert_int_equal(script.regions, PIECES); /* the pool's there are made as they are used */
}

/* InfiniBand's are where they were prepared, whichever of the host's addresses they come to. */
static void lanes_to_any_address_of_infiniband_are_on_the_card_of_their_turn(void **state)
{
	struct link *link = *state;
	struct halves halves;

	two_cards();
	for (int i = 0; i < 2; i++) {
		script.ports[i].ethernet = false;
		memcpy(script.ports[i].address, script.ports[i].gid, 16);
	}
	prepare(link, "0.0.0.0:2222");
	for (int i = 0; i < 2; i++) {
		halves_begin(&halves, link);
		memcpy(halves.first.carrier.address, script.ports[i].address, 16);
		assert_string_equal(card_of_lane(link, &halves), "script1");
	}
	assert_int_equal(script.calls[SCRIPT_device_open].count, 1);
}

static struct peer peers[300];

static void open_peers(struct link *link, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		peer_open(&peers[i], link);
		smd_lane_register(peers[i].end.lane, pool, CHUNK, true);
	}
}

static void close_peers(struct link *link, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		peer_close(&peers[i], link);
	}
}

/* Its thread makes none larger and no further one, as a worker's does from the 102nd on. */
static void a_shard_has_one_queue_for_hundreds_of_lanes(void **state)
{
	enum { LANES = 300 };
	const struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;

	prepare(link, "10.0.0.1:7");
	open_peers(link, LANES);
	assert_int_equal(create->count, 1);
	assert_int_equal(script.calls[SCRIPT_queue_resize].count, 0);
	assert_int_equal(script.regions, PIECES + LANES);
	close_peers(link, LANES);
	assert_int_equal(script.regions, PIECES);
}

/* A card whose queues are short and cannot grow: the next job finds those that the last one needed,
 * and the pool is registered for them. */
static void further_queues_stay_until_the_loop_ends(void **state)
{
	enum { LANES = 110 };
	const struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;

	script.limits.completions = 16384;
	prepare(link, "10.0.0.1:7");
	for (unsigned jobs = 1; jobs <= 2; jobs++) {
		open_peers(link, LANES);
		assert_int_equal(create->count, 2);
		assert_int_equal(script.regions, 2 * PIECES + LANES);
		close_peers(link, LANES);
		assert_int_equal(script.regions, 2 * PIECES);
		assert_int_equal(script.calls[SCRIPT_region_destroy].count, jobs * LANES);
	}
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
}

/* But not one in which no lane has found room, or each that asks would leave one. */
static void a_queue_too_short_for_a_lane_is_not_kept(void **state)
{
	struct smd_error error = {""};
	struct link *link = *state;
	struct halves halves;
	unsigned live;

	script.limits.completions = RDMA_DEPTH;
	prepare(link, "10.0.0.1:7");
	live = script.live;
	halves_begin(&halves, link);
	assert_int_equal(half_offer(&halves.first, link, NULL, &error), -ENOSPC);
	stage_turn(link);
	assert_int_equal(script.live, live);
}

static void the_loops_end_ends_it(void **state)
{
	struct link *link = *state;

	prepare(link, "10.0.0.1:7");
	prepare(link, "0.0.0.0:7"); /* the same device: once is enough */
	assert_int_equal(script.regions, PIECES);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
}

/* As the process's end would. */
static void end_what_is_left(struct rdma_loop *loop)
{
	while (!LIST_EMPTY(&loop->devices)) {
		smd_rdma_device_unprepare(LIST_FIRST(&loop->devices));
	}
	smd_rdma_loop_put(loop);
}

/* Nor is it asked to take back memory, on the loop's own thread, once it is known not to return:
 * also of a card that has no lanes. */
static void a_driver_that_does_not_return_holds_up_no_end(void **state)
{
	const struct script_call *destroy = &script.calls[SCRIPT_region_destroy];
	struct link *link = *state;

	two_cards();
	prepare(link, "10.0.0.1:7+10.0.0.2:7");
	later_make(link);
	assert_int_equal(script.regions, 2 * PIECES + 1);
	slow_begin(SCRIPT_pair_destroy);
	end_close(&later.end);
	RUN_UNTIL(link, is_held(SCRIPT_pair_destroy));
	later.loop->settings.connect_s = 0;
	smd_transport_end_loop(link->base);
	assert_int_equal(destroy->count, 0);
	assert_int_equal(script.regions, 2 * PIECES + 1);
	slow_end(SCRIPT_pair_destroy);
	RUN_UNTIL(link, LIST_EMPTY(&later.loop->stuck)); /* the base is still there */
	end_what_is_left(later.loop);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

static void a_device_that_is_removed_is_let_go(void **state)
{
	struct link *link = *state;
	struct halves halves;

	prepare(link, "10.0.0.1:7");
	script_device_tell(IBV_EVENT_DEVICE_FATAL, NULL);
	stage_turn(link);
	assert_int_equal(script.live, 1); /* the connection manager's channel */
	halves_open(&halves, link);       /* it is there again */
	script_device_tell(IBV_EVENT_DEVICE_FATAL, NULL);
	stage_turn(link);
	end_assert_closed(&link->near, -ENODEV, "the RDMA device was removed");
	halves_close(&halves);
}

static void a_device_with_lanes_goes_with_the_last(void **state)
{
	struct link *link = *state;
	struct halves halves;

	prepare(link, "10.0.0.1:7");
	halves_open(&halves, link);
	script_device_tell(IBV_EVENT_DEVICE_FATAL, NULL);
	stage_turn(link);
	assert_true(script.live > 1);
	halves_close(&halves);
	assert_int_equal(script.live, 1);
}

/* Its card tells it, or it cannot be polled; lanes that were on it end, and the next find another. */
static void a_queue_that_failed_is_not_given_to_others(void **state)
{
	struct script_call *poll = &script.calls[SCRIPT_queue_poll];
	const struct script_call *create = &script.calls[SCRIPT_queue_create];
	struct link *link = *state;

	for (int polled = 0; polled < 2; polled++) {
		unsigned created = create->count;
		struct halves halves;

		prepare(link, "10.0.0.1:7");
		halves_open(&halves, link);
		assert_int_equal(create->count, created + 1);
		if (polled) {
			poll->fail_at = poll->count + 1;
			poll->err = -EIO;
			smd_lane_poll(link->near.lane);
		} else {
			script_device_tell(IBV_EVENT_CQ_ERR, NULL);
		}
		stage_turn(link);
		end_assert_closed(
			&link->near, -EIO, "the device's completion queue has failed");
		end_assert_closed(&link->far, -EIO, "the device's completion queue has failed");
		halves_close(&halves);
		assert_int_equal(script.regions, 0); /* nobody keeps it */
		halves_open(&halves, link);
		assert_int_equal(create->count, created + 2);
		halves_close(&halves);
		smd_transport_end_loop(link->base);
		assert_int_equal(script.live, 0);
	}
}

static void a_queue_that_fails_without_lanes_is_let_go(void **state)
{
	struct link *link = *state;

	prepare(link, "10.0.0.1:7");
	assert_int_equal(script.regions, PIECES);
	script_device_tell(IBV_EVENT_CQ_ERR, NULL);
	stage_turn(link);
	assert_int_equal(script.regions, 0);
}

static void loopback_leads_to_no_device(void **state)
{
	struct link *link = *state;

	prepare(link, "127.0.0.1:7");
	assert_int_equal(script.calls[SCRIPT_device_open].count, 0);
}

/* A user who names a device hears of it before the first worker comes, and not from each shard. */
static void a_device_that_is_named_and_not_there_is_told_once(void **state)
{
	struct link *link = *state;

	setenv("SUMMAND_RDMA_DEVICE", "mlx5_7", 1);
	capture_begin();
	for (int i = 0; i < 3; i++) {
		prepare(link, "10.0.0.1:7");
		smd_transport_end_loop(link->base);
	}
	assert_int_equal(capture_count("must name a port that is up"), 1);
	assert_true(capture_has("warn  rdma: no workers over rdma at 10.0.0.1:7: "
				"SUMMAND_RDMA_DEVICE: must name a port that is up, got \"mlx5_7\"",
		NULL));
	capture_end();
	unsetenv("SUMMAND_RDMA_DEVICE");
	assert_int_equal(script.live, 0);
}

/* Of several cards one that cannot carry lanes is told, and the others carry theirs. */
static void each_address_that_cannot_serve_is_told_once(void **state)
{
	struct script_call *domain = &script.calls[SCRIPT_domain_create];
	struct link *link = *state;

	two_cards();
	capture_begin();
	for (int i = 0; i < 3; i++) {
		domain->fail_at = domain->count + 2;
		domain->err = -ENOTSUP;
		prepare(link, "10.0.0.1:7+10.0.0.2:7+10.0.0.1:8");
		assert_int_equal(script.regions, PIECES);
		smd_transport_end_loop(link->base);
	}
	assert_int_equal(capture_count("no workers over rdma"), 1);
	assert_true(capture_has("info  rdma: no workers over rdma at 10.0.0.2:7: rdma: "
				"cannot use the device: Operation not supported",
		NULL));
	capture_end();
}

/* What cannot be had now is asked for when it is needed. */
static void what_fails_is_tried_again(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_check, SCRIPT_device_open,
		SCRIPT_ports, SCRIPT_query, SCRIPT_domain_create, SCRIPT_queue_create,
		SCRIPT_region_create};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct script_call *call = &script.calls[names[i]];
		struct halves halves;

		call->fail_at = call->count + 1;
		call->err = -EDQUOT;
		call->always = true;
		prepare(link, "10.0.0.1:7");
		call->fail_at = 0;
		call->always = false;
		assert_int_equal(script.regions, 0);
		halves_open(&halves, link);
		halves_close(&halves);
		smd_transport_end_loop(link->base);
		assert_int_equal(script.live, 0);
	}
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, prepare_set_up, prepare_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(a_lane_finds_all_that_is_shared),
		STAGE(memory_is_registered_beside_what_else_there_is),
		STAGE(a_loop_ends_before_its_memory_is_registered),
		STAGE(a_lane_that_is_there_first_leaves_the_rest_to_that),
		STAGE(nothing_more_is_registered_when_no_card_takes_it),
		STAGE(servers_of_one_host_begin_at_different_cards),
		STAGE(lanes_to_any_address_are_on_the_card_that_they_come_to),
		STAGE(lanes_to_any_address_of_infiniband_are_on_the_card_of_their_turn),
		STAGE(a_shard_has_one_queue_for_hundreds_of_lanes),
		STAGE(further_queues_stay_until_the_loop_ends),
		STAGE(a_queue_too_short_for_a_lane_is_not_kept),
		STAGE(the_loops_end_ends_it),
		STAGE(a_driver_that_does_not_return_holds_up_no_end),
		STAGE(a_device_that_is_removed_is_let_go),
		STAGE(a_device_with_lanes_goes_with_the_last),
		STAGE(a_queue_that_failed_is_not_given_to_others),
		STAGE(a_queue_that_fails_without_lanes_is_let_go),
		STAGE(loopback_leads_to_no_device),
		STAGE(a_device_that_is_named_and_not_there_is_told_once),
		STAGE(each_address_that_cannot_serve_is_told_once),
		STAGE(what_fails_is_tried_again),
	};

	return cmocka_run_group_tests_name("rdma prepared", tests, NULL, NULL);
}
