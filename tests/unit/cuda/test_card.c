/*
 * The fake network card (card.h): what is advertised is written, belongs to its lane's owner until
 * that takes it back or closes the lane, and a late write to a closed lane goes nowhere.
 */
#include "tests/unit/cuda/card.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/transport/link.h"

#define LENGTH (2u * CARD_EAGER)

static const struct smd_extent nowhere = {NULL, 0};
static struct smd_remote_buffer offered;

static void note_offer(struct end *end)
{
	assert_int_equal(end->lane->nremote_buffers, 1);
	offered = end->lane->remote_buffers[0];
}

/* Advertises the memory at the near end, and tells the far one. */
static struct smd_advertisement *offer(struct link *link, uint8_t *memory)
{
	struct smd_advertisement *advertisement =
		smd_lane_advertise(link->near.lane, memory, LENGTH, nowhere);
	unsigned before = link->far.frames;
	struct parcel parcel;

	assert_non_null(advertisement);
	link->far.then = note_offer;
	parcel_send(&parcel, &link->near, 1, 10, NULL);
	RUN_UNTIL(link, link->far.frames > before);
	link->far.then = NULL;
	parcels_free(&parcel, 1);
	return advertisement;
}

static void on_done(struct smd_send *send, int err)
{
	((struct parcel *)send)->done++;
	((struct parcel *)send)->err = err;
}

/* From the far end, to where the near one has offered. */
static void answer(struct link *link)
{
	struct smd_frame frame = {.kind = SMD_FRAME_RESULT, .ordinal = 2};
	struct parcel parcel = {.from = &link->far, .payload = malloc(LENGTH)};

	memset(parcel.payload, 7, LENGTH);
	parcel.send.payload = parcel.payload;
	parcel.send.length = LENGTH;
	parcel.send.remote_buffer = offered;
	parcel.send.done = on_done;
	smd_lane_send(link->far.lane, &frame, &parcel.send);
	RUN_UNTIL(link, parcel.done);
	free(parcel.payload);
}

static int set_up(void **state)
{
	card_reset((struct card_plan){0});
	*state = (void *)"fault";
	return link_set_up(state);
}

static int tear_down(void **state)
{
	int ret = link_tear_down(state);

	card_reset((struct card_plan){0}); /* and nothing of it is left, or leaks are found */
	return ret;
}

static void what_is_advertised_is_written(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LENGTH);
	struct smd_advertisement *advertisement;

	link_open(link);
	advertisement = offer(link, memory);
	answer(link);
	RUN_UNTIL(link, link->near.frames == 1);
	assert_true(link->near.lane->direct);
	assert_int_equal(memory[LENGTH - 1], 7);
	assert_int_equal(card_counts().to_host, 1);
	smd_lane_revoke(link->near.lane, advertisement);
	free(memory);
}

/* A plan may be made while lanes of before are open, which take back what is theirs. */
static void a_new_plan_leaves_open_lanes_alone(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(2, LENGTH);
	struct smd_advertisement *first;

	link_open(link);
	first = offer(link, memory);
	offer(link, memory + LENGTH); /* goes with its lane */
	card_reset((struct card_plan){0});
	answer(link);
	assert_int_equal(memory[LENGTH], 7);
	smd_lane_revoke(link->near.lane, first);
	free(memory);
}

static void a_late_write_to_a_closed_lane_goes_nowhere(void **state)
{
	struct link *link = *state;
	uint8_t *memory = calloc(1, LENGTH);

	link_open(link);
	offer(link, memory);
	end_close(&link->near);
	answer(link); /* before it has heard of that */
	assert_int_equal(memory[0], 0);
	free(memory);
}

#define CARD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD(what_is_advertised_is_written),
		CARD(a_new_plan_leaves_open_lanes_alone),
		CARD(a_late_write_to_a_closed_lane_goes_nowhere),
	};

	return cmocka_run_group_tests_name("card", tests, NULL, NULL);
}
