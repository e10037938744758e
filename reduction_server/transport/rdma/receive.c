/* Takes completions: messages that have come, writes that have gone, queue pairs that have failed.
 */
#include "reduction_server/transport/rdma/rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#define BYTES_UNTOLD UINT32_MAX

/* ---- messages ---- */

/* Where the next message is. */
static const uint8_t *lane_receive_buffer(const struct rdma_lane *lane)
{
	return lane->memory + lane->rx_next % lane->receive_buffers * (size_t)SMD_RDMA_BUFFER_SIZE;
}

/* The other end has emptied the receive buffers of our messages before that one; mod 2^32. */
static int lane_check_taken(struct rdma_lane *lane, uint32_t taken, struct smd_error *error)
{
	if (taken - lane->tx_taken > lane->tx_next - lane->tx_taken) {
		return smd_error_set(error, EPROTO,
			"message: at most %u can have been taken, got %u", lane->tx_next, taken);
	}
	lane->tx_taken = taken;
	return 0;
}

static int lane_on_taken(struct rdma_lane *lane, uint32_t taken, struct smd_error *error)
{
	int ret = lane_check_taken(lane, taken, error);

	if (ret) {
		return ret;
	}
	if (!TAILQ_EMPTY(&lane->tx)) {
		smd_rdma_device_wake(lane->device, &lane->pair);
	}
	smd_rdma_settle(lane);
	return 0;
}

static int lane_begin_frame(struct rdma_lane *lane, const struct smd_rdma_prefix *prefix,
	const uint8_t **at, struct smd_error *error)
{
	void *payload = lane->memory; /* any address will do for an empty payload */
	int ret;

	if (lane->rx_payload) {
		return smd_error_set(
			error, EPROTO, "message: must go on with a frame, got another");
	}
	ret = smd_frame_decode(*at, &lane->rx_frame, error);
	if (ret) {
		return ret;
	}
	*at += SMD_FRAME_SIZE;
	for (unsigned i = 0; i < prefix->remote_buffers; i++, *at += SMD_RDMA_REMOTE_BUFFER_SIZE) {
		smd_rdma_remote_buffer_decode(*at, &lane->rx_remotes[i]);
	}
	lane->lane.remote_buffers = lane->rx_remotes;
	lane->lane.nremote_buffers = prefix->remote_buffers;
	lane->lane.direct = prefix->direct;
	ret = lane->callbacks->on_header(lane->owner, &lane->rx_frame, &payload, error);
	if (ret == 0 && !lane->closed) {
		lane->rx_payload = payload;
		lane->rx_payload_got = prefix->direct ? lane->rx_frame.length : 0;
		smd_lane_received(&lane->lane, lane->rx_payload_got);
	}
	return ret;
}

/* The frame is whole. */
static int lane_end_frame(struct rdma_lane *lane, struct smd_error *error)
{
	void *payload = lane->rx_payload;
	int ret;

	lane->rx_payload = NULL;
	ret = lane->callbacks->on_frame(lane->owner, &lane->rx_frame, payload, error);
	return ret == SMD_LANE_DETACHED ? 0 : ret;
}

/* The completion tells how much of the receive buffer was written, unless it tells of a key that
 * was given back; of a payload that was written to an advertised buffer before, it tells nothing.
 */
static int check_length(
	const struct smd_rdma_prefix *prefix, uint32_t bytes, struct smd_error *error)
{
	if (bytes != BYTES_UNTOLD && bytes != prefix->length) {
		return smd_error_set(error, EPROTO,
			"message: %u bytes must have been written, got %u", prefix->length, bytes);
	}
	return 0;
}

/* So long a message has come that all others will. Who was asked knows by it that it is accepted,
 * though the call for that may still be under way. */
static void lane_on_trial(struct rdma_lane *lane)
{
	if (lane->patience) {
		event_del(lane->patience);
	}
	lane->lane.opening = false;
	if (lane->answers) {
		smd_rdma_post_trial(lane);
	}
	smd_rdma_lane_open(lane);
	if (!smd_rdma_was_asked(lane)) {
		lane->callbacks->on_open(lane->owner);
	}
}

