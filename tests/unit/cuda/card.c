/* The card's lanes: loopback lanes whose frames carry remote buffers. */
#include "tests/unit/cuda/card.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/transports.h"
#include "tests/unit/cuda/card_memory.h"

#ifdef CARD_IS_RDMA
#define CARD      smd_transport_rdma
#define CARD_NAME "rdma"
#else
#define CARD      smd_transport_fault
#define CARD_NAME "fault"
#endif

struct card_advertisement {
	struct smd_advertisement base;
	uint32_t key;
	struct card_memory *memory; /* NULL: the host's */
	uint8_t *bytes;             /* where the card writes; NULL: nowhere, its lane is closed */
	uint32_t length;
	bool closed;                        /* its lane is, and nobody takes it back any more */
	LIST_ENTRY(card_advertisement) all; /* of all lanes */
};

struct card_lane {
	struct smd_lane lane;
	struct smd_lane *inner;
	struct event_base *base;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	bool client;
	bool closed;
	unsigned shard;
	unsigned server;                /* whose it is, from 1; 0: a worker's */
	struct smd_remote_buffer *told; /* remote buffers to go with the next frames */
	unsigned ntold;
	LIST_HEAD(, smd_advertisement) advertisements;
	struct card_memories memories; /* under the lock */
	uint8_t *rx;
};

/* A frame on its way: what the loopback carries. */
struct letter {
	uint8_t header[SMD_FRAME_SIZE];
	bool direct;
	unsigned nremote_buffers;
	struct smd_remote_buffer remote_buffers[SMD_REMOTE_BUFFERS_MAX];
	uint8_t payload[]; /* what was copied */
};

struct message {
	struct smd_send inner; /* first */
	struct smd_send *outer;
	struct letter *letter;
};

/* Cards write into memory of other lanes, so all of this is under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, card_advertisement) all_advertised = LIST_HEAD_INITIALIZER(all_advertised);
static uint32_t last_key;
static struct card_plan plan;
static unsigned places_made;
static unsigned results_sent;
static unsigned results_written; /* by the server that will say nothing, */
static unsigned results_told;    /* and all that it has said */
static unsigned listeners;
static struct card_counts counts;

void card_reset(struct card_plan wanted)
{
	struct card_advertisement *advertisement;
	struct card_advertisement *next;

	pthread_mutex_lock(&lock);
	for (advertisement = LIST_FIRST(&all_advertised); advertisement; advertisement = next) {
		next = LIST_NEXT(advertisement, all);
		if (advertisement->closed) { /* others are their lanes' owners' */
			LIST_REMOVE(advertisement, all);
			free(advertisement);
		}
	}
	plan = wanted;
	places_made = 0;
	results_sent = 0;
	results_written = 0;
	results_told = 0;
	listeners = 0;
	counts = (struct card_counts){.from_device = 0};
	pthread_mutex_unlock(&lock);
}

void card_refuse(int err)
{
	pthread_mutex_lock(&lock);
	plan.refuse = err;
	pthread_mutex_unlock(&lock);
}

struct card_counts card_counts(void)
{
	struct card_counts now;

	pthread_mutex_lock(&lock);
	now = counts;
	pthread_mutex_unlock(&lock);
	return now;
}

static struct card_lane *card_of(struct smd_lane *lane)
{
	return (struct card_lane *)lane;
}

static bool is_nth(unsigned *count, unsigned every)
{
	return every && ++*count % every == 0;
}

/* ---- memory ---- */

