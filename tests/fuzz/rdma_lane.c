/*
 * Any bytes at all as what the other end of an RDMA lane says: as its greeting, and as what it
 * writes into the receive buffers and tells with each write. The lane is refused or ended with a
 * reason, or goes on; it writes nothing past what its owner gave it, and leaves nothing behind.
 *
 * The bytes are a greeting and then records: receive buffer (1 byte), length (2), so many bytes to
 * be written there; what comes with the write (4), and how many bytes the device says that it had
 * (4). A receive buffer of 128 and more: the write is told of by a key that is given back, the next
 * 4 bytes say which of the lane's (or its value). The trial comes before the records and is not
 * counted, unless byte 28 of the greeting, which says nothing, is other than 0: then it is for the
 * records to bring it. With byte 29 the lane has memory windows.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/rdma.h"
#include "tests/unit/rdma/script.h"

#define ANSWERS_MAX 64
#define BY_RECORDS  28
#define WINDOWS     29

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Our own promise, not the input's. */
static void must_hold(int condition)
{
	if (!condition) {
		abort();
	}
}

/* ---- what takes long ---- */

/* A sanitizer takes milliseconds for a lane's buffers, which are always as many: one lane at a time
 * has these. */
static _Alignas(4096) uint8_t lane_memory[1 << 20];
static bool lane_memory_taken;

int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
	if (lane_memory_taken || size < sizeof(lane_memory) / 4 || size > sizeof(lane_memory)) {
		return __real_posix_memalign(out, alignment, size);
	}
	lane_memory_taken = true;
	*out = lane_memory + sizeof(lane_memory) - size; /* a byte past its end is seen */
	return 0;
}

void __wrap_free(void *memory)
{
	if ((uint8_t *)memory >= lane_memory &&
		(uint8_t *)memory < lane_memory + sizeof(lane_memory)) {
		lane_memory_taken = false;
	} else {
		__real_free(memory);
	}
}

/* ---- the owner of the lane ---- */

struct owner {
	struct smd_lane *lane;
	uint8_t *payload; /* exactly what a frame needs, so that a sanitizer sees a byte more */
	unsigned opened;
	unsigned closed;
	unsigned nanswers;
	unsigned done;
	struct smd_send answers[ANSWERS_MAX];
	struct smd_advertisement
		*places[ANSWERS_MAX]; /* one with each answer; NULL: not any more */
	uint8_t place[2 * SMD_RDMA_EAGER];
	uint8_t answer[3 * SMD_RDMA_EAGER];
};

static void on_open(void *arg)
{
	struct owner *owner = arg;

	owner->opened++;
}

static void on_withdrawn(void *arg, void *place)
{
	must_hold(((struct owner *)arg)->place == place);
}

static int on_header(
	void *arg, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct owner *owner = arg;
	struct smd_advertisement **place;

	must_hold(owner->opened && !owner->closed);
	must_hold(owner->lane->nremote_buffers <= SMD_REMOTE_BUFFERS_MAX);
	if (owner->lane->direct && frame->ordinal % 2) {
		return smd_error_set(error, EPROTO, "no buffer was advertised");
	}
	place = &owner->places[frame->ordinal % ANSWERS_MAX];
	if (*place && (*place)->held) {
		return smd_error_set(error, EPROTO, "its key has not come back");
	}
	if (*place && frame->ordinal % 3 == 0) {
		smd_lane_withdraw(owner->lane, *place, owner->place, on_withdrawn, owner);
	} else if (*place) {
		smd_lane_revoke(owner->lane, *place);
	}
	*place = NULL;
	free(owner->payload);
	owner->payload = malloc(frame->length);
	must_hold(owner->payload || frame->length == 0);
	*payload = owner->payload;
	return 0;
}

static void on_done(struct smd_send *send, int err)
{
	struct owner *owner = send->owner;

	must_hold(err <= 0);
	owner->done++;
}

/* Answers, into the remote buffer that came with the frame if there was one. */
static int on_frame(
	void *arg, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct owner *owner = arg;
	struct smd_frame answer = {.kind = SMD_FRAME_RESULT, .ordinal = frame->ordinal};
	struct smd_send *send = &owner->answers[owner->nanswers];

	(void)error;
	must_hold(frame->length == 0 || payload == owner->payload);
	if (owner->nanswers == ANSWERS_MAX) {
		return 0;
	}
	owner->places[owner->nanswers] = smd_lane_advertise(
		owner->lane, owner->place, sizeof(owner->place), (struct smd_extent){NULL, 0});
	owner->nanswers++;
	*send = (struct smd_send){
		.payload = owner->answer,
		.length = (uint32_t)(frame->ordinal % sizeof(owner->answer)),
		.done = on_done,
		.owner = owner,
	};
	if (owner->lane->nremote_buffers) {
		send->remote_buffer = owner->lane->remote_buffers[0];
	}
	smd_lane_send(owner->lane, &answer, send);
	return 0;
}

static void on_closed(void *arg, int err, const char *reason)
{
	struct owner *owner = arg;

	must_hold(err < 0 && reason[0]);
	owner->closed++;
}

static const struct smd_lane_callbacks callbacks = {
	.on_open = on_open,
	.on_header = on_header,
	.on_frame = on_frame,
	.on_closed = on_closed,
};

/* ---- the other end ---- */

