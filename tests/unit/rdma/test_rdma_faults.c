/*
 * Every call to the device and the connection manager, each time that it is made, fails once while
 * two ends connect, talk and close: whoever waits is told why, nothing is leaked, nothing crashes,
 * and every send is given back once. They connect over a carrier, where the one that offers first
 * has its queue pair made beside the loop, as a shard has, and by the connection manager. And
 * devices of all kinds, on which everything arrives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/halves.h"
#include "tests/unit/rdma/peer.h"

#define FRAMES  60u
#define LENGTH  6000u
#define FAILURE EDQUOT /* which nothing else says */

static struct parcel parcels[2][FRAMES];
static const struct smd_extent nowhere = {NULL, 0};

/* ---- everything that two ends do ---- */

struct outcome;

/* How two ends come to each other. */
struct way {
	void (*connect)(struct outcome *outcome);
	/* Calls whose failure is made good for this way only. */
	bool (*makes_good)(enum script_call_name name);
};

/* What connecting says at once, or "". */
struct outcome {
	const struct way *way;
	struct link *link;
	struct smd_error error;
	int err;
};

/* ---- by the connection manager ---- */

/* An end that cannot be attached is closed, and the other end hears of it. */
static void take_or_close(void *owner, struct smd_lane *lane, int shard)
{
	struct link *link = owner;

	(void)shard;
	link->far.lane = lane;
	if (smd_lane_attach(lane, link->base, &link_callbacks, &link->far)) {
		link->far.lane = NULL;
		smd_lane_close(lane);
	}
}

static void connect_by_manager(struct outcome *outcome)
{
	struct link *link = outcome->link;

	outcome->err = smd_transport_rdma.listen(link->base, "10.0.0.1:0", take_or_close, link,
		&link->listener, link->address, &outcome->error);
	if (outcome->err == 0) {
		outcome->err = smd_transport_rdma.connect(link->base, link->address, NULL, 0,
			&link_callbacks, &link->near, &link->near.lane, &outcome->error);
	}
}

static bool manager_makes_good(enum script_call_name name)
{
	return name == SCRIPT_bind /* a removal is told otherwise */ || name == SCRIPT_reject;
}

static const struct way by_manager = {connect_by_manager, manager_makes_good};

/* ---- over a carrier ---- */

static struct halves halves;
static bool offered;

static void far_on_offered(void *owner, const struct smd_offer *own)
{
	(void)owner;
	offered = true;
	halves.first.offer = *own;
}

static void connect_over_carrier(struct outcome *outcome)
{
	static struct smd_lane_callbacks callbacks;
	struct link *link = outcome->link;

	halves_begin(&halves, link);
	link->near.close_at = link->far.close_at = ON_CLOSED;
	callbacks = link_callbacks;
	callbacks.on_offered = far_on_offered;
	halves.first.callbacks = &callbacks;
	offered = false;
	outcome->err = half_offer(&halves.first, link, NULL, &outcome->error);
	if (outcome->err) {
		return;
	}
	RUN_UNTIL(link, offered || link->far.closed);
	if (!offered) {
		return;
	}
	outcome->err = half_offer(&halves.second, link, &halves.first.offer, &outcome->error);
	if (outcome->err == 0) {
		outcome->err = half_join(&halves.second, &halves.first, &outcome->error);
	}
	if (outcome->err == 0) {
		outcome->err = half_join(&halves.first, &halves.second, &outcome->error);
	}
}

/* The connection manager only tells of a card's removal, which the card tells too. */
static bool carrier_makes_good(enum script_call_name name)
{
	return name == SCRIPT_channel_create || name == SCRIPT_id_create || name == SCRIPT_bind;
}

static const struct way over_carrier = {connect_over_carrier, carrier_makes_good};

/* ---- the play ---- */

static bool has_ended(const struct link *link)
{
	return link->near.closed || (link->far.closed && (link->near.opened || !link->near.lane));
}

static bool are_there(const struct link *link)
{
	carriers_tell(&halves);
	return has_ended(link) || (link->near.opened && link->far.lane);
}

static bool is_over(const struct link *link)
{
	carriers_tell(&halves);
	return has_ended(link) || (link->near.frames == FRAMES && link->far.frames == FRAMES);
}

