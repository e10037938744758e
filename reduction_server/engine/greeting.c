/* Goes through the handshake with each lane, and gives the lane to whoever it is for. */
#include "reduction_server/engine/greeting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"

/*
 * Lanes in the handshake. Only strangers have so many: a worker is through at once. Where
 * there are more, the one that has waited longest is closed, of the same address first. One that is
 * still being made waits for us, in a queue in which the eldest is the next, so there the newest
 * goes.
 */
#define HOST_PART 4

/* What compares with the proof of a job that is not known: that takes as long, and is as wrong. */
#define NO_TOKEN "there is no such job, and this is nobody's token"

enum greeting_state { AWAITS_HELLO, AWAITS_PROOF, REFUSED };

/* A lane in the handshake, or one that was refused and has not yet gone. */
struct smd_greeting {
	struct smd_greeter *greeter;
	struct smd_lane *lane;
	uint64_t since_ns;
	enum greeting_state state;
	char host[64]; /* the other end's, without its port */
	struct smd_handshake handshake;
	uint8_t payload[SMD_CONTROL_MAX];
	LIST_ENTRY(smd_greeting) link;
};

static void greeting_end(struct smd_greeting *greeting)
{
	LIST_REMOVE(greeting, link);
	free(greeting);
}

static int greeting_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_greeting *greeting = owner;

	*payload = greeting->payload;
	if (greeting->state == AWAITS_PROOF && frame->kind != SMD_FRAME_PROOF) {
		return smd_error_set(error, EPROTO, "the answer to CHALLENGE must be PROOF, got %s",
			smd_frame_kind_name(frame->kind));
	}
	if ((greeting->state != AWAITS_PROOF && frame->kind != SMD_FRAME_HELLO) ||
		greeting->state == REFUSED || greeting->lane->direct) {
		return smd_error_set(error, EPROTO, "the first frame must be HELLO, got %s",
			smd_frame_kind_name(frame->kind));
	}
	return 0;
}

static int greeting_refuse(struct smd_greeting *greeting, const char *text)
{
	struct smd_frame frame = {.kind = SMD_FRAME_REFUSE};
	uint8_t payload[SMD_CONTROL_MAX];

	smd_log_peer(SMD_LOG_WARN, greeting->greeter->name, greeting->host, "refused %s: %s",
		smd_lane_peer_name(greeting->lane), text);
	greeting->state = REFUSED;
	return smd_lane_send_control(
		greeting->lane, &frame, payload, smd_text_encode(text, payload));
}

/* Whether there is what it wants: 0, or -errno with a text for it. */
static int greeting_check(
	const struct smd_greeter *greeter, const struct smd_hello *hello, struct smd_error *text)
{
	if (hello->shard >= greeter->nshards) {
		return smd_error_set(text, EINVAL, "%s: shard must be below %u, got %u",
			hello->replica, greeter->nshards, hello->shard);
	}
	if (greeter->shard != SMD_SHARD_UNKNOWN && hello->shard != greeter->shard) {
		return smd_error_set(text, EINVAL, "%s: shard must be %d as in its request, got %u",
			hello->replica, greeter->shard, hello->shard);
	}
	return 0;
}

/* Gives the lane away. Not inside anything that looks at the greeting afterwards. */
static int greeting_pass(struct smd_greeting *greeting)
{
	const struct smd_handshake handshake = greeting->handshake;
	struct smd_greeter *greeter = greeting->greeter;
	struct smd_lane *lane = greeting->lane;
	struct smd_error text = {""};
	int ret;

	if (greeting_check(greeter, &handshake.hello, &text)) {
		return greeting_refuse(greeting, text.text);
	}
	smd_lane_detach(lane); /* nothing is queued: who knows the nonce has got CHALLENGE */
	greeting_end(greeting);
	ret = greeter->on_greeted(greeter->owner, lane, &handshake);
	if (ret) {
		smd_log_peer(SMD_LOG_ERROR, greeter->name, handshake.hello.job,
			"cannot take the lane of %s: %s", handshake.hello.replica, strerror(-ret));
		smd_lane_close(lane);
	}
	return SMD_LANE_DETACHED;
}

static int greeting_on_hello(
	struct smd_greeting *greeting, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_frame answer = {.kind = SMD_FRAME_CHALLENGE};
	struct smd_hello *hello = &greeting->handshake.hello;
	struct smd_challenge *challenge = &greeting->handshake.challenge;
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_error text = {""};
	int ret = smd_hello_decode(greeting->payload, frame->length, hello, error);

	if (ret) {
		return ret;
	}
	if (!greeting->greeter->tokens) {
		return greeting_pass(greeting);
	}
	if (!(hello->flags & SMD_HELLO_TOKEN)) {
		smd_error_set(&text, EACCES,
			"%s: only who has the job's token is let in: SUMMAND_TOKEN_FILE must name "
			"the file that holds it",
			hello->replica);
		return greeting_refuse(greeting, text.text);
	}
	ret = smd_nonce_draw(challenge->nonce);
	if (ret) {
		return smd_error_set(error, -ret, "no random numbers are there");
	}
	greeting->state = AWAITS_PROOF;
	return smd_lane_send_control(
		greeting->lane, &answer, payload, smd_challenge_encode(challenge, payload));
}

static int greeting_on_proof(
	struct smd_greeting *greeting, const struct smd_frame *frame, struct smd_error *error)
{
	const struct smd_hello *hello = &greeting->handshake.hello;
	const char *token = smd_tokens_find(greeting->greeter->tokens, hello->job);
	struct smd_error text = {""};
	struct smd_proof expected;
	struct smd_proof proof;
	int ret = smd_proof_decode(greeting->payload, frame->length, &proof, error);