static int card_register_device(
	struct smd_lane *lane, struct smd_extent extent, int fd, uint64_t offset)
{
	struct card_lane *card = card_of(lane);
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (plan.refuse_shard < 0 || (unsigned)plan.refuse_shard == card->shard) {
		ret = plan.refuse;
	}
	if (ret == 0) {
		card_memories_add_device(&card->memories, extent, fd, offset, &counts);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static void card_register(
	struct smd_lane *lane, struct smd_extent extent, size_t largest, bool now)
{
	struct card_lane *card = card_of(lane);

	(void)now;
	CARD_REQUIRE(largest);
	if (!card->client) { /* a shard's pool */
		return;
	}
	pthread_mutex_lock(&lock);
	card_memories_add_host(&card->memories, extent, &counts);
	pthread_mutex_unlock(&lock);
}

static void card_deregister(struct smd_lane *lane, struct smd_extent extent)
{
	pthread_mutex_lock(&lock);
	card_memories_remove(&card_of(lane)->memories, extent, &counts);
	pthread_mutex_unlock(&lock);
}

static bool card_can_dma(const struct smd_lane *lane, const void *pointer, uint32_t length)
{
	const struct card_lane *card = (const struct card_lane *)lane;
	bool reaches;

	pthread_mutex_lock(&lock);
	reaches = length && card_memories_find(&card->memories, pointer, length);
	pthread_mutex_unlock(&lock);
	return reaches;
}

/* ---- remote buffers ---- */

static struct smd_advertisement *card_advertise(
	struct smd_lane *lane, void *pointer, uint32_t length, struct smd_extent extent)
{
	struct card_lane *card = card_of(lane);
	struct smd_remote_buffer buffer = {.length = 0};
	struct card_advertisement *advertisement = NULL;

	(void)extent;
	pthread_mutex_lock(&lock);
	if (length && (card->client || !is_nth(&places_made, plan.no_place_every))) {
		advertisement = calloc(1, sizeof(*advertisement));
		CARD_REQUIRE(advertisement);
		advertisement->key = ++last_key;
		advertisement->memory = card_memories_find(&card->memories, pointer, length);
		advertisement->bytes = advertisement->memory
					       ? card_memory_at(advertisement->memory, pointer)
					       : pointer;
		advertisement->length = length;
		if (advertisement->memory) {
			advertisement->memory->users++;
		}
		LIST_INSERT_HEAD(&card->advertisements, &advertisement->base, link);
		LIST_INSERT_HEAD(&all_advertised, advertisement, all);
		buffer = (struct smd_remote_buffer){(uintptr_t)pointer, advertisement->key, length};
	}
	pthread_mutex_unlock(&lock);
	card->told = realloc(card->told, (card->ntold + 1) * sizeof(*card->told));
	CARD_REQUIRE(card->told);
	card->told[card->ntold++] = buffer;
	return advertisement ? &advertisement->base : NULL;
}

/* With the lock. */
static void advertisement_end(struct card_lane *card, struct card_advertisement *advertisement)
{
	if (advertisement->memory) {
		card_memory_leave(&card->memories, advertisement->memory, &counts);
	}
	advertisement->memory = NULL;
	advertisement->bytes = NULL;
	LIST_REMOVE(&advertisement->base, link);
}

static void card_revoke(struct smd_lane *lane, struct smd_advertisement *outer)
{
	struct card_advertisement *advertisement = (struct card_advertisement *)outer;

	pthread_mutex_lock(&lock);
	advertisement_end(card_of(lane), advertisement);
	LIST_REMOVE(advertisement, all);
	pthread_mutex_unlock(&lock);
	free(advertisement);
}

/* With the lock: the buffer must still be advertised, or the bytes would go anywhere. */
static struct card_advertisement *advertisement_find(
	const struct smd_remote_buffer *buffer, uint32_t length)
{
	struct card_advertisement *advertisement;

	LIST_FOREACH (advertisement, &all_advertised, all) {
		if (advertisement->key == buffer->key) {
			break;
		}
	}
	CARD_REQUIRE(advertisement && length <= advertisement->length);
	return advertisement;
}

/* ---- sending ---- */

/* Reads and writes the payload, if there is a remote buffer for it. */
static bool card_write(struct card_lane *card, const struct smd_send *send)
{
	const struct card_memory *source;
	struct card_advertisement *advertisement = NULL;
	bool direct;

	pthread_mutex_lock(&lock);
	source = send->length ? card_memories_find(&card->memories, send->payload, send->length)
			      : NULL;
	direct = send->length > CARD_EAGER || source ||
		 (send->length && send->remote_buffer.length &&
			 send->remote_buffer.length <= CARD_EAGER);
	if (direct && send->remote_buffer.length >= send->length &&
		(card->client || !is_nth(&results_sent, plan.no_write_every))) {
		advertisement = advertisement_find(&send->remote_buffer, send->length);
	}
	if (advertisement && advertisement->bytes) {
		memcpy(advertisement->bytes,
			source ? card_memory_at(source, send->payload) : send->payload,
			send->length);
	}
	if (direct) {
		counts.from_device += card->client && source && advertisement;
		counts.from_host += card->client && !(source && advertisement);
		counts.to_device += !card->client && advertisement && advertisement->memory;
		counts.to_host += !card->client && !(advertisement && advertisement->memory);
		counts.to_host_by_card +=
			!card->client && advertisement && !advertisement->memory;
	}
	if (card->server && card->server == plan.mute_server && advertisement && plan.mute_from) {
		counts.muted |= ++results_written >= plan.mute_from;
	}
	pthread_mutex_unlock(&lock);
	return advertisement != NULL;
}

static void message_done(struct smd_send *send, int err)
{
	struct message *message = (struct message *)send;
	struct smd_send *outer = message->outer;

	free(message->letter);
	free(message);
	outer->done(outer, err);
}

static struct letter *letter_create(
	struct card_lane *card, const struct smd_send *send, bool direct, uint32_t copied)
{
	struct letter *letter = calloc(1, sizeof(*letter) + copied);
	unsigned n = card->ntold < SMD_REMOTE_BUFFERS_MAX ? card->ntold : SMD_REMOTE_BUFFERS_MAX;

	CARD_REQUIRE(letter);
	memcpy(letter->header, send->header, SMD_FRAME_SIZE);
	letter->direct = direct;
	letter->nremote_buffers = n;
	card->ntold -= n;
	for (unsigned i = 0; i < n; i++) {
		letter->remote_buffers[i] = card->told[i];
	}
	for (unsigned i = 0; i < card->ntold; i++) {
		card->told[i] = card->told[n + i];
	}
	if (copied) {
		memcpy(letter->payload, send->payload, copied);
	}
	return letter;
}

static bool is_mute(const struct card_lane *card)
{
	bool mute;

	pthread_mutex_lock(&lock);
	mute = card->server && card->server == plan.mute_server && counts.muted;
	pthread_mutex_unlock(&lock);
	return mute;
}

/* It has said that one. */
static void card_told(const struct card_lane *card, const struct smd_send *send)
{
	struct smd_error error;
	struct smd_frame frame;

	pthread_mutex_lock(&lock);
	if (card->server && card->server == plan.mute_server && plan.mute_after &&
		smd_frame_decode(send->header, &frame, &error) == 0 &&
		frame.kind == SMD_FRAME_RESULT) {
		counts.muted |= ++results_told >= plan.mute_after;
	}
	pthread_mutex_unlock(&lock);
}

static void card_send(struct smd_lane *lane, struct smd_send *send)
{
	struct card_lane *card = card_of(lane);
	struct smd_frame frame = {.kind = SMD_FRAME_RESULT};
	struct message *message;
	bool direct = !is_mute(card) && card_write(card, send);
	uint32_t copied = direct ? 0 : send->length;

	if (is_mute(card)) {
		send->done(send, 0);
		return;
	}
	message = calloc(1, sizeof(*message));
	CARD_REQUIRE(message);
	message->outer = send;
	message->letter = letter_create(card, send, direct, copied);
	message->inner.payload = message->letter;
	message->inner.length = (uint32_t)sizeof(*message->letter) + copied;
	message->inner.done = message_done;
	send->sent = SMD_FRAME_SIZE + send->length;
	lane->counts.bytes_sent += SMD_FRAME_SIZE + send->length;
	card_told(card, send);
	smd_lane_send(card->inner, &frame, &message->inner);
}

static void card_cancel(struct smd_lane *lane, const void *owner)
{
	(void)lane; /* every send has begun as soon as it is queued */
	(void)owner;
}

/* ---- receiving ---- */

static void card_on_open(void *owner)
{
	struct card_lane *card = owner;

	card->callbacks->on_open(card->owner);
}

static int card_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct card_lane *card = owner;

	(void)error;
	free(card->rx);
	card->rx = malloc(frame->length);
	CARD_REQUIRE(card->rx);
	*payload = card->rx;
	return 0;
}

static int card_on_frame(
	void *owner, const struct smd_frame *inner, void *bytes, struct smd_error *error)
{
	struct card_lane *card = owner;
	const struct letter *letter = bytes;
	struct smd_frame frame;
	void *payload = NULL;
	int ret = smd_frame_decode(letter->header, &frame, error);

	(void)inner;
	CARD_REQUIRE(ret == 0);
	card->lane.remote_buffers = letter->remote_buffers;
	card->lane.nremote_buffers = letter->nremote_buffers;
	card->lane.direct = letter->direct;
	ret = card->callbacks->on_header(card->owner, &frame, &payload, error);
	if (ret || card->closed) {
		return ret;
	}
	if (frame.length && !letter->direct) {
		memcpy(payload, letter->payload, frame.length);
	}
	card->lane.counts.bytes_received += SMD_FRAME_SIZE + frame.length;
	return card->callbacks->on_frame(card->owner, &frame, payload, error);
}

static void card_on_closed(void *owner, int err, const char *reason)
{
	struct card_lane *card = owner;

	card->callbacks->on_closed(card->owner, err, reason);
}

static const struct smd_lane_callbacks card_callbacks = {
	.on_open = card_on_open,
	.on_header = card_on_header,
	.on_frame = card_on_frame,
	.on_closed = card_on_closed,
};

static void card_redirect(struct smd_lane *lane, void *payload)
{
	(void)lane; /* payloads are copied whole, so none is ever half received */
	(void)payload;
}

/* ---- lanes ---- */

static struct card_lane *card_create(bool client, unsigned shard)
{
	struct card_lane *card = calloc(1, sizeof(*card));

