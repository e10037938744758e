/* Encodes and decodes the payloads of control frames. */
#include "reduction_server/wire/message.h"

#include <errno.h>

#include "reduction_server/wire/cursor.h"

static struct smd_writer writer_over(uint8_t payload[SMD_CONTROL_MAX])
{
	return (struct smd_writer){.start = payload, .size = SMD_CONTROL_MAX};
}

static int malformed(const char *kind, size_t length, struct smd_error *error)
{
	return smd_error_set(error, EPROTO,
		"%s: payload must be as specs/design/wire.md says, got %zu bytes that "
		"are not",
		kind, length);
}

static bool complete(const struct smd_reader *reader)
{
	return !reader->failed && reader->left == 0;
}

size_t smd_hello_encode(const struct smd_hello *hello, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put_bytes(&writer, hello->nonce, sizeof(hello->nonce));
	smd_writer_put(&writer, hello->shard, 2);
	smd_writer_put(&writer, hello->flags, 2);
	smd_writer_put_string(&writer, hello->replica);
	smd_writer_put_string(&writer, hello->job);
	return writer.used;
}

int smd_hello_decode(
	const uint8_t *payload, size_t length, struct smd_hello *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	struct smd_hello hello;

	smd_reader_get_bytes(&reader, hello.nonce, sizeof(hello.nonce));
	hello.shard = (uint16_t)smd_reader_get(&reader, 2);
	hello.flags = (uint16_t)smd_reader_get(&reader, 2);
	smd_reader_get_string(&reader, hello.replica, sizeof(hello.replica));
	smd_reader_get_string(&reader, hello.job, sizeof(hello.job));
	if (!complete(&reader) || hello.replica[0] == '\0' || hello.flags & ~SMD_HELLO_FLAGS) {
		return malformed("HELLO", length, error);
	}
	*out = hello;
	return 0;
}

size_t smd_challenge_encode(const struct smd_challenge *challenge, uint8_t payload[SMD_CONTROL_MAX])
{
	memcpy(payload, challenge->nonce, sizeof(challenge->nonce));
	return sizeof(challenge->nonce);
}

int smd_challenge_decode(
	const uint8_t *payload, size_t length, struct smd_challenge *out, struct smd_error *error)
{
	if (length != sizeof(out->nonce)) {
		return malformed("CHALLENGE", length, error);
	}
	memcpy(out->nonce, payload, sizeof(out->nonce));
	return 0;
}

size_t smd_proof_encode(const struct smd_proof *proof, uint8_t payload[SMD_CONTROL_MAX])
{
	memcpy(payload, proof->bytes, sizeof(proof->bytes));
	return sizeof(proof->bytes);
}

int smd_proof_decode(
	const uint8_t *payload, size_t length, struct smd_proof *out, struct smd_error *error)
{
	if (length != sizeof(out->bytes)) {
		return malformed("PROOF", length, error);
	}
	memcpy(out->bytes, payload, sizeof(out->bytes));
	return 0;
}

size_t smd_pair_encode(const struct smd_pair *pair, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put(&writer, pair->offer.length, 2);
	smd_writer_put_bytes(&writer, pair->offer.bytes, pair->offer.length);
	if (pair->proved) {
		smd_writer_put_bytes(&writer, pair->proof.bytes, sizeof(pair->proof.bytes));
	}
	return writer.used;
}

int smd_pair_decode(
	const uint8_t *payload, size_t length, struct smd_pair *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	struct smd_pair pair = {.offer.length = smd_reader_get(&reader, 2)};

	if (pair.offer.length == 0 || pair.offer.length > SMD_OFFER_MAX) {
		return smd_error_set(error, EPROTO, "PAIR: offer must have 1 to %d bytes, got %zu",
			SMD_OFFER_MAX, pair.offer.length);
	}
	smd_reader_get_bytes(&reader, pair.offer.bytes, pair.offer.length);
	pair.proved = reader.left > 0;
	if (pair.proved) {
		smd_reader_get_bytes(&reader, pair.proof.bytes, sizeof(pair.proof.bytes));
	}
	if (!complete(&reader)) {
		return malformed("PAIR", length, error);
	}
	*out = pair;
	return 0;
}

size_t smd_welcome_encode(const struct smd_welcome *welcome, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put(&writer, welcome->server_id, 8);
	smd_writer_put(&writer, welcome->shard, 4);
	smd_writer_put(&writer, welcome->shards, 4);
	smd_writer_put(&writer, welcome->chunk_bytes, 4);
	smd_writer_put(&writer, welcome->weight, 4);
	if (welcome->proved) {
		smd_writer_put_bytes(&writer, welcome->proof.bytes, sizeof(welcome->proof.bytes));
	}
	return writer.used;
}

