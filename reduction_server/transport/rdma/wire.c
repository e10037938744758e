/* Greetings and messages as bytes. */
#include "reduction_server/transport/rdma/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "reduction_server/wire/cursor.h"
#include "reduction_server/wire/message.h"

#define FLAG_WINDOWS  1u /* of a greeting; the others are of messages: */
#define FLAG_BEGINS   1u
#define FLAG_PLACED   2u
#define FLAG_TRIAL    4u
#define NUMBER_MOST   0xffffffu
#define MTU_MOST      5
#define BUFFERS_LEAST 4

static const uint8_t magic[4] = {'S', 'M', 'D', 'R'};

void smd_rdma_greeting_encode(
	const struct smd_rdma_greeting *greeting, uint8_t bytes[SMD_RDMA_GREETING_SIZE])
{
	struct smd_writer writer = {.start = bytes, .size = SMD_RDMA_GREETING_SIZE};

	smd_writer_put_bytes(&writer, magic, sizeof(magic));
	smd_writer_put(&writer, SMD_RDMA_VERSION, 2);
	smd_writer_put(&writer, greeting->shard, 2);
	smd_writer_put(&writer, greeting->receive_buffers, 2);
	smd_writer_put(&writer, greeting->windows ? FLAG_WINDOWS : 0, 2);
	smd_writer_put(&writer, greeting->key, 4);
	smd_writer_put(&writer, greeting->address, 8);
	smd_writer_put(&writer, SMD_RDMA_BUFFER_SIZE, 4);
	smd_writer_put(&writer, 0, 4);
}

int smd_rdma_greeting_decode(
	const uint8_t *bytes, size_t length, struct smd_rdma_greeting *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = bytes, .left = length};
	uint64_t version;
	uint64_t flags;
	uint64_t size;

	if (length < SMD_RDMA_GREETING_SIZE || memcmp(bytes, magic, sizeof(magic)) != 0) {
		return smd_error_set(error, EPROTO,
			"the other end must be a Summand lane, and is something else");
	}
	smd_reader_get(&reader, sizeof(magic));
	version = smd_reader_get(&reader, 2);
	out->shard = (uint16_t)smd_reader_get(&reader, 2);
	out->receive_buffers = (uint16_t)smd_reader_get(&reader, 2);
	flags = smd_reader_get(&reader, 2);
	out->windows = flags & FLAG_WINDOWS;
	out->key = (uint32_t)smd_reader_get(&reader, 4);
	out->address = smd_reader_get(&reader, 8);
	size = smd_reader_get(&reader, 4);
	if (version != SMD_RDMA_VERSION) {
		return smd_error_set(error, EPROTO,
			"the other end must speak version %d over RDMA, got %" PRIu64,
			SMD_RDMA_VERSION, version);
	}
	if (flags & ~(uint64_t)FLAG_WINDOWS) {
		return smd_error_set(
			error, EPROTO, "the other end's flags must be 0 or 1, got %" PRIu64, flags);
	}
	if (size != SMD_RDMA_BUFFER_SIZE || out->receive_buffers < BUFFERS_LEAST ||
		out->receive_buffers > SMD_RDMA_BUFFERS_MAX ||
		(out->receive_buffers & (out->receive_buffers - 1)) != 0) {
		return smd_error_set(error, EPROTO,
			"the other end must have %d to %d receive buffers (a power of 2) of %u "
			"bytes, "
			"got %u of %" PRIu64,
			BUFFERS_LEAST, SMD_RDMA_BUFFERS_MAX, (unsigned)SMD_RDMA_BUFFER_SIZE,
			out->receive_buffers, size);
	}
	return 0;
}

size_t smd_rdma_rejection_encode(
	const char *text, bool again, uint8_t bytes[SMD_RDMA_REJECTION_MAX])
{
	size_t length = strnlen(text, SMD_RDMA_REJECTION_MAX - 2);

	memcpy(bytes, text, length);
	bytes[length] = 0;
	bytes[length + 1] = again;
	return length + 2;
}

bool smd_rdma_rejection_decode(
	const uint8_t *bytes, size_t length, char text[SMD_ERROR_TEXT_MAX], bool *again)
{
	size_t said = strnlen((const char *)bytes, length);

	*again = said + 1 < length && bytes[said + 1] == 1;
	smd_text_decode(bytes, (uint32_t)said, text);
	return said > 0;
}

void smd_rdma_offer_encode(
	const struct smd_rdma_offer *offer, uint8_t bytes[SMD_RDMA_OFFER_SIZE])
{
	struct smd_writer writer = {.start = bytes, .size = SMD_RDMA_OFFER_SIZE};

	smd_rdma_greeting_encode(&offer->greeting, bytes);
	writer.used = SMD_RDMA_GREETING_SIZE;
	smd_writer_put(&writer, offer->number, 4);
	smd_writer_put(&writer, offer->first_packet, 4);
	smd_writer_put(&writer, offer->lid, 2);
	smd_writer_put(&writer, offer->mtu, 1);
	smd_writer_put(&writer, offer->ethernet, 1);
	smd_writer_put_bytes(&writer, offer->gid, sizeof(offer->gid));
}