	CARD_REQUIRE(card);
	card->lane.ops = &CARD;
	card->client = client;
	card->shard = shard;
	LIST_INIT(&card->advertisements);
	LIST_INIT(&card->memories.device);
	return card;
}

static void card_free(evutil_socket_t fd, short what, void *arg)
{
	struct card_lane *card = arg;

	(void)fd;
	(void)what;
	free(card->rx);
	free(card->told);
	free(card);
}

static void card_close(struct smd_lane *lane)
{
	struct card_lane *card = card_of(lane);
	const struct timeval now = {0, 0};

	card->closed = true;
	pthread_mutex_lock(&lock);
	while (!LIST_EMPTY(&card->advertisements)) { /* the other end may not know yet */
		struct card_advertisement *advertisement =
			(struct card_advertisement *)LIST_FIRST(&card->advertisements);

		advertisement->closed = true;
		advertisement_end(card, advertisement);
	}
	card_memories_clear(&card->memories, &counts);
	pthread_mutex_unlock(&lock);
	smd_lane_close(card->inner);
	if (!card->base ||
		event_base_once(card->base, -1, EV_TIMEOUT, card_free, card, &now) != 0) {
		card_free(-1, 0, card);
	}
}

static int card_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct card_lane *card = card_of(lane);

	card->base = base;
	card->callbacks = callbacks;
	card->owner = owner;
	return smd_lane_attach(card->inner, base, &card_callbacks, card);
}

