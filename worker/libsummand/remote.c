/* Connects to one shard and takes what it says. */
#include "worker/libsummand/remote.h"

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_greeting.h"

#define RETRY_MS 100
static const char looking_up[] = "its name is still being looked up";
/* It does not say so itself: it cannot read what it is told. */
#define VERSION_HINT "; a server of wire version 1 does so, and this process speaks version 3"
_Static_assert(SMD_WIRE_VERSION == 3, "the hint names the versions");

static const struct smd_lane_callbacks remote_callbacks;

void smd_target_name(const struct smd_target *target, char out[160])
{
	snprintf(out, 160, "reduction server %s", target->address);
}

/* In whole seconds, where there is one. */
static const char *remote_pause_text(uint64_t pause_ns, char out[SMD_HEARTBEAT_TEXT_MAX])
{
	unsigned ms = (unsigned)(pause_ns / smd_heartbeat_limit_ns(1));

	return smd_heartbeat_text(ms > 1000 ? ms - ms % 1000 : ms, out);
}

void smd_remote_explain(
	const struct smd_remote *remote, const char *reason, char out[SMD_ERROR_TEXT_MAX])
{
	const struct smd_config *config = remote->owner->config;
	uint64_t limit_ns = smd_heartbeat_limit_ns(config->heartbeat_ms);
	uint64_t pause_ns = /* a process in poll mode stands still all the time, and may */
		config->poll || !remote->welcomed
			? 0
			: smd_heartbeat_pause_ns(&remote->heartbeat, smd_clock_ns(), limit_ns);
	char pause[SMD_HEARTBEAT_TEXT_MAX];

	if (pause_ns) {
		snprintf(out, SMD_ERROR_TEXT_MAX,
			"this process (%.100s) stood still for %s, and then: %.360s",
			config->replica, remote_pause_text(pause_ns, pause), reason);
	} else {
		snprintf(out, SMD_ERROR_TEXT_MAX, "%s", reason);
	}
}

/* ---- connecting ---- */

/* Of a server the first lane to end speaks for all. */
static void remote_fail_with(struct smd_remote *remote, int err, const char *text)
{
	if (remote->target->reconnection.under_way) {
		remote->owner->ops->on_missed(remote->owner, remote->target, text);
	} else if (!remote->target->lost) {
		remote->target->lost = true;
		remote->owner->ops->on_failed(remote->owner, remote->target, err, text);
	}
}

static void remote_fail(struct smd_remote *remote, int err, const char *what)
{
	char name[160];
	char text[SMD_ERROR_TEXT_MAX];

	smd_target_name(remote->target, name);
	snprintf(text, sizeof(text), "%s %s", name, what);
	remote_fail_with(remote, err, text);
}

void smd_remote_give_up(struct smd_remote *remote)
{
	char what[SMD_ERROR_TEXT_MAX];

	if (remote->err == -ENODEV) {
		snprintf(what, sizeof(what), "cannot be reached: %.400s", remote->reason);
		remote_fail(remote, -ENODEV, what);
		return;
	}
	snprintf(what, sizeof(what), "could not be reached within %u s: %s%.300s%s",
		remote->owner->config->connect_timeout_s,
		remote->greeted && remote->reason[0]
			? "it took the connection and ended it at HELLO: "
			: "",
		remote->reason[0] ? remote->reason
		: remote->greeted ? "it takes the connection and does not answer HELLO"
				  : "it does not answer",
		remote->greeted && remote->reason[0] ? VERSION_HINT : "");
	remote_fail(remote, remote->err == -ECONNREFUSED ? -ECONNREFUSED : -ETIMEDOUT, what);
}

/* A server may come up a little later than its workers, so a refusal of the connection is not the
 * end. */
static void remote_try_later(struct smd_remote *remote, int err, const char *reason)
{
	const struct timeval delay = {0, RETRY_MS * 1000};

	remote->err = err;
	snprintf(remote->reason, sizeof(remote->reason), "%s", reason);
	remote->transport = 0;
	remote->target->doubted = true;
	if (remote->target->reconnection.under_way) { /* which is tried once, and later again */
		remote_fail_with(remote, err, reason);
	} else if (err != -ENODEV && /* which does not come later */
		   smd_clock_ns() + RETRY_MS * 1000000ull < remote->owner->deadline_ns) {
		evtimer_add(remote->retry, &delay);
	} else {
		smd_remote_give_up(remote);
	}
}

