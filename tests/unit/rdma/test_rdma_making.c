/*
 * Lanes whose queue pairs are made and destroyed beside the loop, as a shard's are: however long
 * the driver takes for each of its calls, another lane's frames come and go, and closing waits for
 * nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/halves.h"

#define LARGE 100000u

/* A half that is made later, beside two that are joined. */
struct later {
	struct end end; /* first: its owner's address is its own */
	struct half half;
	struct rdma_loop *loop;
	unsigned offered;
};
static struct later later;

static void later_on_offered(void *owner, const struct smd_offer *own)
{
	struct later *one = owner;

	one->offered++;
	one->half.offer = *own;
}

static const struct smd_lane_callbacks *later_callbacks(void)
{
	static struct smd_lane_callbacks callbacks;

	callbacks = link_callbacks;
	callbacks.on_offered = later_on_offered;
	return &callbacks;
}

static int offer_one(struct later *one, struct link *link, struct smd_error *error)
{
	struct smd_offer none;
	int ret;

	*one = (struct later){.end = {.room = malloc(ROOM)}};
	half_begin(&one->half, link, &one->end);
	ret = smd_transport_rdma.offer(link->base, &one->half.carrier.lane, 5, NULL,
		later_callbacks(), &one->end, &one->end.lane, &none, error);
	if (ret == 0) {
		one->half.lane = rdma_lane_of(one->end.lane);
		one->loop = one->half.lane->loop;
	}
	return ret;
}

static int later_offer(struct link *link, struct smd_error *error)
{
	return offer_one(&later, link, error);
}

/* And when all of it is gone. */
static void close_one(struct later *one, struct link *link)
{
	if (one->end.lane) {
		end_close(&one->end);
	}
	stage_turn(link);
	RUN_UNTIL(link, LIST_EMPTY(&one->loop->drains));
	free(one->end.room);
	one->end.room = NULL;
}

static void later_close(struct link *link)
{
	close_one(&later, link);
}

static void slow_begin(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, true);
}

static void slow_end(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, false);
}

static bool is_held(enum script_call_name name)
{
	return atomic_load(&script.calls[name].held);
}

/* A chunk crosses the lane that is there, both ways, while that call is not through. */
static void chunks_cross(struct link *link, enum script_call_name name)
{
	unsigned near = link->near.frames;
	unsigned far = link->far.frames;
	struct parcel parcels[2];

	RUN_UNTIL(link, is_held(name));
	parcel_send(&parcels[0], &link->near, 1, 100000, NULL);
	parcel_send(&parcels[1], &link->far, 2, 100000, NULL);
	RUN_UNTIL(link, link->near.frames == near + 1 && link->far.frames == far + 1);
	assert_true(is_held(name));
	parcels_free(parcels, 2);
}

/* What is known of ports is as old as can be; there is a maker, as a shard has one from the start. */
static struct rdma_loop *loop_age(const struct halves *halves)
{
	struct rdma_loop *loop = halves->first.lane->loop;

	assert_int_equal(smd_rdma_loop_open_maker(loop), 0);
	loop->ports_ns = 1;
	return loop;
}

/* ---- slow calls ---- */

static void no_call_delays_another_lane(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_ports, SCRIPT_query,
		SCRIPT_region_create, SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		loop_age(&halves);
		slow_begin(names[i]);
		assert_int_equal(later_offer(link, &error), 0);
		chunks_cross(link, names[i]);
		assert_int_equal(later.offered, 0);
		slow_end(names[i]);
		RUN_UNTIL(link, later.offered == 1);
		assert_int_equal(later.half.offer.length, SMD_RDMA_OFFER_SIZE);
		later_close(link);
	}
	halves_close(&halves);
}

/* Nor is it made for each: InfiniBand without IP addresses has nothing that an id could be bound to. */
static void what_is_known_of_a_card_is_not_asked_again(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_ports, SCRIPT_device_open, SCRIPT_query,
		SCRIPT_id_create, SCRIPT_bind};
	enum { NAMES = sizeof(names) / sizeof(names[0]) };
	struct script_call *bind = &script.calls[SCRIPT_bind];
	struct link *link = *state;
	struct smd_error error = {""};
	unsigned before[NAMES];
	struct halves halves;

	forget_loop(link);
	bind->fail_at = 1;
	bind->err = -ENODEV;
	bind->always = true;
	halves_open(&halves, link);
	assert_true(bind->count > 0);
	for (int i = 0; i < NAMES; i++) {
		before[i] = script.calls[names[i]].count;
	}
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	for (int i = 0; i < NAMES; i++) {
		assert_int_equal(script.calls[names[i]].count, before[i]);
	}
	later_close(link);
	halves_close(&halves);
}