static void card_detach(struct smd_lane *lane)
{
	smd_lane_detach(card_of(lane)->inner);
}

static const char *card_peer_name(const struct smd_lane *lane)
{
	return smd_lane_peer_name(((const struct card_lane *)lane)->inner);
}

/* What carries the frames. */
static const struct smd_transport_ops *inner_of(const char *address)
{
	return strncmp(address, "loopback:", 9) == 0 ? &smd_transport_loopback : &smd_transport_tcp;
}

static int card_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	struct card_lane *card = card_create(true, shard);
	int ret;

	card->base = base;
	card->callbacks = callbacks;
	card->owner = owner;
	ret = inner_of(address)->connect(
		base, address, origin, shard, &card_callbacks, card, &card->inner, error);
	if (ret) {
		free(card);
		return ret;
	}
	*out = &card->lane;
	return 0;
}

struct card_listener {
	struct smd_listener listener;
	struct smd_listener *inner;
	smd_accept *on_accept;
	void *owner;
	unsigned server;
};

static void card_on_accept(void *owner, struct smd_lane *inner, int shard)
{
	struct card_listener *listener = owner;
	struct card_lane *card = card_create(false, 0);

	card->inner = inner;
	card->server = listener->server;
	listener->on_accept(listener->owner, &card->lane, shard);
}

static int card_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	struct card_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	CARD_REQUIRE(listener);
	listener->on_accept = on_accept;
	listener->owner = owner;
	listener->listener.ops = &CARD;
	pthread_mutex_lock(&lock);
	listener->server = ++listeners;
	pthread_mutex_unlock(&lock);
	ret = inner_of(address)->listen(
		base, address, card_on_accept, listener, &listener->inner, bound, error);
	if (ret) {
		free(listener);
		return ret;
	}
	*out = &listener->listener;
	return 0;
}

static void card_listener_close(struct smd_listener *outer)
{
	struct card_listener *listener = (struct card_listener *)outer;

	smd_listener_close(listener->inner);
	free(listener);
}

const struct smd_transport_ops CARD = {
	.room = 2u << 20,
	.name = CARD_NAME,
#ifdef CARD_IS_RDMA
	.preference = 2,
	.device = "RDMA",
	.times_out = true,
	.port_slot = 1,
#else
	.names = true,
#endif
	.listen = card_listen,
	.listener_close = card_listener_close,
	.connect = card_connect,
	.attach = card_attach,
	.detach = card_detach,
	.send = card_send,
	.cancel = card_cancel,
	.advertise = card_advertise,
	.revoke = card_revoke,
	.register_memory = card_register,
	.register_device = card_register_device,
	.deregister = card_deregister,
	.can_dma = card_can_dma,
	.redirect = card_redirect,
	.close = card_close,
	.peer_name = card_peer_name,
};