/*
 * The lane cannot be had over the transport that was tried: says why, and goes on to the next one.
 * False: there is none.
 */
static bool remote_try_next(struct smd_remote *remote, int err, const char *reason)
{
	struct smd_config *config = remote->owner->config;
	const char *name = config->transports[remote->transport]->name;
	char server[160];

	if (remote->transport + 1 >= config->ntransports) {
		return false;
	}
	if (err == -ENODEV) { /* nor will the other lanes */
		memmove(config->transports, config->transports + remote->transport + 1,
			(config->ntransports - remote->transport - 1) *
				sizeof(*config->transports));
		config->ntransports -= remote->transport + 1;
		remote->transport = 0;
		smd_log(SMD_LOG_INFO, "libsummand", "lanes go over %s and not over %s: %s",
			config->transports[0]->name, name, reason);
	} else {
		remote->transport++;
		smd_target_name(remote->target, server);
		smd_log(SMD_LOG_INFO, "libsummand", "lane to %s, shard %u: tries %s after %s: %s",
			server, remote->shard, config->transports[remote->transport]->name, name,
			reason);
	}
	event_active(remote->retry, EV_TIMEOUT, 1);
	return true;
}

/* What is known of the address is used where nothing better comes. */
static void target_on_lookup(void *arg, int err, const char *said)
{
	struct smd_target *target = arg;

	target->lookup = NULL;
	if (err == 0) {
		snprintf(target->found, sizeof(target->found), "%s", said);
	}
	target->doubted = false;
	for (unsigned i = 0; i < target->nremotes; i++) {
		struct smd_remote *remote = target->remotes[i];

		if (!remote || !remote->waits) {
			continue;
		}
		remote->waits = false;
		if (strcmp(remote->reason, looking_up) == 0) {
			remote->reason[0] = '\0';
		}
		if (target->found[0]) {
			event_active(remote->retry, EV_TIMEOUT, 1);
		} else if (!remote->owner->failed) {
			remote_try_later(remote, err, said);
		}
	}
}

/* Whether there is an address to connect to; else it is looked up, and then there is. */
static bool remote_has_address(struct smd_remote *remote)
{
	struct smd_target *target = remote->target;
	int ret;

	if (remote->owner->config->transports[remote->transport]->names ||
		(target->found[0] && !target->doubted)) {
		return true;
	}
	if (smd_address_is_literal(target->address)) {
		snprintf(target->found, sizeof(target->found), "%s", target->address);
		target->doubted = false;
		return true;
	}
	if (!remote->reason[0]) {
		snprintf(remote->reason, sizeof(remote->reason), "%s", looking_up);
	}
	if (!target->lookup) {
		ret = smd_lookup_begin(remote->owner->progress, target->address, target_on_lookup,
			target, &target->lookup);
		if (ret) {
			remote_try_later(remote, ret, "cannot start a thread for its lookup");
			return false;
		}
	}
	remote->waits = true;
	return false;
}

void smd_target_end(struct smd_target *target)
{
	if (target->lookup) {
		smd_lookup_abandon(target->lookup);
	}
}

static void remote_connect(evutil_socket_t fd, short what, void *arg)
{
	struct smd_remote *remote = arg;
	const struct smd_config *config = remote->owner->config;
	struct smd_error error = {""};
	int ret;

	(void)fd;
	(void)what;
	if (remote->transport >= config->ntransports) {
		remote->transport = 0; /* another lane found out that there are fewer */
	}
	if (!remote_has_address(remote)) {
		return;
	}
	ret = config->transports[remote->transport]->connect(remote->owner->progress->base,
		config->transports[remote->transport]->names ? remote->target->address
							     : remote->target->found,
		remote->shard, &remote_callbacks, remote, &remote->lane, &error);
	if (ret == 0 && config->encrypt) {
		ret = smd_lane_encrypt(remote->lane, &config->key, &error);
		if (ret) {
			smd_lane_close(remote->lane);
		}
	}
	if (ret) {
		remote->lane = NULL;
		if (!remote_try_next(remote, ret, error.text)) {
			remote_try_later(remote, ret, error.text);
		}
		return;
	}
	smd_turns_begin(&remote->turns, remote->lane);
}