/* The lane that comes first does not wait for it, and those that come afterwards know it. */
static void ports_are_read_anew_beside_lanes(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	script.limits.mtu = IBV_MTU_1024;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(later_offer(link, &error), 0);
		assert_int_equal(later.half.lane->path.port.mtu, i ? IBV_MTU_1024 : IBV_MTU_4096);
		RUN_UNTIL(link, later.offered == 1 && !loop->listing);
		later_close(link);
	}
	halves_close(&halves);
}

/* A port that is not there any more, or whose card is not open yet, is not guessed. */
static void a_port_that_is_not_in_use_is_not_taken_from_an_old_list(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	loop->ports[0].device = NULL;
	script.nports = 0;
	assert_int_equal(later_offer(link, &error), -ENETDOWN);
	free(later.end.room);
	loop->ports_ns = 1;
	script.nports = 1; /* it is up again */
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	later_close(link);
	halves_close(&halves);
}

/* The card is in use as long as its ports are asked, and what was read before it went is not taken. */
static void a_card_that_is_removed_while_ports_are_read(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	slow_begin(SCRIPT_query);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_query));
	script_device_tell(IBV_EVENT_DEVICE_FATAL, NULL);
	RUN_UNTIL(link, later.end.closed == 1);
	halves_close(&halves);
	end_close(&later.end);
	stage_turn(link);
	assert_false(LIST_EMPTY(&loop->cards));
	slow_end(SCRIPT_query);
	RUN_UNTIL(link, LIST_EMPTY(&loop->cards));
	assert_int_equal(loop->ports_ns, 0);
	later_close(link);
	halves_open(&halves, link); /* it is there again */
	halves_close(&halves);
}

/* The other end of the lane that is made later answers at once, as a worker does. */
static void later_answer(struct link *link, struct half *answer, struct end *answering)
{
	struct smd_error error = {""};

	*answering = (struct end){.base = link->base, .room = malloc(ROOM)};
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	half_begin(answer, link, answering);
	assert_int_equal(half_offer(answer, link, &later.half.offer, &error), 0);
	assert_int_equal(half_join(answer, &later.half, &error), 0);
}

static void later_open(struct link *link, struct half *answer, struct end *answering)
{
	struct smd_error error = {""};

	later_answer(link, answer, answering);
	assert_int_equal(half_join(&later.half, answer, &error), 0);
	RUN_UNTIL(link, later.end.opened == 1 && answering->opened == 1);
}

static void joining_delays_no_other_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct end answering;
	struct half answer;
	struct parcel parcel;

	halves_open(&halves, link);
	later_answer(link, &answer, &answering);
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &answer, &error), 0);
	chunks_cross(link, SCRIPT_pair_join);
	assert_int_equal(later.end.opened, 0);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, later.end.opened == 1 && answering.opened == 1);
	parcel_send(&parcel, &answering, 3, 100000, NULL);
	RUN_UNTIL(link, later.end.frames == 1);
	end_assert_payload(&later.end);
	end_close(&answering);
	later_close(link);
	assert_true(later.half.carrier.closed);
	halves_close(&halves);
	parcels_free(&parcel, 1);
	free(answering.room);
}

/* ---- closing ---- */

static void closing_waits_for_no_call(void **state)
{
	static const enum script_call_name names[] = {
		SCRIPT_region_create, SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		slow_begin(names[i]);
		assert_int_equal(later_offer(link, &error), 0);
		RUN_UNTIL(link, is_held(names[i]));
		end_close(&later.end);
		assert_true(is_held(names[i]));
		chunks_cross(link, names[i]);
		slow_end(names[i]);
		RUN_UNTIL(link, LIST_EMPTY(&halves.first.lane->loop->drains));
		assert_int_equal(script.live, live);
		assert_int_equal(later.offered + later.end.closed, 0);
		later_close(link);
	}
	halves_close(&halves);
}

static void destroying_delays_no_other_lane(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_pair_destroy, SCRIPT_region_destroy};
	struct link *link = *state;
	struct halves halves;
	struct end answering;
	struct half answer;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		later_open(link, &answer, &answering);
		slow_begin(names[i]);
		end_close(&later.end);
		assert_true(later.half.carrier.closed); /* which tells the other end */
		chunks_cross(link, names[i]);
		slow_end(names[i]);
		later_close(link);
		end_close(&answering);
		RUN_UNTIL(link, script.live == live);
		free(answering.room);
	}
	halves_close(&halves);
}

/* The other end may write there, */
static void lane_takes(struct later *one, struct parcel *parcel, uint8_t *remote)
{
	const struct smd_extent none = {NULL, 0};

	(void)parcel;
	(void)remote;
	assert_non_null(smd_lane_advertise(one->end.lane, one->end.room, LARGE, none));
}