static void decode(const uint8_t *bytes, size_t length)
{
	struct smd_rdma_greeting greeting;
	struct smd_rdma_prefix prefix;
	uint8_t again[SMD_RDMA_GREETING_SIZE];
	struct smd_error error = {""};
	/* In memory of its own, so that a sanitizer sees a byte that is read past its end. */
	uint8_t *exact = malloc(length + 1);
	int ret;

	must_hold(exact != NULL);
	memcpy(exact, bytes, length);
	ret = smd_rdma_greeting_decode(exact, length, &greeting, &error);
	must_hold((ret == 0) == (error.text[0] == '\0'));
	if (ret == 0) { /* what is reserved may be anything */
		smd_rdma_greeting_encode(&greeting, again);
		must_hold(memcmp(again, exact, 10) == 0 && memcmp(again + 12, exact + 12, 16) == 0);
	}
	if (length >= SMD_RDMA_PREFIX_SIZE) {
		error = (struct smd_error){""};
		ret = smd_rdma_prefix_decode(exact, &prefix, &error);
		must_hold((ret == 0) == (error.text[0] == '\0'));
		if (ret == 0) {
			smd_rdma_prefix_encode(&prefix, again);
			must_hold(memcmp(again, exact, 10) == 0);
		}
	}
	free(exact);
}

static void turn(struct event_base *base)
{
	for (int i = 0; i < 3; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
}

/* Until the lane has asked; what it takes messages with is in *out. */
static struct rdma_cm_id *connect_lane(
	struct event_base *base, struct owner *owner, struct smd_rdma_greeting *out)
{
	struct smd_error error = {""};
	struct rdma_cm_id *id;
	const uint8_t *said;
	size_t length;

	must_hold(smd_transport_rdma.connect(base, "127.0.0.1:7", NULL, 0, &callbacks, owner,
			  &owner->lane, &error) == 0);
	id = rdma_lane_of(owner->lane)->id;
	script_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
	script_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
	turn(base);
	said = script_said(id, &length);
	must_hold(smd_rdma_greeting_decode(said, length, out, &error) == 0);
	return id;
}

static uint32_t number(const uint8_t *bytes, int size)
{
	uint32_t value = 0;

	while (size--) {
		value = value << 8 | bytes[size];
	}
	return value;
}

/* As message 2^32 - 1, so that the records' numbers are from 0 on. */
static void write_trial(
	const struct owner *owner, struct rdma_cm_id *id, const struct smd_rdma_greeting *greeting)
{
	const struct smd_rdma_prefix prefix = {.length = SMD_RDMA_BUFFER_SIZE, .trial = true};
	uint8_t *last = (uint8_t *)(uintptr_t)greeting->address +
			(greeting->receive_buffers - 1) * (size_t)SMD_RDMA_BUFFER_SIZE;

	rdma_lane_of(owner->lane)->rx_next = UINT32_MAX;
	smd_rdma_prefix_encode(&prefix, last);
	script_arrive(id, SMD_RDMA_COUNT_MASK, prefix.length);
	smd_lane_poll(owner->lane);
	must_hold(owner->opened == 1);
}

static uint32_t key_of(const struct owner *owner, uint32_t which)
{
	const struct smd_advertisement *place = which < ANSWERS_MAX ? owner->places[which] : NULL;

	return place ? ((const struct rdma_advertisement *)place)->key : which;
}

/* Writes records until the bytes are used up or the lane has ended. */
static void write_records(const struct owner *owner, struct rdma_cm_id *id,
	const struct smd_rdma_greeting *greeting, const uint8_t *bytes, size_t length)
{
	while (length >= 11 && !owner->closed && script_receives(id)) {
		uint8_t *receive_buffer =
			(uint8_t *)(uintptr_t)greeting->address +
			bytes[0] % greeting->receive_buffers * (size_t)SMD_RDMA_BUFFER_SIZE;
		size_t n = number(bytes + 1, 2);
		bool returned;

		if (n > length - 11 || n > SMD_RDMA_BUFFER_SIZE) {
			break;
		}
		memcpy(receive_buffer, bytes + 3, n);
		returned = bytes[0] >= 0x80;
		bytes += 3 + n;
		if (returned) {
			script_return(id, key_of(owner, number(bytes, 4)));
		} else {
			script_arrive(id, number(bytes, 4), number(bytes + 4, 4));
		}
		smd_lane_poll(owner->lane);
		bytes += 8;
		length -= 11 + n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct event_base *base = event_base_new();
	struct owner *owner = calloc(1, sizeof(*owner));
	size_t said = length < SMD_RDMA_GREETING_SIZE ? length : SMD_RDMA_GREETING_SIZE;
	struct smd_rdma_greeting greeting;
	struct rdma_cm_id *id;

	must_hold(base && owner);
	decode(bytes, length);
	script_reset();
	script.limits.queue_depth = 64; /* a sanitizer takes long for large memory */
	unsetenv("SUMMAND_RDMA_WINDOWS");
	if (said > WINDOWS && bytes[WINDOWS]) {
		setenv("SUMMAND_RDMA_WINDOWS", "1", 1);
		script.limits.queue_depth = RDMA_DEPTH;
	}
	script.limits.completions = 512;
	script.connects = false;
	script.carries = false; /* what the lane writes goes nowhere, and may be told to be taken */
	id = connect_lane(base, owner, &greeting);
	script_tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, bytes, said);
	turn(base);
	must_hold(owner->opened == 0);
	if (!owner->closed) {
		if (bytes[BY_RECORDS] == 0) {
			write_trial(owner, id, &greeting);
		}
		write_records(owner, id, &greeting, bytes + said, length - said);
		script_break(id, IBV_WC_RETRY_EXC_ERR);
		smd_lane_poll(owner->lane);
		must_hold(owner->closed == 1);
	}
	smd_lane_close(owner->lane);
	turn(base);
	must_hold(script.live == 0 && owner->done == owner->nanswers && owner->closed <= 1);
	event_base_free(base);
	free(owner->payload);
	free(owner);
	return 0;
}
