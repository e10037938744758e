/*
 * The proofs by which the two ends of a lane show each other that they have the job's token, which
 * itself is never sent (specs/design/security.md).
 *
 * A proof is an HMAC by the token over all that both have said in the handshake, their nonces
 * first. So it is good for one lane, one direction and these words only.
 */
#ifndef SMD_WIRE_HANDSHAKE_H
#define SMD_WIRE_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/wire/message.h"

struct smd_handshake {
	struct smd_hello hello;
	struct smd_challenge challenge; /* of a server that has tokens */
};

/* Makes ready what the proofs need, as far as that can fail or asks the system for much. 0, or
 * -ENOMEM. The proofs do it themselves if nobody has. */
int smd_handshake_prepare(void);

/* What cannot be guessed and is not used twice. 0 or -errno. */
int smd_nonce_draw(uint8_t nonce[SMD_NONCE_SIZE]);

/* 0, or -ENOMEM. */
int smd_handshake_prove_worker(
	const struct smd_handshake *handshake, const char *token, struct smd_proof *out);
int smd_handshake_prove_server(const struct smd_handshake *handshake,
	const struct smd_welcome *welcome, const char *token, struct smd_proof *out);

/* Of an offer in PAIR, by that end. */
int smd_handshake_prove_offer(const struct smd_handshake *handshake, bool server,
	const struct smd_offer *offer, const char *token, struct smd_proof *out);

/* In a time that does not depend on where they differ. */
bool smd_proof_equals(const struct smd_proof *a, const struct smd_proof *b);

#endif