static void say_all(struct end *end, struct parcel *of)
{
	for (unsigned i = 0; i < FRAMES && end->lane; i++) {
		/* Without a remote buffer some are long enough for several messages. */
		parcel_send(&of[i], end, i, i % 3 ? 10 * i : LENGTH, NULL);
	}
	if (end->lane) {
		smd_lane_revoke(
			end->lane, smd_lane_advertise(end->lane, end->room, LENGTH, nowhere));
	}
}

static void close_end(struct end *end)
{
	if (end->lane) {
		end_close(end);
	}
}

/* Connects, says everything both ways, closes. */
static void play(struct outcome *outcome)
{
	struct link *link = outcome->link;

	memset(parcels, 0, sizeof(parcels));
	outcome->way->connect(outcome);
	if (outcome->err == 0) {
		RUN_UNTIL(link, are_there(link));
		say_all(&link->near, parcels[0]);
		say_all(&link->far, parcels[1]);
		RUN_UNTIL(link, is_over(link));
	}
	close_end(&link->near);
	stage_turn(link);
	close_end(&link->far);
	if (link->listener) {
		smd_listener_close(link->listener);
		link->listener = NULL;
	}
	RUN_UNTIL(link, script.live == 0); /* the maker may have the last of it */
	stage_turn(link);
}

static void assert_each_given_back_once(void)
{
	for (int end = 0; end < 2; end++) {
		for (unsigned i = 0; i < FRAMES; i++) {
			struct parcel *parcel = &parcels[end][i];

			assert_int_equal(parcel->done, parcel->from ? 1 : 0);
		}
		parcels_free(parcels[end], FRAMES);
	}
}

/* A link without a listener: that is part of the play. */
static void outcome_begin(struct outcome *outcome, const struct way *way)
{
	*outcome = (struct outcome){.way = way, .link = calloc(1, sizeof(struct link))};
	halves = (struct halves){.link = NULL};
	outcome->link->base = event_base_new();
	outcome->link->near = (struct end){
		.base = outcome->link->base, .close_at = ON_CLOSED, .room = malloc(ROOM)};
	outcome->link->far = outcome->link->near;
	outcome->link->far.room = malloc(ROOM);
}

static void outcome_end(struct outcome *outcome)
{
	assert_int_equal(script.live, 0);
	assert_each_given_back_once();
	event_base_free(outcome->link->base);
	free(outcome->link->near.room);
	free(outcome->link->far.room);
	free(outcome->link);
}

static bool says_why(const char *text)
{
	return strstr(text, strerror(FAILURE)) != NULL;
}

/* Calls whose failure is made good for: nobody need be told. */
static bool is_made_good(enum script_call_name name)
{
	return name == SCRIPT_event_take /* the next turn takes it */
	       || name == SCRIPT_queue_arm ||
	       name == SCRIPT_queue_create   /* a smaller one can be had */
	       || name == SCRIPT_pair_create /* or one with less inline room */
	       || name == SCRIPT_pair_destroy || name == SCRIPT_region_destroy ||
	       name == SCRIPT_id_destroy /* which never fail */;
}

/* What is told of a lane's own trouble, at the end that has it, and what the other end hears. */
static void assert_told(const struct outcome *outcome, const struct script_call *call)
{
	static const char *const indirect[] = {
		"the device's completion queue has failed",
		"cannot post receives to the queue pair",
		"no room for the completions",
		/* of the other end: it was closed, for a reason that its log tells */
		"the request was rejected",
		"the other end closed the connection",
		"the other end no longer answers",
		"the queue pair was shut down",
	};
	const struct link *link = outcome->link;
	const char *texts[] = {outcome->error.text, link->near.reason, link->far.reason};
	bool told = false;

	for (size_t i = 0; i < 3; i++) {
		told = told || says_why(texts[i]);
		for (size_t k = 0; k < sizeof(indirect) / sizeof(indirect[0]); k++) {
			told = told || strstr(texts[i], indirect[k]);
		}
	}
	if (!told) {
		fail_msg("%s, call %u: said only \"%s\", \"%s\", \"%s\"", call->name, call->fail_at,
			texts[0], texts[1], texts[2]);
	}
}