static int check_trial(
	const struct rdma_lane *lane, const struct smd_rdma_prefix *prefix, struct smd_error *error)
{
	if (lane->state < RDMA_LANE_TRYING) {
		return smd_error_set(
			error, EPROTO, "message: must not come before the queue pair is joined");
	}
	if (prefix->trial != (lane->state == RDMA_LANE_TRYING)) {
		return smd_error_set(error, EPROTO, "message: a trial must come %s",
			prefix->trial ? "once" : "first");
	}
	return 0;
}

/*
 * Takes the message in the next receive buffer. The receive buffer is read once, since the other
 * end can still write to it.
 */
static int lane_take_message(struct rdma_lane *lane, uint32_t bytes, struct smd_error *error)
{
	const uint8_t *receive_buffer = lane_receive_buffer(lane);
	const uint8_t *at = receive_buffer + SMD_RDMA_PREFIX_SIZE;
	struct smd_rdma_prefix prefix;
	uint32_t left;
	int ret = smd_rdma_prefix_decode(receive_buffer, &prefix, error);

	if (ret == 0) {
		ret = check_length(&prefix, bytes, error);
	}
	if (ret == 0) {
		ret = check_trial(lane, &prefix, error);
	}
	if (ret == 0) {
		smd_lane_received(&lane->lane, prefix.length);
		ret = lane_on_taken(lane, prefix.taken, error);
	}
	if (ret || lane->closed) {
		return ret;
	}
	if (prefix.trial) {
		lane->rx_next++;
		lane->rx_taking = false;
		lane_on_trial(lane);
		return 0;
	}
	if (prefix.begins) {
		ret = lane_begin_frame(lane, &prefix, &at, error);
	} else if (!lane->rx_payload) {
		ret = smd_error_set(error, EPROTO, "message: must begin a frame");
	}
	if (ret || lane->closed) {
		return ret;
	}
	left = (uint32_t)(receive_buffer + prefix.length - at);
	if (left > lane->rx_frame.length - lane->rx_payload_got) {
		ret = smd_error_set(error, EPROTO, "message: at most %u bytes are missing, got %u",
			lane->rx_frame.length - lane->rx_payload_got, left);
	}
	if (ret) {
		return ret;
	}
	if (left) {
		memcpy(lane->rx_payload + lane->rx_payload_got, at, left);
		lane->rx_payload_got += left;
	}
	lane->rx_next++;
	lane->rx_taking = false;
	return lane->rx_payload_got == lane->rx_frame.length ? lane_end_frame(lane, error) : 0;
}

/* The same count mod 2^32, of a write that says only that. */
static uint32_t lane_told_taken(const struct rdma_lane *lane, uint32_t immediate)
{
	return lane->tx_taken + ((immediate - lane->tx_taken) & SMD_RDMA_COUNT_MASK);
}

/* A message whose number is `number` mod 2^31, and which is so long as far as is known. */
static int lane_on_message(
	struct rdma_lane *lane, uint32_t number, uint32_t bytes, struct smd_error *error)
{
	int ret;

	if (number != (lane->rx_next & SMD_RDMA_COUNT_MASK)) {
		return smd_error_set(error, EPROTO, "message: number must be %u, got %u",
			lane->rx_next & SMD_RDMA_COUNT_MASK, number);
	}
	lane->rx_taking = true;
	ret = lane_take_message(lane, bytes, error);
	lane->rx_taking = false;
	return ret;
}

static int lane_on_write(
	struct rdma_lane *lane, const struct ibv_wc *completion, struct smd_error *error)
{
	uint32_t immediate = ntohl(completion->imm_data);

	if (immediate & SMD_RDMA_TAKEN_ONLY) {
		return lane_on_taken(lane, lane_told_taken(lane, immediate), error);
	}
	return lane_on_message(lane, immediate & SMD_RDMA_COUNT_MASK, completion->byte_len, error);
}

/* The key of a window has come back, and the message was written before that. */
static int lane_on_returned(
	struct rdma_lane *lane, const struct ibv_wc *completion, struct smd_error *error)
{
	int ret;