int smd_rdma_offer_decode(
	const uint8_t *bytes, size_t length, struct smd_rdma_offer *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = bytes, .left = length};
	uint64_t kind;
	int ret = smd_rdma_greeting_decode(bytes, length, &out->greeting, error);

	if (ret) {
		return ret;
	}
	for (int i = 0; i < SMD_RDMA_GREETING_SIZE; i += 4) {
		smd_reader_get(&reader, 4);
	}
	out->number = (uint32_t)smd_reader_get(&reader, 4);
	out->first_packet = (uint32_t)smd_reader_get(&reader, 4);
	out->lid = (uint16_t)smd_reader_get(&reader, 2);
	out->mtu = (uint8_t)smd_reader_get(&reader, 1);
	kind = smd_reader_get(&reader, 1);
	out->ethernet = kind == 1;
	smd_reader_get_bytes(&reader, out->gid, sizeof(out->gid));
	if (length != SMD_RDMA_OFFER_SIZE || out->number > NUMBER_MOST ||
		out->first_packet > NUMBER_MOST || out->mtu < 1 || out->mtu > MTU_MOST ||
		kind > 1) {
		return smd_error_set(error, EPROTO,
			"the other end's queue pair must be %u bytes with numbers of 24 bits, an "
			"MTU of 1 to %d and a kind of 0 or 1, got %zu bytes, queue pair %u, packet "
			"%u, MTU %u, kind %" PRIu64,
			(unsigned)SMD_RDMA_OFFER_SIZE, MTU_MOST, length, out->number,
			out->first_packet, out->mtu, kind);
	}
	return 0;
}

void smd_rdma_prefix_encode(
	const struct smd_rdma_prefix *prefix, uint8_t bytes[SMD_RDMA_PREFIX_SIZE])
{
	struct smd_writer writer = {.start = bytes, .size = SMD_RDMA_PREFIX_SIZE};

	smd_writer_put(&writer, prefix->length, 4);
	smd_writer_put(&writer, prefix->taken, 4);
	smd_writer_put(&writer, prefix->remote_buffers, 1);
	smd_writer_put(&writer,
		(prefix->begins ? FLAG_BEGINS : 0) | (prefix->direct ? FLAG_PLACED : 0) |
			(prefix->trial ? FLAG_TRIAL : 0),
		1);
	smd_writer_put(&writer, 0, 6);
}

int smd_rdma_prefix_decode(const uint8_t bytes[SMD_RDMA_PREFIX_SIZE], struct smd_rdma_prefix *out,
	struct smd_error *error)
{
	struct smd_reader reader = {.at = bytes, .left = SMD_RDMA_PREFIX_SIZE};
	uint32_t least;
	unsigned flags;

	out->length = (uint32_t)smd_reader_get(&reader, 4);
	out->taken = (uint32_t)smd_reader_get(&reader, 4);
	out->remote_buffers = (uint8_t)smd_reader_get(&reader, 1);
	flags = (unsigned)smd_reader_get(&reader, 1);
	out->begins = flags & FLAG_BEGINS;
	out->direct = flags & FLAG_PLACED;
	out->trial = flags & FLAG_TRIAL;
	least = SMD_RDMA_PREFIX_SIZE + (out->begins ? SMD_FRAME_SIZE : 0) +
		out->remote_buffers * (uint32_t)SMD_RDMA_REMOTE_BUFFER_SIZE;
	if (flags & ~(FLAG_BEGINS | FLAG_PLACED | FLAG_TRIAL) ||
		(out->trial && (out->begins || out->direct || out->remote_buffers)) ||
		(!out->begins && (out->direct || out->remote_buffers)) ||
		out->remote_buffers > SMD_REMOTE_BUFFERS_MAX) {
		return smd_error_set(error, EPROTO,
			"message: flags and remote buffers must fit, got flags %u with %u remote "
			"buffers",
			flags, out->remote_buffers);
	}
	if (out->length < least || out->length > SMD_RDMA_BUFFER_SIZE ||
		(out->direct && out->length != least)) {
		return smd_error_set(error, EPROTO,
			"message: length must be %u to %u bytes, got %u", least,
			out->direct ? least : (unsigned)SMD_RDMA_BUFFER_SIZE, out->length);
	}
	return 0;
}

void smd_rdma_remote_buffer_encode(
	const struct smd_remote_buffer *remote_buffer, uint8_t bytes[SMD_RDMA_REMOTE_BUFFER_SIZE])
{
	struct smd_writer writer = {.start = bytes, .size = SMD_RDMA_REMOTE_BUFFER_SIZE};

	smd_writer_put(&writer, remote_buffer->address, 8);
	smd_writer_put(&writer, remote_buffer->key, 4);
	smd_writer_put(&writer, remote_buffer->length, 4);
}

void smd_rdma_remote_buffer_decode(
	const uint8_t bytes[SMD_RDMA_REMOTE_BUFFER_SIZE], struct smd_remote_buffer *out)
{
	struct smd_reader reader = {.at = bytes, .left = SMD_RDMA_REMOTE_BUFFER_SIZE};

	out->address = smd_reader_get(&reader, 8);
	out->key = (uint32_t)smd_reader_get(&reader, 4);
	out->length = (uint32_t)smd_reader_get(&reader, 4);
}
