/* Makes links, and records what happens on them. */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <event2/thread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/transport/loop.h"
#include "reduction_server/wire/message.h"

unsigned parcels_done;

/* ---- callbacks ---- */

void end_close(struct end *end)
{
	struct smd_lane *lane = end->lane;

	end->lane = NULL; /* closing calls done() */
	smd_lane_close(lane);
}

bool end_closes(struct end *end, enum moment moment)
{
	if (end->close_at == moment && end->lane) {
		end_close(end);
		return true;
	}
	return false;
}

static void end_on_open(void *owner)
{
	struct end *end = owner;

	end->opened++;
	end_closes(end, ON_OPEN);
}

int end_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct end *end = owner;

	end->headers++;
	end->frame = *frame;
	*payload = end->room;
	end_closes(end, ON_HEADER);
	return end->refuse_at == ON_HEADER ? smd_error_set(error, EPROTO, "not this header") : 0;
}

static int end_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct end *end = owner;

	assert_int_equal(frame->ordinal, end->frame.ordinal);
	if (frame->length) {
		assert_ptr_equal(payload, end->room);
	}
	end->frames++;
	if (end->then) {
		end->then(end);
	}
	end_closes(end, ON_FRAME);
	return end->refuse_at == ON_FRAME ? smd_error_set(error, EPROTO, "not this frame") : 0;
}

void end_on_closed(void *owner, int err, const char *reason)
{
	struct end *end = owner;

	end->closed++;
	end->err = err;
	snprintf(end->reason, sizeof(end->reason), "%s", reason);
	end_closes(end, ON_CLOSED);
}

const struct smd_lane_callbacks link_callbacks = {
	.on_open = end_on_open,
	.on_header = end_on_header,
	.on_frame = end_on_frame,
	.on_closed = end_on_closed,
};

void link_on_accept(void *owner, struct smd_lane *lane, int shard)
{
	struct link *link = owner;

	(void)shard;
	link->far.lane = lane;
	if (!link->hold) {
		assert_int_equal(smd_lane_attach(lane, link->base, &link_callbacks, &link->far), 0);
	}
}

/* ---- sends ---- */

/* After so many bytes parcel_byte() says the same again. */
enum { PERIOD = 1 << 16 };

uint8_t parcel_byte(uint64_t ordinal, size_t i)
{
	return (uint8_t)(ordinal * 37 + i + (i >> 8));
}

static void parcel_done(struct smd_send *send, int err)
{
	struct parcel *parcel = (struct parcel *)send;

	parcel->done++;
	parcel->err = err;
	parcel->place = parcels_done++;
	end_closes(parcel->from, ON_DONE);
}

void parcel_send(
	struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length, void *owner)
{
	struct smd_frame frame = {.kind = SMD_FRAME_INPUT, .ordinal = ordinal};

	*parcel = (struct parcel){.from = from, .payload = malloc(length + 1)};
	for (size_t i = 0; i < length && i < PERIOD; i++) {
		parcel->payload[i] = parcel_byte(ordinal, i);
	}
	for (size_t i = PERIOD; i < length; i += PERIOD) {
		memcpy(parcel->payload + i, parcel->payload,
			length - i < PERIOD ? length - i : PERIOD);
	}
	parcel->send.payload = parcel->payload;
	parcel->send.length = length;
	parcel->send.done = parcel_done;
	parcel->send.owner = owner;
	smd_lane_send(from->lane, &frame, &parcel->send);
}

void parcels_free(struct parcel *parcels, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(parcels[i].payload);
	}
}

void end_assert_payload(const struct end *end)
{
	size_t length = end->frame.length;

	for (size_t i = 0; i < length && i < PERIOD; i++) {
		if (end->room[i] != parcel_byte(end->frame.ordinal, i)) {
			fail_msg("frame %u: byte %zu is wrong", (unsigned)end->frame.ordinal, i);
		}
	}
	for (size_t i = PERIOD; i < length; i += PERIOD) {
		if (memcmp(end->room + i, end->room, length - i < PERIOD ? length - i : PERIOD) !=
			0) {
			fail_msg("frame %u: bytes from %zu on are wrong",
				(unsigned)end->frame.ordinal, i);
		}
	}
}

/* ---- keys ---- */

const struct smd_lane_key link_key = {"job", {1, 2, 3}};

/* One name, and one more whose secret is another. */
static bool link_find_key(
	const void *owner, const char *identity, uint8_t secret[SMD_LANE_SECRET_SIZE])
{
	(void)owner;
	memcpy(secret, link_key.secret, SMD_LANE_SECRET_SIZE);
	secret[0] ^= strcmp(identity, "other") == 0;
	return strcmp(identity, link_key.identity) == 0 || strcmp(identity, "other") == 0;
}

