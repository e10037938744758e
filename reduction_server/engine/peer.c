/* Takes what a worker says on its lane and answers it. */
#include "reduction_server/engine/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log_limit.h"
#include "reduction_server/engine/join.h"
#include "reduction_server/engine/losses.h"
#include "reduction_server/engine/part.h"
#include "reduction_server/engine/piece.h"
#include "reduction_server/engine/receive_buffer.h"
#include "reduction_server/engine/shard.h"
#include "reduction_server/engine/window.h"

#define MEMBERS_FIRST 16
#define TCP_LEAST_MS  5000u /* for some tries of TCP */

static void peer_send(
	struct smd_member *member, struct smd_frame *frame, const void *payload, size_t length)
{
	unsigned kind = frame->kind;
	int ret = smd_lane_send_control(member->peer->lane, frame, payload, length);

	if (ret) { /* -ENOBUFS is the doing of a worker that asks and does not listen: not worth a
		      line */
		smd_log_peer(ret == -ENOBUFS ? SMD_LOG_DEBUG : SMD_LOG_ERROR,
			member->peer->shard->name, member->peer->hello.job, "%s to %s: %s",
			smd_frame_kind_name(kind), member->peer->hello.replica, strerror(-ret));
		member->peer->unanswered |= kind != SMD_FRAME_LATE;
	}
}

void smd_peer_send(struct smd_member *member, enum smd_frame_kind kind, unsigned window,
	const void *payload, size_t length)
{
	struct smd_frame frame = {
		.kind = (uint8_t)kind,
		.comm = member->number,
		.rank = member->rank,
		.window = (uint16_t)window,
	};

	peer_send(member, &frame, payload, length);
}

void smd_peer_send_joined(struct smd_member *member, unsigned window, uint64_t attempts)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_JOINED,
		.comm = member->number,
		.rank = member->rank,
		.window = (uint16_t)window,
		.operation = attempts,
	};

	peer_send(member, &frame, NULL, 0);
}

void smd_peer_send_held(struct smd_member *member, uint64_t ordinal, unsigned what)
{
	struct smd_frame frame = {
		.kind = SMD_FRAME_HELD,
		.comm = member->number,
		.rank = member->rank,
		.window = (uint16_t)what,
		.ordinal = ordinal,
	};

	peer_send(member, &frame, NULL, 0);
}

static void peer_refuse_join(struct smd_member *member, const struct smd_join *join, int ret,
	const struct smd_error *reason)
{
	struct smd_abort abort = {.err = (uint32_t)-ret};
	uint8_t payload[SMD_CONTROL_MAX];

	smd_log_peer(join->optional ? SMD_LOG_DEBUG : SMD_LOG_WARN, member->peer->shard->name,
		member->peer->hello.job, "%s", reason->text);
	memcpy(abort.text, reason->text, sizeof(abort.text));
	smd_peer_send(member, SMD_FRAME_ABORT, 0, payload, smd_abort_encode(&abort, payload));
}

/* ---- the table of members ---- */

static struct smd_member *peer_find(const struct smd_peer *peer, uint32_t number)
{
	uint32_t index = SMD_COMM_INDEX(number);
	struct smd_member *member = index < peer->nmembers ? peer->members[index] : NULL;

	return member && member->number == number ? member : NULL;
}

bool smd_peer_may_form(const struct smd_member *member, bool later_epoch)
{
	const struct smd_peer *peer = member->peer;
	unsigned most = SMD_FORMING_LANE_MAX;
	unsigned forming = 0;

	for (uint32_t i = 0; i < peer->nmembers; i++) {
		const struct smd_member *one = peer->members[i];
		const struct smd_server_comm *comm = one ? one->comm : NULL;

		if (comm && comm->state == SMD_SERVER_COMM_FORMING) {
			forming += (comm->id != 0) == later_epoch;
		} else if (comm) { /* of a server that has come back the lane has later ones only */
			most += later_epoch;
		}
	}
	return forming < most;
}

/* NULL with a text when the number cannot be given to a new member. */
static struct smd_member *peer_add(
	struct smd_peer *peer, const struct smd_frame *frame, struct smd_error *error)
{
	uint32_t index = SMD_COMM_INDEX(frame->comm);
	struct smd_member *member;

