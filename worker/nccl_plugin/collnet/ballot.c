/* The bytes of a ballot: little-endian, texts padded with zeros. */
#include "worker/nccl_plugin/collnet/ballot.h"

#include <errno.h>
#include <string.h>

#include "reduction_server/base/bytes.h"

#define MAGIC   0x42444d53u /* "SMDB" */
#define VERSION 4u
#define ERR_MAX 4095

#define LOOPS_MAX 255u

enum {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_PHASE = 8,
	AT_NODE = 12,
	AT_ERR = 16,
	AT_LOOPS = 20,
	AT_POOL = 24,
	AT_NONCE = 32,
	AT_SERVER_MBPS = AT_NONCE + SMD_BALLOT_NONCE,
	AT_NAME = AT_SERVER_MBPS + 4,
	AT_TEXT = AT_NAME + SMD_BALLOT_NAME_BYTES,
	AT_END = AT_TEXT + SMD_BALLOT_TEXT_BYTES
};
_Static_assert(AT_END == SMD_BALLOT_BYTES, "a ballot has no gaps and no more");

static void get_text(char *out, const uint8_t *at, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && at[n] >= 0x20 && at[n] < 0x7f) {
		out[n] = (char)at[n];
		n++;
	}
	out[n] = '\0';
}

void smd_ballot_encode(const struct smd_ballot *ballot, uint8_t bytes[SMD_BALLOT_BYTES])
{
	memset(bytes, 0, SMD_BALLOT_BYTES);
	smd_put32(bytes + AT_MAGIC, MAGIC);
	smd_put32(bytes + AT_VERSION, VERSION);
	smd_put32(bytes + AT_PHASE, ballot->phase);
	smd_put32(bytes + AT_NODE, ballot->node);
	smd_put32(bytes + AT_ERR, (uint32_t)-ballot->err);
	smd_put32(bytes + AT_LOOPS, ballot->loops);
	smd_put64(bytes + AT_POOL, ballot->pool);
	memcpy(bytes + AT_NONCE, ballot->nonce, SMD_BALLOT_NONCE);
	smd_put32(bytes + AT_SERVER_MBPS, ballot->server_mbps);
	memcpy(bytes + AT_NAME, ballot->name, strnlen(ballot->name, SMD_BALLOT_NAME_BYTES - 1));
	memcpy(bytes + AT_TEXT, ballot->text, strnlen(ballot->text, SMD_BALLOT_TEXT_BYTES - 1));
}

int smd_ballot_decode(
	const uint8_t bytes[SMD_BALLOT_BYTES], struct smd_ballot *out, struct smd_error *error)
{
	if (smd_get32(bytes + AT_MAGIC) != MAGIC) {
		return smd_error_set(error, EPROTO, "it must be a ballot, and is something else");
	}
	if (smd_get32(bytes + AT_VERSION) != VERSION) {
		return smd_error_set(error, EPROTO, "a ballot must have version %u, got %u",
			VERSION, smd_get32(bytes + AT_VERSION));
	}
	if (smd_get32(bytes + AT_ERR) > ERR_MAX) {
		return smd_error_set(error, EPROTO, "a ballot's error must be at most %d, got %u",
			ERR_MAX, smd_get32(bytes + AT_ERR));
	}
	if (smd_get32(bytes + AT_LOOPS) > LOOPS_MAX ||
		(smd_get32(bytes + AT_LOOPS) == 0 && smd_get32(bytes + AT_ERR) == 0)) {
		return smd_error_set(error, EPROTO, "a ballot that says yes must have 1 to %u loops, got %u",
			LOOPS_MAX, smd_get32(bytes + AT_LOOPS));
	}
	out->phase = smd_get32(bytes + AT_PHASE);
	out->node = smd_get32(bytes + AT_NODE);
	out->err = -(int)smd_get32(bytes + AT_ERR);
	out->loops = smd_get32(bytes + AT_LOOPS);
	out->pool = smd_get64(bytes + AT_POOL);
	memcpy(out->nonce, bytes + AT_NONCE, SMD_BALLOT_NONCE);
	out->server_mbps = smd_get32(bytes + AT_SERVER_MBPS);
	get_text(out->name, bytes + AT_NAME, SMD_BALLOT_NAME_BYTES);
	get_text(out->text, bytes + AT_TEXT, SMD_BALLOT_TEXT_BYTES);
	return 0;
}
