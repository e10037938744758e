/*
 * Memory windows (SUMMAND_RDMA_WINDOWS=1): what is advertised can be written to for one payload and
 * by one queue pair, and is its owner's again when the key has come back, or has been taken back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/peer.h"
#include "tests/unit/rdma/script_parts.h"

#define LENGTH 5000u
#define PLACES 64u

static const struct smd_extent nowhere = {NULL, 0};
static uint8_t *memory; /* of which places are advertised */
static unsigned gone;   /* places that were withdrawn, and are the owner's again */

static int plain_set_up(void **state)
{
	memory = calloc(PLACES, LENGTH);
	gone = 0;
	return stage_set_up(state);
}

static int windows_set_up(void **state)
{
	setenv("SUMMAND_RDMA_WINDOWS", "1", 1);
	return plain_set_up(state);
}

static int windows_tear_down(void **state)
{
	free(memory);
	unsetenv("SUMMAND_RDMA_WINDOWS");
	return stage_tear_down(state);
}

static struct smd_advertisement *advertise(struct end *end, unsigned n)
{
	struct smd_advertisement *made =
		smd_lane_advertise(end->lane, memory + n * LENGTH, LENGTH, nowhere);

	assert_non_null(made);
	return made;
}

static void on_gone(void *owner, void *place)
{
	assert_ptr_equal(owner, place);
	assert_false(script_window_covers(place));
	gone++;
}

static void withdraw(struct end *end, struct smd_advertisement *advertisement, unsigned n)
{
	uint8_t *place = memory + n * LENGTH;

	smd_lane_withdraw(end->lane, advertisement, place, on_gone, place);
}

/* ---- two real ends ---- */

/* The far end answers each frame in a remote buffer that has come; by a payload of `answered`
 * bytes. */
static struct parcel answers[PLACES];
static unsigned nanswers;
static uint32_t answered;
static struct smd_remote_buffer remotes[PLACES]; /* that have come */
static struct smd_advertisement *advertised;     /* that the answer is for */
static bool direct;

static void answer(struct end *end)
{
	assert_int_equal(end->lane->nremote_buffers, 1);
	remotes[nanswers] = end->lane->remote_buffers[0];
	parcel_send_to(&answers[nanswers], end, end->frame.ordinal, answered, remotes[nanswers]);
	nanswers++;
}

static void take_answer(struct end *end)
{
	direct = end->lane->direct;
	assert_false(advertised->held);
	smd_lane_claim(end->lane, advertised, end->frame.length);
}

/* One frame, and the answer to it. */
static void go_there_and_back(struct link *link, unsigned ordinal, uint32_t length)
{
	struct parcel parcel;
	unsigned frames = link->near.frames;

	answered = length;
	link->far.then = answer;
	link->near.then = take_answer;
	advertised = advertise(&link->near, ordinal);
	assert_true(advertised->held);
	parcel_send(&parcel, &link->near, ordinal, 50, NULL);
	RUN_UNTIL(link, link->near.frames == frames + 1 && parcel.done);
	parcels_free(&parcel, 1);
}

static void open_anew(struct link *link)
{
	nanswers = 0;
	link_open(link);
}

static void end_here(struct link *link)
{
	RUN_UNTIL(link, nanswers == 0 || answers[nanswers - 1].done);
	parcels_free(answers, nanswers);
}

static void a_payload_is_written_by_a_key_of_its_own(void **state)
{
	struct link *link = *state;

	open_anew(link);
	for (unsigned i = 0; i < PLACES; i++) {
		go_there_and_back(link, i, LENGTH);
		assert_true(direct);
		for (unsigned k = 0; k < LENGTH; k++) {
			assert_int_equal(memory[i * LENGTH + k], parcel_byte(i, k));
		}
		assert_true(i == 0 || remotes[i].key != remotes[i - 1].key);
	}
	assert_int_equal(link->near.closed + link->far.closed, 0);
	end_here(link);
}

