/*
 * Bounce slots under lanes: where memory cannot be watched, as without userfaultfd, payloads are
 * copied through slots that were registered before, both ways, and nothing is registered for a chunk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/pages.h"
#include "reduction_server/transport/rdma/bounce.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/peer.h"

#define LENGTH 50000u

static const struct smd_extent nowhere = {NULL, 0};

static int bounce_set_up(void **state)
{
	int ret;

	unsetenv("SUMMAND_RDMA_BOUNCE");
	ret = stage_set_up(state);
	script.unwatched = true;
	return ret;
}

static unsigned registrations(void)
{
	return script.calls[SCRIPT_region_create].count;
}

/* What is written to the other end is read from a slot; its bytes are the payload's. */
static void a_payload_leaves_from_a_slot(void **state)
{
	enum { FRAMES = 40 };
	struct link *link = *state;
	uint8_t *room = calloc(FRAMES, LENGTH);
	struct smd_remote_buffer remote = {(uintptr_t)room, script_expose(room, FRAMES * LENGTH), 0};
	struct parcel parcels[FRAMES];
	const struct script_send *sends;
	unsigned before;
	unsigned n;
	struct peer peer;

	peer_open(&peer, link);
	before = registrations();
	remote.length = LENGTH;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send_to(&parcels[i], &peer.end, i, LENGTH, remote);
		remote.address += LENGTH;
		peer_poll(&peer);
		peer_tell_taken(&peer, i + 1);
		peer_poll(&peer);
	}
	assert_int_equal(registrations(), before);
	sends = script_sends(peer.id, &n);
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < FRAMES; k++) {
			assert_int_not_equal(sends[i].local, (uintptr_t)parcels[k].payload);
		}
	}
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_memory_equal(room + (size_t)i * LENGTH, parcels[i].payload, LENGTH);
	}
	parcels_assert_done(parcels, FRAMES, FRAMES);
	peer_close(&peer, link);
	script_hide_all();
	parcels_free(parcels, FRAMES);
	free(room);
}

static uint8_t *place; /* what is advertised */
static struct smd_advertisement *advertised;
static unsigned answered;
static struct parcel answer;

static void answer_to_the_buffer(struct end *end)
{
	assert_int_equal(end->lane->nremote_buffers, 1);
	assert_true(end->lane->remote_buffers[0].address < (uintptr_t)place ||
		    end->lane->remote_buffers[0].address >= (uintptr_t)place + LENGTH);
	parcel_send_to(&answer, end, 7, LENGTH, end->lane->remote_buffers[0]);
}

static void claim_the_answer(struct end *end)
{
	assert_true(end->lane->direct);
	assert_int_equal(place[0] | place[LENGTH - 1], 0);
	smd_lane_claim(end->lane, advertised, LENGTH);
	for (unsigned i = 0; i < LENGTH; i++) {
		assert_int_equal(place[i], parcel_byte(7, i));
	}
	answered++;
}

/* The advertised memory is not written before it is claimed, and holds all of it then. */
static void a_payload_arrives_in_a_slot_and_is_claimed(void **state)
{
	struct link *link = *state;
	struct parcel parcel;
	unsigned before;

	place = calloc(1, LENGTH);
	answered = 0;
	link_open(link);
	before = registrations();
	link->far.then = answer_to_the_buffer;
	link->near.then = claim_the_answer;
	advertised = smd_lane_advertise(link->near.lane, place, LENGTH, nowhere);
	assert_non_null(advertised);
	assert_true(advertised->beside);
	parcel_send(&parcel, &link->near, 1, 50, NULL);
	RUN_UNTIL(link, answered && answer.done);
	assert_int_equal(registrations(), before);
	parcels_free(&parcel, 1);
	parcels_free(&answer, 1);
	free(place);
}

/* So many are advertised and never written to that none is left; the others are registered. */
static void when_no_slot_is_left_memory_is_registered(void **state)
{
	struct link *link = *state;
	unsigned before;
	struct peer peer;

	setenv("SUMMAND_RDMA_BOUNCE", "8M", 1);
	stage_tear_down(state);
	stage_set_up(state);
	link = *state;
	script.unwatched = true;
	place = calloc(1, SMD_RDMA_BOUNCE_SLAB);
	peer_open(&peer, link);
	before = registrations();
	for (unsigned i = 0; i < 4; i++) {
		advertised = smd_lane_advertise(
			peer.end.lane, place, SMD_RDMA_BOUNCE_SLAB / 4, nowhere);
		assert_true(advertised->beside);
	}
	assert_int_equal(registrations(), before);
	advertised =
		smd_lane_advertise(peer.end.lane, place, SMD_RDMA_BOUNCE_SLAB / 4, nowhere);
	assert_false(advertised->beside);
	assert_int_equal(registrations(), before + 1);
	peer_close(&peer, link);
	free(place);
	unsetenv("SUMMAND_RDMA_BOUNCE");
}

