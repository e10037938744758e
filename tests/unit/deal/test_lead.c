/* The lead: which chunk is the oldest, and whose next one waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/libsummand/epoch.h"

#define SHARDS 3
#define CHUNKS 12
#define LEAD   6

/* An epoch of three even shards, in which 12 chunks are laid. */
struct world {
	struct smd_deal deal;
	struct smd_epoch epoch;
	struct smd_flow flows[SHARDS];
	unsigned remotes[SHARDS];
};

static int set_up(void **state)
{
	static struct world world;
	struct smd_deal_shard shards[SHARDS];

	world = (struct world){.remotes = {0, 1, 2}};
	for (unsigned s = 0; s < SHARDS; s++) {
		shards[s] = (struct smd_deal_shard){s, 0, 1000};
		world.flows[s] = (struct smd_flow){.epoch = &world.epoch, .place = s};
	}
	assert_int_equal(smd_deal_create(&world.deal, shards, SHARDS, 1 << 16), 0);
	world.epoch.deal = &world.deal;
	world.epoch.flows = world.flows;
	world.epoch.remotes = world.remotes;
	world.epoch.nserving = SHARDS;
	world.epoch.next_chunk = CHUNKS;
	smd_lead_begin(&world.epoch.lead);
	*state = &world;
	return 0;
}

static int tear_down(void **state)
{
	smd_deal_destroy(&((struct world *)*state)->deal);
	return 0;
}

static void go(struct smd_flow *flow)
{
	flow->next++;
}

static struct smd_flow *flow_of(struct world *world, uint64_t chunk)
{
	return smd_epoch_flow_of(&world->epoch, chunk);
}

static bool is_held(struct world *world, uint64_t chunk)
{
	return smd_lead_holds(flow_of(world, chunk), chunk, LEAD);
}

/* Its result is there, as those of all before it on its shard are. */
static void finish(struct world *world, uint64_t chunk)
{
	flow_of(world, chunk)->done = smd_deal_ordinal_of(&world->deal, chunk) + 1;
	smd_lead_advance(&world->epoch, go);
}

static void what_is_near_the_oldest_may_go(void **state)
{
	struct world *world = *state;

	for (uint64_t chunk = 0; chunk < LEAD; chunk++) {
		assert_false(is_held(world, chunk));
	}
	for (uint64_t chunk = LEAD; chunk < CHUNKS; chunk++) {
		assert_true(is_held(world, chunk));
	}
}

/* Chunks of other shards change nothing while the oldest is under way. */
static void only_the_oldest_lets_others_go(void **state)
{
	struct world *world = *state;

	finish(world, 4);
	finish(world, 5);
	assert_true(is_held(world, LEAD));
	finish(world, 0);
	assert_int_equal(world->epoch.lead.oldest, 3); /* 1, 2, 4 and 5 are done too */
	assert_false(is_held(world, 3 + LEAD - 1));
	assert_true(is_held(world, 3 + LEAD));
}

/* Who was held is asked once when the oldest has changed, and waits again if it must. */
static void who_waited_is_asked_again(void **state)
{
	struct world *world = *state;
	struct smd_flow *flow = flow_of(world, LEAD);

	assert_true(is_held(world, LEAD));
	assert_true(is_held(world, LEAD));
	assert_true(flow->held);
	finish(world, 4);
	assert_true(flow->held);
	assert_int_equal(flow->next, 0);
	finish(world, 0);
	assert_int_equal(flow->next, 1);
	assert_false(flow->held);
	assert_true(TAILQ_EMPTY(&world->epoch.lead.held));
}

/* Also where another look has found the oldest before it is asked for. */
static void nobody_is_forgotten(void **state)
{
	struct world *world = *state;

	assert_true(is_held(world, LEAD + 1));
	flow_of(world, 0)->done = 1;
	assert_false(is_held(world, LEAD));
	assert_true(flow_of(world, LEAD + 1)->held);
	smd_lead_advance(&world->epoch, go);
	assert_false(flow_of(world, LEAD + 1)->held);
}

/* What it has not brought is dealt again in another epoch. */
static void nobody_waits_for_the_dead(void **state)
{
	struct world *world = *state;

	assert_true(is_held(world, LEAD));
	flow_of(world, 0)->dead = true;
	assert_false(is_held(world, LEAD));
}

/* There is nothing beyond what is laid. */
static void the_oldest_stops_at_the_end(void **state)
{
	struct world *world = *state;

	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		finish(world, chunk);
	}
	assert_int_equal(world->epoch.lead.oldest, CHUNKS);
	world->epoch.next_chunk += 2;
	assert_false(is_held(world, CHUNKS + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_near_the_oldest_may_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_the_oldest_lets_others_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_waited_is_asked_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_is_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_waits_for_the_dead, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_oldest_stops_at_the_end, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