	if (ret) {
		return ret;
	}
	ret = smd_handshake_prove_worker(&greeting->handshake, token ? token : NO_TOKEN, &expected);
	if (ret) {
		return smd_error_set(error, -ret, "out of memory");
	}
	if (smd_proof_equals(&proof, &expected) && token) {
		return greeting_pass(greeting);
	}
	smd_error_set(&text, EACCES, "%s: the job's token is not this server's", hello->replica);
	return greeting_refuse(greeting, text.text);
}

static int greeting_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_greeting *greeting = owner;

	(void)payload;
	return greeting->state == AWAITS_PROOF ? greeting_on_proof(greeting, frame, error)
					       : greeting_on_hello(greeting, frame, error);
}

static void greeting_on_closed(void *owner, int err, const char *reason)
{
	struct smd_greeting *greeting = owner;

	struct smd_frame frame = {.kind = SMD_FRAME_REFUSE};
	uint8_t payload[SMD_CONTROL_MAX];

	smd_log_peer(err == -EPROTO || err == -EACCES ? SMD_LOG_WARN : SMD_LOG_DEBUG,
		greeting->greeter->name, greeting->host, "lane of %s ended: %s",
		smd_lane_peer_name(greeting->lane), reason);
	if (err == -EPROTO) { /* a worker of another version hears which one this is */
		(void)smd_lane_send_control(
			greeting->lane, &frame, payload, smd_text_encode(reason, payload));
	}
	smd_lane_close(greeting->lane);
	greeting_end(greeting);
}

static const struct smd_lane_callbacks greeting_callbacks = {
	.on_header = greeting_on_header,
	.on_frame = greeting_on_frame,
	.on_closed = greeting_on_closed,
};

static void greeting_close(struct smd_greeting *greeting)
{
	smd_lane_close(greeting->lane);
	greeting_end(greeting);
}

static void greeting_name_host(struct smd_greeting *greeting)
{
	char *port;

	snprintf(greeting->host, sizeof(greeting->host), "%.63s",
		smd_lane_peer_name(greeting->lane));
	port = strrchr(greeting->host, ':');
	if (port) {
		*port = '\0';
	}
}

/* What it is that the lane has not done. */
static const char *greeting_lacks(const struct smd_greeting *greeting)
{
	switch (greeting->state) {
	case AWAITS_PROOF:
		return "it has said HELLO and not proved that it has a token";
	case REFUSED:
		return "it was refused and has not gone";
	case AWAITS_HELLO:
		break;
	}
	return !greeting->lane->opening ? "it has not said HELLO"
	       : greeting->lane->made   ? "its first message has not come"
					: "it is still being made";
}

/* Closes the eldest of too many that can go; the new one, if none can. */
static void greeter_make_room(struct smd_greeter *greeter, struct smd_greeting *added)
{
	struct smd_greeting *eldest_of_host = added;
	struct smd_greeting *eldest = added;
	struct smd_greeting *greeting = added;
	unsigned most = greeter->most ? greeter->most : SMD_GREETINGS_DEFAULT;
	unsigned of_host = 0;
	unsigned n = 0;

	while ((greeting = LIST_NEXT(greeting, link))) { /* the youngest first */
		const bool same = strcmp(greeting->host, added->host) == 0;

		n++;
		of_host += same;
		if (!greeting->lane->opening || greeting->lane->made) {
			eldest = greeting;
			eldest_of_host = same ? greeting : eldest_of_host;
		}
	}
	greeting = of_host >= most / HOST_PART ? eldest_of_host : n >= most ? eldest : NULL;
	if (greeting) {
		smd_log_peer(SMD_LOG_WARN, greeter->name, greeting->host,
			"lane of %s ended: %s, and %u others of its address and %u of all are not "
			"let in yet either",
			smd_lane_peer_name(greeting->lane), greeting_lacks(greeting), of_host, n);
		greeting_close(greeting);
	}
}

void smd_greeter_take(struct smd_greeter *greeter, struct smd_lane *lane)
{
	struct smd_greeting *greeting = calloc(1, sizeof(*greeting));
	int ret = -ENOMEM;

	if (greeting) {
		greeting->greeter = greeter;
		greeting->lane = lane;
		greeting->since_ns = smd_clock_ns();
		ret = smd_lane_attach(lane, greeter->base, &greeting_callbacks, greeting);
	}
	if (ret) {
		smd_log_peer(SMD_LOG_ERROR, greeter->name, "", "cannot take the lane of %s: %s",
			smd_lane_peer_name(lane), strerror(-ret));
		free(greeting);
		smd_lane_close(lane);
		return;
	}
	greeting_name_host(greeting);
	LIST_INSERT_HEAD(&greeter->greetings, greeting, link);
	greeter_make_room(greeter, greeting);
}

void smd_greeter_check(struct smd_greeter *greeter)
{
	uint64_t now_ns = smd_clock_ns();
	struct smd_greeting *greeting = LIST_FIRST(&greeter->greetings);

	while (greeting) {
		struct smd_greeting *next = LIST_NEXT(greeting, link);

		if (greeting->lane->opening) { /* for which its transport has its own patience */
			greeting->since_ns = now_ns;
		}
		if (now_ns - greeting->since_ns > greeter->patience_s * SMD_SECOND_NS) {
			if (greeting->state != REFUSED) {
				smd_log_peer(SMD_LOG_WARN, greeter->name, greeting->host,
					"lane of %s ended: %s for %u s",
					smd_lane_peer_name(greeting->lane),
					greeting_lacks(greeting), greeter->patience_s);
			}
			greeting_close(greeting);
		}
		greeting = next;
	}
}

void smd_greeter_close(struct smd_greeter *greeter)
{
	while (!LIST_EMPTY(&greeter->greetings)) {
		greeting_close(LIST_FIRST(&greeter->greetings));
	}
}
