/*
 * Any bytes at all as what a reduction server says to a worker, in answer to its HELLO, its JOIN
 * and its INPUT: every call of libsummand returns, with a result or a reason.
 *
 * The worker has a token where the input begins with CHALLENGE. No input can hold the proof that it
 * wants then, because that depends on its nonce: one of nothing but zeros stands for it.
 *
 * The lanes are the test's own transport, on the worker's loop and thread, so that a run can be
 * repeated and nothing waits: what takes seconds takes milliseconds here.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/transports.h"
#include "reduction_server/wire/handshake.h"
#include "tests/fuzz/input.h"
#include "worker/libsummand/history.h"
#include "worker/summand.h"

#define TOKEN "token"

enum {
	COUNT = 16,
	COMMS = 2,
	PATIENCE = 4, /* turns of the loop until the server goes on without having heard anything */
	LANES_MAX = 256, /* of one input; a worker comes again when a lane ends before WELCOME */
	FASTER = 1000,   /* are timers of seconds; others do not wait */
};

struct script {
	const uint8_t *bytes; /* what the server has still to say */
	size_t length;
	size_t due; /* of them, because the worker has said something */
};

struct script_lane {
	struct smd_lane lane;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct script script;
	struct smd_handshake handshake;
	struct event *turn;
	unsigned idle; /* turns without a word */
	bool opened;
	bool ended; /* on_closed() has been called, or the worker has closed it */
};

static struct script input; /* of the first lane */
static struct script_lane *lanes[LANES_MAX];
static unsigned nlanes;
static const struct smd_transport_ops script_transport;

/* ---- what takes long, or much memory ---- */

int __real_event_add(struct event *event, const struct timeval *delay);
int __wrap_event_add(struct event *event, const struct timeval *delay);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

int __wrap_event_add(struct event *event, const struct timeval *delay)
{
	struct timeval sooner;

	if (!delay) {
		return __real_event_add(event, NULL);
	}
	sooner = (struct timeval){.tv_usec = delay->tv_sec * 1000000 / FASTER};
	return __real_event_add(event, &sooner);
}

/* Where each lane puts results that nobody wants: a sanitizer takes milliseconds for so much. */
static uint8_t sink[SMD_CHUNK_LIMIT];

void *__wrap_malloc(size_t size)
{
	return size == SMD_CHUNK_LIMIT ? sink : __real_malloc(size);
}

/* And what each communicator keeps in case a server is lost; unit.test_history looks at its ends. */
static struct kept {
	_Alignas(64) uint8_t bytes[SMD_HISTORY_BYTES];
	bool taken;
} kept[COMMS];

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
	for (int i = 0; i < COMMS && size == SMD_HISTORY_BYTES; i++) {
		if (!kept[i].taken) {
			kept[i].taken = true;
			*out = kept[i].bytes;
			return 0;
		}
	}
	return __real_posix_memalign(out, alignment, size);
}

void __wrap_free(void *memory)
{
	for (int i = 0; i < COMMS; i++) {
		if (memory == kept[i].bytes) {
			must_hold(kept[i].taken);
			kept[i].taken = false;
			return;
		}
	}
	if (memory != sink) {
		__real_free(memory);
	}
}

/* ---- the server ---- */

/* The first frame of what is left, if that is whole; else all of it. */
static size_t next_part(const struct script *script)
{
	struct smd_frame frame;

	if (script->length < SMD_FRAME_SIZE || smd_frame_decode(script->bytes, &frame, NULL) ||
		frame.length > script->length - SMD_FRAME_SIZE) {
		return script->length;
	}
	return SMD_FRAME_SIZE + frame.length;
}

/* The worker has said that: it gets one frame for an answer, or the rest for its first INPUT. */
static void hear(struct script_lane *lane, uint8_t kind)
{
	lane->script.due = kind == SMD_FRAME_INPUT ? lane->script.length : next_part(&lane->script);
}

