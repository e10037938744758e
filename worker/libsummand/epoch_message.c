/* Encodes and decodes AGREE. */
#include "worker/libsummand/epoch_message.h"

#include <errno.h>

#include "reduction_server/wire/cursor.h"

#define FIXED_BYTES 40
_Static_assert(FIXED_BYTES + SMD_STREAMS_MAX * 8 <= SMD_CONTROL_MAX, "streams fit into a frame");
_Static_assert(FIXED_BYTES + SMD_EPOCH_WEIGHTS_MAX * 4 <= SMD_CONTROL_MAX, "weights do");

size_t smd_epoch_message_encode(
	const struct smd_epoch_message *message, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};

	smd_writer_put(&writer, message->kind, 1);
	smd_writer_put(&writer, message->rank, 2);
	smd_writer_put(&writer, message->epoch, 4);
	smd_writer_put(&writer, message->dead, 8);
	smd_writer_put(&writer, message->id, 8);
	smd_writer_put(&writer, message->first, 8);
	smd_writer_put(&writer, message->oldest, 4);
	smd_writer_put(&writer, (uint8_t)message->scale, 1);
	smd_writer_put(&writer, message->nstreams, 2);
	smd_writer_put(&writer, message->nweights, 2);
	for (unsigned i = 0; i < message->nstreams; i++) {
		smd_writer_put(&writer, message->streams[i], 8);
	}
	for (unsigned i = 0; i < message->nweights; i++) {
		smd_writer_put(&writer, message->weights[i], 4);
	}
	return writer.used;
}

int smd_epoch_message_decode(const uint8_t *payload, size_t length, struct smd_epoch_message *out,
	struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	out->kind = (uint8_t)smd_reader_get(&reader, 1);
	out->rank = (uint16_t)smd_reader_get(&reader, 2);
	out->epoch = (uint32_t)smd_reader_get(&reader, 4);
	out->dead = smd_reader_get(&reader, 8);
	out->id = smd_reader_get(&reader, 8);
	out->first = smd_reader_get(&reader, 8);
	out->oldest = (uint32_t)smd_reader_get(&reader, 4);
	out->scale = (int8_t)smd_reader_get(&reader, 1);
	out->nstreams = (uint16_t)smd_reader_get(&reader, 2);
	out->nweights = (uint16_t)smd_reader_get(&reader, 2);
	if (out->nstreams > SMD_STREAMS_MAX || out->nweights > SMD_EPOCH_WEIGHTS_MAX) {
		reader.failed = true;
	}
	for (unsigned i = 0; !reader.failed && i < out->nstreams; i++) {
		out->streams[i] = smd_reader_get(&reader, 8);
	}
	for (unsigned i = 0; !reader.failed && i < out->nweights; i++) {
		out->weights[i] = (uint32_t)smd_reader_get(&reader, 4);
	}
	if (reader.failed || reader.left) {
		return smd_error_set(error, EPROTO,
			"AGREE: payload must be as specs/design/wire.md says, got %zu bytes that "
			"are not",
			length);
	}
	return 0;
}
