/* Encodes and decodes MESH, and computes its proofs. */
#include "worker/libsummand/mesh_words.h"

#include <errno.h>
#include <stdbool.h>

#include "reduction_server/wire/cursor.h"
#include "reduction_server/wire/openssl.h"

/* No proof begins like one of the other end, nor like anything else that is made from a token. */
#define CALLER_LABEL "summand rank connects"
#define CALLEE_LABEL "summand rank listens"
#define NO_TOKEN     "summand"

static int finish(
	const struct smd_reader *reader, uint16_t flags, const char *what, struct smd_error *error)
{
	return reader->failed || reader->left || flags & ~SMD_MESH_ZEROS
		       ? smd_error_set(error, EPROTO,
				 "MESH: %s must be as specs/design/exchange.md says", what)
		       : 0;
}

size_t smd_mesh_words_call(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};

	smd_writer_put(&writer, words->id, 8);
	smd_writer_put(&writer, words->caller, 2);
	smd_writer_put(&writer, words->caller_flags, 2);
	smd_writer_put_bytes(&writer, words->caller_nonce, SMD_NONCE_SIZE);
	smd_writer_put_string(&writer, words->caller_name);
	return writer.used;
}

int smd_mesh_words_take_call(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	out->id = smd_reader_get(&reader, 8);
	out->caller = (uint16_t)smd_reader_get(&reader, 2);
	out->caller_flags = (uint16_t)smd_reader_get(&reader, 2);
	smd_reader_get_bytes(&reader, out->caller_nonce, SMD_NONCE_SIZE);
	smd_reader_get_string(&reader, out->caller_name, sizeof(out->caller_name));
	return finish(&reader, out->caller_flags, "who connects", error);
}

size_t smd_mesh_words_answer(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};

	smd_writer_put(&writer, words->callee_flags, 2);
	smd_writer_put_bytes(&writer, words->callee_nonce, SMD_NONCE_SIZE);
	smd_writer_put_string(&writer, words->callee_name);
	smd_writer_put_bytes(&writer, words->proof.bytes, SMD_PROOF_SIZE);
	return writer.used;
}

int smd_mesh_words_take_answer(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	out->callee_flags = (uint16_t)smd_reader_get(&reader, 2);
	smd_reader_get_bytes(&reader, out->callee_nonce, SMD_NONCE_SIZE);
	smd_reader_get_string(&reader, out->callee_name, sizeof(out->callee_name));
	smd_reader_get_bytes(&reader, out->proof.bytes, SMD_PROOF_SIZE);
	return finish(&reader, out->callee_flags, "the answer", error);
}

size_t smd_mesh_words_prove(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = payload, .size = SMD_CONTROL_MAX};

	smd_writer_put_bytes(&writer, words->proof.bytes, SMD_PROOF_SIZE);
	return writer.used;
}

int smd_mesh_words_take_proof(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error)
{
	struct smd_reader reader = {.at = payload, .left = length};

	smd_reader_get_bytes(&reader, out->proof.bytes, SMD_PROOF_SIZE);
	return finish(&reader, 0, "the proof", error);
}

int smd_mesh_words_proof(const struct smd_mesh_words *words, bool caller, const char *token,
	const uint8_t secret[SMD_NONCE_SIZE], struct smd_proof *out)
{
	uint8_t signed_words[SMD_CONTROL_MAX];
	struct smd_writer writer = {.start = signed_words, .size = SMD_CONTROL_MAX};

	smd_writer_put_string(&writer, caller ? CALLER_LABEL : CALLEE_LABEL);
	smd_writer_put(&writer, SMD_WIRE_VERSION, 2);
	smd_writer_put(&writer, words->id, 8);
	smd_writer_put(&writer, words->caller, 2);
	smd_writer_put(&writer, words->callee, 2);
	smd_writer_put(&writer, words->caller_flags, 2);
	smd_writer_put(&writer, words->callee_flags, 2);
	smd_writer_put_bytes(&writer, words->caller_nonce, SMD_NONCE_SIZE);
	smd_writer_put_bytes(&writer, words->callee_nonce, SMD_NONCE_SIZE);
	smd_writer_put_bytes(&writer, secret, SMD_NONCE_SIZE);
	smd_writer_put_string(&writer, words->caller_name);
	smd_writer_put_string(&writer, words->callee_name);
	return smd_openssl_hmac(*token ? token : NO_TOKEN, signed_words, writer.used, out->bytes);
}