	if (index >= peer->nmembers) {
		uint32_t size = peer->nmembers ? peer->nmembers : MEMBERS_FIRST;
		struct smd_member **grown;

		while (size <= index) {
			size *= 2;
		}
		grown = realloc(peer->members, size * sizeof(*grown));
		if (!grown) {
			smd_error_set(error, ENOMEM, "JOIN: out of memory");
			return NULL;
		}
		memset(grown + peer->nmembers, 0, (size - peer->nmembers) * sizeof(*grown));
		peer->members = grown;
		peer->nmembers = size;
	}
	if (peer->members[index]) {
		smd_error_set(error, EPROTO, "JOIN: number must be free, got %u, which is in use",
			frame->comm);
		return NULL;
	}
	member = calloc(1, sizeof(*member));
	if (!member) {
		smd_error_set(error, ENOMEM, "JOIN: out of memory");
		return NULL;
	}
	member->peer = peer;
	member->lane = peer->lane;
	member->turns = &peer->turns;
	member->turn.take = smd_slot_take_turn;
	member->resources = &peer->shard->resources;
	member->number = frame->comm;
	member->rank = frame->rank;
	peer->members[index] = member;
	return member;
}

static void peer_remove(struct smd_peer *peer, struct smd_member *member)
{
	peer->members[SMD_COMM_INDEX(member->number)] = NULL;
	smd_member_free_buffers(member, false);
	free(member);
}

/* ---- frames ---- */

static int peer_on_input_header(struct smd_peer *peer, const struct smd_frame *frame,
	void **payload, struct smd_error *error)
{
	struct smd_member *member = peer->rx_member;
	const struct smd_lane *lane = peer->lane;
	int ret;

	*payload = peer->shard->sink;
	peer->shard->small_frames += frame->count <= SMD_SMALL_ELEMENTS;
	if (!member->comm) {
		return 0; /* sent before the worker knew that the communicator is over */
	}
	ret = smd_member_check_buffer(member, frame->ordinal, lane->direct, error);
	if (ret == 0) {
		ret = smd_part_place(member, frame, &peer->rx_slot, error);
	}
	if (ret == 0 && peer->rx_slot) {
		*payload = smd_slot_receive(peer->rx_slot, frame,
			smd_member_claim_buffer(
				member, frame->ordinal, lane->direct ? frame->length : 0));
		peer->rx_slot->remote_buffers[frame->rank] =
			lane->nremote_buffers ? lane->remote_buffers[0]
					      : (struct smd_remote_buffer){.length = 0};
	}
	return ret;
}

static int peer_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error)
{
	struct smd_peer *peer = owner;

	peer->rx_slot = NULL;
	peer->rx_member = NULL;
	*payload = peer->rx_control;
	if (peer->lane->direct && frame->kind != SMD_FRAME_INPUT) {
		return smd_error_set(error, EPROTO, "%s: must not be written to a buffer",
			smd_frame_kind_name(frame->kind));
	}
	if (frame->kind == SMD_FRAME_JOIN || frame->kind == SMD_FRAME_PING ||
		frame->kind == SMD_FRAME_PONG) {
		return 0;
	}
	if (frame->kind != SMD_FRAME_INPUT && frame->kind != SMD_FRAME_LEAVE &&
		frame->kind != SMD_FRAME_SHRUNK && frame->kind != SMD_FRAME_AGREE &&
		frame->kind != SMD_FRAME_HELD && frame->kind != SMD_FRAME_LOST) {
		return smd_error_set(error, EPROTO, "%s: must not be sent to a shard",
			smd_frame_kind_name(frame->kind));
	}
	peer->rx_member = peer_find(peer, frame->comm);
	if (!peer->rx_member) {
		return smd_error_set(error, EPROTO,
			"%s: communicator must have been joined, got number %u",
			smd_frame_kind_name(frame->kind), frame->comm);
	}
	if (frame->rank != peer->rx_member->rank) {
		return smd_error_set(error, EPROTO, "%s: rank must be %u as in JOIN, got %u",
			smd_frame_kind_name(frame->kind), peer->rx_member->rank, frame->rank);
	}
	if (frame->kind == SMD_FRAME_INPUT) {
		return peer_on_input_header(peer, frame, payload, error);
	}
	if (frame->kind == SMD_FRAME_HELD &&
		(frame->ordinal > peer->rx_member->next || frame->window > SMD_HELD_ANSWERS)) {
		return smd_error_set(error, EPROTO, "HELD: ordinal must be at most %llu, got %llu",
			(unsigned long long)peer->rx_member->next,
			(unsigned long long)frame->ordinal);
	}
	if (frame->kind == SMD_FRAME_LOST && (!frame->operation || frame->ordinal > UINT32_MAX)) {
		return smd_error_set(error, EPROTO,
			"LOST: must name servers, and an epoch of 32 bits, got %llx and %llu",
			(unsigned long long)frame->operation, (unsigned long long)frame->ordinal);
	}
	return 0;
}