const struct smd_lane_keys link_keys = {.find = link_find_key};

/* ---- the link ---- */

int link_set_up(void **state)
{
	static int counter;
	struct link *link = calloc(1, sizeof(*link));
	const char *transport = *state;
	bool shared = strcmp(transport, "shm") == 0;
	bool over_tcp = strstr(transport, "tcp") != NULL || strcmp(transport, "tls") == 0 || shared;
	struct smd_error error = {""};
	char address[64];

	evthread_use_pthreads();
	parcels_done = 0;
	link->encrypted = strcmp(transport, "tls") == 0;
	link->key = link_key;
	link->transport = smd_transport_find(strncmp(transport, "fault", 5) == 0 ? "fault"
					     : link->encrypted || shared         ? "tcp"
										 : transport);
	link->made = shared ? smd_transport_find(transport) : NULL;
	link->base = event_base_new();
	link->near.base = link->base;
	link->far.base = link->base;
	link->near.room = malloc(ROOM);
	link->far.room = malloc(ROOM);
	link->near.close_at = ON_CLOSED;
	link->far.close_at = ON_CLOSED;
	snprintf(address, sizeof(address), "loopback:lane-%d", counter++);
	if (strcmp(transport, "rdma") == 0) {
		snprintf(address, sizeof(address), "%s:0", getenv("SUMMAND_TEST_RDMA"));
	}
	assert_int_equal(link->transport->listen(link->base, over_tcp ? "127.0.0.1:0" : address,
				 link_on_accept, link, &link->listener, link->address, &error),
		0);
	if (link->encrypted) {
		assert_int_equal(
			link->transport->listener_encrypt(link->listener, &link_keys, &error), 0);
	}
	*state = link;
	return 0;
}

int link_tear_down(void **state)
{
	struct link *link = *state;

	if (link->near.lane) {
		end_close(&link->near);
	}
	if (link->far.lane) {
		end_close(&link->far);
	}
	if (link->listener) {
		link->transport->listener_close(link->listener);
	}
	event_base_loop(link->base, EVLOOP_NONBLOCK);
	smd_loop_free(link->base);
	free(link->near.room);
	free(link->far.room);
	free(link);
	return 0;
}

/* Some more turns, in which nothing more must happen. */
void link_run_on(struct link *link)
{
	for (int i = 0; i < 50 && !link->deaf; i++) {
		event_base_loop(link->base, EVLOOP_NONBLOCK);
		usleep(200);
	}
}

/* As after a handshake: the accepted end offers, and the other answers. */
static void link_make(struct link *link)
{
	struct smd_lane *carriers[2];
	struct smd_offer offers[2];
	struct smd_error error = {""};

	RUN_UNTIL(link, link->near.opened && link->far.lane);
	link->near.opened = 0;
	carriers[0] = link->far.lane;
	carriers[1] = link->near.lane;
	assert_int_equal(link->made->offer(link->base, carriers[0], 0, NULL, 0, &link_callbacks,
				 &link->far, &link->far.lane, &offers[0], &error),
		0);
	assert_int_equal(
		link->made->offer(link->base, carriers[1], 0, &offers[0], 0, &link_callbacks,
			&link->near, &link->near.lane, &offers[1], &error),
		0);
	assert_int_equal(link->made->join(link->near.lane, carriers[1], &offers[0], &error), 0);
	assert_int_equal(link->made->join(link->far.lane, carriers[0], &offers[1], &error), 0);
}

void link_connect(struct link *link)
{
	enum moment close_at = link->near.close_at;
	struct smd_error error = {""};

	if (link->made) { /* its own opening is meant, not that of what carries it */
		link->near.close_at = NEVER;
	}
	assert_int_equal(link->transport->connect(link->base, link->address, NULL, 0,
				 &link_callbacks, &link->near, &link->near.lane, &error),
		0);
	if (link->encrypted) {
		assert_int_equal(link->transport->encrypt(link->near.lane, &link->key, &error), 0);
	}
	if (link->made) {
		link_make(link);
		link->near.close_at = close_at;
	}
}

void link_open(struct link *link)
{
	link_connect(link);
	RUN_UNTIL(link, link->near.opened && link->far.lane);
}

/* A lane over RDMA or TLS, or in shared memory, is open only when both ends are on their loops. */
void link_open_deaf(struct link *link)
{
	bool needs_both =
		link->encrypted || link->made || strcmp(link->transport->name, "rdma") == 0;

	link->hold = !needs_both;
	link_open(link);
	link->deaf = needs_both;
}

void link_listen(struct link *link)
{
	if (link->hold) {
		assert_int_equal(
			smd_lane_attach(link->far.lane, link->base, &link_callbacks, &link->far),
			0);
	}
	link->deaf = false;
}
