/*
 * What the two ends of a mesh's lane say before it is one (specs/design/exchange.md): who they are,
 * and that both have the job's token and the secret of the place.
 */
#ifndef SMD_LIBSUMMAND_MESH_WORDS_H
#define SMD_LIBSUMMAND_MESH_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/wire/message.h"

/* `window` of MESH. The last two are said on lanes that are made (exchange.h). */
enum smd_mesh_step {
	SMD_MESH_CALLS = 1,
	SMD_MESH_ANSWERS = 2,
	SMD_MESH_PROVES = 3,
	SMD_MESH_ASKS = 4,
	SMD_MESH_TELLS = 5,
	SMD_MESH_LEAVES = 6,
};

/* What an end wants of the lane, which is so if both do. */
#define SMD_MESH_ZEROS 1u /* blocks of zeros are not sent (zeros.h), in either direction */

/* All of it, as far as it has been said. */
struct smd_mesh_words {
	uint64_t id;
	uint16_t caller; /* rank that connects, */
	uint16_t callee; /* and that listens */
	uint16_t caller_flags;
	uint16_t callee_flags;
	uint8_t caller_nonce[SMD_NONCE_SIZE];
	uint8_t callee_nonce[SMD_NONCE_SIZE];
	char caller_name[SMD_STRING_MAX + 1];
	char callee_name[SMD_STRING_MAX + 1];
	struct smd_proof proof; /* the last one */
};

/* Each fills `payload` from the words, and returns its length. */
size_t smd_mesh_words_call(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX]);
size_t smd_mesh_words_answer(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX]);
size_t smd_mesh_words_prove(const struct smd_mesh_words *words, uint8_t payload[SMD_CONTROL_MAX]);

/* And the other way. -EPROTO with a text. */
int smd_mesh_words_take_call(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error);
int smd_mesh_words_take_answer(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error);
int smd_mesh_words_take_proof(
	const uint8_t *payload, size_t length, struct smd_mesh_words *out, struct smd_error *error);

/* The proof of that end. 0 or -ENOMEM. */
int smd_mesh_words_proof(const struct smd_mesh_words *words, bool caller, const char *token,
	const uint8_t secret[SMD_NONCE_SIZE], struct smd_proof *out);

#endif