static int bound_to = -1;

int __wrap_smd_numa_bind(void *memory, size_t length, int node);

int __wrap_smd_numa_bind(void *memory, size_t length, int node)
{
	if (length >= SMD_PAGES_HUGE) {
		assert_int_equal((uintptr_t)memory % SMD_PAGES_HUGE, 0);
	}
	if (length == SMD_RDMA_BOUNCE_SLAB) {
		bound_to = node;
	}
	return 0;
}

static void slots_are_in_huge_pages_near_the_card(void **state)
{
	struct link *link = *state;
	struct peer peer;

	script.node = 1;
	place = calloc(1, LENGTH);
	peer_open(&peer, link);
	advertised = smd_lane_advertise(peer.end.lane, place, LENGTH, nowhere);
	assert_true(advertised->beside);
	assert_int_equal(bound_to, 1);
	peer_close(&peer, link);
	free(place);
}

static void assert_bounces(void **state, const char *setting, const char *says, bool bounces)
{
	struct link *link;
	struct peer peer;

	setenv("SUMMAND_RDMA_BOUNCE", setting, 1);
	stage_tear_down(state);
	stage_set_up(state);
	link = *state;
	script.unwatched = true;
	place = calloc(1, LENGTH);
	capture_begin();
	peer_open(&peer, link);
	assert_true(capture_has(says, NULL));
	assert_int_equal(capture_has("copied through", NULL), bounces);
	capture_end();
	advertised = smd_lane_advertise(peer.end.lane, place, LENGTH, nowhere);
	assert_int_equal(advertised->beside, bounces);
	peer_close(&peer, link);
	free(place);
	unsetenv("SUMMAND_RDMA_BOUNCE");
}

/* Who may lock little sets little, and has it. */
static void less_than_a_slab_is_of_use(void **state)
{
	assert_bounces(state, "1M", "through at most 1 MiB of registered memory", true);
}

static void with_0_nothing_is_copied(void **state)
{
	assert_bounces(state, "0", "each chunk's buffer is registered anew", false);
}

/* With the device, and before the lane: its first chunk finds one. */
static void the_first_slots_are_registered_beforehand(void **state)
{
	struct link *link = *state;
	struct peer peer;

	peer_open(&peer, link);
	assert_int_equal(script.regions, 2); /* a slab, and the lane's messages */
	peer_close(&peer, link);
}

/* Of a shard's no memory is copied: its pool is registered. */
static void a_shard_has_none_until_it_needs_them(void **state)
{
	struct link *link = *state;

	smd_transport_rdma.prepare(link->base, "10.0.0.1:7", 5, nowhere, LENGTH);
	assert_int_equal(script.calls[SCRIPT_queue_create].count, 1);
	assert_int_equal(script.regions, 0);
}

/* Where the watch sees the memory nothing is copied. */
static void watched_memory_needs_no_slot(void **state)
{
	struct link *link = *state;
	struct peer peer;

	script.unwatched = false;
	place = calloc(1, LENGTH);
	peer_open(&peer, link);
	assert_int_equal(script.regions, 1); /* the lane's messages */
	advertised = smd_lane_advertise(peer.end.lane, place, LENGTH, nowhere);
	assert_false(advertised->beside);
	smd_lane_claim(peer.end.lane, advertised, LENGTH);
	peer_close(&peer, link);
	free(place);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, bounce_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(the_first_slots_are_registered_beforehand),
		STAGE(a_shard_has_none_until_it_needs_them),
		STAGE(a_payload_leaves_from_a_slot),
		STAGE(a_payload_arrives_in_a_slot_and_is_claimed),
		STAGE(when_no_slot_is_left_memory_is_registered),
		STAGE(less_than_a_slab_is_of_use),
		STAGE(with_0_nothing_is_copied),
		STAGE(watched_memory_needs_no_slot),
		STAGE(slots_are_in_huge_pages_near_the_card),
	};

	return cmocka_run_group_tests_name("rdma bounce slots", tests, NULL, NULL);
}