/* Those that still connect were not told so by WELCOME. Who does not hear it waits for as long as
 * it may. */
static void peers_tell_others(struct smd_shard *shard, const char *job)
{
	struct smd_peer *peer;

	TAILQ_FOREACH (peer, &shard->peers, link) {
		struct smd_frame frame = {.kind = SMD_FRAME_OTHERS};

		if (!peer->knows_others && peer->in_groups == 0 &&
			strcmp(peer->hello.job, job) == 0) {
			peer->knows_others = true;
			(void)smd_lane_send_control(peer->lane, &frame, NULL, 0);
		}
	}
}

static int peer_on_join(
	struct smd_peer *peer, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_error reason = {""};
	struct smd_member *member;
	struct smd_join join;
	bool alone; /* no rank that has reached all servers was there before */
	int ret = smd_join_decode(peer->rx_control, frame->length, &join, error);

	if (ret) {
		return ret;
	}
	join.optional = frame->window != 0;
	member = peer_add(peer, frame, error);
	if (!member) {
		return -EPROTO;
	}
	alone = !smd_comms_reach_all(&peer->shard->comms, peer->hello.job);
	ret = smd_server_comm_join(&peer->shard->comms, member, peer->hello.job, &join, &reason);
	if (ret) {
		peer_refuse_join(member, &join, ret, &reason);
	} else if (alone && *peer->hello.job &&
		   smd_comms_reach_all(&peer->shard->comms, peer->hello.job)) {
		peers_tell_others(peer->shard, peer->hello.job);
	}
	return 0;
}

static int peer_on_leave(
	struct smd_peer *peer, const struct smd_frame *frame, struct smd_error *error)
{
	struct smd_abort why;

	if (frame->length && smd_abort_decode(peer->rx_control, frame->length, &why, NULL)) {
		return smd_error_set(error, EPROTO,
			"LEAVE: payload must be none or an errno and a text, got %u bytes",
			frame->length);
	}
	smd_server_comm_leave(peer->rx_member, frame->length ? &why : NULL, frame->window != 0);
	if (smd_lane_can_advertise(peer->lane)) { /* its buffers are not written to any more */
		smd_peer_send(peer->rx_member, SMD_FRAME_LEFT, 0, NULL, 0);
	}
	peer_remove(peer, peer->rx_member);
	smd_shard_check_drained(peer->shard);
	return 0;
}

static int peer_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error)
{
	struct smd_peer *peer = owner;
	struct smd_slot *slot = peer->rx_slot;

	(void)payload;
	switch (frame->kind) {
	case SMD_FRAME_JOIN:
		return peer_on_join(peer, frame, error);
	case SMD_FRAME_LEAVE:
		return peer_on_leave(peer, frame, error);
	case SMD_FRAME_PING:
		(void)smd_heartbeat_send(peer->lane, SMD_FRAME_PONG); /* or it asks again */
		return 0;
	case SMD_FRAME_SHRUNK:
		return smd_window_shrunk(peer->rx_member, frame->ordinal, error);
	case SMD_FRAME_AGREE:
		smd_server_comm_relay(peer->rx_member, frame, peer->rx_control);
		return 0;
	case SMD_FRAME_HELD:
		if (peer->rx_member->comm) {
			smd_server_comm_held(peer->rx_member, frame->ordinal, frame->window);
		}
		return 0;
	case SMD_FRAME_LOST:
		smd_losses_tell(peer->rx_member, frame);
		return 0;
	case SMD_FRAME_PONG: /* that something has come is all it says */
		return 0;
	default: /* INPUT: on_header lets nothing else pass */
		if (slot) {
			peer->rx_slot = NULL;
			smd_slot_received(slot, frame->rank, 1);
		}
		return 0;
	}
}

static void peer_on_part(void *owner, const struct smd_frame *frame, uint32_t bytes)
{
	struct smd_peer *peer = owner;

	if (peer->rx_slot) {
		smd_piece_grow(peer->rx_slot, frame->rank, bytes);
	}
}