/* or the card read from there. */
static void lane_gives(struct later *one, struct parcel *parcel, uint8_t *remote)
{
	const struct smd_remote_buffer there = {
		(uintptr_t)remote, script_expose(remote, LARGE), LARGE};

	script.carries = false;
	parcel_send_to(parcel, &one->end, 1, LARGE, there);
	smd_lane_poll(one->end.lane);
	script.carries = true;
	assert_int_equal(parcel->done, 0);
}

/* Its owner may use the memory for something else as soon as the lane is closed, so the queue pair
 * is gone by then. The lane's own buffers are nobody else's, and wait for the maker. */
static void what_is_the_owners_is_safe_when_closing_returns(void **state)
{
	static void (*const uses[])(struct later *one, struct parcel *parcel, uint8_t *remote) = {
		lane_takes, lane_gives};
	struct script_call *destroy = &script.calls[SCRIPT_pair_destroy];
	struct link *link = *state;
	struct halves halves;
	uint8_t *remote = calloc(1, LARGE);

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		struct parcel parcel = {.payload = NULL};
		struct end answering;
		struct half answer;
		unsigned before;

		later_open(link, &answer, &answering);
		uses[i](&later, &parcel, remote);
		before = destroy->count;
		slow_begin(SCRIPT_region_destroy);
		end_close(&later.end);
		assert_int_equal(destroy->count, before + 1);
		assert_int_equal(parcel.done, i);
		chunks_cross(link, SCRIPT_region_destroy);
		slow_end(SCRIPT_region_destroy);
		later_close(link);
		end_close(&answering);
		parcels_free(&parcel, 1);
		free(answering.room);
	}
	halves_close(&halves);
	free(remote);
}

/* The loop's end waits for what is being destroyed. */
static void the_loops_end_waits_for_what_is_destroyed(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	forget_loop(link);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	slow_begin(SCRIPT_pair_destroy);
	end_close(&later.end);
	RUN_UNTIL(link, is_held(SCRIPT_pair_destroy));
	slow_end(SCRIPT_pair_destroy);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

static void a_carrier_that_ends_while_it_is_joined_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	carrier_end(&later.half);
	end_assert_closed(&later.end, -ECONNRESET, "the other end closed the connection");
	end_close(&later.end);
	assert_true(later.half.carrier.closed);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, script.live == live);
	assert_int_equal(later.end.opened, 0);
	later_close(link);
	halves_close(&halves);
}

/* Who is let in may write before the server has joined, and to a lane that is closed by then. */
static void who_closes_while_it_is_joined_hears_nothing_more(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct peer early;

	halves_open(&halves, link);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	early = (struct peer){.id = script_id_of_pair(later.half.lane->pair.qp),
		.theirs = smd_rdma_lane_greeting(later.half.lane)};
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	end_close(&later.end);
	peer_frame(&early, 1, 10);
	chunks_cross(link, SCRIPT_pair_join);
	assert_int_equal(later.end.headers + later.end.frames + later.end.closed, 0);
	slow_end(SCRIPT_pair_join);
	later_close(link);
	halves_close(&halves);
}

/* Who frees the loop waits, as nobody would take back later what is made. */
static void the_loops_end_takes_all_back(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	forget_loop(link);
	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	end_close(&later.end);
	slow_end(SCRIPT_pair_create);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

static void the_loops_end_waits_for_ports_that_are_read(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	forget_loop(link);
	halves_open(&halves, link);
	loop_age(&halves);
	slow_begin(SCRIPT_ports);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_ports));
	end_close(&later.end);
	halves_close(&halves);
	slow_end(SCRIPT_ports);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

/* ---- many at once ---- */

/* Hundreds of workers that come at once wait for each other, and none of them is too late by that.
 */
static void who_waits_for_others_is_not_timed(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct later second;

	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	assert_int_equal(offer_one(&second, link, &error), 0);
	for (int i = 0; i < 3; i++) {
		event_active(second.half.lane->patience, EV_TIMEOUT, 1);
		stage_turn(link);
		assert_int_equal(second.end.closed, 0);
		assert_true(evtimer_pending(second.half.lane->patience, NULL));
	}
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, later.offered == 1 && second.offered == 1);
	assert_true(evtimer_pending(second.half.lane->patience, NULL)); /* for the answer */
	event_active(second.half.lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, second.end.closed);
	end_assert_closed(&second.end, -ETIMEDOUT, "no answer about RDMA within 5 s");
	close_one(&second, link);
	later_close(link);
}

/* Who has been made an offer counts the seconds from then on, so is not behind those who have none.
 */
