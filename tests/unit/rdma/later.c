/* Makes lanes later, and holds the driver's calls for that. */
#include "tests/unit/rdma/later.h"

#include <stdlib.h>

struct later later;

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

int offer_one(struct later *one, struct link *link, struct smd_error *error)
{
	int ret;

	*one = (struct later){.end = {.room = malloc(ROOM)}};
	half_begin(&one->half, link, &one->end);
	one->half.callbacks = later_callbacks();
	ret = half_offer(&one->half, link, NULL, error);
	if (ret == 0) {
		one->loop = one->half.lane->loop;
	}
	return ret;
}

int later_offer(struct link *link, struct smd_error *error)
{
	return offer_one(&later, link, error);
}

void later_make(struct link *link)
{
	struct smd_error error = {""};

	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
}

void close_one(struct later *one, struct link *link)
{
	if (one->end.lane) {
		end_close(&one->end);
	}
	stage_turn(link);
	RUN_UNTIL(link, LIST_EMPTY(&one->loop->drains));
	free(one->end.room);
	one->end.room = NULL;
}

void later_close(struct link *link)
{
	close_one(&later, link);
}

void slow_begin(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, true);
}

void slow_end(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, false);
}

bool is_held(enum script_call_name name)
{
	return atomic_load(&script.calls[name].held);
}

void chunks_cross(struct link *link, enum script_call_name name)
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

struct rdma_loop *loop_age(const struct halves *halves)
{
	struct rdma_loop *loop = halves->first.lane->loop;

	assert_int_equal(smd_rdma_loop_open_maker(loop), 0);
	loop->ports_ns = 1;
	return loop;
}

void later_answer(struct link *link, struct half *answer, struct end *answering)
{
	struct smd_error error = {""};

	*answering = (struct end){.base = link->base, .room = malloc(ROOM)};
	later_make(link);
	half_begin(answer, link, answering);
	assert_int_equal(half_offer(answer, link, &later.half.offer, &error), 0);
	assert_int_equal(half_join(answer, &later.half, &error), 0);
}

void later_open(struct link *link, struct half *answer, struct end *answering)
{
	struct smd_error error = {""};

	later_answer(link, answer, answering);
	assert_int_equal(half_join(&later.half, answer, &error), 0);
	RUN_UNTIL(link, later.end.opened == 1 && answering->opened == 1);
}