static void remote_drop_lane(struct smd_remote *remote)
{
	smd_lane_counts_add(&remote->ended, &remote->lane->counts);
	smd_lookout_end(&remote->owner->lookout, &remote->watched);
	smd_turns_end(&remote->turns);
	smd_lane_close(remote->lane);
	remote->lane = NULL;
	remote->rx_receiver = NULL;
	remote->rx_result = false;
	remote->drains = false; /* what a server has said ends with its lane */
	remote->owner->ops->on_lane_closed(remote->owner, remote);
}

void smd_remote_abandon(struct smd_remote *remote)
{
	remote->abandoned = true;
	remote->rests = false;
	remote->waits = false;
	evtimer_del(remote->retry);
	if (remote->lane) {
		remote_drop_lane(remote);
	}
}

static void remote_ask(struct smd_remote *remote)
{
	/* Or silence is the end; the answer to the next one is then taken for this one's. */
	remote->stall.asked += smd_heartbeat_send(remote->lane, SMD_FRAME_PING) == 0;
}

/* It answers; does it work? */
static void remote_check_stall(struct smd_remote *remote)
{
	unsigned limit_ms = 2 * SMD_LATE_MOST_S * 1000 + remote->owner->config->heartbeat_ms;
	char limit[SMD_HEARTBEAT_TEXT_MAX];
	bool owed = remote->owner->ops->is_owed(remote->owner, remote);
	char text[128];

	switch (smd_stall_poll(
		&remote->stall, owed, smd_clock_ns(), smd_heartbeat_limit_ns(limit_ms))) {
	case SMD_STALL_ASKED:
	case SMD_STALL_LAST:
		remote_ask(remote);
		break;
	case SMD_STALL_OVER:
		remote_drop_lane(remote);
		snprintf(text, sizeof(text),
			"was lost: it answers, but for %s it has neither worked nor said who is "
			"late",
			smd_heartbeat_text(limit_ms, limit));
		remote_fail(remote, -ECONNRESET, text);
		break;
	case SMD_STALL_NONE:
	case SMD_STALL_COUNTING:
		break;
	}
}

static void remote_look(struct smd_looked_at *watched)
{
	struct smd_remote *remote =
		(struct smd_remote *)((char *)watched - offsetof(struct smd_remote, watched));
	unsigned limit_ms = remote->owner->config->heartbeat_ms;
	char limit[SMD_HEARTBEAT_TEXT_MAX];
	char text[64];

	if (remote->drains) { /* what it asks for may not have been possible before */
		remote->owner->ops->on_drains(remote->owner, remote->target);
	}
	switch (smd_heartbeat_poll(&remote->heartbeat, remote->lane, smd_clock_ns(),
		smd_heartbeat_limit_ns(limit_ms))) {
	case SMD_HEARTBEAT_ALIVE:
		remote_check_stall(remote);
		break;
	case SMD_HEARTBEAT_ASK:
		remote_ask(remote);
		remote_check_stall(remote);
		break;
	case SMD_HEARTBEAT_SILENT:
		remote_drop_lane(remote);
		snprintf(text, sizeof(text), "was lost: it has been silent for %s",
			smd_heartbeat_text(limit_ms, limit));
		remote_fail(remote, -ECONNRESET, text);
		break;
	}
}

static int remote_start_heartbeat(struct smd_remote *remote)
{
	struct smd_remote_owner *owner = remote->owner;

	smd_heartbeat_begin(&remote->heartbeat, remote->lane, smd_clock_ns());
	remote->stall = (struct smd_stall){.looked_ns = smd_clock_ns()};
	return smd_lookout_begin(&owner->lookout, owner->progress->base,
		smd_heartbeat_period_ms(owner->config->heartbeat_ms), &remote->watched);
}

struct smd_remote *smd_remote_create(
	struct smd_remote_owner *owner, struct smd_target *target, uint32_t shard)
{
	const struct timeval now = {0, 0};
	struct smd_remote *remote = calloc(1, sizeof(*remote));