static void joining_comes_before_making(void **state)
{
	const struct script_call *create = &script.calls[SCRIPT_pair_create];
	struct link *link = *state;
	struct smd_error error = {""};
	struct end answering;
	struct later others[2];
	struct half answer;
	unsigned created;

	later_answer(link, &answer, &answering);
	slow_begin(SCRIPT_pair_create);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(offer_one(&others[i], link, &error), 0);
	}
	RUN_UNTIL(link, is_held(SCRIPT_pair_create)); /* for the first of them */
	created = create->count;
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &answer, &error), 0);
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	assert_int_equal(create->count, created);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, later.end.opened == 1 && others[1].offered == 1);
	end_close(&answering);
	later_close(link);
	for (int i = 0; i < 2; i++) {
		close_one(&others[i], link);
	}
	free(answering.room);
}

static void nobody_waits_for_ever(void **state)
{
	const struct script_call *create = &script.calls[SCRIPT_pair_create];
	struct link *link = *state;
	struct smd_error error = {""};
	struct later behind;
	unsigned created;

	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	created = create->count;
	assert_int_equal(offer_one(&behind, link, &error), 0);
	later.loop->settings.connect_s =
		0; /* which are over as soon as the maker has taken it up, or one before it */
	event_active(later.half.lane->patience, EV_TIMEOUT, 1);
	event_active(behind.half.lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, later.end.closed && behind.end.closed);
	end_assert_closed(&later.end, -ETIMEDOUT, "the device has made no queue pair within 0 s");
	end_assert_closed(&behind.end, -ETIMEDOUT, "the device has made no queue pair within 0 s");
	end_close(&behind.end); /* for whom nothing is made any more */
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, !later.half.lane->making.under_way);
	assert_int_equal(later.end.closed, 1);
	assert_int_equal(create->count, created);
	later_close(link);
	free(behind.end.room);
}

/* ---- calls that fail ---- */

static void what_cannot_be_made_is_told_later(void **state)
{
	static const struct {
		enum script_call_name name;
		const char *says;
	} calls[] = {
		{SCRIPT_region_create, "rdma: cannot register memory: "},
		{SCRIPT_pair_create, "rdma: cannot make a queue pair: "},
		{SCRIPT_pair_init, "rdma: cannot make a queue pair: "},
		{SCRIPT_post_receive, "rdma: cannot post receives: "},
	};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct script_call *call = &script.calls[calls[i].name];
		struct smd_error error = {""};

		call->fail_at = call->count + 1;
		call->err = -EDQUOT;
		call->always = true;
		assert_int_equal(later_offer(link, &error), 0);
		RUN_UNTIL(link, later.end.closed == 1);
		assert_int_equal(later.end.err, -EDQUOT);
		assert_memory_equal(later.end.reason, calls[i].says, strlen(calls[i].says));
		assert_int_equal(later.offered, 0);
		call->fail_at = 0;
		call->always = false;
		later_close(link);
	}
}

static void what_cannot_be_joined_is_told_later(void **state)
{
	struct script_call *call = &script.calls[SCRIPT_pair_join];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	call->fail_at = call->count + 1;
	call->err = -EINVAL;
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, later.end.closed == 1);
	end_assert_closed(&later.end, -EINVAL,
		"rdma: the queue pair on script0 cannot be connected: Invalid argument");
	later_close(link);
	assert_true(later.half.carrier.closed);
	halves_close(&halves);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_call_delays_another_lane),
		STAGE(what_is_known_of_a_card_is_not_asked_again),
		STAGE(ports_are_read_anew_beside_lanes),
		STAGE(a_port_that_is_not_in_use_is_not_taken_from_an_old_list),
		STAGE(a_card_that_is_removed_while_ports_are_read),
		STAGE(joining_delays_no_other_lane),
		STAGE(closing_waits_for_no_call),
		STAGE(destroying_delays_no_other_lane),
		STAGE(what_is_the_owners_is_safe_when_closing_returns),
		STAGE(the_loops_end_waits_for_what_is_destroyed),
		STAGE(a_carrier_that_ends_while_it_is_joined_ends_the_lane),
		STAGE(who_closes_while_it_is_joined_hears_nothing_more),
		STAGE(the_loops_end_takes_all_back),
		STAGE(the_loops_end_waits_for_ports_that_are_read),
		STAGE(who_waits_for_others_is_not_timed),
		STAGE(joining_comes_before_making),
		STAGE(nobody_waits_for_ever),
		STAGE(what_cannot_be_made_is_told_later),
		STAGE(what_cannot_be_joined_is_told_later),
	};

	return cmocka_run_group_tests_name("rdma making", tests, NULL, NULL);
}
