/* Encodes and decodes frame headers. */
#include "reduction_server/wire/frame.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/base/bytes.h"
#include "reduction_server/wire/zeros.h"

void smd_frame_encode(const struct smd_frame *frame, uint8_t bytes[SMD_FRAME_SIZE])
{
	memcpy(bytes, "SMD", 3);
	bytes[3] = SMD_WIRE_VERSION;
	bytes[SMD_FRAME_KIND_AT] = frame->kind;
	bytes[5] = frame->dtype;
	bytes[6] = frame->op;
	bytes[7] = frame->collective;
	smd_put32(bytes + 8, frame->length);
	smd_put32(bytes + 12, frame->comm);
	bytes[16] = frame->lag;
	bytes[17] = frame->open;
	smd_put16(bytes + 18, frame->root);
	smd_put16(bytes + 20, frame->rank);
	smd_put16(bytes + 22, frame->window);
	smd_put64(bytes + 24, frame->chunk);
	smd_put64(bytes + 32, frame->operation);
	smd_put64(bytes + 40, frame->count);
	smd_put64(bytes + 48, frame->offset);
	smd_put64(bytes + 56, frame->ordinal);
}

static int check_envelope(const uint8_t bytes[SMD_FRAME_SIZE], struct smd_error *error)
{
	if (memcmp(bytes, "SMD", 3) != 0) {
		return smd_error_set(error, EPROTO, "frame: magic must be SMD, got %02x%02x%02x",
			bytes[0], bytes[1], bytes[2]);
	}
	if (bytes[3] != SMD_WIRE_VERSION) {
		return smd_error_set(error, EPROTO, "frame: version must be %d, got %d",
			SMD_WIRE_VERSION, bytes[3]);
	}
	if (bytes[4] < SMD_FRAME_HELLO || bytes[4] >= SMD_FRAME_KIND_END) {
		return smd_error_set(error, EPROTO, "frame: kind must be %d to %d, got %d",
			SMD_FRAME_HELLO, SMD_FRAME_KIND_END - 1, bytes[4]);
	}
	if (bytes[7] >= SMD_COLLECTIVE_END) {
		return smd_error_set(error, EPROTO, "frame: collective must be 0 to %d, got %d",
			SMD_COLLECTIVE_END - 1, bytes[7]);
	}
	return 0;
}

static uint32_t longest_payload(unsigned kind)
{
	switch (kind) {
	case SMD_FRAME_INPUT:
	case SMD_FRAME_RESULT:
	case SMD_FRAME_DATA:
		return SMD_CHUNK_LIMIT;
	case SMD_FRAME_JOINED:
	case SMD_FRAME_LEFT:
	case SMD_FRAME_PING:
	case SMD_FRAME_PONG:
	case SMD_FRAME_BUFFERS:
	case SMD_FRAME_SHRINK:
	case SMD_FRAME_SHRUNK:
	case SMD_FRAME_HELD:
	case SMD_FRAME_DRAINS:
	case SMD_FRAME_OTHERS:
	case SMD_FRAME_LOST:
		return 0;
	case SMD_FRAME_ZEROS:
		return SMD_ZERO_MAP_MAX;
	default:
		return SMD_CONTROL_MAX;
	}
}

int smd_frame_decode(
	const uint8_t bytes[SMD_FRAME_SIZE], struct smd_frame *out, struct smd_error *error)
{
	uint32_t length = smd_get32(bytes + 8);
	int ret = check_envelope(bytes, error);

	if (ret) {
		return ret;
	}
	if (length > longest_payload(bytes[4])) {
		return smd_error_set(error, EPROTO, "%s: length must be at most %u, got %u",
			smd_frame_kind_name(bytes[4]), longest_payload(bytes[4]), length);
	}
	*out = (struct smd_frame){
		.kind = bytes[4],
		.dtype = bytes[5],
		.op = bytes[6],
		.collective = bytes[7],
		.length = length,
		.comm = smd_get32(bytes + 12),
		.lag = bytes[16],
		.open = bytes[17],
		.root = smd_get16(bytes + 18),
		.rank = smd_get16(bytes + 20),
		.window = smd_get16(bytes + 22),
		.chunk = smd_get64(bytes + 24),
		.operation = smd_get64(bytes + 32),
		.count = smd_get64(bytes + 40),
		.offset = smd_get64(bytes + 48),
		.ordinal = smd_get64(bytes + 56),
	};
	return 0;
}

const char *smd_frame_kind_name(unsigned kind)
{
	static const char *const names[] = {
#define X(constant, number, name) [number] = name,
		SMD_FRAME_KINDS(X)
#undef X
	};
	static _Thread_local char unknown[24];

	if (kind >= SMD_FRAME_HELLO && kind < SMD_FRAME_KIND_END) {
		return names[kind];
	}
	snprintf(unknown, sizeof(unknown), "kind %u", kind);
	return unknown;
}