	if (!(completion->wc_flags & IBV_WC_WITH_INV)) {
		return smd_error_set(error, EPROTO,
			"the other end must only write, got completion %d", IBV_WC_RECV);
	}
	ret = smd_rdma_window_returned(lane, completion->invalidated_rkey, error);
	return ret ? ret
		   : lane_on_message(
			     lane, lane->rx_next & SMD_RDMA_COUNT_MASK, BYTES_UNTOLD, error);
}

static void lane_on_receive(struct rdma_lane *lane, const struct ibv_wc *completion)
{
	struct smd_error error = {""};
	int ret;

	lane->rx_owed++;
	if (lane->ended || lane->err || !lane->callbacks) {
		return;
	}
	ret = completion->opcode == IBV_WC_RECV ? lane_on_returned(lane, completion, &error)
						: lane_on_write(lane, completion, &error);
	if (lane->closed) {
		return;
	}
	if (ret) {
		smd_rdma_lane_end(lane, ret, error.text);
	} else if (smd_rdma_owes_taken(lane) || lane->rx_owed >= RDMA_RECEIVES / 2) {
		smd_rdma_device_wake(lane->device, &lane->pair);
	}
}

/* ---- completions ---- */

void smd_rdma_count_completion(struct rdma_pair *pair, const struct ibv_wc *completion)
{
	struct rdma_lane *lane = rdma_lane_of_pair(pair);
	uint32_t immediate = ntohl(completion->imm_data);
	struct smd_rdma_prefix prefix;
	struct smd_error error = {""};

	if (lane->err) {
		return; /* and what comes after an error does not undo it */
	}
	if (completion->status != IBV_WC_SUCCESS) {
		lane->err = -ECONNRESET;
	} else if (!(completion->opcode & IBV_WC_RECV)) {
		smd_rdma_count_sent(lane, (uint32_t)completion->wr_id);
	} else if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		   immediate & SMD_RDMA_TAKEN_ONLY) {
		lane->rx_owed++;
		lane->err = lane_check_taken(lane, lane_told_taken(lane, immediate), &error);
	} else {
		lane->rx_owed++;
		lane->err = smd_rdma_prefix_decode(lane_receive_buffer(lane), &prefix, &error);
		if (lane->err == 0) {
			lane->err = lane_check_taken(lane, prefix.taken, &error);
		}
		lane->rx_next++;
	}
}

static void lane_completed(struct rdma_pair *pair, const struct ibv_wc *completion)
{
	struct rdma_lane *lane = rdma_lane_of_pair(pair);
	uint32_t request = (uint32_t)completion->wr_id;
	char text[96];

	if (completion->status != IBV_WC_SUCCESS) {
		smd_rdma_lane_fail_status(lane, completion);
		return;
	}
	switch (completion->opcode) {
	case IBV_WC_RECV_RDMA_WITH_IMM:
	case IBV_WC_RECV:
		lane_on_receive(lane, completion);
		break;
	case IBV_WC_RDMA_WRITE:
	case IBV_WC_SEND:
	case IBV_WC_BIND_MW:
	case IBV_WC_LOCAL_INV:
		smd_rdma_sent(lane, request);
		break;
	default:
		/* We post no other sends; any other receive comes from a peer that breaks the
		 * protocol. */
		snprintf(text, sizeof(text), "the other end must only write, got completion %d",
			(int)completion->opcode);
		smd_rdma_lane_fail(lane, -EPROTO, text);
		break;
	}
}

static void lane_flush(struct rdma_pair *pair)
{
	struct rdma_lane *lane = rdma_lane_of_pair(pair);

	if (lane->err) {
		smd_rdma_lane_end(lane, lane->err, lane->reason);
	} else {
		smd_rdma_post(lane);
	}
}

static void lane_probe(struct rdma_pair *pair)
{
	smd_rdma_probe(rdma_lane_of_pair(pair));
}

static void lane_fail(struct rdma_pair *pair, int err, const char *reason)
{
	smd_rdma_lane_fail(rdma_lane_of_pair(pair), err, reason);
}

const struct rdma_pair_ops smd_rdma_lane_pair = {
	.completed = lane_completed,
	.flush = lane_flush,
	.probe = lane_probe,
	.fail = lane_fail,
};
