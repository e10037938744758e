/* Takes what a shard says. */
#include "worker/libsummand/remote_frame.h"

#include <errno.h>
#include <stdio.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/remote_greeting.h"
#include "worker/libsummand/remote_loss.h"
#include "worker/libsummand/remote_pair.h"
#include "worker/libsummand/remote_pulse.h"
#include "worker/libsummand/remote_transport.h"

/* ---- headers ---- */

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

int smd_remote_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_remote *remote = owner;
	int greeting = frame->kind == SMD_FRAME_WELCOME || frame->kind == SMD_FRAME_REFUSE ||
		       frame->kind == SMD_FRAME_CHALLENGE || frame->kind == SMD_FRAME_PAIR;

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
		frame->kind == SMD_FRAME_IDLE || frame->kind == SMD_FRAME_DRAINS ||
		frame->kind == SMD_FRAME_OTHERS || frame->kind == SMD_FRAME_LOST) {
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

/* ---- whole frames ---- */

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
	smd_remote_drop_lane(remote);
	remote->welcomed = false;
	remote->rests = true;
	remote->owner->ops->on_rests(remote->owner, remote);
	return 0;
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

static void remote_tell_transport(const struct smd_remote *remote)
{
	char server[160];

	smd_target_name(remote->target, server);
	smd_log(SMD_LOG_INFO, "libsummand", "lane to %s, shard %u: goes over %s%s%s", server,
		remote->shard, remote->owner->config->transports[remote->transport]->name,
		*remote->rail ? " to " : "", remote->rail);
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
	ret = smd_remote_settle_for_carrier(remote, error);
	if (ret) {
		return ret;
	}
	if (remote_is_replaced(remote, &welcome)) {
		smd_remote_drop_lane(remote);
		smd_remote_fail(remote, -ECONNRESET,
			"was replaced by another while no group used it: a new context can use "
			"that one");
		return 0;
	}
	if (smd_remote_watch(remote) ||
		(remote->owner->config->zeros_skipped &&
			smd_lane_skip_zeros(remote->lane, welcome.chunk_bytes, true))) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	smd_turns_pace(&remote->turns, welcome.weight);
	welcome.spare = frame->window & SMD_WELCOME_SPARE;
	welcome.guessed = frame->window & SMD_WELCOME_GUESSED;
	remote->welcome = welcome;
	remote->welcomed = true;
	remote->others_run = frame->window & SMD_WELCOME_OTHERS;
	remote->repeated = false;
	smd_remote_transport_works(remote);
	smd_remote_pair_end(remote);
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
	smd_remote_fail(remote, -EACCES, what);
}

int smd_remote_on_frame(
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
	case SMD_FRAME_PAIR:
		return smd_remote_on_pair(remote, frame, error);
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
	case SMD_FRAME_OTHERS:
		remote->others_run = true;
		remote->owner->ops->on_others(remote->owner, remote);
		return 0;
	case SMD_FRAME_LOST:
		remote->owner->ops->on_told_lost(remote->owner, remote, frame);
		return 0;
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
