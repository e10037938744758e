/* Computes proofs with OpenSSL's HMAC-SHA256. */
#include "reduction_server/wire/handshake.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include "reduction_server/wire/cursor.h"
#include "reduction_server/wire/openssl.h"

_Static_assert(SMD_PROOF_SIZE == SMD_HMAC_SIZE, "a proof is an HMAC");

/* No proof begins like one of the other end, nor like anything else that is made from a token. */
#define WORKER_LABEL "summand worker"
#define SERVER_LABEL "summand server"
#define WORKER_OFFER "summand worker offers"
#define SERVER_OFFER "summand server offers"

int smd_handshake_prepare(void)
{
	return smd_openssl_library() ? 0 : -ENOMEM;
}

int smd_nonce_draw(uint8_t nonce[SMD_NONCE_SIZE])
{
	return getrandom(nonce, SMD_NONCE_SIZE, 0) == SMD_NONCE_SIZE ? 0 : -EIO;
}

/* What both ends sign: lengths stand before all that has not one length only. */
static struct smd_writer transcript(
	const char *label, const struct smd_handshake *handshake, uint8_t out[SMD_CONTROL_MAX])
{
	struct smd_writer writer = {.start = out, .size = SMD_CONTROL_MAX};

	smd_writer_put_string(&writer, label);
	smd_writer_put(&writer, SMD_WIRE_VERSION, 2);
	smd_writer_put_bytes(&writer, handshake->hello.nonce, SMD_NONCE_SIZE);
	smd_writer_put_bytes(&writer, handshake->challenge.nonce, SMD_NONCE_SIZE);
	smd_writer_put(&writer, handshake->hello.shard, 2);
	smd_writer_put(&writer, handshake->hello.flags, 2);
	smd_writer_put_string(&writer, handshake->hello.replica);
	smd_writer_put_string(&writer, handshake->hello.job);
	return writer;
}

int smd_handshake_prove_worker(
	const struct smd_handshake *handshake, const char *token, struct smd_proof *out)
{
	uint8_t words[SMD_CONTROL_MAX];
	const struct smd_writer writer = transcript(WORKER_LABEL, handshake, words);

	return smd_openssl_hmac(token, words, writer.used, out->bytes);
}

int smd_handshake_prove_server(const struct smd_handshake *handshake,
	const struct smd_welcome *welcome, const char *token, struct smd_proof *out)
{
	uint8_t words[SMD_CONTROL_MAX];
	struct smd_writer writer = transcript(SERVER_LABEL, handshake, words);

	smd_writer_put(&writer, welcome->server_id, 8);
	smd_writer_put(&writer, welcome->shard, 4);
	smd_writer_put(&writer, welcome->shards, 4);
	smd_writer_put(&writer, welcome->chunk_bytes, 4);
	smd_writer_put(&writer, welcome->weight, 4);
	return smd_openssl_hmac(token, words, writer.used, out->bytes);
}

int smd_handshake_prove_offer(const struct smd_handshake *handshake, bool server,
	const struct smd_offer *offer, const char *token, struct smd_proof *out)
{
	uint8_t words[SMD_CONTROL_MAX];
	struct smd_writer writer =
		transcript(server ? SERVER_OFFER : WORKER_OFFER, handshake, words);

	smd_writer_put(&writer, offer->length, 2);
	smd_writer_put_bytes(&writer, offer->bytes, offer->length);
	return smd_openssl_hmac(token, words, writer.used, out->bytes);
}

bool smd_proof_equals(const struct smd_proof *a, const struct smd_proof *b)
{
	return CRYPTO_memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}