int smd_welcome_decode(
	const uint8_t *payload, size_t length, struct smd_welcome *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	struct smd_welcome welcome = {
		.server_id = smd_reader_get(&reader, 8),
		.shard = (uint32_t)smd_reader_get(&reader, 4),
		.shards = (uint32_t)smd_reader_get(&reader, 4),
		.chunk_bytes = (uint32_t)smd_reader_get(&reader, 4),
		.weight = (uint32_t)smd_reader_get(&reader, 4),
		.proved = reader.left > 0,
	};

	if (welcome.proved) {
		smd_reader_get_bytes(&reader, welcome.proof.bytes, sizeof(welcome.proof.bytes));
	}
	if (!complete(&reader)) {
		return malformed("WELCOME", length, error);
	}
	if (welcome.shards == 0 || welcome.shards > SMD_SHARDS_MAX ||
		welcome.shard >= welcome.shards) {
		return smd_error_set(error, EPROTO,
			"WELCOME: shard must be below shards, at most %d, got %u of %u",
			SMD_SHARDS_MAX, welcome.shard, welcome.shards);
	}
	if (welcome.chunk_bytes == 0 || welcome.chunk_bytes % 64 ||
		welcome.chunk_bytes > SMD_CHUNK_LIMIT) {
		return smd_error_set(error, EPROTO,
			"WELCOME: largest chunk must be a multiple of 64 up to %u, got %u",
			SMD_CHUNK_LIMIT, welcome.chunk_bytes);
	}
	if (welcome.weight == 0) {
		return smd_error_set(error, EPROTO, "WELCOME: weight must be at least 1, got 0");
	}
	*out = welcome;
	return 0;
}

size_t smd_join_encode(const struct smd_join *join, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put(&writer, join->nranks, 2);
	smd_writer_put_string(&writer, join->group);
	smd_writer_put(&writer, join->table_hash, 8);
	smd_writer_put(&writer, join->attempt, 8);
	smd_writer_put(&writer, join->id, 8);
	return writer.used;
}

int smd_join_decode(
	const uint8_t *payload, size_t length, struct smd_join *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	struct smd_join join;

	join.nranks = (uint16_t)smd_reader_get(&reader, 2);
	smd_reader_get_string(&reader, join.group, sizeof(join.group));
	join.table_hash = smd_reader_get(&reader, 8);
	join.attempt = smd_reader_get(&reader, 8);
	join.id = smd_reader_get(&reader, 8);
	join.optional = false;
	if (!complete(&reader) || join.group[0] == '\0') {
		return malformed("JOIN", length, error);
	}
	if (join.nranks == 0 || join.nranks > SMD_NRANKS_MAX) {
		return smd_error_set(error, EPROTO, "JOIN: ranks must be 1 to %d, got %u",
			SMD_NRANKS_MAX, join.nranks);
	}
	*out = join;
	return 0;
}

size_t smd_abort_encode(const struct smd_abort *abort, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put(&writer, abort->err, 4);
	return writer.used + smd_text_encode(abort->text, payload + writer.used);
}

int smd_abort_decode(
	const uint8_t *payload, size_t length, struct smd_abort *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	uint32_t err = (uint32_t)smd_reader_get(&reader, 4);

	if (reader.failed || err == 0 || err > 4095) {
		return malformed("ABORT", length, error);
	}
	out->err = err;
	smd_text_decode(reader.at, reader.left, out->text);
	return 0;
}

size_t smd_late_encode(const struct smd_late *late, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = writer_over(payload);

	smd_writer_put(&writer, late->nranks, 2);
	smd_writer_put_bytes(&writer, late->there.bytes, (late->nranks + 7u) / 8);
	return writer.used + smd_text_encode(late->text, payload + writer.used);
}

int smd_late_decode(
	const uint8_t *payload, size_t length, struct smd_late *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};
	unsigned nranks = (unsigned)smd_reader_get(&reader, 2);
	struct smd_rank_set there = {{0}};

	if (nranks > SMD_NRANKS_MAX) {
		return smd_error_set(error, EPROTO, "LATE: ranks must be at most %d, got %u",
			SMD_NRANKS_MAX, nranks);
	}
	smd_reader_get_bytes(&reader, there.bytes, (nranks + 7u) / 8);
	if (reader.failed) {
		return malformed("LATE", length, error);
	}
	out->nranks = (uint16_t)nranks;
	out->there = there;
	smd_text_decode(reader.at, reader.left, out->text);
	return 0;
}

size_t smd_text_encode(const char *text, uint8_t *payload)
{
	size_t length = strnlen(text, SMD_ERROR_TEXT_MAX - 1);

	memcpy(payload, text, length);
	return length;
}

void smd_text_decode(const uint8_t *payload, size_t length, char out[SMD_ERROR_TEXT_MAX])
{
	size_t i;

	for (i = 0; i < length && i < SMD_ERROR_TEXT_MAX - 1; i++) {
		out[i] = payload[i] < 0x20 || payload[i] == 0x7f ? '?' : (char)payload[i];
	}
	out[i] = '\0';
}
