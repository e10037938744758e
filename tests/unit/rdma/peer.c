/* Plays the other end of a lane. */
#include "tests/unit/rdma/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int stage_set_up(void **state)
{
	script_reset();
	setenv("SUMMAND_TEST_RDMA", "10.0.0.1", 1);
	*state = (void *)"rdma";
	return link_set_up(state);
}

int stage_tear_down(void **state)
{
	struct link *link = *state;

	script_hide_all();
	stage_turn(link);
	link_tear_down(state);
	assert_int_equal(script.live, 0);
	script_reset();
	return 0;
}

void stage_turn(struct link *link)
{
	for (int i = 0; i < 8; i++) {
		event_base_loop(link->base, EVLOOP_NONBLOCK);
	}
}

void stage_prepare(struct link *link, const char *addresses, unsigned shard, struct smd_extent pool,
	size_t largest)
{
	struct smd_error error = {""};
	struct rdma_loop *loop;

	smd_transport_rdma.prepare(link->base, addresses, shard, pool, largest);
	if (smd_rdma_loop_get(link->base, &loop, &error) == 0) {
		RUN_UNTIL(link, !loop->preparation);
		smd_rdma_loop_put(loop);
	}
}

unsigned stage_idle(struct link *link)
{
	bool connects = script.connects;
	struct peer peer;

	peer_open(&peer, link);
	peer_close(&peer, link);
	script.connects = connects;
	return script.live;
}

static int peer_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct peer *peer = owner;

	if (peer->end.lane->direct && !peer->advertised) {
		return smd_error_set(error, EPROTO, "no buffer was advertised");
	}
	if (peer->then) {
		peer->then(peer);
	}
	return end_on_header(&peer->end, frame, payload, error);
}

/* Those of links, but that they look at remote buffers. */
static const struct smd_lane_callbacks *peer_callbacks(void)
{
	static struct smd_lane_callbacks callbacks;

	callbacks = link_callbacks;
	callbacks.on_header = peer_on_header;
	return &callbacks;
}

void peer_begin(struct peer *peer, struct link *link)
{
	struct smd_error error = {""};

	*peer = (struct peer){.own = {.receive_buffers = RDMA_BUFFERS}};
	peer->end = (struct end){.base = link->base, .room = malloc(ROOM)};
	script.connects = false;
	assert_int_equal(smd_transport_rdma.connect(link->base, link->address, NULL, 0,
				 peer_callbacks(), &peer->end, &peer->end.lane, &error),
		0);
	peer->lane = rdma_lane_of(peer->end.lane);
	peer->id = peer->lane->id;
}

