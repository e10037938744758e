/* Leaves blocks of zeros out of what a lane sends, and fills them in in what it receives. */
#include "reduction_server/transport/tcp/zeros.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/peek.h"

#define PLACES      4u
#define PLACE_BYTES 64u
/* So many payloads at most are let pass: behind one of which no place is zeros, which costs a
 * microsecond or two; and behind one all of which was looked at for little, or a short one. */
#define PAUSE_DENSE 7u
#define PAUSE_VAIN  63u
#define LITTLE      8u /* one of so many blocks */
#define SHORT       65536u

int smd_tcp_skip_zeros(struct smd_lane *lane, uint32_t largest, bool careful)
{
	struct tcp_lane *tcp = (struct tcp_lane *)lane;
	uint32_t room = smd_zero_map_bytes(largest);

	if (!tcp->zeros) {
		tcp->zeros = calloc(1, sizeof(*tcp->zeros) + SMD_FRAME_SIZE + 2 * (size_t)room);
	}
	if (!tcp->zeros) {
		return -ENOMEM;
	}
	tcp->zeros->room = room;
	tcp->zeros->careful = careful;
	tcp->zeros->rx_map = tcp->zeros->tx_frame + SMD_FRAME_SIZE + room;
	return 0;
}

/* ---- sending ---- */

static void zeros_announce(struct tcp_zeros *zeros, struct smd_send *send)
{
	const struct smd_frame frame = {
		.kind = SMD_FRAME_ZEROS, .length = smd_zero_map_bytes(send->length)};

	smd_frame_encode(&frame, zeros->tx_frame);
	zeros->tx = send;
	zeros->tx_said = 0;
}

/* ---- of memory that may have holes ---- */

static void zeros_pause(struct tcp_zeros *zeros, uint32_t most)
{
	uint32_t pause = 2 * zeros->pause + 1;

	zeros->pause = pause < most ? pause : most;
	zeros->rest = zeros->pause;
}

/* The beginnings of some blocks, from the first to the last. */
static bool some_place_is_zeros(const uint8_t *payload, uint32_t length)
{
	static const uint8_t zeros[PLACE_BYTES];
	const uint32_t last = (length - PLACE_BYTES) / SMD_ZERO_BLOCK;
	struct iovec from[PLACES];
	uint8_t to[PLACES][PLACE_BYTES];

	for (uint32_t i = 0; i < PLACES; i++) {
		uint32_t block = (uint32_t)((uint64_t)last * i / (PLACES - 1));

		from[i].iov_base = (void *)(uintptr_t)(payload + (size_t)block * SMD_ZERO_BLOCK);
		from[i].iov_len = PLACE_BYTES;
	}
	if (!smd_peek(from, PLACES, to, sizeof(to))) {
		return false;
	}
	for (uint32_t i = 0; i < PLACES; i++) {
		if (memcmp(to[i], zeros, PLACE_BYTES) == 0) {
			return true;
		}
	}
	return false;
}

static bool zeros_may_look(struct tcp_zeros *zeros, const struct smd_send *send)
{
	if (!zeros->careful) {
		return true;
	}
	if (zeros->rest) {
		zeros->rest--;
		return false;
	}
	if (some_place_is_zeros(send->payload, send->length) &&
		smd_peek_is_mapped(send->payload, send->length)) {
		return true;
	}
	zeros_pause(zeros, send->length < SHORT ? PAUSE_VAIN : PAUSE_DENSE);
	return false;
}

static void zeros_looked(struct tcp_zeros *zeros, const struct smd_send *send, unsigned found)
{
	if (zeros->careful && (uint64_t)found * LITTLE * SMD_ZERO_BLOCK < send->length) {
		zeros_pause(zeros, PAUSE_VAIN);
	} else {
		zeros->pause = 0;
	}
}

bool smd_tcp_zeros_look(struct tcp_lane *tcp, struct smd_send *send)
{
	struct tcp_zeros *zeros = tcp->zeros;
	unsigned found;

	if (!zeros || !send->elements || send->looked || send->length < SMD_ZERO_BLOCK ||
		smd_zero_map_bytes(send->length) > zeros->room) {
		return true;
	}
	if (zeros->tx) {
		return false;
	}
	send->looked = true;
	if (!zeros_may_look(zeros, send)) {
		return true;
	}
	found = smd_zero_map_find(
		&zeros->search, send->payload, send->length, zeros->tx_frame + SMD_FRAME_SIZE);
	zeros_looked(zeros, send, found);
	if (found) {
		zeros_announce(zeros, send);
	}
	return true;
}