static void peer_on_closed(void *owner, int err, const char *reason)
{
	struct smd_peer *peer = owner;

	smd_log_peer(err == -EPROTO ? SMD_LOG_WARN : SMD_LOG_DEBUG, peer->shard->name,
		peer->hello.job, "lane of %s (%s) ended: %s", peer->hello.replica,
		smd_lane_peer_name(peer->lane), reason);
	if (err == -EPROTO) { /* it is we who have ended it */
		smd_peer_dismiss(peer, reason);
	} else {
		smd_peer_close(peer, reason);
	}
}

/* ---- the peer ---- */

static const struct smd_lane_callbacks peer_callbacks = {
	.on_header = peer_on_header,
	.on_part = peer_on_part,
	.on_frame = peer_on_frame,
	.on_closed = peer_on_closed,
};

/* Where there are tokens, with the proof that this server has the worker's. */
static int peer_welcome(struct smd_peer *peer, const struct smd_handshake *handshake)
{
	const struct smd_tokens *tokens = peer->shard->config.tokens;
	struct smd_welcome welcome = peer->shard->config.welcome;
	struct smd_frame frame = {.kind = SMD_FRAME_WELCOME};
	uint8_t payload[SMD_CONTROL_MAX];

	peer->knows_others = smd_comms_reach_all(&peer->shard->comms, handshake->hello.job);
	frame.window = (peer->knows_others ? SMD_WELCOME_OTHERS : 0) |
		       (welcome.spare ? SMD_WELCOME_SPARE : 0) |
		       (welcome.guessed ? SMD_WELCOME_GUESSED : 0);

	welcome.proved = tokens != NULL;
	if (tokens && smd_handshake_prove_server(handshake, &welcome,
			      smd_tokens_find(tokens, handshake->hello.job), &welcome.proof)) {
		return -ENOMEM;
	}
	return smd_lane_send_control(
		peer->lane, &frame, payload, smd_welcome_encode(&welcome, payload));
}

/* Its groups can go on without this server. Who does not hear it is told when the time is over. */
static void peer_tell_drains(struct smd_peer *peer)
{
	struct smd_frame frame = {.kind = SMD_FRAME_DRAINS};

	(void)smd_lane_send_control(peer->lane, &frame, NULL, 0);
}

int smd_peer_create(
	struct smd_shard *shard, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	struct smd_peer *peer = calloc(1, sizeof(*peer));
	int ret = 0;

	if (!peer) {
		return -ENOMEM;
	}
	peer->shard = shard;
	peer->lane = lane;
	peer->hello = handshake->hello;
	if (peer->hello.flags & SMD_HELLO_ZEROS) {
		ret = smd_lane_skip_zeros(lane, shard->config.welcome.chunk_bytes, false);
	}
	ret = ret ? ret : smd_lane_attach(lane, shard->base, &peer_callbacks, peer);
	if (ret) {
		free(peer);
		return ret;
	}
	smd_turns_begin(&peer->turns, lane);
	smd_turns_pace(&peer->turns, shard->config.welcome.weight);
	if (peer->hello.flags &
		SMD_HELLO_CALLED) { /* it may compute for long, and take no result */
		unsigned limit_ms = shard->config.heartbeat_ms;

		smd_lane_keepalive_only(lane, limit_ms > TCP_LEAST_MS ? limit_ms : TCP_LEAST_MS);
	}
	smd_lane_register(lane,
		(struct smd_extent){shard->resources.pool.pages.memory,
			smd_buffer_pool_bytes(&shard->resources.pool)},
		shard->config.welcome.chunk_bytes,
		shard->resources.pool.pages.kind == SMD_PAGES_RESERVED);
	peer->idle_since_ns = smd_clock_ns();
	smd_heartbeat_begin(&peer->heartbeat, lane, smd_clock_ns());
	TAILQ_INSERT_TAIL(&shard->peers, peer, link);
	shard->npeers++;
	shard->stats.lanes++;
	if (peer_welcome(peer, handshake)) {
		smd_peer_close(peer, "the reduction server is out of memory");
		return 0;
	}
	if (shard->comms.draining) {
		peer_tell_drains(peer);
	}
	smd_losses_tell_new(peer);
	return 0;
}

void smd_peers_tell_drains(struct smd_shard *shard)
{
	struct smd_peer *peer;

	TAILQ_FOREACH (peer, &shard->peers, link) {
		peer_tell_drains(peer);
	}
}