/* Memory is registered without a key that the other end could write by. */
static void what_is_registered_can_be_written_to_by_windows_alone(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *made;

	open_anew(link);
	made = advertise(&link->near, 0);
	assert_true(script.last_access & IBV_ACCESS_MW_BIND);
	assert_false(script.last_access & IBV_ACCESS_REMOTE_WRITE);
	smd_lane_revoke(link->near.lane, made);
}

/* Messages too: another queue pair cannot write into this one's receive buffers. */
static void receive_buffers_are_open_to_their_queue_pair_alone(void **state)
{
	struct link *link = *state;
	struct peer peer;
	struct peer other;
	const struct rdma_lane *lane;

	peer_open(&peer, link);
	peer_open(&other, link);
	lane = peer.lane;
	assert_false(script_key_allows(peer.theirs.key, (uintptr_t)lane->memory,
		SMD_RDMA_BUFFER_SIZE, IBV_ACCESS_REMOTE_WRITE));
	assert_false(script_key_allows(lane->region->rkey, (uintptr_t)lane->memory,
		SMD_RDMA_BUFFER_SIZE, IBV_ACCESS_REMOTE_WRITE));
	assert_true(script_window_allows(peer.theirs.key, (uintptr_t)lane->memory,
		RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE, lane->pair.qp));
	assert_false(script_window_allows(peer.theirs.key, (uintptr_t)lane->memory,
		SMD_RDMA_BUFFER_SIZE, other.lane->pair.qp));
	/* Nor what this end builds messages in. */
	assert_false(script_window_allows(peer.theirs.key,
		(uintptr_t)lane->memory + RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE, 1, lane->pair.qp));
	peer_close(&peer, link);
	peer_close(&other, link);
}

static void a_key_that_has_been_used_writes_nothing(void **state)
{
	struct link *link = *state;
	struct parcel late;

	open_anew(link);
	go_there_and_back(link, 0, LENGTH);
	memset(memory, 0, LENGTH);
	parcel_send_to(&late, &link->far, 1, LENGTH, remotes[0]);
	RUN_UNTIL(link, link->far.closed && late.done);
	end_assert_closed(&link->far, -EACCES,
		"the other end has closed its memory, as when its process ends");
	for (unsigned k = 0; k < LENGTH; k++) {
		assert_int_equal(memory[k], 0);
	}
	end_here(link);
	parcels_free(&late, 1);
}

/* A small payload is copied, as without windows; one of several messages, too. */
static void a_payload_that_comes_elsewhere_gives_its_key_back_too(void **state)
{
	struct link *link = *state;

	open_anew(link);
	for (unsigned i = 0; i < PLACES; i++) {
		go_there_and_back(link, i, i % 3 == 0 ? 0 : i % 3 == 1 ? 100 : LENGTH + 3000);
		assert_false(direct);
		end_assert_payload(&link->near);
	}
	assert_int_equal(link->near.closed + link->far.closed, 0);
	end_here(link);
}

static void more_places_than_windows_were_made_for(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *made[PLACES];
	struct parcel parcel;

	open_anew(link);
	link->far.then = NULL;
	for (unsigned i = 0; i < PLACES; i++) {
		made[i] = advertise(&link->near, i);
	}
	for (unsigned i = 0; i < 2; i++) { /* 32 with each */
		parcel_send(&parcel, &link->near, i, 50, NULL);
		RUN_UNTIL(link, link->far.frames == i + 1 && parcel.done);
		parcels_free(&parcel, 1);
	}
	for (unsigned i = 0; i < PLACES; i++) {
		withdraw(&link->near, made[i], i);
	}
	RUN_UNTIL(link, gone == PLACES);
	assert_int_equal(link->near.closed + link->far.closed, 0);
}

/* As where the card has no more of them. */
static void a_window_that_cannot_be_made_is_a_remote_buffer_of_length_0(void **state)
{
	struct script_call *create = &script.calls[SCRIPT_window_create];
	struct link *link = *state;
	unsigned made = 0;

	open_anew(link);
	create->fail_at = create->count + 1;
	create->err = -ENOMEM;
	create->always = true;
	while (made < PLACES &&
		smd_lane_advertise(link->near.lane, memory + made * LENGTH, LENGTH, nowhere)) {
		made++;
	}
	assert_in_range(made, 1, PLACES - 1);
}

