/* Encodes and decodes AGREE. */
#include "worker/libsummand/epoch_message.h"

#include <errno.h>

#include "reduction_server/wire/cursor.h"

#define FIXED_BYTES 47
_Static_assert(FIXED_BYTES + 8 <= SMD_CONTROL_MAX, "each frame has some number");
_Static_assert(SMD_STREAMS_MAX + SMD_EPOCH_WEIGHTS_MAX <= UINT16_MAX, "so many can be counted");

static unsigned bytes_of(const struct smd_epoch_message *message, unsigned number)
{
	return number < message->nstreams ? 8 : 4;
}

size_t smd_epoch_message_encode(const struct smd_epoch_message *message, unsigned begin,
	unsigned *end, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};
	unsigned count = smd_epoch_message_count(message);
	unsigned k;

	smd_writer_put(&writer, message->kind, 1);
	smd_writer_put(&writer, message->rank, 2);
	smd_writer_put(&writer, message->epoch, 4);
	smd_writer_put(&writer, message->dead, 8);
	smd_writer_put(&writer, message->id, 8);
	smd_writer_put(&writer, message->first, 8);
	smd_writer_put(&writer, message->oldest, 4);
	smd_writer_put(&writer, (uint8_t)message->scale, 1);
	smd_writer_put(&writer, message->soon, 1);
	smd_writer_put(&writer, message->exchanged, 4);
	smd_writer_put(&writer, message->nstreams, 2);
	smd_writer_put(&writer, message->nweights, 2);
	smd_writer_put(&writer, begin, 2);
	for (k = begin; k < count && writer.used + bytes_of(message, k) <= SMD_CONTROL_MAX; k++) {
		smd_writer_put(&writer,
			k < message->nstreams ? message->streams[k]
					      : message->weights[k - message->nstreams],
			bytes_of(message, k));
	}
	*end = k;
	return writer.used;
}

static void decode_numbers(struct smd_reader *reader, struct smd_epoch_message *out)
{
	unsigned count = smd_epoch_message_count(out);
	unsigned k;

	for (k = out->begin; !reader->failed && reader->left && k < count; k++) {
		uint64_t number = smd_reader_get(reader, bytes_of(out, k));

		if (k < out->nstreams) {
			out->streams[k] = number;
		} else {
			out->weights[k - out->nstreams] = (uint32_t)number;
		}
	}
	out->end = (uint16_t)k;
	reader->failed |= out->end == out->begin && count;
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
	out->soon = smd_reader_get(&reader, 1) != 0;
	out->exchanged = (uint32_t)smd_reader_get(&reader, 4);
	out->nstreams = (uint16_t)smd_reader_get(&reader, 2);
	out->nweights = (uint16_t)smd_reader_get(&reader, 2);
	out->begin = (uint16_t)smd_reader_get(&reader, 2);
	if (out->nstreams > SMD_STREAMS_MAX || out->nweights > SMD_EPOCH_WEIGHTS_MAX ||
		out->begin > smd_epoch_message_count(out)) {
		reader.failed = true;
	} else {
		decode_numbers(&reader, out);
	}
	if (reader.failed || reader.left) {
		return smd_error_set(error, EPROTO,
			"AGREE: payload must be as specs/design/wire.md says, got %zu bytes that "
			"are not",
			length);
	}
	return 0;
}