/* The lane has a map for the send. */
static bool zeros_are_of(const struct tcp_zeros *zeros, const struct smd_send *send)
{
	return zeros && zeros->tx == send;
}

uint32_t smd_tcp_zeros_unsaid(
	const struct tcp_lane *tcp, const struct smd_send *send, const uint8_t **from)
{
	const struct tcp_zeros *zeros = tcp->zeros;

	if (!zeros_are_of(zeros, send)) {
		return 0;
	}
	*from = zeros->tx_frame + zeros->tx_said;
	return SMD_FRAME_SIZE + smd_zero_map_bytes(send->length) - zeros->tx_said;
}

void smd_tcp_zeros_said(struct tcp_lane *tcp, uint32_t bytes)
{
	tcp->zeros->tx_said += bytes;
}

uint32_t smd_tcp_zeros_run_out(
	const struct tcp_lane *tcp, const struct smd_send *send, uint32_t at, bool *zeros)
{
	if (!zeros_are_of(tcp->zeros, send)) {
		*zeros = false;
		return send->length;
	}
	return smd_zero_map_run(tcp->zeros->tx_frame + SMD_FRAME_SIZE, send->length, at, zeros);
}

void smd_tcp_zeros_pass(struct tcp_lane *tcp, const struct smd_send *send, struct smd_send *heir)
{
	if (zeros_are_of(tcp->zeros, send)) {
		tcp->zeros->tx = heir;
	}
}

/* ---- receiving ---- */

int smd_tcp_zeros_begin(struct tcp_lane *tcp, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	struct tcp_zeros *zeros = tcp->zeros;
	uint32_t most = zeros ? zeros->room : 0;

	if (frame->length == 0 || frame->length > most) {
		return smd_error_set(error, EPROTO,
			"ZEROS: map must have 1 to %u bytes where HELLO wants it, got %u", most,
			frame->length);
	}
	if (zeros->rx_bytes) {
		return smd_error_set(error, EPROTO, "ZEROS: must come once for a frame");
	}
	*payload = zeros->rx_map;
	zeros->rx_applies = false;
	return 0;
}

void smd_tcp_zeros_begun(struct tcp_lane *tcp, const struct smd_frame *frame)
{
	tcp->zeros->rx_bytes = frame->length;
}

int smd_tcp_zeros_apply(
	struct tcp_lane *tcp, const struct smd_frame *frame, struct smd_error *error)
{
	struct tcp_zeros *zeros = tcp->zeros;
	uint32_t bytes;

	if (!zeros) {
		return 0;
	}
	bytes = zeros->rx_bytes;
	zeros->rx_bytes = 0;
	zeros->rx_applies = bytes > 0;
	if (bytes == 0) {
		return 0;
	}
	if (frame->kind != SMD_FRAME_INPUT && frame->kind != SMD_FRAME_RESULT) {
		return smd_error_set(error, EPROTO,
			"ZEROS: the next frame must be INPUT or RESULT, got %s",
			smd_frame_kind_name(frame->kind));
	}
	return smd_zero_map_check(zeros->rx_map, bytes, frame->length, error);
}

uint32_t smd_tcp_zeros_run_in(const struct tcp_lane *tcp, uint32_t at, bool *zeros)
{
	if (!tcp->zeros || !tcp->zeros->rx_applies) {
		*zeros = false;
		return tcp->rx_frame.length;
	}
	return smd_zero_map_run(tcp->zeros->rx_map, tcp->rx_frame.length, at, zeros);
}

void smd_tcp_zeros_fill(struct tcp_lane *tcp)
{
	bool zeros = false;

	if (tcp->rx_payload_got < tcp->rx_frame.length) {
		uint32_t at = tcp->rx_payload_got;
		uint32_t end = smd_tcp_zeros_run_in(tcp, at, &zeros);

		if (zeros) {
			memset(tcp->rx_payload + at, 0, end - at);
			tcp->rx_payload_got = end;
			tcp->zeros->rx_filled += end - at;
			tcp->lane.counts.bytes_skipped += end - at;
		}
	}
}

uint32_t smd_tcp_zeros_filled(struct tcp_lane *tcp)
{
	uint32_t filled = tcp->zeros ? tcp->zeros->rx_filled : 0;

	if (filled) {
		tcp->zeros->rx_filled = 0;
	}
	return filled;
}