/* ---- the other end is played ---- */

/* What the lane has told of the n-th place of that message. */
static struct smd_remote_buffer told_with(const struct peer *peer, uint32_t message, unsigned n)
{
	struct smd_remote_buffer remote_buffer;
	const uint8_t *at;

	peer_read(peer, message, &at);
	smd_rdma_remote_buffer_decode(
		at + SMD_FRAME_SIZE + n * SMD_RDMA_REMOTE_BUFFER_SIZE, &remote_buffer);
	return remote_buffer;
}

static struct smd_remote_buffer told(const struct peer *peer, unsigned n)
{
	return told_with(peer, 0, n);
}

/* A frame is in the lane's next receive buffer, but it is not told of that. */
static void peer_write_untold(struct peer *peer, uint64_t ordinal, bool placed)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE);
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal};
	uint8_t *buffer = peer->lane->memory + peer->written % peer->lane->receive_buffers *
						       (size_t)SMD_RDMA_BUFFER_SIZE;

	prefix.begins = true;
	prefix.direct = placed;
	frame.length = placed ? LENGTH : 0;
	smd_rdma_prefix_encode(&prefix, buffer);
	smd_frame_encode(&frame, buffer + SMD_RDMA_PREFIX_SIZE);
	peer->written++;
}

static bool was_held;
static struct smd_advertisement *looked_at;

static void look(struct peer *peer)
{
	(void)peer;
	was_held = looked_at->held;
}

/* Opens a lane that has told of `n` places. */
static void peer_open_places(struct peer *peer, struct link *link, struct parcel *parcel,
	struct smd_advertisement **places, unsigned n)
{
	peer_open(peer, link);
	for (unsigned i = 0; i < n; i++) {
		places[i] = advertise(&peer->end, i);
	}
	parcel_send(parcel, &peer->end, 0, 10, NULL);
	peer_poll(peer);
	assert_int_equal(parcel->done, 1);
}