	if (!remote) {
		return NULL;
	}
	remote->owner = owner;
	remote->target = target;
	remote->index = SMD_REMOTE_UNKNOWN;
	remote->shard = shard;
	remote->sink = malloc(SMD_CHUNK_LIMIT);
	remote->retry = evtimer_new(owner->progress->base, remote_connect, remote);
	remote->watched.look = remote_look;
	if (!remote->sink || !remote->retry || evtimer_add(remote->retry, &now) != 0) {
		smd_remote_free(remote);
		return NULL;
	}
	return remote;
}

void smd_remote_free(struct smd_remote *remote)
{
	if (remote->lane) {
		smd_turns_end(&remote->turns);
		smd_lane_close(remote->lane);
	}
	if (remote->retry) {
		event_free(remote->retry);
	}
	smd_lookout_end(&remote->owner->lookout, &remote->watched);
	free(remote->sink);
	free(remote);
}

static void remote_on_open(void *owner)
{
	struct smd_remote *remote = owner;

	remote->err = 0;
	remote->reason[0] = '\0';
	remote->greeted = true;
	if (smd_remote_say_hello(remote)) {
		remote_fail(remote, -ENOMEM, "could not be greeted: out of memory");
	}
}

/* An open lane has ended. It is the server's doing, unless this process has stood still or has
 * passed memory that it does not have. */
static void remote_lost(struct smd_remote *remote, int err, const char *reason)
{
	char server[160];
	char text[SMD_ERROR_TEXT_MAX];
	char what[SMD_ERROR_TEXT_MAX];

	smd_target_name(remote->target, server);
	if (err == -EFAULT) {
		snprintf(what, sizeof(what),
			"this process (%.100s) passed a buffer whose memory it does not have, or "
			"may "
			"not use so: %.100s, on the lane to %s",
			remote->owner->config->replica, reason, server);
		remote_fail_with(remote, err, what);
		return;
	}
	snprintf(text, sizeof(text), "%s was lost: %.300s", server, reason);
	smd_remote_explain(remote, text, what);
	remote_fail_with(remote, err == -EPROTO ? err : -ECONNRESET, what);
}

static void remote_on_closed(void *owner, int err, const char *reason)
{
	struct smd_remote *remote = owner;
	char what[SMD_ERROR_TEXT_MAX];

	remote_drop_lane(remote);
	if (err == -EACCES && !remote->welcomed) { /* it stays so */
		snprintf(what, sizeof(what), "%s: %.400s",
			remote->disbelieved ? "is not believed" : "does not let this process in",
			reason);
		remote_fail(remote, err, what);
		return;
	}
	if (!remote->welcomed && err != -EPROTO) {
		if (!remote->owner->failed && !remote_try_next(remote, err, reason)) {
			remote_try_later(remote, err, reason);
		}
		return;
	}
	remote_lost(remote, err, reason);
}

/* ---- rest ---- */

static int remote_on_idle(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error)
{
	char text[SMD_ERROR_TEXT_MAX];
	char server[160];

	if (!remote->owner->ops->may_rest(remote->owner, remote)) {
		return smd_error_set(error, EPROTO, "IDLE: must not be said while a group uses it");
	}
	smd_text_decode(remote->rx_control, frame->length, text);
	smd_target_name(remote->target, server);
	smd_log(SMD_LOG_INFO, "libsummand",
		"lane to %s, shard %u: ended by the server: %s; it is made again for the next "
		"group",
		server, remote->shard, text);
	remote_drop_lane(remote);
	remote->welcomed = false;
	remote->rests = true;
	remote->owner->ops->on_rests(remote->owner, remote);
	return 0;
}

static void remote_begin_again(struct smd_remote *remote)
{
	const struct timeval now = {0, 0};

	remote->greeted = false;
	remote->transport = 0;
	remote->err = 0;
	remote->reason[0] = '\0';
	if (evtimer_add(remote->retry, &now) != 0) {
		remote_fail(remote, -ENOMEM, "could not be reached again: out of memory");
	}
}

void smd_remote_wake(struct smd_remote *remote)
{
	if (remote->rests) {
		remote->rests = false;
		remote->returns = true;
		remote_begin_again(remote);
	}
}