static void play_with_failure(const struct way *way, enum script_call_name name, unsigned at)
{
	struct script_call *call = &script.calls[name];
	struct outcome outcome;
	bool whole;

	script_reset();
	outcome_begin(&outcome, way);
	call->fail_at = at;
	call->err = -FAILURE;
	play(&outcome);
	whole = outcome.link->near.frames == FRAMES && outcome.link->far.frames == FRAMES;
	if (!whole) {
		assert_told(&outcome, call);
	} else {
		/* It came after all was said, or does not matter. */
		assert_true(is_made_good(name) || way->makes_good(name) || at > 1);
	}
	outcome_end(&outcome);
}

static void each_call_may_fail_once(const struct way *way)
{
	unsigned counts[SCRIPT_CALLS_END];
	struct outcome outcome;
	unsigned plays = 0;

	script_reset();
	outcome_begin(&outcome, way);
	play(&outcome);
	assert_int_equal(outcome.link->near.frames, FRAMES);
	assert_int_equal(outcome.link->far.frames, FRAMES);
	for (int name = 0; name < SCRIPT_CALLS_END; name++) {
		counts[name] = script.calls[name].count;
	}
	outcome_end(&outcome);
	for (int name = 0; name < SCRIPT_CALLS_END; name++) {
		for (unsigned at = 1; at <= counts[name] && at <= 40; at++) {
			play_with_failure(way, (enum script_call_name)name, at);
			plays++;
		}
	}
	assert_true(plays > SCRIPT_CALLS_END);
}

static void each_call_may_fail_once_by_the_manager(void **state)
{
	(void)state;
	each_call_may_fail_once(&by_manager);
}

static void each_call_may_fail_once_over_a_carrier(void **state)
{
	(void)state;
	each_call_may_fail_once(&over_carrier);
}

/* ---- devices of all kinds ---- */

/* What is on its way is carried and acknowledged a little at a time, at one end or the other. */
static void drive(struct link *link, uint32_t *dice)
{
	struct end *ends[] = {&link->near, &link->far};

	for (int i = 0; i < 2; i++) {
		*dice = *dice * 1664525u + 1013904223u;
		if (ends[i]->lane) {
			struct rdma_cm_id *id = rdma_lane_of(ends[i]->lane)->id;

			script_carry(id, *dice >> 8 & 7);
			script_acknowledge(id, *dice >> 12 & 7);
		}
	}
	event_base_loop(link->base, EVLOOP_NONBLOCK);
}

static void check_order(struct end *end)
{
	assert_int_equal(end->frame.ordinal, end->frames - 1);
	end_assert_payload(end);
}

static void talk(struct link *link, uint32_t start, uint32_t *dice)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;

	memset(parcels, 0, sizeof(parcels));
	parcels_done = 0;
	link_open(link);
	stage_turn(link); /* both trials are acknowledged */
	lane_count_from(rdma_lane_of(link->near.lane), start);
	lane_count_from(rdma_lane_of(link->far.lane), start);
	link->near.then = check_order;
	link->far.then = check_order;
	script.carries = false;
	script.acknowledges = false;
	say_all(&link->near, parcels[0]);
	say_all(&link->far, parcels[1]);
	while (parcels_done < 2 * FRAMES || link->near.frames + link->far.frames < 2 * FRAMES) {
		assert_true(smd_clock_ns() < until);
		assert_int_equal(link->near.closed + link->far.closed, 0);
		drive(link, dice);
	}
	script.carries = true;
	script.acknowledges = true;
	assert_each_given_back_once();
}

static void everything_arrives_whatever_the_device_is_like(void **state)
{
	static const uint32_t depths[] = {RDMA_RECEIVES, 50, 64, 16384};
	static const uint32_t inlines[] = {0, 96, 101};
	static const uint32_t starts[] = {0, 0x7ffffff0u, 0xfffffff0u};
	uint32_t dice = 1;

	(void)state;
	for (size_t play = 0; play < 4 * 3 * 3; play++) {
		void *stage = NULL;

		stage_set_up(&stage);
		script.limits.queue_depth = depths[play % 4];
		script.inline_most = inlines[play / 4 % 3];
		talk(stage, starts[play / 12], &dice);
		stage_tear_down(&stage);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_may_fail_once_by_the_manager),
		cmocka_unit_test(each_call_may_fail_once_over_a_carrier),
		cmocka_unit_test(everything_arrives_whatever_the_device_is_like),
	};

	return cmocka_run_group_tests_name("rdma faults", tests, NULL, NULL);
}