void peer_resolve(struct peer *peer, struct link *link)
{
	peer_begin(peer, link);
	script_tell(peer->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	stage_turn(link);
}

void peer_ask(struct peer *peer, struct link *link)
{
	struct smd_error error = {""};
	const uint8_t *said;
	size_t length;

	peer_resolve(peer, link);
	script_tell(peer->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	stage_turn(link);
	said = script_said(peer->id, &length);
	assert_int_equal(smd_rdma_greeting_decode(said, length, &peer->theirs, &error), 0);
}

void peer_accept(struct peer *peer, struct link *link)
{
	size_t size = (size_t)peer->own.receive_buffers * SMD_RDMA_BUFFER_SIZE;
	uint8_t greeting[SMD_RDMA_GREETING_SIZE];

	peer->receive_buffers = calloc(1, size);
	peer->own.address = (uintptr_t)peer->receive_buffers;
	peer->own.key = script_expose(peer->receive_buffers, size);
	smd_rdma_greeting_encode(&peer->own, greeting);
	script_tell(peer->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, greeting, sizeof(greeting));
	stage_turn(link);
}

/* Its own trial has gone: as if it had not. */
static void lane_forget_trial(struct rdma_lane *lane)
{
	assert_int_equal(lane->state, RDMA_LANE_TRYING);
	/* With memory windows one more, which opens its receive buffers. */
	assert_int_equal(lane->requests, lane->window_of_buffers ? 2 : 1);
	assert_int_equal(lane->completed, lane->requests);
	lane->tx_next = 0;
	lane->requests = lane->completed = 0;
	lane->posted_begin = lane->posted_settled = lane->posted_end = 0;
	lane->lane.counts = (struct smd_lane_counts){.requests = 0};
	lane->rx_next = UINT32_MAX;
}

void peer_try(struct peer *peer, struct link *link)
{
	const bool carries = script.carries;
	const bool acknowledges = script.acknowledges;

	script.carries = script.acknowledges = true;
	script_carry(peer->id, 2);
	peer_poll(peer);
	script_forget_sends(peer->id);
	lane_forget_trial(peer->lane);
	script.carries = carries;
	script.acknowledges = acknowledges;
	peer->written = UINT32_MAX;
	peer_write_trial(peer);
	stage_turn(link);
	if (peer->end.lane) {
		peer->lane->lane.counts.bytes_received = 0;
		smd_rdma_device_wake(peer->lane->device, &peer->lane->pair);
		stage_turn(link); /* it posts a receive for the next one */
	}
}

void peer_open_with(struct peer *peer, struct link *link, uint16_t receive_buffers)
{
	peer_ask(peer, link);
	peer->own.receive_buffers = receive_buffers;
	peer_accept(peer, link);
	peer_try(peer, link);
	assert_int_equal(peer->end.opened, 1);
}

void peer_open(struct peer *peer, struct link *link)
{
	peer_open_with(peer, link, RDMA_BUFFERS);
}

void peer_close(struct peer *peer, struct link *link)
{
	if (peer->end.lane) {
		end_close(&peer->end);
	}
	stage_turn(link); /* in which its memory goes */
	free(peer->end.room);
	free(peer->receive_buffers);
	peer->end.room = NULL;
	peer->receive_buffers = NULL;
}

void lane_count_from(struct rdma_lane *lane, uint32_t start)
{
	lane->tx_next = lane->tx_taken = start;
	lane->rx_next = lane->rx_told = start;
	lane->requests = lane->completed = start;
	lane->posted_begin = lane->posted_settled = lane->posted_end = start;
	lane->remotes_begin = lane->remotes_sent = lane->remotes_end = start;
}

void peer_count_from(struct peer *peer, uint32_t start)
{
	lane_count_from(peer->lane, start);
	peer->written = start;
	peer->taken = start;
}

void peer_poll(struct peer *peer)
{
	assert_non_null(peer->end.lane);
	smd_lane_poll(peer->end.lane);
}

const uint32_t peer_starts[PEER_STARTS] = {0, 0x7ffffff0u, 0xfffffff0u};

/* ---- messages to the lane ---- */

static uint8_t *peer_receive_buffer(const struct peer *peer)
{
	return (uint8_t *)(uintptr_t)peer->theirs.address +
	       peer->written % peer->theirs.receive_buffers * (size_t)SMD_RDMA_BUFFER_SIZE;
}

void peer_write(struct peer *peer, const uint8_t *bytes, size_t length, uint32_t told)
{
	memcpy(peer_receive_buffer(peer), bytes, length);
	script_arrive(peer->id, peer->written++ & SMD_RDMA_COUNT_MASK, told);
}

void peer_write_trial(struct peer *peer)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, 0);
	uint8_t bytes[SMD_RDMA_BUFFER_SIZE] = {0};

	prefix.length = SMD_RDMA_BUFFER_SIZE;
	prefix.trial = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	peer_write(peer, bytes, prefix.length, prefix.length);
}

struct smd_rdma_prefix peer_prefix(const struct peer *peer, uint32_t rest)
{
	return (struct smd_rdma_prefix){
		.length = SMD_RDMA_PREFIX_SIZE + rest, .taken = peer->taken};
}

static void peer_fill(uint8_t *at, uint64_t ordinal, uint32_t from, uint32_t piece)
{
	for (uint32_t i = 0; i < piece; i++) {
		at[i] = parcel_byte(ordinal, from + i);
	}
}

void peer_begin_frame(struct peer *peer, uint64_t ordinal, uint32_t length, uint32_t piece)
{
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal, .length = length};
	struct smd_rdma_prefix prefix = peer_prefix(peer, SMD_FRAME_SIZE + piece);
	uint8_t bytes[SMD_RDMA_BUFFER_SIZE];

	prefix.begins = true;
	smd_rdma_prefix_encode(&prefix, bytes);
	smd_frame_encode(&frame, bytes + SMD_RDMA_PREFIX_SIZE);
	peer_fill(bytes + SMD_RDMA_PREFIX_SIZE + SMD_FRAME_SIZE, ordinal, 0, piece);
	peer_write(peer, bytes, prefix.length, prefix.length);
}

void peer_go_on(struct peer *peer, uint64_t ordinal, uint32_t from, uint32_t piece)
{
	struct smd_rdma_prefix prefix = peer_prefix(peer, piece);
	uint8_t bytes[SMD_RDMA_BUFFER_SIZE];

	smd_rdma_prefix_encode(&prefix, bytes);
	peer_fill(bytes + SMD_RDMA_PREFIX_SIZE, ordinal, from, piece);
	peer_write(peer, bytes, prefix.length, prefix.length);
}