void smd_remote_try_again(struct smd_remote *remote)
{
	remote->abandoned = false;
	remote->returns = false;
	remote->welcomed = false;
	remote->disbelieved = false;
	remote_begin_again(remote);
}

/* What was dealt by the old one's word does not fit another. */
static bool remote_is_replaced(const struct smd_remote *remote, const struct smd_welcome *welcome)
{
	const struct smd_welcome *before = &remote->welcome;

	return remote->returns &&
	       (welcome->server_id != before->server_id || welcome->shards != before->shards ||
		       welcome->chunk_bytes != before->chunk_bytes ||
		       welcome->weight != before->weight);
}

/* ---- frames ---- */

void smd_remote_send_frame(
	struct smd_remote *remote, struct smd_frame *frame, const void *payload, size_t length)
{
	if (remote->lane && remote->welcomed &&
		smd_lane_send_control(remote->lane, frame, payload, length)) {
		remote_drop_lane(remote); /* nothing waits for its answer */
		remote_fail(remote, -ENOMEM, "could not be told something: out of memory");
	}
}

void smd_remote_send(struct smd_remote *remote, enum smd_frame_kind kind, uint32_t number,
	uint16_t rank, const void *payload, size_t length)
{
	struct smd_frame frame = {.kind = (uint8_t)kind, .comm = number, .rank = rank};

	smd_remote_send_frame(remote, &frame, payload, length);
}

void smd_remote_send_shrunk(
	struct smd_remote *remote, uint32_t number, uint16_t rank, uint64_t ordinal)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_SHRUNK, .comm = number, .rank = rank, .ordinal = ordinal};

	smd_remote_send_frame(remote, &frame, NULL, 0);
}

void smd_remote_cancel(struct smd_remote *remote, struct smd_receiver *receiver)
{
	if (!remote->lane) {
		return;
	}
	smd_lane_cancel(remote->lane, receiver);
	if (remote->rx_receiver == receiver) {
		if (remote->rx_result) {
			smd_lane_redirect(remote->lane, remote->sink);
		}
		remote->rx_receiver = NULL;
		remote->rx_result = false;
	}
	smd_turns_run(&remote->turns); /* what it was to send makes room for others */
}

static struct smd_receiver *remote_find_receiver(
	struct smd_remote *remote, const struct smd_frame *frame)
{
	struct smd_receiver *receiver = remote->owner->ops->find(remote->owner, frame->comm);

	return receiver && receiver->ops->wants(receiver, frame) ? receiver : NULL;
}

/* The payload goes where the receiver says, or into the sink. */
static int remote_on_result_header(struct smd_remote *remote, const struct smd_frame *frame,
	void **payload, struct smd_error *error)
{
	struct smd_receiver *receiver = remote->rx_receiver;
	int ret;

	*payload = remote->sink;
	if (!receiver) {
		return 0;
	}
	ret = receiver->ops->on_result(receiver, remote, frame, payload, error);
	remote->rx_result = ret == 0;
	return ret;
}

static int remote_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_remote *remote = owner;
	int greeting = frame->kind == SMD_FRAME_WELCOME || frame->kind == SMD_FRAME_REFUSE ||
		       frame->kind == SMD_FRAME_CHALLENGE;

	remote->rx_receiver = NULL;
	remote->rx_result = false;
	*payload = remote->rx_control;
	if (remote->lane->direct && frame->kind != SMD_FRAME_RESULT) {
		return smd_error_set(error, EPROTO,
			"%s: must not be written to an advertised buffer",
			smd_frame_kind_name(frame->kind));
	}
	if (greeting == remote->welcomed) {
		return smd_error_set(error, EPROTO, "%s: must %s", smd_frame_kind_name(frame->kind),
			greeting ? "come first and once" : "come after WELCOME");
	}
	if (greeting || frame->kind == SMD_FRAME_PING || frame->kind == SMD_FRAME_PONG ||
		frame->kind == SMD_FRAME_IDLE || frame->kind == SMD_FRAME_DRAINS) {
		return 0;
	}
	if (frame->kind != SMD_FRAME_JOINED && frame->kind != SMD_FRAME_RESULT &&
		frame->kind != SMD_FRAME_ABORT && frame->kind != SMD_FRAME_LATE &&
		frame->kind != SMD_FRAME_LEFT && frame->kind != SMD_FRAME_SHRINK &&
		frame->kind != SMD_FRAME_GONE && frame->kind != SMD_FRAME_AGREE &&
		frame->kind != SMD_FRAME_HELD) {
		return smd_error_set(error, EPROTO, "%s: must not be sent to a worker",
			smd_frame_kind_name(frame->kind));
	}
	remote->stall.busy = true;
	remote->rx_receiver = remote_find_receiver(remote, frame);
	return frame->kind == SMD_FRAME_RESULT
		       ? remote_on_result_header(remote, frame, payload, error)
		       : 0;
}