/* The right proof in place of zeros, in a WELCOME that has them. */
static void prove(struct script_lane *lane, const struct smd_frame *frame, uint8_t *payload)
{
	static const struct smd_proof zeros;
	struct smd_welcome welcome;

	if (frame->kind == SMD_FRAME_CHALLENGE) {
		(void)smd_challenge_decode(
			payload, frame->length, &lane->handshake.challenge, NULL);
	}
	if (frame->kind == SMD_FRAME_WELCOME &&
		smd_welcome_decode(payload, frame->length, &welcome, NULL) == 0 && welcome.proved &&
		smd_proof_equals(&welcome.proof, &zeros)) {
		must_hold(smd_handshake_prove_server(
				  &lane->handshake, &welcome, TOKEN, &welcome.proof) == 0);
		smd_welcome_encode(&welcome, payload);
	}
}

/* Hands out one frame of what is due, as TCP would. False: it is not whole, or the lane has ended.
 */
static bool say_frame(struct script_lane *lane)
{
	struct script *script = &lane->script;
	struct smd_error error = {""};
	struct smd_frame frame;
	void *payload = NULL;
	size_t there;
	int ret;

	if (script->due < SMD_FRAME_SIZE) {
		return false;
	}
	ret = smd_frame_decode(script->bytes, &frame, &error);
	ret = ret ? ret : lane->callbacks->on_header(lane->owner, &frame, &payload, &error);
	if (!ret && !lane->ended) {
		there = script->due - SMD_FRAME_SIZE;
		there = there < frame.length ? there : frame.length;
		if (there) {
			memcpy(payload, script->bytes + SMD_FRAME_SIZE, there);
		}
		if (there < frame.length) {
			return false;
		}
		script->bytes += SMD_FRAME_SIZE + there;
		script->length -= SMD_FRAME_SIZE + there;
		script->due -= SMD_FRAME_SIZE + there;
		if (frame.length) {
			prove(lane, &frame, payload);
		}
		ret = lane->callbacks->on_frame(lane->owner, &frame, payload, &error);
	}
	if (ret && !lane->ended) {
		lane->ended = true;
		lane->callbacks->on_closed(lane->owner, ret, error.text);
	}
	return !lane->ended;
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = {0, 0};
	struct script_lane *lane = arg;

	(void)fd;
	(void)what;
	if (!lane->opened) {
		lane->opened = true;
		lane->callbacks->on_open(lane->owner);
	}
	if (!lane->ended && lane->script.due == 0 && ++lane->idle > PATIENCE) {
		lane->script.due = next_part(&lane->script);
	}
	if (!lane->ended && lane->script.due) {
		lane->idle = 0;
		while (say_frame(lane)) {
		}
	}
	if (!lane->ended && lane->script.due == lane->script.length && lane->idle == 0) {
		lane->ended =
			true; /* all is said, or in the middle of a frame nothing more comes */
		lane->callbacks->on_closed(lane->owner, -ECONNRESET, "the other end closed");
	}
	if (!lane->ended) {
		evtimer_add(lane->turn, &soon);
	}
}

/* ---- the transport ---- */

static int script_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	static const uint8_t no_frame[SMD_FRAME_SIZE] = "HTTP/1.1 400 Bad Request";
	static const struct timeval soon = {0, 0};
	struct script_lane *lane;

	(void)origin;
	(void)shard;
	if (nlanes == LANES_MAX) {
		return smd_error_set(error, ECONNREFUSED, "%s: refused", address);
	}
	lane = calloc(1, sizeof(*lane));
	must_hold(lane != NULL);
	lane->lane.ops = &script_transport;
	lane->callbacks = callbacks;
	lane->owner = owner;
	/* A worker that comes again hears what it gives up for. */
	lane->script =
		nlanes ? (struct script){.bytes = no_frame, .length = sizeof(no_frame)} : input;
	lane->turn = evtimer_new(base, on_turn, lane);
	must_hold(lane->turn && evtimer_add(lane->turn, &soon) == 0);
	lanes[nlanes++] = lane;
	*out = &lane->lane;
	return 0;
}

static void script_send(struct smd_lane *outer, struct smd_send *send)
{
	struct script_lane *lane = (struct script_lane *)outer;

	if (send->header[4] == SMD_FRAME_HELLO) {
		must_hold(smd_hello_decode(
				  send->payload, send->length, &lane->handshake.hello, NULL) == 0);
	}
	hear(lane, send->header[4]);
	send->done(send, 0);
}