void peer_frame(struct peer *peer, uint64_t ordinal, uint32_t length)
{
	peer_begin_frame(peer, ordinal, length, length);
}

void peer_tell_taken(struct peer *peer, uint32_t taken)
{
	script_arrive(peer->id, SMD_RDMA_TAKEN_ONLY | (taken & SMD_RDMA_COUNT_MASK), 0);
}

/* ---- messages from the lane ---- */

struct smd_rdma_prefix peer_read(const struct peer *peer, uint32_t number, const uint8_t **at)
{
	const uint8_t *receive_buffer =
		peer->receive_buffers +
		number % peer->own.receive_buffers * (size_t)SMD_RDMA_BUFFER_SIZE;
	struct smd_rdma_prefix prefix;
	struct smd_error error;

	assert_int_equal(smd_rdma_prefix_decode(receive_buffer, &prefix, &error), 0);
	*at = receive_buffer + SMD_RDMA_PREFIX_SIZE;
	return prefix;
}

unsigned peer_messages(const struct peer *peer)
{
	unsigned posted;
	unsigned n = 0;
	const struct script_send *sends = script_sends(peer->id, &posted);

	for (unsigned i = 0; i < posted; i++) {
		n += sends[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
		     !(sends[i].immediate & SMD_RDMA_TAKEN_ONLY);
	}
	return n;
}

/* ---- what both kinds of tests look at ---- */

void end_assert_closed(const struct end *end, int err, const char *reason)
{
	assert_int_equal(end->closed, 1);
	assert_int_equal(end->err, err);
	assert_string_equal(end->reason, reason);
}

static void parcel_done(struct smd_send *send, int err)
{
	struct parcel *parcel = (struct parcel *)send;

	parcel->done++;
	parcel->err = err;
	parcel->place = parcels_done++;
	end_closes(parcel->from, ON_DONE);
}

void parcel_send_to(struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length,
	struct smd_remote_buffer remote_buffer)
{
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal};

	*parcel = (struct parcel){.from = from, .payload = malloc(length)};
	peer_fill(parcel->payload, ordinal, 0, length);
	parcel->send.payload = parcel->payload;
	parcel->send.length = length;
	parcel->send.done = parcel_done;
	parcel->send.remote_buffer = remote_buffer;
	smd_lane_send(from->lane, &frame, &parcel->send);
}

void peer_queue(struct peer *peer, struct parcel *parcels, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		parcel_send(&parcels[i], &peer->end, i, 100, NULL);
	}
	peer_poll(peer);
}

void parcels_assert_done(const struct parcel *parcels, unsigned n, unsigned left)
{
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(parcels[i].done, 1);
		assert_int_equal(parcels[i].err, i < left ? 0 : -ECANCELED);
		assert_true(i == 0 || parcels[i].place > parcels[i - 1].place);
	}
}

void peer_assert_arrived(const struct peer *peer, unsigned ordinal)
{
	struct smd_frame frame;
	const uint8_t *at;

	peer_read(peer, ordinal, &at);
	assert_int_equal(smd_frame_decode(at, &frame, NULL), 0);
	assert_int_equal(frame.ordinal, ordinal);
}

void peer_send_frames(
	struct peer *peer, struct parcel *parcels, unsigned from, unsigned to, uint32_t length)
{
	for (unsigned i = from; i < to; i++) {
		parcel_send(&parcels[i], &peer->end, i, length, NULL);
	}
	for (int i = 0; i < 4; i++) {
		peer_poll(peer);
	}
}

/* ---- closing ---- */

void peer_send_controls(struct peer *peer, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct smd_frame frame = {.kind = SMD_FRAME_LEAVE, .ordinal = from + i};

		assert_int_equal(smd_lane_send_control(peer->end.lane, &frame, "why", 3), 0);
	}
}

struct end peer_close_and_poison(struct peer *peer)
{
	unsigned polls = script.calls[SCRIPT_queue_poll].count;
	struct end rest = {.room = peer->end.room};

	end_close(&peer->end);
	assert_in_range(script.calls[SCRIPT_queue_poll].count - polls, 1, 100); /* what was there */
	memset(&peer->end, 0x5a, sizeof(peer->end));
	return rest;
}

void peer_is_over(struct peer *peer, struct link *link, struct end rest, unsigned idle)
{
	assert_int_equal(script.live, idle);
	peer->end = rest;
	peer_close(peer, link);
}

void stage_assert_drains(struct link *link, unsigned idle)
{
	stage_turn(link);
	assert_true(script.live > idle);
}