/* The worker hears it, and connects again for its next group. */
static void peer_end_idle(struct smd_peer *peer)
{
	struct smd_frame frame = {.kind = SMD_FRAME_IDLE};
	uint8_t payload[SMD_CONTROL_MAX];
	char reason[64];

	snprintf(reason, sizeof(reason), "it has been in no group for %llu s",
		(unsigned long long)((smd_clock_ns() - peer->idle_since_ns) / SMD_SECOND_NS));
	smd_log_peer(SMD_LOG_INFO, peer->shard->name, peer->hello.job, "lane of %s (%s) ended: %s",
		peer->hello.replica, smd_lane_peer_name(peer->lane), reason);
	(void)smd_lane_send_control(peer->lane, &frame, payload, smd_text_encode(reason, payload));
	peer->lane->parts = true;
	smd_peer_close(peer, reason);
}

void smd_peers_make_room(struct smd_shard *shard)
{
	uint64_t grace_ns = SMD_PEER_IDLE_GRACE_S * SMD_SECOND_NS;
	struct smd_peer *eldest = NULL;
	struct smd_peer *peer;
	unsigned idle = 0;

	if (shard->npeers < shard->config.idle_lanes) {
		return;
	}
	TAILQ_FOREACH (peer, &shard->peers, link) {
		if (peer->in_groups == 0) {
			idle++;
			eldest = eldest && eldest->idle_since_ns <= peer->idle_since_ns ? eldest
											: peer;
		}
	}
	if (idle >= shard->config.idle_lanes && smd_clock_ns() - eldest->idle_since_ns > grace_ns) {
		peer_end_idle(eldest);
	}
}

void smd_peer_check_alive(struct smd_peer *peer, uint64_t now_ns)
{
	unsigned limit_ms = peer->shard->config.heartbeat_ms;
	char limit[SMD_HEARTBEAT_TEXT_MAX];
	char reason[64];

	if (peer->in_groups == 0 && now_ns > peer->idle_since_ns &&
		now_ns - peer->idle_since_ns > peer->shard->config.idle_s * SMD_SECOND_NS) {
		peer_end_idle(peer);
		return;
	}
	if (peer->unanswered) {
		smd_peer_dismiss(peer, "the reduction server had no memory for an answer");
		return;
	}
	if (peer->hello.flags & SMD_HELLO_CALLED) {
		return; /* its silence means nothing; a machine that is gone is found by the lane */
	}
	switch (smd_heartbeat_poll(
		&peer->heartbeat, peer->lane, now_ns, smd_heartbeat_limit_ns(limit_ms))) {
	case SMD_HEARTBEAT_ALIVE:
		break;
	case SMD_HEARTBEAT_ASK:
		(void)smd_heartbeat_send(peer->lane, SMD_FRAME_PING); /* or silence is the end */
		break;
	case SMD_HEARTBEAT_SILENT:
		snprintf(reason, sizeof(reason), "it has been silent for %s",
			smd_heartbeat_text(limit_ms, limit));
		smd_log_peer(SMD_LOG_WARN, peer->shard->name, peer->hello.job,
			"lane of %s (%s) ended: %s", peer->hello.replica,
			smd_lane_peer_name(peer->lane), reason);
		smd_peer_dismiss(peer, reason);
		break;
	}
}

void smd_peer_dismiss(struct smd_peer *peer, const char *reason)
{
	peer->told = true;
	peer->lane->parts = true;
	smd_peer_close(peer, reason);
}

/* What the worker could write to is the pool's again. */
static void peer_free(void *owner)
{
	struct smd_peer *peer = owner;

	peer->shard->resources.parting--;
	for (uint32_t i = 0; i < peer->nmembers; i++) {
		if (peer->members[i]) {
			smd_member_free_buffers(peer->members[i], true);
			free(peer->members[i]);
		}
	}
	free(peer->members);
	free(peer);
}

void smd_peer_close(struct smd_peer *peer, const char *reason)
{
	struct smd_shard *shard = peer->shard;

	TAILQ_REMOVE(&shard->peers, peer, link);
	shard->npeers--;
	smd_lane_counts_add(&shard->stats.moved, &peer->lane->counts);
	for (uint32_t i = 0; i < peer->nmembers; i++) {
		if (peer->members[i]) {
			smd_server_comm_lost(peer->members[i], reason, peer->told);
		}
	}
	if (peer->rx_slot) {
		smd_slot_received(peer->rx_slot, peer->rx_member->rank, 0);
	}
	smd_turns_end(&peer->turns);
	shard->resources.parting++;
	/* It gives back the results that were on their way. */
	smd_lane_close_later(peer->lane, peer_free, peer);
	smd_shard_check_drained(shard);
}