static void script_cancel(struct smd_lane *lane, const void *owner)
{
	(void)lane; /* what is sent has left */
	(void)owner;
}

static void script_redirect(struct smd_lane *lane, void *payload)
{
	(void)lane; /* no payload comes in two parts */
	(void)payload;
}

static void script_close(struct smd_lane *outer)
{
	struct script_lane *lane = (struct script_lane *)outer;

	must_hold(lane->turn != NULL); /* it closes no lane twice */
	lane->ended = true;
	event_free(lane->turn);
	lane->turn = NULL;
}

static const char *script_peer_name(const struct smd_lane *lane)
{
	(void)lane;
	return "server";
}

static const struct smd_transport_ops script_transport = {
	.name = "script",
	.preference = 1,
	.is_stream = true,
	.names = true,
	.connect = script_connect,
	.send = script_send,
	.cancel = script_cancel,
	.redirect = script_redirect,
	.close = script_close,
	.peer_name = script_peer_name,
};

/* In place of the product's. */
const struct smd_transport_ops *const smd_transports[] = {&script_transport, NULL};

/* ---- the worker ---- */

/* Of each collective one, then several at once; whether all went well. */
static bool work_once(smd_comm *comm, int32_t *values)
{
	smd_request *requests[2] = {NULL, NULL};
	int32_t other[2 * COUNT] = {0};
	bool ok = smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM) == 0 &&
		  smd_reduce(comm, values, other, COUNT, SMD_FLOAT32, SMD_MAX, 1) == 0 &&
		  smd_broadcast(comm, other, COUNT, SMD_INT8, 1) == 0 && smd_barrier(comm) == 0;

	for (int i = 0; i < 2; i++) {
		if (!ok || smd_allreduce_start(comm, values, i ? values : other, COUNT, SMD_INT64,
				   SMD_AVG, &requests[i])) {
			requests[i] = NULL;
		}
	}
	for (int i = 0; i < 2; i++) {
		ok = requests[i] && smd_request_wait(requests[i]) == 0 && ok;
	}
	return ok;
}

static void work(void)
{
	const struct smd_context_options options = {.servers = "server",
		.replica = "worker",
		.job = "job",
		.transport = "script",
		.connect_timeout_s = 10,
		.progress = SMD_PROGRESS_POLL};
	int32_t values[2 * COUNT + 1] = {[2 * COUNT] = 0x5a5a5a5a};
	smd_context *context;
	smd_comm *comms[COMMS];

	if (smd_context_create(&options, &context)) {
		return;
	}
	for (int i = 0; i < COMMS; i++) {
		if (smd_comm_create(context, "fuzz", 2, 0, &comms[i]) == 0) {
			while (work_once(comms[i], values)) {
			}
		} else {
			comms[i] = NULL;
		}
	}
	for (int i = 0; i < COMMS; i++) {
		if (comms[i]) {
			smd_comm_destroy(comms[i]);
		}
	}
	smd_context_destroy(context);
	must_hold(values[2 * COUNT] == 0x5a5a5a5a);
}

static void set_token(const uint8_t *bytes, size_t length)
{
	struct smd_frame frame;

	if (length >= SMD_FRAME_SIZE && smd_frame_decode(bytes, &frame, NULL) == 0 &&
		frame.kind == SMD_FRAME_CHALLENGE) {
		setenv("SUMMAND_TOKEN_FILE", input_file((const uint8_t *)TOKEN, sizeof(TOKEN) - 1),
			1);
	} else {
		unsetenv("SUMMAND_TOKEN_FILE");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint8_t *exact = input_exact(bytes, length);

	setenv("SUMMAND_LOG", "error", 1);
	set_token(exact, length);
	input = (struct script){.bytes = exact, .length = length};
	nlanes = 0;
	work();
	for (unsigned i = 0; i < nlanes; i++) {
		must_hold(lanes[i]->turn == NULL); /* every lane was closed */
		free(lanes[i]);
	}
	free(exact);
	return 0;
}