/* The lane says so by `held`, and what comes of it is its owner's business. */
static void a_place_is_held_until_its_own_key_has_come_back(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *places[2];
	struct parcel parcel;
	struct peer peer;

	peer_open_places(&peer, link, &parcel, places, 2);
	peer.advertised = true;
	peer.then = look;
	looked_at = places[0];
	peer_write_untold(&peer, 0, true); /* with the other place's */
	script_window_close(told(&peer, 1).key, peer.lane->pair.qp);
	script_return(peer.id, told(&peer, 1).key);
	peer_poll(&peer);
	assert_true(was_held);
	assert_false(places[1]->held);
	peer_write_untold(&peer, 1, true);
	script_window_close(told(&peer, 0).key, peer.lane->pair.qp);
	script_return(peer.id, told(&peer, 0).key);
	peer_poll(&peer);
	assert_false(was_held);
	assert_int_equal(peer.end.closed, 0);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

static void a_key_that_is_not_open_cannot_be_given_back(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *places[1];
	struct parcel parcel;
	struct peer peer;
	char reason[96];

	peer_open_places(&peer, link, &parcel, places, 1);
	peer_write_untold(&peer, 0, false);
	script_return(peer.id, told(&peer, 0).key + 1);
	peer_poll(&peer);
	snprintf(reason, sizeof(reason),
		"message: must give back the key of a memory window that is open, got %#x",
		told(&peer, 0).key + 1);
	end_assert_closed(&peer.end, -EPROTO, reason);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

static void what_is_withdrawn_is_gone_when_its_key_is_taken_back(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *places[3];
	struct smd_advertisement *untold;
	struct parcel parcel;
	struct peer peer;
	unsigned acknowledged;

	peer_open_places(&peer, link, &parcel, places, 3);
	untold = advertise(&peer.end, 3);
	withdraw(&peer.end, untold, 3); /* nobody has heard of it */
	assert_int_equal(gone, 1);
	script.acknowledges = false;
	withdraw(&peer.end, places[1], 1);
	withdraw(&peer.end, places[0], 0);
	peer_poll(&peer);
	assert_int_equal(gone, 1);
	assert_false(script_window_allows(
		told(&peer, 1).key, told(&peer, 1).address, LENGTH, peer.lane->pair.qp));
	script.acknowledges = true;
	acknowledged = script_acknowledge(peer.id, 100);
	assert_in_range(acknowledged, 2, 100);
	peer_poll(&peer);
	assert_int_equal(gone, 3);
	peer_write_untold(
		&peer, 0, false); /* whose key came back when it was not wanted any more */
	script_window_close(told(&peer, 2).key, peer.lane->pair.qp);
	script_return(peer.id, told(&peer, 2).key);
	peer_poll(&peer);
	withdraw(&peer.end, places[2], 2);
	assert_int_equal(gone, 4);
	assert_int_equal(peer.end.closed, 0);
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

static void what_is_not_told_yet_is_told_as_nothing(void **state)
{
	struct link *link = *state;
	struct parcel parcel;
	struct peer peer;

	peer_open(&peer, link);
	advertise(&peer.end, 0);
	withdraw(&peer.end, advertise(&peer.end, 1), 1);
	advertise(&peer.end, 2);
	parcel_send(&parcel, &peer.end, 0, 10, NULL);
	peer_poll(&peer);
	assert_int_equal(gone, 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(told(&peer, i).length, i == 1 ? 0 : LENGTH);
	}
	peer_close(&peer, link);
	parcels_free(&parcel, 1);
}

/* A frame that is cancelled takes its places along, and others are in the ring where they were. */
static void what_was_cancelled_is_withdrawn_alone(void **state)
{
	enum { ROUND = 64 }; /* entries of the ring */
	struct link *link = *state;
	struct smd_advertisement *cancelled;
	struct parcel parcels[4];
	struct peer peer;
	int owner;

	peer_ask(&peer, link);
	cancelled = advertise(&peer.end, 0);
	parcel_send(&parcels[0], &peer.end, 0, 10, &owner);
	smd_lane_cancel(peer.end.lane, &owner);
	assert_int_equal(parcels[0].err, -ECANCELED);
	for (unsigned i = 1; i < ROUND; i++) {
		advertise(&peer.end, i);
	}
	parcel_send(&parcels[1], &peer.end, 1, 10, NULL);
	parcel_send(&parcels[2], &peer.end, 2, 10, NULL);
	peer_accept(&peer, link);
	peer_try(&peer, link);
	peer_poll(&peer);
	assert_int_equal(peer_messages(&peer), 2);
	assert_non_null(smd_lane_advertise(
		peer.end.lane, memory, LENGTH, nowhere)); /* where the cancelled one was */
	withdraw(&peer.end, cancelled, 0);
	assert_int_equal(gone, 1);
	parcel_send(&parcels[3], &peer.end, 3, 10, NULL);
	peer_poll(&peer);
	assert_int_equal(told_with(&peer, 2, 0).length, LENGTH);
	peer_close(&peer, link);
	parcels_free(parcels, 4);
}

/* After its queue pair and its windows. */
static void what_was_withdrawn_is_gone_with_its_lane(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *places[2];
	struct parcel parcel;
	struct peer peer;

	peer_open_places(&peer, link, &parcel, places, 2);
	script.acknowledges = false;
	withdraw(&peer.end, places[0], 0);
	peer_poll(&peer);
	withdraw(&peer.end, places[1], 1); /* and is not even posted */
	assert_int_equal(gone, 0);
	script.acknowledges = true;
	peer_close(&peer, link);
	assert_int_equal(gone, 2);
	parcels_free(&parcel, 1);
}

/* ---- where there are none ---- */

/* A lane ends with that. */
static void assert_refused(struct link *link, int err, const char *why)
{
	struct smd_error error = {""};

	assert_int_equal(link->transport->connect(link->base, link->address, NULL, 0,
				 &link_callbacks, &link->near, &link->near.lane, &error),
		0);
	RUN_UNTIL(link, link->near.closed);
	assert_int_equal(link->near.err, err);
	assert_string_equal(link->near.reason, why);
}

static void a_card_without_them_is_not_used(void **state)
{
	script.limits.windows = false;
	assert_refused(*state, -ENOTSUP,
		"rdma: script0 must have memory windows of type 2B, as SUMMAND_RDMA_WINDOWS=1 "
		"asks for");
}

/* Its driver says that it has them, and its library makes none. */
static void a_card_that_only_says_that_it_has_them_is_not_used(void **state)
{
	struct link *link = *state;
	struct script_call *create = &script.calls[SCRIPT_window_create];

	create->fail_at = create->count + 1;
	create->err = -EOPNOTSUPP;
	create->always = true;
	assert_refused(link, -ENOTSUP,
		"rdma: script0 must have memory windows of type 2B, as SUMMAND_RDMA_WINDOWS=1 "
		"asks for");
}

/* That of the receive buffers, then that of a place: nothing of the lane is left. */
static void a_lane_whose_windows_cannot_be_made_ends(void **state)
{
	struct link *link = *state;
	struct script_call *create = &script.calls[SCRIPT_window_create];

	for (unsigned at = 2; at < 4; at++) { /* the first is the card's, which is tried */
		create->fail_at = create->count + at;
		create->err = -EDQUOT;
		assert_refused(
			link, -EDQUOT, "rdma: cannot make memory windows: Disk quota exceeded");
		link->near.closed = 0;
		stage_turn(link);
	}
}

static void a_card_with_short_queues_is_not_used(void **state)
{
	struct link *link = *state;

	script.limits.queue_depth = RDMA_DEPTH - 1;
	assert_refused(link, -EOPNOTSUPP,
		"rdma: for SUMMAND_RDMA_WINDOWS=1 script0 must take 128 work requests of a queue "
		"pair, and takes 127");
}

/* The other end has them. */
static void a_card_that_cannot_give_keys_back_is_not_used(void **state)
{
	struct link *link = *state;
	struct peer peer;

	script.limits.invalidates = false;
	peer_ask(&peer, link);
	peer.own.windows = true;
	peer_accept(&peer, link);
	end_assert_closed(&peer.end, -ENOTSUP,
		"rdma: the other end has memory windows (SUMMAND_RDMA_WINDOWS=1), and script0 "
		"cannot give their keys back");
	peer_close(&peer, link);
}

/* By default. */
static void without_the_setting_nothing_is_held(void **state)
{
	struct link *link = *state;
	struct smd_advertisement *made;

	open_anew(link);
	made = advertise(&link->near, 0);
	assert_false(made->held);
	assert_true(script.last_access & IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(script.calls[SCRIPT_window_create].count, 0);
	withdraw(&link->near, made, 0);
	assert_int_equal(gone, 1);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, windows_set_up, windows_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(a_payload_is_written_by_a_key_of_its_own),
		STAGE(what_is_registered_can_be_written_to_by_windows_alone),
		STAGE(receive_buffers_are_open_to_their_queue_pair_alone),
		STAGE(a_key_that_has_been_used_writes_nothing),
		STAGE(a_payload_that_comes_elsewhere_gives_its_key_back_too),
		STAGE(more_places_than_windows_were_made_for),
		STAGE(a_window_that_cannot_be_made_is_a_remote_buffer_of_length_0),
		STAGE(a_place_is_held_until_its_own_key_has_come_back),
		STAGE(a_key_that_is_not_open_cannot_be_given_back),
		STAGE(what_is_withdrawn_is_gone_when_its_key_is_taken_back),
		STAGE(what_is_not_told_yet_is_told_as_nothing),
		STAGE(what_was_cancelled_is_withdrawn_alone),
		STAGE(what_was_withdrawn_is_gone_with_its_lane),
		STAGE(a_card_without_them_is_not_used),
		STAGE(a_card_that_only_says_that_it_has_them_is_not_used),
		STAGE(a_lane_whose_windows_cannot_be_made_ends),
		STAGE(a_card_with_short_queues_is_not_used),
		STAGE(a_card_that_cannot_give_keys_back_is_not_used),
		cmocka_unit_test_setup_teardown(
			without_the_setting_nothing_is_held, plain_set_up, windows_tear_down),
	};

	return cmocka_run_group_tests_name("rdma memory windows", tests, NULL, NULL);
}