static void remote_tell_transport(const struct smd_remote *remote)
{
	char server[160];

	smd_target_name(remote->target, server);
	smd_log(SMD_LOG_INFO, "libsummand", "lane to %s, shard %u: goes over %s", server,
		remote->shard, remote->owner->config->transports[remote->transport]->name);
}

static int remote_on_welcome(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_welcome welcome;
	int ret = smd_welcome_decode(remote->rx_control, frame->length, &welcome, error);

	if (ret) {
		return ret;
	}
	if (welcome.shard != remote->shard) {
		return smd_error_set(error, EPROTO, "WELCOME: shard must be %u, got %u",
			remote->shard, welcome.shard);
	}
	ret = smd_remote_check_welcome(remote, &welcome, error);
	if (ret) {
		remote->disbelieved = ret == -EACCES;
		return ret;
	}
	if (remote_is_replaced(remote, &welcome)) {
		remote_drop_lane(remote);
		remote_fail(remote, -ECONNRESET,
			"was replaced by another while no group used it: a new context can use "
			"that one");
		return 0;
	}
	if (remote_start_heartbeat(remote)) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	smd_turns_pace(&remote->turns, welcome.weight);
	remote->welcome = welcome;
	remote->welcomed = true;
	remote_tell_transport(remote);
	remote->owner->ops->on_welcomed(remote->owner, remote);
	return 0;
}

static void remote_on_refuse(struct smd_remote *remote, const struct smd_frame *frame)
{
	char text[SMD_ERROR_TEXT_MAX];
	char what[SMD_ERROR_TEXT_MAX];

	smd_text_decode(remote->rx_control, frame->length, text);
	snprintf(what, sizeof(what), "refuses this process: %.400s", text);
	remote_fail(remote, -EACCES, what);
}

static int remote_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_remote *remote = owner;
	struct smd_receiver *receiver = remote->rx_receiver;
	bool discarded = frame->kind == SMD_FRAME_RESULT && !remote->rx_result;

	(void)payload;
	remote->rx_result = false;
	switch (frame->kind) {
	case SMD_FRAME_CHALLENGE:
		return smd_remote_on_challenge(remote, frame, error);
	case SMD_FRAME_WELCOME:
		return remote_on_welcome(remote, frame, error);
	case SMD_FRAME_REFUSE:
		remote_on_refuse(remote, frame);
		return 0;
	case SMD_FRAME_PING:
		(void)smd_heartbeat_send(remote->lane, SMD_FRAME_PONG); /* or it asks again */
		return 0;
	case SMD_FRAME_PONG:
		remote->stall.answered++;
		return 0;
	case SMD_FRAME_IDLE:
		return remote_on_idle(remote, frame, error);
	case SMD_FRAME_DRAINS:
		remote->drains = true;
		remote->owner->ops->on_drains(remote->owner, remote->target);
		return 0;
	default:
		break;
	}
	remote->stall.busy = false;
	remote->stall.frames++;
	if (!receiver) {
		return 0; /* said before the shard knew that we had left */
	}
	remote->owner->progress->arrivals += frame->kind == SMD_FRAME_RESULT;
	return discarded ? 0
			 : receiver->ops->on_frame(
				   receiver, remote, frame, remote->rx_control, error);
}

static const struct smd_lane_callbacks remote_callbacks = {
	.on_open = remote_on_open,
	.on_header = remote_on_header,
	.on_frame = remote_on_frame,
	.on_closed = remote_on_closed,
};
